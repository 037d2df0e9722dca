# SPDX-License-Identifier: GPL-2.0-only
"""Which QEMU is used, its version, devices and firmware."""

import functools
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.base import process
from lab.base.cache import Cache
from lab.base.contents import demand_intact, lasting_digest
from lab.base.digest import digest_bytes
from lab.base.errors import LabBroken, Misuse
from lab.base.reading import real
from lab.base.units import Tell, silent
from lab.packages import tools
from lab.packages.tools import QEMU as PROGRAM

OVERRIDE, HOST = "BLKLAB_QEMU", "host"
OLDEST = (7, 2)
KIND = "answers"
FAST_FIRMWARE = "qboot.rom"
# Files that QEMU puts into a guest started by -kernel, with either firmware.
_GUEST_CODE = (FAST_FIRMWARE, "bios-256k.bin", "pvh.bin", "linuxboot_dma.bin", "linuxboot.bin", "kvmvapic.bin")
_QUESTIONS = (("--version",), ("-device", "help"), ("-L", "help"))
_ANSWERS = "answers.json"
_PROBE_SECONDS, _LONGEST_ANSWER = 30.0, 1 << 20
_VERSION = re.compile(r"QEMU emulator version ([0-9]+)\.([0-9]+)\.([0-9]+)(?: \((.*)\))?")
_DEVICE = re.compile(r'^name "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Qemu:
    """A usable QEMU.

    ``package`` is the distribution's version text, or empty; ``firmware`` is a name for -bios, None for QEMU's
    default; ``digest`` is the sha256 in hex of the program, of the files that QEMU puts into a guest, and of the
    packages of the lab's own QEMU.
    """

    path: Path
    version: tuple[int, int, int]
    package: str
    devices: frozenset[str]
    firmware: str | None
    digest: str

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def find_qemu(tell: Tell = silent) -> Qemu:
    """The lab's own QEMU, downloaded if necessary, or the one that BLKLAB_QEMU names: ``host`` (in PATH) or a program.

    Raises Misuse when BLKLAB_QEMU names no program, LabBroken when QEMU cannot be had, is too old, or
    does not answer.
    """
    if named := os.environ.get(OVERRIDE):
        path = program = _locate(PROGRAM if named == HOST else named)
        libraries = ""
    else:
        own = tools.fetch(Cache.default(), tools.HOST_TOOLS, tell)
        path, program, libraries = own.folder / PROGRAM, own.folder / tools.QEMU_ELF, own.pin.digest
    status = path.stat()
    return _probe(path, program, libraries, status.st_mtime_ns, status.st_size)


def qemu_is_own() -> bool:
    """Whether the lab's own QEMU is used."""
    return not os.environ.get(OVERRIDE)


def parse_version(text: str) -> tuple[tuple[int, int, int], str]:
    """Version and package text from the first line of ``--version``. Raises LabBroken."""
    match = _VERSION.match(text)
    if match is None:
        first = text.strip().partition("\n")[0]
        raise LabBroken(
            f'this is no QEMU, its --version prints "{first}"', remedy=f"correct {OVERRIDE}, or {_installation()}"
        )
    return (int(match[1]), int(match[2]), int(match[3])), match[4] or ""


def parse_devices(text: str) -> frozenset[str]:
    """Names in the output of ``-device help``."""
    return frozenset(_DEVICE.findall(text))


def _locate(named: str) -> Path:
    if path := shutil.which(named):
        return real(Path(path))
    if named == PROGRAM:
        raise LabBroken(f"{PROGRAM} is not installed", remedy=f"unset {OVERRIDE}, or {_installation()}")
    raise Misuse(f"{OVERRIDE}={named} is no program", remedy="correct it, or unset it to use the lab's own QEMU")


def _installation() -> str:
    return "as root: apt-get install qemu-system-x86"


@functools.cache
def _probe(path: Path, program: Path, libraries: str, mtime_ns: int, size: int) -> Qemu:
    """Keyed by time stamp and size, which change when the program is replaced. ``path`` starts ``program``.

    ``libraries`` is the digest of the packages that its libraries are of, in hex, as far as they are known.
    """
    answers = _kept_answers(path, libraries) if libraries else _ask(path)
    version, package = parse_version(next(answers))
    if version < OLDEST:
        text, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
        raise LabBroken(
            f"{path} is QEMU {text}, blklab needs {oldest} or later",
            remedy=f"name a later one in {OVERRIDE}, or {_installation()}",
        )
    devices, firmware = parse_devices(next(answers)), _guest_code(next(answers))
    return Qemu(
        path=path,
        version=version,
        package=package,
        devices=devices,
        firmware=FAST_FIRMWARE if FAST_FIRMWARE in {file.name for file in firmware} else None,
        digest=digest_bytes(b"".join(map(bytes.fromhex, (*map(lasting_digest, (program, *firmware)), libraries)))),
    )


def _kept_answers(path: Path, libraries: str) -> Iterator[str]:
    """As ``_ask``, of the lab's own QEMU: it always gives the same answers, and asking takes 60 ms of CPU time."""

    def fill(into: Path) -> None:
        (into / _ANSWERS).write_text(json.dumps(list(_ask(path))))

    entry = Cache.default().entry(KIND, digest_bytes(f"{path} {libraries}".encode()), fill)
    yield from json.loads(demand_intact(entry / _ANSWERS).read_bytes())


def _ask(path: Path) -> Iterator[str]:
    """The answers to ``_QUESTIONS``. Raises LabBroken at one that is not answered."""

    hint = f"reinstall QEMU, or correct {OVERRIDE}"

    def look(printed: int) -> str:
        return "no end of its output" if printed > _LONGEST_ANSWER else ""

    for words in _QUESTIONS:
        done = process.run([str(path), *words], timeout=_PROBE_SECONDS, look=look, hint=hint)
        yield done.stdout.decode(errors="replace")


def _guest_code(listed: str) -> tuple[Path, ...]:
    folders = [Path(line) for line in listed.splitlines() if line]
    files = (next((folder / name for folder in folders if (folder / name).is_file()), None) for name in _GUEST_CODE)
    return tuple(file for file in files if file is not None)
