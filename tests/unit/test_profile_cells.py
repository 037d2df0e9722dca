# SPDX-License-Identifier: GPL-2.0-only
"""Profiles of stored runs: which boots may be profiled, and what is kept."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli import main
from harness.commands.explain import _functions
from harness.figures.read import figures_of
from harness.judge.cells import CellResult
from harness.limits.bottleneck import Bottleneck
from harness.limits.queues import Element, ElementKind
from harness.profile import cells
from harness.profile.cells import (
    ProfiledBoot,
    ProfiledCell,
    busy_cell,
    chosen_cell,
    parse_cell,
    profile_of,
    recorded_profile,
)
from harness.profile.model import BLIND, Code
from harness.record.store import RunFolder
from harness.scenario.model import Status
from harness.scenario.registry import GUEST, IDLE, PER_IO
from lab.base.cache import Cache
from lab.base.errors import EXIT_MISUSE, CannotJudge, LabBroken, Misuse
from lab.native import elf, programs
from lab.symbols import Symbol, Symbols
from tests.unit.analysis_samples import SOLO, TOGETHER, null_topology
from tests.unit.profile_samples import BEFORE, HEAD, profile
from tests.unit.record_samples import run_of
from tests.unit.store_samples import files, record

CELL, SOLO_CELL = ProfiledCell("none", "together"), ProfiledCell("none", "solo")


class Lab:
    """Stands in for the boots: the fingerprint that they would have now, and the digest that a profiled one has."""

    def __init__(self, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        stored = run.boot(next(cell for cell in run.facts.cells if cell.arm == CELL.arm))
        assert stored is not None
        self.run, self.stored, self.boots = run, stored, 0
        self.fingerprint, self.digest = dict(stored.fingerprint), stored.digest
        monkeypatch.setattr(cells, "prepare_job", lambda *_: SimpleNamespace(fingerprint=self.fingerprint))
        monkeypatch.setattr(cells, "profile_boot", self._boot)
        monkeypatch.setattr(cells, "plugin", lambda *_: run.path / "run.json")
        made = replace(profile(BEFORE).head, arm=CELL.arm, load=CELL.load, digest=str(stored.digest))
        monkeypatch.setattr(cells, "profiles_of", lambda *_, **__: {CELL.load: replace(profile(BEFORE), head=made)})

    def _boot(self, *_: Any, **__: Any) -> ProfiledBoot:
        self.boots += 1
        folder = next((self.run.path.parent / cells.FOLDER).glob("*/*/"))
        return ProfiledBoot(replace(self.stored, folder=folder, digest=self.digest), {}, Symbols(()), {})

    def profile(self, cell: ProfiledCell = CELL) -> Any:
        own: Any = SimpleNamespace(cache=None, qemu=SimpleNamespace(version=(7, 2)))
        kernel: Any = SimpleNamespace(release="6.1.0-18-amd64", vmlinux=self.run.path / "run.json")
        return profile_of(own, self.run, cell, kernel, phase_seen=lambda _: None)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(run_of(tmp_path, [95.0]), monkeypatch)


def test_a_profile_is_made_once_and_read_back_as_it_was(lab: Lab) -> None:
    assert recorded_profile(lab.run, CELL) is None
    first = lab.profile()
    assert lab.profile() == first == recorded_profile(lab.run, CELL)
    assert first.ios == Fraction(100)
    assert first.costs == profile(BEFORE).costs
    assert lab.boots == 1
    # Folders of before are found again by names of 24 digits, and read by their schema.
    (folder,) = (lab.run.path.parent / cells.FOLDER).iterdir()
    assert len(folder.name) == 24
    (folder.parent / "0").mkdir()
    (folder.parent / "0" / "together.json").write_text('{"schema": 1}')
    assert recorded_profile(lab.run, CELL) == first
    code = (Code("vmlinux", "submit", 0x1000, {0: 5, 4: 9}), Code("null_blk", "queue_rq", 0x2000, {}))
    cells._write(folder / "code.json", replace(first, code=code))
    assert cells._read(folder / "code.json") == replace(first, code=code)
    assert json.loads((folder / "together.json").read_text())["schema"] == 2
    assert [path.name for path in folder.glob("*/boot.json")] == ["boot.json"]


@pytest.mark.parametrize("name", [programs.SAMPLER, programs.DISKD, programs.RECEIVE])
def test_a_profile_is_of_the_window_that_was_sampled_and_names_what_was_executed(name: str, tmp_path: Path) -> None:
    """fio did 175 I/Os a second; the sampled window of 10.0001 s had 1,750."""
    cache = Cache(tmp_path)
    program = programs.build(cache, name, symbols=True)
    (main,) = (function for function in elf.functions(program) if function.name == "main")
    (segment,) = (each for each in elf.executable_segments(program) if each.address <= main.address)
    start = main.address - segment.address
    machine_code = segment.data[start : start + 32].hex()
    counted = f"total 30 1\nuser {main.address:x} {machine_code} 3 10\nnode 3 0 1010 2 20\ncode 20 1010\n"
    boot = record(tmp_path / "boot", files(together=95.0))
    submit = (Symbol(0x1000, "submit"),)
    profiled = ProfiledBoot(boot, {"together": counted.encode()}, Symbols(submit), {name: program})
    made = cells.profiles_of(profiled, b"", topology=null_topology(), loads=(SOLO, TOGETHER), head=HEAD)
    assert list(made) == ["together"]
    found = made["together"]
    figures = figures_of(boot.files, null_topology(), (TOGETHER,))
    assert found.head == replace(HEAD, load="together", per_io=figures["together", "fast", PER_IO])
    assert float(found.ios) == pytest.approx(175 * 10.0001, rel=1e-5)
    assert (found.total, found.surprises) == (30, 1)
    assert [(node.function.title, node.calls, node.instructions) for node in found.nodes] == [
        ("submit", 2, 20),
        (f"main [{name}]", 3, 10),
    ]
    assert found.code == (Code("vmlinux", "submit", 0x1000, {0x10: 20}),)


def test_a_profiled_boot_with_other_results_is_refused(lab: Lab) -> None:
    lab.digest = "f" * 64
    with pytest.raises(LabBroken, match=f"digest is {lab.digest}, not {lab.stored.digest}"):
        lab.profile()
    assert recorded_profile(lab.run, CELL) is None
    lab.digest = lab.stored.digest
    assert lab.profile() == recorded_profile(lab.run, CELL)


def test_a_boot_that_cannot_be_repeated_is_not_profiled(lab: Lab) -> None:
    lab.fingerprint |= dict.fromkeys(("base", "job", "kernel", "more", "runner"), "another")
    with pytest.raises(CannotJudge, match=r": base, job, kernel, more, runner differ"):
        lab.profile()
    assert lab.boots == 0


def test_a_cell_is_named_by_arm_and_load_and_a_seed_that_was_not_run_is_refused(lab: Lab) -> None:
    with pytest.raises(Misuse, match="has no seed 7"):
        lab.profile(replace(CELL, seed=7))
    assert parse_cell(lab.run, "none.together", 1) == CELL
    with pytest.raises(Misuse, match=r"no cell together(?s:.*)none\.together"):
        parse_cell(lab.run, "together", 1)


def test_a_boot_that_is_not_complete_or_was_skipped_and_a_load_without_samples_have_no_profile(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *rest = lab.run.facts.cells
    skipped = replace(
        lab.run, facts=replace(lab.run.facts, cells=(replace(first, skip=("no null_blk", "no fio")), *rest))
    )
    with pytest.raises(CannotJudge, match="none was skipped: no null_blk; no fio"):
        recorded_profile(skipped, CELL)
    lab.run = run_of(tmp_path / "unfinished", [95.0], finish=False)
    with pytest.raises(CannotJudge, match="has no complete boot of red, seed 1"):
        lab.profile(replace(CELL, arm="red"))
    monkeypatch.setattr(cells, "profiles_of", lambda *_, **__: {})
    with pytest.raises(CannotJudge, match="load together has no sampled window"):
        lab.profile()


def test_the_cell_whose_io_cost_changed_most_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same busy time in 99 and 175 I/Os a second each has 1.77 times as much."""
    run, slower = (run_of(tmp_path / str(iops), [iops]) for iops in (95.0, 19.0))
    assert chosen_cell([run]) == ProfiledCell("none", "solo")
    assert chosen_cell([run, slower]) == chosen_cell([slower, run]) == CELL
    monkeypatch.setattr(cells, "_costs", lambda run, seed: {CELL: 1.0} | ({SOLO_CELL: 9.0} if run is slower else {}))
    assert chosen_cell([slower, run]) == CELL
    monkeypatch.undo()
    with pytest.raises(CannotJudge, match=r"no cell has cpu\.per_io under seed 2"):
        chosen_cell([run], 2)


