# SPDX-License-Identifier: GPL-2.0-only
"""Commands on files, words, surroundings, caches and runs that are damaged at random; a seed gives the same again.

No guest boots: QEMU is false(1), and nothing listens where packages would come from.
"""

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.cli import LAB_BROKEN, MISUSE, main
from harness.commands import GROUPS
from harness.commands.parser import ENVIRONMENT, build_parser
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS
from lab.base.units import printable
from lab.topology.load import CATALOGUE
from tests.unit.scenario_text import GOOD
from tests.unit.test_cli import leaves
from tests.unit.test_fuzz import EXAMPLES, HOSTILE, TOPOLOGY, paths
from tests.unit.test_lkp import TABLE
from tests.unit.test_store import GREEN, finished

CODES = {EXIT_PASS, EXIT_FAIL, EXIT_CANNOT_JUDGE, LAB_BROKEN, MISUSE}
SECONDS = 60
"""Of host time for one command, on a host with a load of 16; idle, the slowest takes two."""
SEEDS, FEW = 96, 8
"""Of each kind: all, and those that run always."""
MAIL = (
    "From 0123abcd Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH 1/2] block: x\n"
    "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\nMessage-ID: <1@x>\n\nwhy\n---\n"
    "diff --git a/block/f.c b/block/f.c\n--- a/block/f.c\n+++ b/block/f.c\n@@ -1 +1 @@\n-a\n+b\n"
)
ODD = [
    *HOSTILE,
    "((((",
    "=?x?q?",
    "\x1b[2J",
    "\u202e",
    "nan",
    "inf",
    "1e400",
    "0x",
    "%s",
    "{}",
    "$(id)",
    "`id`",
    "a\nb",
    "-",
    "--",
    "[a",
]
Write = Callable[[str, bytes | str], str]


