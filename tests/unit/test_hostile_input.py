# SPDX-License-Identifier: GPL-2.0-only
"""Words, files and surroundings that no command can work with: a sentence, an exit code, and nothing fetched."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli
from harness.cli import LAB_BROKEN, MISUSE, TERMINATED, main
from harness.patch.series import read_series
from lab.base.cache import Cache
from lab.base.errors import LabBroken
from lab.base.units import printable
from lab.kernels import debian
from lab.packages import sources
from lab.packages.sources import Distribution
from tests.unit.scenario_text import GOOD
from tests.unit.test_cli import code_of

ESCAPE = "\x1b[2J\u202e"
SHOWN = r"\x1b[2J\u202e"
NINES = "9" * 400
MUTANT = GOOD.replace('"<= 0.5"', '"<= 0.5"\n    mutant: no-such-mutant')
TITLE = GOOD.replace("A test", r'"\e[2J\u202e"')
MAIL = f"From: a\nSubject: [PATCH] {ESCAPE}{'x' * 300}\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"


FILESYSTEM = """\
topology: t
memory: 512M
disks: {d0: {size: 512M, service: 100us}}
hbas: {h0: {driver: null_blk, can_queue: 64}}
luns: {l0: {hba: h0, disks: [d0]}}
stacks:
  fs: {kind: filesystem, type: ext4, mkfs: -E stride=16, mount: noatime, over: [l0]}