def test_phases_of_profiled_boots_are_told_with_kernel_and_arm(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(*_: Any, phase_seen: Any) -> ProfiledBoot:
        phase_seen("setup")
        return lab._boot()

    monkeypatch.setattr(cells, "profile_boot", boot)
    own: Any = SimpleNamespace(cache=None, qemu=SimpleNamespace(version=(7, 2)))
    kernel: Any = SimpleNamespace(release="6.1.0-18-amd64", vmlinux=lab.run.path / "run.json")
    told: list[str] = []
    assert cells.profiles_of_runs(own, [lab.run], CELL, [kernel], told.append) == [recorded_profile(lab.run, CELL)]
    assert told == ["6.1.0-18-amd64 none, profiled: setup"]


def test_a_load_that_the_cpu_limits_has_its_functions_listed(lab: Lab) -> None:
    found = [Bottleneck(CELL.arm, CELL.load, Element(ElementKind.CPU, (), 1.0, True, "busy 100 %"), ())]
    assert list(_functions(lab.run, found)) == [
        f"functions of none.together: blklab profile {lab.run.path} none.together"
    ]
    lab.profile()
    assert list(_functions(lab.run, found)) == [
        "functions of none.together: instructions per I/O: "
        "get_io_u [fio] 50, submit 40, run_queue 30, entry 10, queue_rq [null_blk] 9",
        BLIND,
    ]


@pytest.mark.parametrize("command", ["profile", "sharing"])
def test_a_seed_that_a_run_does_not_have_is_what_is_wrong(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedies were to give the guest several CPUs, and to name the cell."""
    run = run_of(tmp_path, [94.0, 93.0])
    for cell in ([], ["none.together"]):
        assert main([command, str(run.path), *cell, "--seed", "99"]) == EXIT_MISUSE
        error = capsys.readouterr().err
        assert f"--seed 99: {run.path.name} has the seeds 1, 2" in error
        assert "remedy: name one of them" in error


def test_a_load_is_busy_whose_cpu_idles_for_five_per_cent_at_most() -> None:
    def cell(arm: str, idle: float, **cost: float) -> CellResult:
        costs = {("read", role, PER_IO): value for role, value in cost.items()}
        return CellResult(arm, 1, Status.PASS, figures={("read", GUEST, IDLE): idle, **costs})

    failed = CellResult("hangs", 1, Status.FAIL)
    assert busy_cell([failed, cell("idle", 0.06, r=9.0), cell("uncounted", 0.01), cell("busy", 0.05, r=9.0)]) == (
        ProfiledCell("busy", "read")
    )
    assert busy_cell([failed, cell("idle", 0.06, r=9.0)]) is None
