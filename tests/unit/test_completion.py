# SPDX-License-Identifier: GPL-2.0-only
"""Completion scripts: every command, and values that ``blklab help --values`` prints."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands import GROUPS
from harness.commands.catalogue import VALUES
from harness.scenario.load import shipped_names
from lab.base.cache import Cache
from lab.kernels import store
from lab.packages.apt import Package
from lab.packages.store import Pin, write_pin


@pytest.mark.parametrize(
    ("shell", "asks"),
    [("bash", ""), ("zsh", ": _blklab_values {}"), ("fish", "blklab help --values {} --")],
)
def test_completion_knows_every_command_and_asks_for_values(
    shell: str, asks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tried by hand in zsh 5.9 and fish 3.6; what bash completes is tried below."""
    assert main(["help", "--completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word.name in script for words in GROUPS.values() for word in words)
    assert "--kernel" in script or "-l kernel" in script
    assert [kind for kind in VALUES if asks.format(kind) not in script] == []
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True)


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("run shared-q", "shared-queue shared-queue-cpus shared-queue-deep shared-queue-tuning"),
        ("run ", None),
        ("show nvme-multipath-iop", "nvme-multipath-iopolicy"),
        ("show sun-x4540-", "sun-x4540-raid6"),
        ("run --kernel debian:5", "debian:5.10 debian:5.10.223-1"),
        ("run shared-queue --arm one", "one-queue-mq-deadline"),
        ("report results/", "results/held-tags/latest"),
        ("compare --history held-t", "held-tags"),
        ("compare --metric disk.fl", "disk.flushes disk.flushes.ms"),
    ],
)
def test_a_shell_completes_values(
    line: str, completed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLKLAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (tmp_path / "results/held-tags/latest").mkdir(parents=True)
    cache = Cache(tmp_path / "cache")
    pin = Pin("debian-5.10", (Package("bullseye", "linux-image-5.10.0-32-amd64", "5.10.223-1", "0"),))
    write_pin(cache, pin)
    cache.entry(store.KIND, pin.digest, lambda folder: (folder / "image").touch())
    words = line.split(" ")
    program = f"""eval "$(blklab help --completion bash)"
COMP_WORDS=(blklab {shlex.join(words)}); COMP_CWORD={len(words)}
_shtab_blklab; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == (" ".join(shipped_names()) if completed is None else completed)


def test_the_empty_word_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "--values", "scenarios", "--", "run", ""]) == 0
    assert capsys.readouterr().out.split() == shipped_names()


def test_a_folder_that_is_no_cache_completes_the_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path))
    (tmp_path / "notes").touch()
    assert main(["help", "--values", "kernels"]) == 0
    printed = capsys.readouterr()
    assert "debian:6.1\n" in printed.out
    assert not printed.err
