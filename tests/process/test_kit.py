# SPDX-License-Identifier: GPL-2.0-only
"""repeat.sh with a stand-in for QEMU, and the kit that carries it elsewhere."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.record.index import chosen_boot, collect
from harness.record.store import RunFolder
from lab import kit
from lab.base.cache import Cache
from lab.base.errors import LabBroken, Misuse
from lab.native.programs import steady
from lab.qemu.argv import JOB_KEY, MachineSpec
from tests.unit.analysis_samples import claim, scenario
from tests.unit.store_samples import boot_all, new_run

RESULTS = "BLKLAB 1\nBYE\n"
FAKE = """\
#!/bin/sh
[ "$1" != --version ] || { echo 'QEMU emulator version 9.9'; exit 0; }
printf '%s\\n' "$@" >argv
printf 'BLKLAB 1\\nBYE\\n' >results.txt
exit "${FAKE_EXIT:-0}"
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cached(tmp_path: Path) -> kit.Inputs:
    """Kernel and base archive in a cache whose path needs quoting."""
    cache = tmp_path / "it's a $(cache)"
    cache.mkdir()
    (cache / "vmlinux").write_bytes(b"kernel")
    (cache / "base.cpio").write_bytes(b"base")
    library = steady(Cache(tmp_path / "built")).path
    return kit.Inputs(
        kernel=cache / "vmlinux",
        kernel_digest=sha256(b"kernel"),
        base=cache / "base.cpio",
        base_digest=sha256(b"base"),
        job_digest=sha256(b"job"),
        steady=library,
        qemu="7.2.22 (Debian)",
    )


@pytest.fixture
def run(tmp_path: Path, cached: kit.Inputs) -> RunFolder:
    """A run of one boot that left what repeats it."""
    found = new_run(tmp_path / "results", scenario([claim()]), seeds=1)
    boot_all(found, {"none": 95.0})
    folder = found.boot_folder(found.facts.cells[0])
    program, words = Path("/opt/qemu-system-x86_64"), ("it's=quoted",)
    spec = MachineSpec(program, (7, 2, 22), cached.kernel, cached.base, job=kit.JOB, append=words)
    kit.write_repeat(folder, kit.repeat_script(spec, cached, 60.0), cached)
    (folder / kit.JOB).write_bytes(b"job")
    (folder / "results.txt").write_text(RESULTS)
    kit.write_expected(folder)
    return found


@pytest.fixture
def qemu(tmp_path: Path) -> Path:
    path = tmp_path / "fake-qemu"
    path.write_text(FAKE)
    path.chmod(0o755)
    return path


def test_gdb_is_waited_for_before_the_first_instruction(tmp_path: Path, run: RunFolder, qemu: Path) -> None:
    done = repeat(boot_of(run), qemu, tmp_path / "again", GDB="4711")
    assert done.returncode == 0 and "target remote :4711" in done.stdout
    assert (tmp_path / "again/argv").read_text().split()[-3:] == ["-S", "-gdb", "tcp:127.0.0.1:4711"]


