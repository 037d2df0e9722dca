# SPDX-License-Identifier: GPL-2.0-only
"""Which QEMU is used, its version, devices and firmware, and whether this host runs guests under KVM.

The accelerator of the wall clock is KVM if this kernel was seen to boot under it, else TCG on all cores. An open
/dev/kvm proves nothing: under some hypervisors the ioctls succeed, but no kernel gets past its first instructions.
"""

import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from lab.base import process
from lab.base.cache import Cache
from lab.base.contents import demand_intact, lasting_digest
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken, Misuse
from lab.base.reading import read_json, real
from lab.base.units import Tell, silent
from lab.packages import tools
from lab.packages.tools import QEMU as PROGRAM
from lab.qemu.argv import Clock, MachineSpec, WallClock
from lab.qemu.machine import Channel, Ending, Limits, Note, Reason, run

OVERRIDE, HOST = "BLKLAB_QEMU", "host"
OLDEST = (7, 2)
_KIND, _ACCELERATOR = "answers", "accelerator"
FAST_FIRMWARE = "qboot.rom"
# Files that QEMU puts into a guest started by -kernel, with either firmware.
_GUEST_CODE = (FAST_FIRMWARE, "bios-256k.bin", "pvh.bin", "linuxboot_dma.bin", "linuxboot.bin", "kvmvapic.bin")
_QUESTIONS = (("--version",), ("-device", "help"), ("-L", "help"))
_ANSWERS = "answers.json"
_PROBE_SECONDS, _LONGEST_ANSWER = 30.0, 1 << 20
_VERSION = re.compile(r"QEMU emulator version ([0-9]+)\.([0-9]+)\.([0-9]+)(?: \((.*)\))?")
_DEVICE = re.compile(r'^name "([^"]+)"', re.MULTILINE)
_INSTALLATION = "as root: apt-get install qemu-system-x86"


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
        path, program, libraries = own.intact / PROGRAM, own.intact / tools.QEMU_ELF, own.pin.digest
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
            f'this is no QEMU, its --version prints "{first}"', remedy=f"correct {OVERRIDE}, or {_INSTALLATION}"
        )
    return (int(match[1]), int(match[2]), int(match[3])), match[4] or ""


def _locate(named: str) -> Path:
    if path := shutil.which(named):
        return real(Path(path))
    if named == PROGRAM:
        raise LabBroken(f"{PROGRAM} is not installed", remedy=f"unset {OVERRIDE}, or {_INSTALLATION}")
    raise Misuse(f"{OVERRIDE}={named} is no program", remedy="correct it, or unset it to use the lab's own QEMU")


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
            remedy=f"name a later one in {OVERRIDE}, or {_INSTALLATION}",
        )
    devices, firmware = frozenset(_DEVICE.findall(next(answers))), _guest_code(next(answers))
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

    entry = Cache.default().entry(_KIND, digest_bytes(f"{path} {libraries}".encode()), fill)
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


DEVICE = Path("/dev/kvm")
SOUND_PATCHING = (8, 1)
"""From this version on TCG locks a page of code before it translates or changes it."""
_PROOF = "kvm.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MODELS = ("host", "qemu64")
_PATIENCE = 10.0
_BANNER, _NO_ROOT = "Linux version", "Unable to mount root fs"


class KvmState(StrEnum):
    ABSENT = "absent"
    NO_PERMISSION = "no permission"
    HANGS = "opens but hangs"
    UNPROVED = "opens"
    WORKS = "works"


@dataclass(frozen=True)
class Kvm:
    """``proof`` describes what was seen; ``model`` is the CPU model that worked, else empty."""

    state: KvmState
    proof: str
    model: str = ""

    @property
    def clock(self) -> WallClock:
        """The wall clock that this proof allows."""
        return WallClock("kvm", self.model) if self.state is KvmState.WORKS else WallClock("tcg")

    def __str__(self) -> str:
        if self.state is KvmState.WORKS:
            return f"KVM (-cpu {self.model}: {self.proof})"
        return f"TCG, a thread for each vCPU (KVM: {self.state}, {self.proof})"