@dataclass
class Input:
    """A command line and its surroundings; ``files`` are those that it reads, by name in the current folder."""

    line: Sequence[str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def damaged(text: str, dice: random.Random) -> bytes:
    """The text with one to five words, lines or bytes replaced, repeated, cut or moved."""
    words = re.findall(r"\w+|\s+|[^\w\s]", text)
    for _ in range(dice.randint(1, 5)):
        place = dice.randrange(len(words))
        match dice.randrange(7):
            case 0:
                words[place] = dice.choice(ODD)
            case 1:
                words[place] *= dice.choice((2, 50, 3000))
            case 2:
                del words[place : place + dice.choice((1, 1, 30))]
            case 3:
                words.insert(place, dice.choice(ODD))
            case 4:
                words[place], words[-1] = words[-1], words[place]
            case 5:
                words[place] = dice.choice(words)
            case _:
                words = words[: max(1, place)]
        words = words or [""]
    data = bytearray("".join(words).encode("utf-8", "surrogatepass"))
    if data and not dice.randrange(4):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def scenarios(dice: random.Random) -> Input:
    line = dice.choice(("show s.yaml", "show s.yaml --steps", "run s.yaml --dry-run", "matrix s.yaml --dry-run"))
    return Input(line.split(), {"s.yaml": damaged(GOOD, dice)})


def topologies(dice: random.Random) -> Input:
    texts = [TOPOLOGY, *(path.read_text() for path in sorted(CATALOGUE.glob("*.yaml")))]
    line = dice.choice(("show t.yaml --topology", "show ./t.yaml", "draft --fio j.fio --topology t.yaml"))
    return Input(
        line.split(), {"t.yaml": damaged(dice.choice(texts), dice), "j.fio": b"[a]\nrw=read\nfilename=/dev/sda\n"}
    )


def jobs(dice: random.Random) -> Input:
    line = dice.choice(
        ("draft --fio j.fio", "draft --fio j.fio --output d.yaml", "draft --fio j.fio --from-output o.json")
    )
    output = json.dumps({"jobs": [{"jobname": "a", "read": {"iops": 1.5}}]})
    return Input(
        line.split(), {"j.fio": damaged(dice.choice(EXAMPLES).read_text(), dice), "o.json": damaged(output, dice)}
    )


def mails(dice: random.Random) -> Input:
    line, text = dice.choice(
        (("draft --lkp m.eml", TABLE), ("patch m.eml --base tree:.", MAIL), ("patch . --base x", MAIL))
    )
    return Input(line.split(), {"m.eml": damaged(text * dice.choice((1, 1, 3)), dice)})


WORDS = [" ".join(path) for group in GROUPS.values() for path in leaves(group)]


def options_of(word: str) -> list[str]:
    parser = build_parser(word.split())
    for part in word.split():
        parser = next(action for action in parser._actions if action.choices).choices[part]  # type: ignore[index]
    return [name for action in parser._actions for name in action.option_strings if name not in ("--open", "-h")]


def lines(dice: random.Random) -> Input:
    word = dice.choice([word for word in WORDS if word not in ("doctor", "shell")])
    values = [
        *ODD,
        "waiters",
        "shared-queue",
        "s.yaml",
        "debian:6.1",
        "debian:6.1 .. debian:99.9",
        ".",
        "gone",
        "3",
        "1/2",
        "none",
    ]
    given = [dice.choice([*options_of(word), *values]) for _ in range(dice.randint(0, 6))]
    dry = ["--dry-run"] if word in ("run", "matrix", "patch") else []
    return Input([*word.split(), *given, *dry], {"s.yaml": GOOD.encode()})


VARIABLES = [
    *(name for name, _ in ENVIRONMENT),
    *("HOME", "XDG_CACHE_HOME", "TMPDIR", "COLUMNS", "LINES", "NO_COLOR", "TERM", "LANG", "BLKLAB_TREE", "BLKLAB_DASK"),
    *("BLKLAB_DEBIAN_MIRROR", "BLKLAB_DEBIAN_KEYRING", "BLKLAB_DEBIAN_SECURITY_MIRROR", "BLKLAB_ARCHIVE_TRIXIE"),
]


def environments(dice: random.Random) -> Input:
    commands = (
        "list",
        "show waiters",
        "run waiters --dry-run",
        "store cache list",
        "store index --list",
        "list --topologies",
    )
    kernels = "run s.yaml --kernel debian:6.1", "matrix s.yaml --dry-run", "list --kernels"
    line = dice.choice((*commands, *commands, *kernels))
    sayable = [text for text in ODD if "\0" not in text and text.isascii()]
    surroundings = {name: dice.choice(sayable) for name in dice.sample(VARIABLES, dice.randint(1, 4))}
    return Input(line.split(), {"s.yaml": GOOD.encode()}, surroundings)


def pinned(dice: random.Random) -> bytes:
    package = {"suite": "bookworm", "name": "linux-image-6.1.0-9-amd64", "version": "6.1.9-1", "sha256": "0" * 64}
    return damaged(json.dumps({"packages": [{**package, "size": 1, "depends": "", "path": ""}]}), dice)


def caches(dice: random.Random) -> Input:
    names = [
        "pins/debian-6.1.json",
        "kernel/a/kernel.json",
        "kernel/a/.sha256sums",
        "kernel/a/config",
        "kernel/a/.seen",
        ".lock/kernel/a",
    ]
    line = dice.choice(("store cache list", "store cache prune --kind kernel", "run s.yaml --kernel debian:6.1"))
    chosen = dice.sample(names, dice.randint(1, 3))
    return Input(line.split(), {"s.yaml": GOOD.encode(), **{f"cache/{name}": pinned(dice) for name in chosen}})


def runs(dice: random.Random) -> Input:
    line = dice.choice(
        (
            "judge R",
            "judge R -v",
            "explain R",
            "report R --out r.html",
            "compare R R",
            "store index --list",
            "profile R",
            "report",
        )
    )
    return Input(line.split(), {"R": b""})


KINDS = (scenarios, topologies, jobs, mails, lines, environments, caches, runs)


def corrupt(run: Path, dice: random.Random) -> None:
    """One to three files of a run cut, gone, of another kind, or with something else in a place of their JSON."""
    for path in dice.sample(sorted(path for path in run.rglob("*") if path.is_file()), dice.randint(1, 3)):
        data = path.read_bytes()
        path.unlink()
        match dice.randrange(6):
            case 0:
                os.mkfifo(path)
            case 1:
                path.mkdir()
            case 2:
                path.symlink_to(dice.choice(("/dev/zero", path.name, "/etc/hostname", "gone")))
            case 3:
                path.write_bytes(b"[" * 200_000 if dice.randrange(2) else damaged(data.decode(errors="replace"), dice))
            case 4 if path.suffix == ".json":
                document = json.loads(data)
                place = dice.choice([place for place in paths(document) if place] or [()])
                target = document
                for key in place[:-1]:
                    target = target[key]
                if place:
                    target[place[-1]] = dice.choice((None, [], {}, -1, 1e308, 10**30, "x", "\x1b[2J", [[]], True))
                path.write_text(json.dumps(document))


def seeds() -> Iterator[object]:
    for kind in KINDS:
        for number in range(SEEDS):
            marks = [] if number < FEW else [pytest.mark.slow]
            yield pytest.param(kind, number, id=f"{kind.__name__}-{number}", marks=marks)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("run"), GREEN, {"kmsg": b"quiet\n"}).path


