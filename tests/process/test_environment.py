# SPDX-License-Identifier: GPL-2.0-only
"""scripts/environment with real virtual environments. Nothing is fetched: the requirements are empty."""

import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

UNPINNED = "pyyaml\n"


class Sources:
    """A checkout that holds the set-up scripts, empty requirements and a console script's ``main``."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder = folder
        shutil.copytree(checkout / "scripts", folder / "scripts")
        for kind in ("run", "dev"):
            self.require(kind, "# nothing\n")
        (folder / "harness").mkdir()
        self.main("raise SystemExit(print('started'))")

    def require(self, kind: str, text: str) -> None:
        file = self.folder / "requirements" / f"{kind}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def main(self, body: str) -> None:
        (self.folder / "harness" / "cli.py").write_text(f"def main():\n    {body}\n")

    def environment(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {key: os.environ[key] for key in ("PATH",) if key in os.environ}
        return subprocess.run(
            [self.folder / "scripts" / "environment", *options],
            check=False,
            env={**inherited, "HOME": str(self.folder.parent / "home"), **variables},
            capture_output=True,
            text=True,
        )

    @property
    def link(self) -> Path:
        return self.folder / ".venv"


def _run(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Sources:
    """An environment whose path holds what "#!" lines and unquoted words cannot."""
    sources = Sources(tmp_path_factory.mktemp("in two  words"), checkout)
    done = sources.environment()
    assert (done.returncode, done.stdout) == (0, f"{sources.link}\n"), done.stderr
    return sources


@pytest.fixture
def sources(tmp_path: Path, checkout: Path) -> Sources:
    folder = tmp_path / "sources"
    folder.mkdir()
    return Sources(folder, checkout)


def test_the_console_script_runs_the_checkout_and_exits_128_where_it_cannot_be_loaded(built: Sources) -> None:
    assert _run(built.link / "bin" / "blklab").stdout == "started\n"
    file = built.folder / "harness" / "cli.py"
    text = file.read_text()
    file.write_text("import no_such_module\n")
    try:
        done = _run(built.link / "bin" / "blklab")
    finally:
        file.write_text(text)
    assert done.returncode == 128
    assert "no_such_module" in done.stderr


def test_an_interrupt_while_the_interpreter_starts_is_not_exit_1(built: Sources) -> None:
    """Exit status 1 would mean that the kernel failed."""
    codes = set()
    for delay in range(40):
        process = subprocess.Popen(
            [built.link / "bin" / "blklab"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(delay / 1000)
        process.send_signal(signal.SIGINT)
        codes.add(process.wait())
    assert codes <= {130, -signal.SIGINT, 0}, codes


def test_an_environment_is_left_alone_while_it_is_current_and_in_its_folder(built: Sources, tmp_path: Path) -> None:
    before = built.link.readlink(), built.link.stat().st_mtime_ns
    done = built.environment()
    assert (done.returncode, done.stderr) == (0, "")
    assert (built.link.readlink(), built.link.stat().st_mtime_ns) == before
    assert built.environment("--current").stdout == f"{built.link}\n"
    copy = tmp_path / "copy"
    shutil.copytree(built.folder, copy, symlinks=True)
    shutil.copytree(built.folder / "scripts", copy / "scripts", dirs_exist_ok=True)
    assert subprocess.run([copy / "scripts" / "environment", "--current"], check=False).returncode == 1


def test_two_first_runs_at_once_make_one_environment(sources: Sources) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: sources.environment(), range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    assert (first.stderr + second.stderr).count("making the virtual environment") == 1
    assert len(list(sources.folder.glob(".venv-*"))) == 1


def test_other_requirements_make_another_environment(sources: Sources) -> None:
    sources.environment()
    old = sources.link.readlink()
    sources.require("run", "# nothing else\n")
    assert sources.environment("--current").returncode == 1
    assert sources.environment().returncode == 0
    assert sources.link.readlink() != old
    assert (sources.folder / old).is_dir(), "what runs now may still live in it"


def test_pip_is_installed_for_development_alone(sources: Sources) -> None:
    """The pip of ensurepip's wheel fills the other one: installing pip takes longer than what it then installs."""
    for option, has_pip in ((), False), (("--dev",), True):
        assert sources.environment(*option).returncode == 0
        assert bool([*sources.link.glob("lib/python3*/site-packages/pip")]) == has_pip
        assert _run(sources.link / "bin" / "blklab").stdout == "started\n"


def test_one_for_development_serves_to_run(sources: Sources) -> None:
    assert sources.environment("--dev").returncode == 0
    assert sources.environment("--current").returncode == 0


def test_a_requirement_without_a_hash_is_refused_and_nothing_counts(sources: Sources) -> None:
    sources.require("run", UNPINNED)
    done = sources.environment(PIP_NO_INDEX="1")
    assert done.returncode == 128
    assert "remedy:" in done.stderr
    assert not sources.link.exists()
    sources.require("run", "# mended\n")
    assert sources.environment().returncode == 0


def test_half_an_environment_is_made_again(sources: Sources) -> None:
    sources.environment()
    (sources.link / "stamp").unlink()
    (sources.link / "bin" / "blklab").unlink()
    assert sources.environment().returncode == 0
    assert _run(sources.link / "bin" / "blklab").stdout == "started\n"


def test_it_goes_where_it_is_told(sources: Sources, tmp_path: Path) -> None:
    place = tmp_path / "else where" / "env"
    done = sources.environment(BLKLAB_VENV=str(place))
    assert (done.returncode, done.stdout) == (0, f"{place}\n")
    assert not sources.link.exists()
    assert _run(place / "bin" / "blklab").stdout == "started\n"


def test_a_folder_of_someone_else_is_not_taken(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "theirs" / "file").mkdir(parents=True)
    done = sources.environment(BLKLAB_VENV=str(tmp_path / "theirs"))
    assert done.returncode == 128
    assert "did not make it" in done.stderr
    assert (tmp_path / "theirs" / "file").is_dir()