def prove_kvm(
    qemu: Qemu, kernel_image: Path | None = None, *, device: Path = DEVICE, patience: float = _PATIENCE
) -> Kvm:
    """Boot ``kernel_image`` under KVM until it panics because it has no root file system: WORKS.

    Without an image it is UNPROVED. Takes one or two seconds if KVM works, ``patience`` seconds if it hangs.
    """
    refusal = _refusal(device)
    if refusal is not None:
        return refusal
    if kernel_image is None:
        return Kvm(KvmState.UNPROVED, "no kernel image was given to boot")
    failures = []
    # The kernel prints its banner at level notice.
    words = ("loglevel=7", "earlyprintk=serial,ttyS0")
    for model in _MODELS:
        clock = WallClock("kvm", model)
        spec = MachineSpec(qemu.path, qemu.version, kernel_image, memory=256, clock=clock, append=words)
        ran, proof, hung = _boot(spec, (_BANNER, _NO_ROOT), patience)
        if ran:
            return Kvm(KvmState.WORKS, f"{kernel_image} booted until it looked for a root file system", model)
        failures.append(f"-cpu {model}: {kernel_image} did not boot: {proof}")
        if hung:
            break
    return Kvm(KvmState.HANGS, "; ".join(failures))


def _refusal(device: Path) -> Kvm | None:
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return Kvm(KvmState.NO_PERMISSION, f"{device} exists, but this user may not open it")
    except OSError as error:
        return Kvm(KvmState.ABSENT, f"{device}: {error.strerror}")
    return None


def _boot(spec: MachineSpec, wanted: Sequence[str], seconds: float) -> tuple[bool, str, bool]:
    """Whether the ``wanted`` texts came in order, what was seen instead, and whether a deadline ended the guest."""
    watch = _Expect(wanted)
    with tempfile.TemporaryDirectory(prefix="blklab-kvm-") as folder:
        try:
            ending = run(spec, Path(folder), watch, Limits(ready_seconds=seconds, total_seconds=2 * seconds))
        except LabBroken as error:
            return False, error.message.partition("\n")[0], False
    return not watch.missing, _ending_in_words(ending, watch), ending.reason is Reason.DEADLINE


class _Expect:
    """READY at the first of the wanted texts, STOP when all were seen in order."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.missing, self.last_line = list(wanted), ""

    def line(self, channel: Channel, text: str) -> Note | None:
        self.last_line = text.strip() or self.last_line
        if channel is not Channel.CONSOLE or not self.missing or self.missing[0] not in text:
            return None
        del self.missing[0]
        return Note.READY if self.missing else Note.STOP


def _ending_in_words(ending: Ending, watch: _Expect) -> str:
    last = f'last words "{watch.last_line}"' if watch.last_line else "nothing on its console"
    if ending.reason is Reason.DEADLINE:
        return f"hung for {ending.wall:.0f} s, {last}"
    said = ending.stderr.strip().rpartition("\n")[2]
    return f"QEMU ended by itself, {said or last}"


def accelerator(cache: Cache, qemu: Qemu, image: Path, digest: str) -> Kvm:
    """What is proved about KVM for the kernel ``image`` with that ``digest``.

    It is cached until the host reboots, or QEMU, the kernel or access to the device changes. It takes one or
    two seconds if KVM works, a few more if it hangs.
    """
    refused = not os.access(DEVICE, os.R_OK | os.W_OK)
    boot = _BOOT.read_text().strip() if _BOOT.is_file() else ""
    key = digest_bytes(canonical([boot, os.uname().release, qemu.digest, digest, refused]))

    def fill(into: Path) -> None:
        proved = prove_kvm(qemu, image)
        words = proved.proof.replace(str(image), "this kernel")
        (into / _PROOF).write_text(json.dumps(asdict(replace(proved, proof=words))))

    stored = read_json(demand_intact(cache.entry(_ACCELERATOR, key, fill) / _PROOF))
    return Kvm(KvmState(stored["state"]), stored["proof"], stored["model"])


def doubt_of(clock: Clock, qemu: Qemu) -> str:
    """Why ``qemu`` itself may make a guest die or hang; empty when it cannot."""
    if clock != WallClock("tcg") or qemu.version >= SOUND_PATCHING:
        return ""
    return (
        f"QEMU {qemu.version_text} may run code that another vCPU is patching, which makes guests die or hang:"
        f" measure again, or name QEMU {'.'.join(map(str, SOUND_PATCHING))} or later in {OVERRIDE}"
    )
