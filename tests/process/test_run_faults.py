# SPDX-License-Identifier: GPL-2.0-only
"""Bad input and a bad host: a message each, an exit code that git bisect does not read as bad, and no boot."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from lab.base import host
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS, InputErrors
from lab.topology.load import CATALOGUE
from tests.process.fake_lab import CELLS, FakeLab
from tests.unit.scenario_text import GOOD, RIG, load


def refused(lab: FakeLab, done: "subprocess.CompletedProcess[str]", code: int, words: str) -> None:
    """It said ``words`` (a pattern) and a remedy, told nothing of Python, and left no run behind."""
    assert done.returncode == code, done.stderr
    assert re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert lab.boots() == []
    assert not list(lab.results.glob("*/*/run.json"))


@pytest.mark.parametrize(
    "text, words",
    [
        (GOOD.replace("seeds:", "sceds:"), r"t\.yaml:7:1: sceds: .*seeds"),
        (GOOD.replace("topology: neighbours", "topology: ./rig.yaml"), "nvme: QEMU devices complete in host time"),
        ("", r"t\.yaml:1:1: "),
        ("\0\0", r"t\.yaml"),
    ],
    ids=["a misspelt key", "a device of the other clock", "nothing", "bytes"],
)
def test_a_mistake_in_a_scenario_file(lab: FakeLab, text: str, words: str) -> None:
    (lab.folder / "rig.yaml").write_text(RIG.replace("driver: tcm_loop", "driver: nvme"))
    lab.scenario.write_text(text)
    refused(lab, lab.run(), EXIT_MISUSE, words)


def test_modules_of_another_kernel(lab: FakeLab) -> None:
    for path in (lab.folder / "kernel").rglob("*6.1.0-1-fake"):
        path.rename(path.with_name(path.name.replace("6.1.0", "6.2.0")))
    refused(lab, lab.run(), EXIT_CANNOT_JUDGE, "is 6.1.0-1-fake, its modules are for 6.2.0-1-fake")


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"BLKLAB_CACHE": "{0}/empty"}, EXIT_LAB_BROKEN, r"trixie cannot be fetched[\s\S]*remedy: check the network"),
        (
            {"BLKLAB_QEMU": "host", "PATH": "{0}"},
            EXIT_LAB_BROKEN,
            r"qemu-system-x86_64 is not installed\n  remedy: ",
        ),
        ({"BLKLAB_QEMU": "/nonexistent/qemu"}, EXIT_MISUSE, "BLKLAB_QEMU=/nonexistent/qemu is no program"),
        *(
            ({"BLKLAB_CACHE": place}, EXIT_LAB_BROKEN, rf"the cache {place} cannot be written.*\n.*BLKLAB_CACHE=")
            for place in ("/dev/null", "/proc/no-such")
        ),
    ],
)
def test_a_host_that_lacks_something(lab: FakeLab, variables: dict[str, str], code: int, words: str) -> None:
    own = {name: text.format(lab.folder) for name, text in variables.items()}
    refused(lab, lab.run(**own), code, words)


def test_the_host_is_looked_at_before_anything_is_fetched(lab: FakeLab) -> None:
    """Otherwise a missing QEMU would be told after the download of a kernel."""
    done = lab.run(
        "--kernel", "debian:6.1", FAKE_VERSION="QEMU emulator version 6.2.0", BLKLAB_CACHE=str(lab.folder / "e")
    )
    refused(lab, done, EXIT_LAB_BROKEN, "is QEMU 6.2.0")
    assert not (lab.folder / "e").exists()


DAMAGED = (
    "kernels/*/vmlinux",
    "kernels/*/lib/modules/*/modules.dep",
    "program/*/steady.so",
    "initramfs/*/base.cpio",
    "program/*/sampler",
    "payload/*/usr/bin/fio",
)


def test_a_cache_that_changed_boots_nothing(lab: FakeLab) -> None:
    assert lab.run().returncode == EXIT_PASS
    lab.log.unlink()
    for name in DAMAGED:
        (path,) = (lab.folder / "cache").glob(name)
        stored, mode = path.read_bytes(), path.stat().st_mode
        path.chmod(0o644)
        path.write_bytes(stored + b"x")
        done = lab.run()
        assert (done.returncode, lab.boots()) == (EXIT_LAB_BROKEN, []), name
        entry = "/".join(path.relative_to(lab.folder / "cache").parts[:2])
        assert f"{path} is damaged" in done.stderr
        assert f"remedy: rm -r {lab.folder}/cache/{entry}" in done.stderr
        path.write_bytes(stored)
        path.chmod(mode)
    assert lab.run().returncode == EXIT_PASS


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """``folder`` as a mount point; skips where that is not allowed."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    done = subprocess.run(["mount", *options, str(folder)], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this host lets nobody mount: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def tmpfs(folder: Path, size: str) -> AbstractContextManager[Path]:
    return mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "none")


def test_results_without_space(lab: FakeLab) -> None:
    with tmpfs(lab.results, "1m"):
        refused(
            lab,
            lab.run(),
            EXIT_LAB_BROKEN,
            r"results has \d MiB free; a run may need 64 MiB\n  remedy: free some space",
        )
    with tmpfs(lab.results, "4k"):
        refused(lab, lab.run(), EXIT_LAB_BROKEN, r"results.*\n  remedy: free some space")


def test_a_cache_without_space(lab: FakeLab) -> None:
    with tmpfs(lab.folder / "small", "4k") as small:
        done = lab.run(BLKLAB_CACHE=str(small))
        refused(lab, done, EXIT_LAB_BROKEN, r"small.*\n  remedy: .*(space|BLKLAB_CACHE|prune)")


