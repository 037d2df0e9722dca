# SPDX-License-Identifier: GPL-2.0-only
"""The wheel: two builds are the same file, and it runs in an empty environment without modules named lab or harness."""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow]


def run(*words: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "BLKLAB_RESULTS")}
    argv = [str(word) for word in words]
    done = subprocess.run(argv, cwd=cwd, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_is_reproducible_and_runs_in_an_empty_folder(checkout: Path, tmp_path: Path) -> None:
    wheels = list[Path]()
    for name in ("first", "second"):
        clone = tmp_path / f"source-{name}"
        run("git", "clone", "-q", checkout, clone, cwd=tmp_path)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path / name, clone, cwd=tmp_path)
        wheels += (tmp_path / name).glob("*.whl")
    assert len({hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}) == 1
    venv.create(tmp_path / "venv", with_pip=True)
    programs, empty = tmp_path / "venv/bin", tmp_path / "empty"
    empty.mkdir()
    run(programs / "pip", "install", "-q", "--require-hashes", "-r", checkout / "requirements/run.txt", cwd=empty)
    run(programs / "pip", "install", "-q", "--no-deps", wheels[0], cwd=empty)
    run(programs / "pip", "check", cwd=empty)
    assert "shared-queue" in run(programs / "blklab", "list", cwd=empty)
    words = ("run", "shared-queue", "--kernel", "debian:6.1", "--seeds", "1", "--dry-run")
    assert "\n4 boots, " in run(programs / "blklab", *words, cwd=empty)
    specs = "import importlib.util as u; print(u.find_spec('lab'), u.find_spec('harness'), bool(u.find_spec('blklab')))"
    assert run(programs / "python", "-c", specs, cwd=empty) == "None None True\n"
    assert not [*empty.iterdir()]