def repeat(folder: Path, qemu: Path, into: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "QEMU": str(qemu), **more}
    command = ["sh", str(folder / kit.REPEAT), str(into)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def boot_of(run: RunFolder) -> Path:
    return run.boot_folder(run.facts.cells[0])


def test_a_repetition_with_the_same_results(run: RunFolder, qemu: Path, tmp_path: Path, cached: kit.Inputs) -> None:
    into = tmp_path / "again"
    done = repeat(boot_of(run), qemu, into)
    assert done.returncode == 0, done.stderr
    assert "the results are identical" in done.stdout
    argv = (into / "argv").read_text().splitlines()
    assert argv[argv.index("-kernel") + 1] == str(cached.kernel)
    assert "it's=quoted" in argv[argv.index("-append") + 1].split()
    assert argv[argv.index("-initrd") + 1] == str(cached.base)
    assert argv[argv.index("-fw_cfg") + 1] == f"name={JOB_KEY},file={boot_of(run) / kit.JOB}"


def test_other_results_are_reported_with_both_versions(run: RunFolder, qemu: Path, tmp_path: Path) -> None:
    (boot_of(run) / kit.EXPECTED).write_text(f"{'0' * 64}  results.txt\n")
    done = repeat(boot_of(run), qemu, tmp_path / "again")
    assert done.returncode == 1
    assert "NOT the same" in done.stdout
    assert "7.2.22 (Debian)" in done.stdout and "9.9" in done.stdout
    assert sha256(RESULTS.encode()) in done.stdout


@pytest.mark.parametrize(
    ("change", "exit_of_qemu", "code", "says"),
    [
        ("no results", 0, 0, "no results to compare with"),
        ("no base", 0, 128, "base.cpio is neither in the folder of this script nor at"),
        ("no base", 0, 128, "blklab store kit RUN 000"),
        ("another kernel", 0, 128, "is not the file of this boot"),
        ("nothing", 3, 128, "QEMU ended with 3"),
    ],
)
def test_a_repetition_that_compares_nothing_says_why(
    *,
    change: str,
    exit_of_qemu: int,
    code: int,
    says: str,
    run: RunFolder,
    qemu: Path,
    tmp_path: Path,
    cached: kit.Inputs,
) -> None:
    if change == "no results":
        (boot_of(run) / kit.EXPECTED).unlink()
    elif change == "no base":
        cached.base.unlink()
    elif change == "another kernel":
        cached.kernel.write_bytes(b"another kernel")
    done = repeat(boot_of(run), qemu, tmp_path / "again", FAKE_EXIT=str(exit_of_qemu))
    assert done.returncode == code and says in done.stdout + done.stderr
    assert (tmp_path / "again").exists() is (change in ("no results", "nothing"))


def test_older_results_are_not_overwritten(run: RunFolder, qemu: Path, tmp_path: Path) -> None:
    assert repeat(boot_of(run), qemu, tmp_path / "again").returncode == 0
    done = repeat(boot_of(run), qemu, tmp_path / "again")
    assert done.returncode == 128 and "holds results already" in done.stderr


def never() -> kit.Inputs:
    raise AssertionError("nothing was lost")


def test_a_kit_needs_nothing_of_the_run_or_the_cache(
    run: RunFolder, qemu: Path, tmp_path: Path, cached: kit.Inputs
) -> None:
    to = tmp_path / "away" / "kit"
    collect(run, chosen_boot(run, ""), to, never)
    shutil.rmtree(run.path)
    shutil.rmtree(cached.kernel.parent)
    assert [path.name for path in to.parent.iterdir()] == ["kit"]
    done = repeat(to, qemu, tmp_path / "again")
    assert done.returncode == 0, done.stderr


def test_what_the_cache_lost_is_made_again_if_it_is_the_same(
    run: RunFolder, tmp_path: Path, cached: kit.Inputs
) -> None:
    again = tmp_path / "rebuilt.cpio"
    cached.base.unlink()
    again.write_bytes(b"another base")
    with pytest.raises(LabBroken, match="initramfs of this boot is no longer in the cache"):
        collect(run, chosen_boot(run, ""), tmp_path / "kit", lambda: replace(cached, base=again))
    assert not (tmp_path / "kit").exists()
    again.write_bytes(b"base")
    collect(run, chosen_boot(run, "000"), tmp_path / "kit", lambda: replace(cached, base=again))
    assert (tmp_path / "kit" / kit.BASE).read_bytes() == b"base"


def test_a_kit_overwrites_nothing(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    with pytest.raises(Misuse, match="exists"):
        collect(run, chosen_boot(run, ""), tmp_path / "kit", never)


def test_a_boot_that_is_not_there_is_refused_with_those_that_are(run: RunFolder) -> None:
    with pytest.raises(Misuse, match="no boot 007") as refused:
        chosen_boot(run, "007")
    assert "000" in refused.value.remedy
