# SPDX-License-Identifier: GPL-2.0-only
"""Guests with several CPUs: keys of roles, what QEMU lacks, and what the plugin is told about the kernel."""

import gzip
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.scenario.fio import job_file
from harness.scenario.ratio import sampled_names
from harness.scenario.registry import GUEST, IDLE, held_by
from lab.base.digest import digest_results
from lab.base.errors import CannotJudge, LabBroken
from lab.base.record import LINE_NAMES
from lab.observers import _LOCKS, functions_file, io_ends, number_offset
from lab.realise.hardware import memory_words
from lab.session import PreparedJob, _machine, unmet
from lab.symbols import names_file, read_kallsyms, with_line_names
from lab.topology.model import Processors
from lab.topology.parameters import apply_setting
from tests.unit.payload_samples import idle_lab, kernel
from tests.unit.scenario_text import GOOD, RIG, load, mistakes
from tests.unit.store_samples import record


def on_cpus(count: int, *cpus: str) -> str:
    """``GOOD`` on a rig with several CPUs; each role has its list."""
    rig = RIG.replace("topology: rig\n", "").replace("memory: 512M", f"memory: 512M\nmachine: {{cpus: {count}}}")
    inline = "topology:\n" + "".join(f"  {line}\n" for line in rig.splitlines())
    roles = iter(cpus)
    return re.sub(
        r"disk: p[01]", lambda disk: disk[0] + (f", cpus: {own}" if (own := next(roles)) else ""), GOOD
    ).replace("topology: neighbours\n", inline)


def test_roles_have_cpus(tmp_path: Path) -> None:
    scenario = load(on_cpus(4, "0", '"1-2,0"', "3"), tmp_path)
    roles = scenario.loads["lopsided"].roles
    assert {name: role.cpus for name, role in roles.items()} == {"hog": (1, 2, 0), "victim": (3,)}
    assert "cpus_allowed=1-2,0\n" in job_file(scenario.loads["lopsided"], scenario.arms["shared"].topology, 1)
    both = replace(roles["hog"], disks=("p0", "p1"))
    assert [part.cpus for part in both.apart()] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("cpus", "wanted"),
    [
        (("0", "1", ""), "t.yaml:27:13: cpus: arm shared has 2 CPUs, and the role does not say which it runs on"),
        (("0", "1", "2"), "cpus: arm shared has no CPU 2 (write machine: {cpus: 3})"),
        (("0", "1", "0-3"), "cpus: arm shared has no CPU 2"),
        (("0", "1", "1-0"), "cpus: 1-0 has no CPU (write a list such as 0-3,5)"),
        (("0", "1", "8"), 'cpus: expected a list of CPUs such as 0-3,5, got "8"'),
        (("0", "1", "one"), "cpus: expected a list of CPUs such as 0-3,5"),
    ],
)
def test_mistakes_about_cpus(cpus: tuple[str, ...], wanted: str, tmp_path: Path) -> None:
    found = mistakes(on_cpus(2, *cpus), tmp_path)
    assert wanted in found, found


def test_a_mistake_about_cpus_is_reported_once_for_a_role_of_two_arms(tmp_path: Path) -> None:
    assert len(mistakes(on_cpus(2, "0", "1", ""), tmp_path).splitlines()) == 1
    assert len(mistakes(on_cpus(2, "0", "2", ""), tmp_path).splitlines()) == 2


def test_one_cpu_is_not_named_and_the_wall_clock_has_its_own(tmp_path: Path) -> None:
    assert "has no CPU 1 (write machine: {cpus: 2})" in mistakes(
        GOOD.replace("disk: p0", "disk: p0, cpus: 1"), tmp_path
    )
    wall = GOOD.replace("clock: virtual", "clock: wall").replace("seeds: 2\n", "")
    assert load(wall.replace("disk: p0", "disk: p0, cpus: 1"), tmp_path).loads["lopsided"].roles["hog"].cpus == (1,)
    assert "has no CPU 2 (its machine has CPUs 0 to 1)" in mistakes(
        wall.replace("disk: p0", "disk: p0, cpus: 2"), tmp_path
    )
    several = on_cpus(4, "0", "1", "2").replace("clock: virtual", "clock: wall").replace("seeds: 2\n", "")
    assert "machine: a machine with QEMU controllers" in mistakes(several, tmp_path)


