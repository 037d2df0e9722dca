# SPDX-License-Identifier: GPL-2.0-only
"""Words, files and surroundings that no command can work with: a sentence, an exit code, and nothing fetched."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import LAB_BROKEN, MISUSE, TERMINATED, main
from harness.patch.series import read_series
from lab.base.cache import Cache
from lab.base.units import printable
from tests.unit.scenario_text import GOOD
from tests.unit.test_cli import code_of

ESCAPE = "\x1b[2J\u202e"
SHOWN = r"\x1b[2J\u202e"
NINES = "9" * 400
MUTANT = GOOD.replace('"<= 0.5"', '"<= 0.5"\n    mutant: no-such-mutant')
TITLE = GOOD.replace("A test", r'"\e[2J\u202e"')
MAIL = f"From: a\nSubject: [PATCH] {ESCAPE}{'x' * 300}\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a scenario each of an unknown mutant and of a hostile title, a loop, a fifo, no cache."""
    (tmp_path / "mutant.yaml").write_text(MUTANT)
    (tmp_path / "title.yaml").write_text(TITLE)
    (tmp_path / f"{ESCAPE}.yaml").write_text("scnario: t\n")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "mails").mkdir()
    os.mkfifo(tmp_path / "mails/x.mbox")
    (tmp_path / "file").write_text("kept")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BLKLAB_RESULTS", str(tmp_path / "results"))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("show mutant.yaml", "mutant: there is no no-such-mutant"),
        ("run mutant.yaml --dry-run", "mutant: there is no no-such-mutant"),
        ("run waiters --kernel mutant:no-such", "there is no mutant no-such"),
        ("matrix waiters --kernels mutant:no-such", "there is no mutant no-such"),
        ("run waiters --kernel path:gone", "gone does not exist"),
        ("run waiters --kernel debian:6.1 --kernel debian:6.12", "--kernel: given more than once"),
        ("run waiters --seeds 1 --seeds 2", "given more than once"),
        ("explain run --seeds 3", "--seeds needs --prove"),
        ("explain run --jobs 3", "--jobs needs --prove"),
        ("run waiters --seed 5", "--seed needs --trace"),
        ("run waiters --trace all --seeds 2", "--trace does not go with --seeds"),
        ("matrix --tree .", "--tree needs --changed"),
        ("matrix --changed a..b", "--changed needs --tree"),
        ("store index --yes", "--yes needs --keep or --matrices"),
        (f"store index --keep {NINES}", f'"{NINES[:200]}..." is not a quantity'),
        (f"store cache prune --keep {NINES}", f'"{NINES[:200]}..." is not a quantity'),
        ("store cache prune --kind junk", 'no entry is of kind "junk"\n  remedy: the cache is empty'),
        ("store cache prune --keep ٣G", '"٣G" is not a quantity'),
        *(
            (
                f"store cache prune --older-than {age}",
                f"--older-than: expected a number of days, 0 or more, got '{age}'",
            )
            for age in ("nan", "long", "-1")
        ),
        ("run waiters --seeds ٣", "expected an integer, from 1 to 64, got '٣'"),
        ("run waiters --jobs 0", "expected an integer, 1 or more, got '0'"),
        ("run waiters --arm nope", "has no arm nope"),
        ("bisect waiters --good debian:6.1 --bad debian:6.12 --figure a.b", "--figure a.b: "),
        ("bisect waiters --good debian:6.1 --bad debian:6.12 --arm nope", "has no arm nope"),
        ("timeline waiters --arm nope", "nope"),
        ("shell nope", "no topology nope"),
        ("show loop", 'no scenario and no topology "loop"'),
        ("show ./loop", "is not a regular file"),
        ("judge loop", "loop does not contain a run"),
        ("patch loop", "loop is not a regular file"),
        ("run waiters --kernel path:loop", "loop"),
        ("patch file --arm nope", "no scenario has an arm nope"),
        ("patch file --scenario waiters --arm nope", "no scenario has an arm nope"),
        ("patch mails", "x.mbox is not a regular file"),
        ("show mails/x.mbox", "x.mbox is not a regular file"),
        ("show /proc/kmsg", "/proc/kmsg cannot be read: its end is never reached"),
        (f"show '{ESCAPE}'", f'no scenario and no topology "{SHOWN}"'),
        (f"show '{ESCAPE}.yaml'", f"{SHOWN}.yaml:1:1: scnario: unknown key"),
        (f"run waiters --arm '{ESCAPE}'", f"has no arm {SHOWN}"),
        ("show title.yaml", f'control characters in "{SHOWN}"'),
        ("run title.yaml --dry-run", f'control characters in "{SHOWN}"'),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_fetched(
    line: str, says: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(inputs.iterdir())
    assert main(shlex.split(line)) == MISUSE
    out, err = capsys.readouterr()
    assert says in err
    assert (out, printable(err)) == ("", err)
    assert "Traceback" not in err and len(err) < 5_000
    assert [path for path in inputs.rglob("*") if path.is_file() and path.parent.name == "cache"] == []
    assert {*sorted(inputs.iterdir())} - {*before} <= {inputs / "results", inputs / "cache"}


@pytest.mark.parametrize(
    ("line", "code", "out", "err"),
    [
        ("COLUMNS=0 blklab list --topologies", 0, "3ware-8506", ""),
        ("COLUMNS=nine blklab list --topologies", 0, "3ware-8506", ""),
        ("COLUMNS=0 blklab show waiters", 0, "waiters", ""),
        ("blklab list >&-", LAB_BROKEN, "", "the output cannot be written: Bad file descriptor"),
        ("blklab list <&-", 0, "shared-queue", ""),
        ("blklab list >&- 2>&-", LAB_BROKEN, "", ""),
        ("blklab nope 2>&-", MISUSE, "", ""),
        ("mkdir gone; cd gone; rmdir ../gone; blklab list", MISUSE, "", "the current folder does not exist any more"),
    ],
)
def test_surroundings(line: str, code: int, out: str, err: str, inputs: Path) -> None:
    program = f"{shlex.quote(sys.executable)} -m harness"
    checkout = Path(__file__).parents[2]
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("blklab", program)],
        cwd=inputs,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert out in done.stdout and err in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_a_command_is_no_misuse(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell reports an unhandled SIGHUP as 129, which is MISUSE here."""

    def act() -> int:
        signal.raise_signal(number)
        return 0

    before = signal.getsignal(number)
    assert code_of(monkeypatch, act) == TERMINATED
    assert signal.getsignal(number) is before


def test_a_command_under_nohup_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> int:
        signal.raise_signal(signal.SIGHUP)
        return 0

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert code_of(monkeypatch, act) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_subject_of_a_patch_is_printable_and_short(inputs: Path) -> None:
    (inputs / "x.patch").write_text(MAIL)
    (patch,) = read_series(inputs / "x.patch")
    assert patch.title.startswith(f"{SHOWN}xxx") and patch.title.endswith("x...")
    assert len(patch.subject) == 203


def test_the_kinds_of_a_cache_are_named(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = Cache(inputs / "cache")
    cache.entry("payload", "a", lambda into: None)
    cache.close()
    assert main(["store", "cache", "prune", "--kind", "payloda"]) == MISUSE
    assert "did you mean payload?\n  remedy: the kinds are payload" in capsys.readouterr().err
    assert main(["store", "cache", "prune", "--kind", "payload"]) == 0
    assert "removed 1 entries" in capsys.readouterr().out
