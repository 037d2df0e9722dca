# SPDX-License-Identifier: GPL-2.0-only
"""Files in a boot's folder that repeat the boot without blklab.

``repeat.sh`` starts QEMU with the same command line in an empty folder and compares the result channel, which
must be identical under the virtual clock. It finds kernel and base archive in its own folder (an exported kit)
or in blklab's cache.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copyfile

from lab.base.digest import digest_bytes, digest_file, known_digest
from lab.base.reading import read_json, read_regular
from lab.base.record import BootRecord, Outcome
from lab.guest import console
from lab.guest.protocol import ResultReader
from lab.qemu.argv import CONSOLE_FILE, JOB_KEY, RESULTS_FILE, MachineSpec, fingerprint_argv

REPEAT, EXPECTED, INPUTS, RESULTS, CONSOLE = "repeat.sh", "expected.sha256", "inputs.json", RESULTS_FILE, CONSOLE_FILE
KERNEL, BASE, JOB, STEADY = "kernel", "base.cpio", "job.cpio", "steady.so"
SHARING, FUNCTIONS = "sharing.so", "functions.txt"
"""Names of the inputs in a kit, in the folder of ``repeat.sh``; the last two with several CPUs."""

_STAMP = re.compile(r"\[ *([0-9]+\.[0-9]+)\]")
_CMDLINE = re.compile(r"^\[[^\]]*\] Command line: (.*?) *$", re.MULTILINE)
_TEMPLATE = Path(__file__).parent / "guest" / "repeat.sh"
_PLACES = {
    "QEMU": '"$qemu"',
    "KERNEL": '"$kernel"',
    "INITRD": '"$base"',
    f"name={JOB_KEY},file={JOB}": f'"name={JOB_KEY},file=$job"',
}


@dataclass(frozen=True)
class Inputs:
    """Paths and sha256 (hex) of the inputs of a boot. ``qemu`` is the text of its version."""

    kernel: Path
    kernel_digest: str
    base: Path
    base_digest: str
    job_digest: str
    steady: Path
    qemu: str


def repeat_script(spec: MachineSpec, inputs: Inputs, wall_limit: float) -> str:
    """The shell script that repeats a boot of ``spec``."""
    words = " ".join(_PLACES.get(word) or _beside_script(word) for word in fingerprint_argv(spec))
    values = {
        "@KERNEL@": shlex.quote(str(inputs.kernel)),
        "@KERNEL_SHA256@": inputs.kernel_digest,
        "@BASE@": shlex.quote(str(inputs.base)),
        "@BASE_SHA256@": inputs.base_digest,
        "@JOB_SHA256@": inputs.job_digest,
        "@QEMU@": shlex.quote(str(spec.program)),
        "@QEMU_VERSION@": shlex.quote(inputs.qemu),
        "@SECONDS@": str(round(wall_limit)),
        "@COMMAND@": words,
    }
    text = _TEMPLATE.read_text()
    for place, value in values.items():
        text = text.replace(place, value)
    return text


def _beside_script(word: str) -> str:
    """A word for the shell; the files of a plugin, which begin with ./, are in the folder of the script."""
    return f'"{word.replace("./", "$here/")}"' if word.startswith("./") else shlex.quote(word)


def write_repeat(folder: Path, script: str, inputs: Inputs) -> None:
    """Raises OSError."""
    path = folder / REPEAT
    path.write_text(script)
    path.chmod(0o755)
    copyfile(inputs.steady, folder / STEADY)
    (folder / INPUTS).write_text(json.dumps(asdict(inputs), default=str, indent=1, sort_keys=True) + "\n")


def read_inputs(folder: Path) -> Inputs | None:
    """The inputs of the boot in ``folder``, None without a readable inputs.json."""
    try:
        stored = read_json(folder / INPUTS)
        return Inputs(**{**stored, **{name: Path(stored[name]) for name in ("kernel", "base", "steady")}})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def intact(path: Path, digest: str) -> bool:
    """Whether the file exists with this sha256."""
    try:
        return known_digest(path) == digest
    except OSError:
        return False


def write_expected(folder: Path) -> None:
    """Write the sha256 of the boot's result channel, if there is one. Raises OSError."""
    results = folder / RESULTS_FILE
    if results.is_file():
        (folder / EXPECTED).write_text(f"{digest_file(results)}  {RESULTS_FILE}\n")


def channel_faults(record: BootRecord) -> Iterator[tuple[str, str]]:
    """What the two channels of a boot that ended well say against its record: the file, and what."""
    if record.outcome is not Outcome.BYE:
        return
    sent, shown = record.folder / RESULTS, record.folder / CONSOLE_FILE
    if not sent.is_file():
        if any((record.folder / name).exists() for name in (EXPECTED, INPUTS, REPEAT)):
            yield RESULTS, "is missing"
        return
    reader = ResultReader()
    for line in sent.read_text(errors="replace").split("\n"):
        reader.feed(line.rstrip("\r"))
    for name in sorted(name for name, data in reader.files.items() if record.files.get(name) != data):
        yield RESULTS, f"has another {name} than out/"
    if not reader.bye:
        yield RESULTS, f"does not end as boot.json says: {reader.fault or 'there is no BYE'}"
    death = console.death(shown.read_text(errors="replace").splitlines()) if shown.is_file() else ""
    stamp = _STAMP.match(death.strip())
    # A kernel may hang after BYE, when it powers off.
    if death and reader.bye and (stamp is None or float(stamp[1]) < reader.phases[-1].uptime):
        yield CONSOLE_FILE, f"shows {death.strip()[:80]!r}, and boot.json says {record.outcome}"


def log_faults(record: BootRecord) -> Iterator[tuple[str, str]]:
    """What the kernel's log and the job of a boot say against its record: the file, and what."""
    log = record.files.get("kmsg", b"").decode(errors="replace")
    words, wanted = _CMDLINE.search(log), record.fingerprint.get("cmdline")
    if words and wanted and words[1] != wanted:
        yield "boot.json", f"command line is {wanted}, the guest had {words[1]}"
    lines = (log.partition(console.READY_MARK)[2] or log).splitlines()
    if (fault := console.stall(lines) or console.death(lines)) and not record.warnings:
        yield "boot.json", f"has no warning, the guest's log has {fault}"
    job, wanted = record.folder / JOB, record.fingerprint.get("job", "")
    data = read_regular(job) if job.is_file() else b""
    # The selftest in which boots differ appends 16 bytes to what the fingerprint covers.
    if data and wanted not in (digest_bytes(data), digest_bytes(data[:-16])):
        yield JOB, f"sha256 is {digest_bytes(data)[:12]}, boot.json names {wanted[:12]}"