@pytest.mark.parametrize(
    ("version", "processors", "lacks"),
    [
        ((9, 1, 3), Processors(4), "QEMU 9.1.3 cannot end the turns of CPUs, which needs QEMU 9.2 or later"),
        ((7, 2, 0), Processors(counted=True), "QEMU 7.2.0 cannot count locks, which needs QEMU 9.2 or later"),
        ((9, 2, 0), Processors(4), None),
        ((9, 2, 0), Processors(counted=True), None),
        ((7, 2, 0), Processors(), None),
    ],
)
def test_what_has_to_be_counted_is_skipped_where_qemu_cannot(
    version: tuple[int, int, int], processors: Processors, lacks: str | None, tmp_path: Path
) -> None:
    lab = idle_lab(tmp_path, version)
    topology = replace(load(GOOD, tmp_path).arms["shared"].topology, processors=processors)
    lacking = [reason for reason in unmet(lab, kernel(tmp_path / "kernel", {}), topology) if "QEMU" in reason]
    assert lacking == ([lacks] if lacks else [])


@pytest.mark.parametrize(("nodes", "lacks"), [(1, False), (2, True)])
def test_nodes_need_a_kernel_that_has_them(nodes: int, lacks: bool, tmp_path: Path) -> None:
    lab = idle_lab(tmp_path)
    topology = replace(load(GOOD, tmp_path).arms["shared"].topology, processors=Processors(4, nodes=nodes))
    assert ("CONFIG_NUMA is not set" in unmet(lab, kernel(tmp_path / "kernel", {}), topology)) is lacks


@pytest.mark.parametrize(("nodes", "words"), [(1, ()), (2, (*memory_words(512 << 20, 2, 2),))])
def test_a_guest_has_hardware_for_its_nodes(nodes: int, words: tuple[str, ...], tmp_path: Path) -> None:
    lab = idle_lab(tmp_path)
    own, topology = kernel(tmp_path / "kernel", {}), load(GOOD, tmp_path).arms["shared"].topology
    topology = replace(topology, memory=512 << 20, processors=Processors(4, nodes=nodes))
    spec = _machine(lab, PreparedJob(own, topology, tmp_path, b"", (), 0.0, {}))
    assert (spec.cpus, spec.hardware) == (4, words)


def test_one_cpu_has_locks_where_the_topology_asks_for_them(tmp_path: Path) -> None:
    plain = load(GOOD, tmp_path).arms["shared"].topology
    counted = apply_setting(plain, "machine.counted", value=True)
    several = replace(plain, processors=Processors(2))
    assert [set(sampled_names(own)["guest"]) for own in (plain, counted, several)] == [
        {IDLE},
        {IDLE, "syncs", "atomics", "locks", "locks.held", "instructions"},
        {*held_by(GUEST)} - {"lines.remote"},
    ]


def test_nodes_have_as_many_cpus_each(tmp_path: Path) -> None:
    text = on_cpus(4, "0", "1", "0")
    found = mistakes(text.replace("cpus: 4", "cpus: 6, nodes: 4"), tmp_path)
    assert "machine: cpus 6 cannot be divided among 4 nodes (write nodes: 1, 2, 3, 6, or other cpus)" in found
    assert "machine: cpus 1 cannot be divided among 2 nodes (write nodes: 1, or" in mistakes(
        text.replace("{cpus: 4}", "{nodes: 2}"), tmp_path
    )
    assert "nodes: expected an integer from 1 to 8, got 9" in mistakes(text.replace("cpus: 4", "nodes: 9"), tmp_path)
    topology = load(text.replace("cpus: 4", "cpus: 4, nodes: 2"), tmp_path).arms["shared"].topology
    assert topology.processors == Processors(4, nodes=2)
    assert set(sampled_names(topology)["guest"]) == {*held_by(GUEST)}