def test_results_that_fill_up_meanwhile(lab: FakeLab) -> None:
    with tmpfs(lab.results, "70m"):
        done = lab.run("--jobs", "1", **lab.plan(fill=[2, "load"]))
        assert done.returncode == EXIT_LAB_BROKEN, done.stdout
        assert "Traceback" not in done.stderr, done.stderr
        assert lab.verdicts() == []
        next(lab.results.rglob("filler")).unlink()
        done = lab.run()
        assert done.returncode == EXIT_PASS, done.stderr
        assert "1 boot taken over" in done.stderr


def test_results_that_cannot_be_written(lab: FakeLab) -> None:
    done = lab.run("--results", "/proc/sys/nosuch")
    refused(lab, done, EXIT_LAB_BROKEN, r"cannot write /proc/sys/nosuch.*\n  remedy: name a folder that can be written")
    lab.results.mkdir()
    with mounted(lab.results, "--bind", str(lab.results)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(lab.results)], check=True)
        refused(lab, lab.run(), EXIT_LAB_BROKEN, r"cannot write .*results.*: Read-only file system\n  remedy: ")


def test_results_that_are_a_file(lab: FakeLab) -> None:
    lab.results.write_text("")
    refused(lab, lab.run(), EXIT_MISUSE, r"the results .*results is not a folder\n  remedy: ")


HOSTILE = [
    "a b",
    "it's",
    '"q"',
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED;",
    "new\nline",
    "tab\there",
    "-n",
    "*",
    "%s[red]",
]


@pytest.fixture
def hostile_place(lab: FakeLab) -> Iterator[FakeLab]:
    yield lab
    assert not [path for place in (lab.folder, Path.cwd()) for path in place.glob("**/PWNED")]


@pytest.mark.parametrize("name", ["-n", " ".join(HOSTILE)], ids=["an option", "everything"])
def test_paths_reach_no_shell(hostile_place: FakeLab, name: str) -> None:
    lab = hostile_place
    folder = lab.folder / name
    folder.mkdir()
    (folder / "rig.yaml").write_text(RIG)
    scenario = folder / f"{name}.yaml"
    scenario.write_text(GOOD.replace("topology: neighbours", f"topology: {_quoted(f'./{name}/../rig.yaml')}"))
    (folder / name).mkdir()
    (lab.folder / "kernel").rename(folder / "kernel")
    options = ["--kernel", f"path:{folder / 'kernel'}", "--results", str(folder / "results")]
    done = lab.call(*lab.words(*options, scenario=scenario))
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, CELLS), done.stderr
    (verdict,) = (folder / "results").glob("t/[0-9]*/verdict.json")
    assert lab.call("judge", str(verdict.parent)).returncode == EXIT_PASS


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_options_of_a_scenario_are_refused(tmp_path: Path, text: str) -> None:
    quoted = _quoted(text)
    for old, new in (
        ("scenario: t", f"scenario: {quoted}"),
        ("shared: {hba", f"{quoted}: {{hba"),
        ("solo:", f"{quoted}:"),
        ("hog: {disk: p0", f"{quoted}: {{disk: p0"),
        ("disk: p0", f"disk: {quoted}"),
        ("rw: randread", f"rw: {quoted}"),
        ("bs: 4k", f"bs: {quoted}"),
        ("iodepth: 256", f"iodepth: 256, random_distribution: {quoted}"),
        ("iodepth: 256", f"iodepth: 256, {quoted}: 1"),
        ("queue: {scheduler: none}", f"queue: {{scheduler: {quoted}}}"),
        ("queue: {scheduler: none}", f"queue: {{scheduler: none, {quoted}: 1}}"),
        ("limited.solo.victim.iops", "limited.solo." + text.replace("\n", " ").replace("\t", " ")),
    ):
        assert old in GOOD
        with pytest.raises(InputErrors, match=r"t\.yaml:\d+:\d+: "):
            load(GOOD.replace(old, new, 1), tmp_path)


def test_a_hostile_scenario_boots_nothing(hostile_place: FakeLab) -> None:
    lab = hostile_place
    lab.scenario.write_text(GOOD.replace("topology: neighbours", "topology: $(touch PWNED)"))
    refused(lab, lab.run(), EXIT_MISUSE, r"touch PWNED")


def test_words_for_people_may_be_anything(hostile_place: FakeLab) -> None:
    lab = hostile_place
    every = " ".join(HOSTILE)
    text = GOOD.replace("title: A test", f"title: {_quoted(every)}\nteaches: {_quoted(every)}")
    lab.scenario.write_text(
        text.replace("that: the cure works", f"that: {_quoted(every)}\n    means: {_quoted(every)}")
    )
    done = lab.run()
    assert done.returncode == EXIT_PASS, done.stderr
    assert "$(touch PWNED)" in done.stdout
    assert "[red]" in done.stdout


def test_a_guest_that_does_not_fit_is_refused_before_anything_boots(lab: FakeLab) -> None:
    """Only one of the arms is too large; the other one is not booted either, unless it is chosen."""
    too_much = f"{(host.memory_available() >> 30) + 1}G"
    topology = (CATALOGUE / "neighbours.yaml").read_text().replace("memory: 512M", f"memory: {too_much}")
    (lab.folder / "large.yaml").write_text(topology.replace("topology: neighbours", "topology: large"))
    assert "limited: {" in GOOD
    lab.scenario.write_text(GOOD.replace("limited: {", "limited: {topology: ./large.yaml, "))
    words = f"arm limited: a guest of {too_much} and 256M for QEMU do not fit in the .*--arm"
    refused(lab, lab.run(), EXIT_LAB_BROKEN, f"(?s){words}")
    lab.run("--arm", "shared", "--seeds", "1")
    assert len(lab.boots()) == 1