"""


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a scenario each of an unknown mutant and of a hostile title, a loop, a fifo, no cache."""
    (tmp_path / "mutant.yaml").write_text(MUTANT)
    (tmp_path / "title.yaml").write_text(TITLE)
    texts = {
        "shell": FILESYSTEM.replace("-E stride=16", "-E $(reboot)"),
        "mount": FILESYSTEM.replace("noatime", "a`reboot`"),
        "calendar": GOOD.replace("scenario: t\n", "scenario: t\nfrom: {report: R, on: 2006-02-31}\n"),
        "twin": GOOD.replace("0.5", "0.25"),
        "good": GOOD,
        "ratio": GOOD.replace("victim.iops /", "victim.ipos /"),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    for name, text in {"open": "[a\nrw=read\n", "empty": "[]\nrw=read\n", "ramp": "[a]\nramp_time=nan\n"}.items():
        (tmp_path / f"{name}.fio").write_text(text)
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
        ("", "the following arguments are required: COMMAND"),
        ("--nosuch", "the following arguments are required: COMMAND"),
        ("''", 'COMMAND: no "" here'),
        ("frobnicate", 'COMMAND: no "frobnicate" here'),
        ("rnu", "did you mean run?"),
        ("help frobnicate", 'COMMAND: no "frobnicate" here'),
        ("help ''", 'COMMAND: no "" here'),
        ("help --completion fsh", "did you mean fish?"),
        ("list extra", "unrecognized arguments: extra"),
        ("check", "the following arguments are required: COMMAND"),
        ("check evidence", 'COMMAND: no "evidence" here'),
        ("check calibration nosuch", 'no scenario "nosuch" in '),
        ("store cahce", "did you mean cache?"),
        ("store cache", "the following arguments are required: COMMAND"),
        ("store cache frobnicate", 'COMMAND: no "frobnicate" here'),
        ("store cache prune --kepe=2G", "did you mean --keep?"),
        ("run", "run needs a scenario"),
        ("run ''", "argument scenario: expected a value, got an empty one"),
        ("run nosuch", 'no scenario "nosuch" in '),
        ("run x --nosuch", "unrecognized arguments: --nosuch"),
        ("run shared-queue --verfiy", "did you mean --verify?"),
        ("run shared-queue --kernal debian:6.1", "did you mean --kernel?"),
        ("run shared-queue --kernel ''", "argument --kernel: expected a value, got an empty one"),
        ("run shared-queue --base ''", "argument --base: expected a value, got an empty one"),
        ("run shared-queue --kernel debian:6.1 --junit nowhere/r.xml", "nowhere is not a folder"),
        ("run x --seeds 0", "expected an integer, from 1 to 64, got '0'"),
        ("run x --seeds 65", "expected an integer, from 1 to 64, got '65'"),
        ("matrix --kernels ''", "argument --kernels: expected a value, got an empty one"),
        ("show", "the following arguments are required: NAME"),
        ("show nosuch", 'no topology "nosuch"\n  remedy: blklab list and blklab list --topologies show the names'),
        ("show 3ware-850", 'no scenario and no topology "3ware-850", did you mean 3ware-8506?'),
        ("show shared-queue --arm nosuch", "no arm nosuch"),
        ("judge", "the following arguments are required: run"),
        ("judge .", ". does not contain a run"),
        ("compare debian:6.1", "compare needs BEFORE and AFTER"),
        ("compare a b --history shared-queue", "--history does not go with BEFORE"),
        ("hunt --kept planted-sleep --first 3", "--kept does not go with --first"),
        ("hunt x --kept planted-sleep", "--kept does not go with scenario"),
        ("hunt --replay a x", "--replay does not go with scenario"),
        ("hunt --replay qos-sleepers", "is kept without its schedule\n  remedy: blklab hunt --kept NAME"),
        *(
            (f"bisect {words} --hunt planted-sleep --good debian:6.1 --bad debian:6.12", "--hunt does not go with")
            for words in ("x", "--seeds 4", "--arm a", "--figure a.b.c")
        ),
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
        ("hunt shared-queue --kernel debian:6.1", "arm shared of shared-queue has one CPU"),
        ("hunt wall/iodrive-numa --kernel debian:6.1", "iodrive-numa is of the wall clock"),
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
        ("show shell.yaml --topology", "mkfs: expected options of mkfs, got -E $(reboot)"),
        ("show mount.yaml --topology", "mount: expected mount options"),
        ("show calendar.yaml", "calendar.yaml:2:23: on: the calendar has no 2006-02-31"),
        ("run good.yaml twin.yaml --dry-run", "good.yaml and twin.yaml are both called t"),
        ("matrix good.yaml twin.yaml --dry-run", "good.yaml and twin.yaml are both called t"),
        ("timeline good.yaml twin.yaml", "good.yaml and twin.yaml are both called t"),
        ("draft --fio open.fio", 'open.fio:1:1: "[a" is no section (write [job])'),
        ("draft --fio empty.fio", 'empty.fio:1:1: "[]" is no section (write [job])'),
        ("draft --fio ramp.fio", 'ramp.fio:2:1: ramp_time: "nan" is not a time'),
        ("run --failed --results /etc/hostname", "the results /etc/hostname is not a folder"),
        ("report --out x.html /etc/hostname", "/etc/hostname"),
        ("store index --results /etc/hostname --list", "the results /etc/hostname is not a folder"),
        ("matrix waiters --dask junk", "--dask junk\n  remedy: the scheduler's address, such as tcp://host:8786"),
        (
            "bisect shared-queue --good debian:6.1 --bad debian:6.12 --arm limited --figure shared.solo.victim.iops",
            "--figure shared.solo.victim.iops is of an arm that --arm leaves out\n  remedy: add --arm shared",
        ),
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
    assert says in err and err.startswith("blklab: ")
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


def test_an_unknown_figure_names_the_near_ones(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """About 80 figures of a role were listed."""
    assert main(["show", "ratio.yaml"]) == MISUSE
    (line, *_) = capsys.readouterr().err.splitlines()
    assert "no metric ipos, did you mean iops?" in line
    assert "come near; blklab help --values figures lists all" in line
    assert len(line) < 300


@pytest.mark.parametrize("tool", ["thresholds", "mutation"])
def test_a_tool_refuses_what_it_cannot_use_before_it_fetches(tool: str, inputs: Path) -> None:
    for words, says in (
        (["--source", "debian:6.1"], "--source debian:6.1 is no source"),
        (["--dask", "junk"], "--dask"),
    ):
        command = [sys.executable, "-m", f"tools.{tool}", *words]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(command, cwd=inputs, env=environment, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (MISUSE, "")
        assert says in done.stderr and "Traceback" not in done.stderr
        assert not (inputs / "cache").exists()


def test_a_list_of_kernels_of_which_no_suite_is_listed_is_an_error(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sources, "debian", lambda: Distribution("debian", "", "", inputs / "keyring"))
    assert main(["list", "--kernels"]) == MISUSE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("is not listed: ") == len(debian.SUITES)
    assert "names no debian archive that serves sid" in err.splitlines()[-2]


@pytest.mark.parametrize("odd", [":", "\n", '"', "'", "$", "\\", ";", "`", "\x1b"])
def test_a_path_that_other_programs_read_differently_is_refused(
    odd: str, inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A colon ended with "error while loading shared libraries: libcapstone", a quote with a traceback."""
    monkeypatch.setenv("BLKLAB_CACHE", str(inputs / f"a{odd}b"))
    assert main(["store", "cache", "list"]) == MISUSE
    assert f"the path of the cache has {odd!r} in it".replace("\x1b", "\\x1b") in capsys.readouterr().err
    monkeypatch.setattr(cli, "__file__", f"/x/a{odd}b/harness/cli.py")
    assert main(["list"]) == MISUSE
    assert "the path of the checkout has" in capsys.readouterr().err
    monkeypatch.setattr(cli, "__file__", "/x/Ä rüb, e+1@2/harness/cli.py")
    monkeypatch.setenv("BLKLAB_CACHE", str(inputs / "Ä rüb, e+1@2"))
    assert main(["store", "cache", "list"]) == 0


def test_a_message_is_bounded() -> None:
    """100 kB of a guest's lines were echoed."""
    error = LabBroken("\n".join(["x" * 5000] * 50))
    shown = "\n".join([f"{'x' * 2000}..."] * 50)
    assert error.message == f"{shown[:20_000]}...\n{'x' * 2000}..."


def test_the_kinds_of_a_cache_are_named(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = Cache(inputs / "cache")
    cache.entry("payload", "a", lambda into: None)
    cache.close()
    assert main(["store", "cache", "prune", "--kind", "payloda"]) == MISUSE
    assert "did you mean payload?\n  remedy: the kinds are payload" in capsys.readouterr().err
    assert main(["store", "cache", "prune", "--kind", "payload"]) == 0
    assert "removed 1 entries" in capsys.readouterr().out