KALLSYMS = """\
0000000000000000 A fixed_percpu_data
0000000000000000 A __per_cpu_start
{number}ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000040 T _raw_spin_lock_irqsave
ffffffff81000080 T _raw_spin_lock_irqsave_fake
ffffffff810000c0 T _raw_read_lock_bh
ffffffff81000100 T _raw_write_lock
ffffffff81000140 T _raw_spin_trylock
ffffffff81000180 T native_queued_spin_lock_slowpath
ffffffff810001c0 T queued_write_lock_slowpath
ffffffff81000200 T _raw_read_unlock_irqrestore
ffffffff81000240 T mutex_lock
ffffffff81000240 T mutex_lock_alias
ffffffff81000280 T mutex_unlock
ffffffff810002c0 T submit_bio
ffffffff81000300 T submit_bio_noacct
ffffffff81000340 T __switch_to_asm
ffffffff82000000 D mutex_lock_io
ffffffffc0000000 t submit_bio\t[null_blk]
"""


def test_the_plugin_knows_functions_by_letters() -> None:
    image = read_kallsyms("\n".join(row for row in KALLSYMS.format(number="").splitlines() if "[" not in row))
    rows = [line.split() for line in functions_file(image, _LOCKS).splitlines()]
    assert "".join(letter for _, letter in rows) == "-l-kltwwulub-x"
    addresses = [int(address, 16) for address, _ in rows]
    assert addresses == sorted(set(addresses))
    # No data.
    assert addresses[-1] == 0xFFFFFFFF81000340


@pytest.mark.parametrize(
    ("number", "offset"),
    [
        ("000000000001f010 A cpu_number\n", 0x1F010),
        ("0000000000020080 A pcpu_hot\n", 0x2008C),
        ("000000000001f010 A cpu_number\n0000000000020080 A pcpu_hot\n", 0x1F010),
        ("ffffffff837d4018 D cpu_number\n", 0xFFFFFFFF837D4018),
    ],
)
def test_the_number_of_a_cpu_is_in_its_own_area(number: str, offset: int) -> None:
    """Since 6.15 the per-CPU symbols are addresses of the image, and gs_base is relative to them."""
    assert number_offset(read_kallsyms(KALLSYMS.format(number=number))) == offset


def test_a_kernel_without_a_number_cannot_be_judged() -> None:
    with pytest.raises(CannotJudge, match="does not say where it keeps the number of a CPU"):
        number_offset(read_kallsyms(KALLSYMS.format(number="")))


def test_a_program_that_does_not_export_where_an_io_ends_is_no_fio() -> None:
    with pytest.raises(LabBroken, match="fio has 0 functions put_io_u"):
        [*io_ends(Path(sys.executable).resolve().read_bytes())]


def test_names_of_lines_are_found_with_their_parts_and_on_each_cpu() -> None:
    more = """\
0000000000020000 D tagged
0000000000020040 D __per_cpu_end
ffffffff81000380 t mutex_lock.part.0
ffffffff82000010 D _edata
"""
    symbols = read_kallsyms(KALLSYMS.format(number="") + more)
    assert names_file(symbols, ["tagged", "mutex_lock", "mutex_lock_io", "unknown"]) == (
        "mutex_lock 0 ffffffff81000240 ffffffff81000280\n"
        "mutex_lock 0 ffffffff81000380 ffffffff82000000\n"
        "mutex_lock_io 0 ffffffff82000000 ffffffff82000010\n"
        "tagged 1 20000 20040\n"
    )


@pytest.mark.parametrize(
    ("files", "names", "added"),
    [
        ({"four.lines": b""}, ["submit_bio"], "submit_bio 0 ffffffff810002c0 ffffffff81000300\n"),
        ({"four.lines": b""}, ["unknown"], ""),
        ({"four.lines": b""}, [], None),
        ({"four.json": b""}, ["submit_bio"], None),
    ],
)
def test_a_boot_with_counts_has_the_names_of_figures_outside_its_digest(
    files: dict[str, bytes], names: list[str], added: str | None, tmp_path: Path
) -> None:
    lab, own = idle_lab(tmp_path / "cache"), kernel(tmp_path / "kernel", {})
    (tmp_path / "modules").mkdir()
    text = gzip.compress(KALLSYMS.format(number="").encode())

    def fill(into: Path) -> None:
        (into / "kallsyms.gz").write_bytes(text)

    lab.cache.entry("kallsyms", own.digest, fill)
    prepared = PreparedJob(own, load(GOOD, tmp_path).arms["shared"].topology, tmp_path, b"", (), 0.0, {})
    before = record(tmp_path, files)
    after = with_line_names(lab, prepared, before, names)
    assert after.files == {**files, **({} if added is None else {LINE_NAMES: added.encode()})}
    assert digest_results(after.files) == before.digest