@pytest.fixture(scope="module", autouse=True)
def checkout_stays(checkout: Path) -> Iterator[None]:
    """No command leaves a file in the checkout."""

    def names() -> set[str]:
        return set(git("ls-files", "--others", "--exclude-standard").splitlines())

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(checkout), *words], check=True, capture_output=True, text=True).stdout

    before = names()
    yield
    assert names() - before == set()


def tree(folder: Path) -> dict[str, bytes | str]:
    """What each file below is or contains."""
    facts = {path: path.lstat() for path in sorted(folder.rglob("*"))}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else oct(status.st_mode)
        for path, status in facts.items()
    }


@contextmanager
def time_bound() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"no end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fill(entry: Path) -> None:
    (entry / "config").write_bytes(b"CONFIG_X=y\n")


@pytest.fixture
def place(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Input, random.Random], Path]:
    """Lay an input out; gives the folder from which its command runs, next to a file that is not to be touched."""

    def lay_out(given: Input, dice: random.Random) -> Path:
        here = tmp_path / "here"
        for name in ("here", "cache", "results", "home", "tmp"):
            (tmp_path / name).mkdir()
        (tmp_path / "outside").write_text("kept")
        Cache(tmp_path / "cache").entry("kernel", "a", fill)
        for name, data in given.files.items():
            path = tmp_path / name if name.startswith("cache/") else here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == "R":
                shutil.copytree(run_folder, path, symlinks=True)
                corrupt(path, dice)
            elif name.startswith("cache/") and not dice.randrange(3):
                path.unlink(missing_ok=True)
                os.mkfifo(path)
            else:
                path.write_bytes(data)
        values = {
            "BLKLAB_CACHE": str(tmp_path / "cache"),
            "BLKLAB_RESULTS": str(tmp_path / "results"),
            "BLKLAB_QEMU": "/bin/false",
            "BLKLAB_DEBIAN_MIRROR": "http://127.0.0.1:9/debian",
            "BLKLAB_DEBIAN_SECURITY_MIRROR": "http://127.0.0.1:9/debian-security",
            "HOME": str(tmp_path / "home"),
            "BROWSER": "/bin/true",
            **given.environment,
        }
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(here)
        return here

    return lay_out


@pytest.mark.parametrize(("kind", "seed"), list(seeds()))
def test_hostile_input(
    kind: Callable[[random.Random], Input],
    seed: int,
    place: Callable[[Input, random.Random], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(f"{kind.__name__} {seed}")  # noqa: S311
    given = kind(dice)
    here = place(given, dice)
    before = tree(here)
    with time_bound():
        code = main(list(given.line))
    out, err = capsys.readouterr()
    told = f"{shlex.join(given.line)} {dict(given.environment)}: {code}\n{out[-2000:]}\n{err[-4000:]}"
    assert code in CODES, told
    assert "Traceback" not in out + err and "bug of blklab" not in out + err, told
    assert printable(err) == err and printable(out) == out, told
    assert len(err) < 30_000, told
    assert (here.parent / "outside").read_text() == "kept"
    kept, after = {"here", "cache", "results", "home", "tmp", "outside"}, tree(here)
    assert {path.name for path in here.parent.iterdir()} <= kept, told
    assert {name: after.get(name) for name in before} == before, told
    # A relative value of BLKLAB_RESULTS, BLKLAB_CACHE or HOME is a folder here.
    named = {Path(value).parts[0] for value in given.environment.values() if Path(value).parts}
    assert {name.partition("/")[0] for name in {*after} - {*before}} <= {"d.yaml", "r.html", *named}, told
