# SPDX-License-Identifier: GPL-2.0-only
"""A boot that also counts, per function, what the guest executes in each measured window.

A plugin of QEMU observes the instruction stream. The window is the sampler's: it calls one function at each end,
and the plugin recognises that function by its address and its first instructions. So nothing in the guest
differs from an ordinary boot, and the digest of the results must be the same.
"""

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.record import BootRecord, Outcome
from lab.guest.steps.load import RunLoad
from lab.kernels.model import Kernel
from lab.native import elf, programs
from lab.native.programs import plugin
from lab.session import GuestLoad, Job, Lab, PhaseSeen, PreparedJob, prepare_job, run_job, sampler_of
from lab.topology.model import Topology

FIRST_MODULE = 0xFFFFFFFFC0000000  # Documentation/arch/x86/x86_64/mm.rst: module mapping space, with nokaslr
_PATIENCE = 4
"""By how much longer a profiled boot may take."""
_MARKER = "count_cpu"
_MARKER_BYTES = 8
WINDOW = "window"
"""Beginning of the names of the files that a plugin writes into the boot's folder."""
_FUNCTIONS = "functions.txt"
_KALLSYMS = "kallsyms.gz"
_KIND = "symbols"
# fio runs a shell command before a job: the guest needs no program of its own for its symbols.
_NO_LOAD = """[symbols]
ioengine=null
rw=read
size=4k
"""
_FUNCTIONS_OF_KERNEL = "/bin/busybox grep -i ' [tw] ' /proc/kallsyms"
_KEEP_SYMBOLS = f"{_NO_LOAD}exec_prerun={_FUNCTIONS_OF_KERNEL} | gzip -c > /out/{_KALLSYMS} && true\n"
_ENTRIES: Mapping[str, str] = {
    "irq_entries_start": "s",
    "spurious_entries_start": "s",
    "__switch_to_asm": "x",
    "__switch_to": "y",
    "cpu_startup_entry": "d",
}
_PLAIN = "-"
_THUNKS = ("__x86_indirect_", "__x86_return_thunk", "__SCT__", "srso_", "retbleed_")
_OLD_INTERRUPTS = ("apic_timer_interrupt", "reschedule_interrupt", "call_function_interrupt", "irq_work_interrupt")
_OLD_EXCEPTIONS = ("page_fault", "general_protection", "int3", "debug", "nmi", "invalid_op", "divide_error")


@dataclass(frozen=True)
class Symbol:
    """A function of the kernel; ``module`` is empty for the image itself."""

    address: int
    name: str
    module: str = ""


@dataclass(frozen=True)
class Profiled:
    """``windows`` maps each load that has a measured window to what the plugin counted (native/profile/plugin.c).

    ``files`` are the programs and libraries of the payload by name, ``sampler`` is the name of the guest's sampler.
    """

    record: BootRecord
    symbols: tuple[Symbol, ...]
    windows: Mapping[str, str]
    files: Mapping[str, bytes]
    sampler: str = programs.SAMPLER


def profile_boot(
    lab: Lab, kernel: Kernel, topology: Topology, job: Job, folder: Path, *, phase_seen: PhaseSeen
) -> Profiled:
    """Boot once in ``folder``, which must be empty, with the plugin.

    Raises CannotJudge where the boot ends badly or a load has no sampled window.
    """
    prepared = prepare_job(lab, kernel, topology, job)
    if prepared.hardware:
        raise CannotJudge("on the wall clock nothing is counted in instructions", remedy="profile a virtual-clock run")
    if prepared.processors.several:
        # QEMU's inline counters write to wrong addresses there (native/sharing/plugin.c).
        raise CannotJudge("profile counts on one CPU only", remedy="use blklab sharing, or machine: {cpus: 1}")
    if prepared.processors.observed:
        raise CannotJudge("the counts of this boot are results, which a profile lacks", remedy="remove machine.counted")
    symbols = kernel_symbols(lab, prepared, topology, job, phase_seen=phase_seen)
    words = _plugin_words(lab, prepared, symbols, folder)
    patient = replace(prepared, plugin=words, wall_limit=_PATIENCE * prepared.wall_limit)
    # The plugin follows every task from its first call: a restored guest's tasks would be in the middle of theirs.
    record = run_job(replace(lab, cold=True), patient, folder, phase_seen=phase_seen)
    _check(record)
    files = {Path(name).name: entry.data for name, entry in lab.payload.entries.items() if elf.is_elf(entry.data)}
    windows = {load: path.read_text() for load, path in window_files(prepared, folder).items()}
    return Profiled(record, symbols, windows, files, sampler_of(prepared.steps))


def kernel_symbols(
    lab: Lab, prepared: PreparedJob, topology: Topology, job: Job, *, phase_seen: PhaseSeen
) -> tuple[Symbol, ...]:
    """Functions of kernel and modules, sorted by address, read in a boot of their own.

    Where modules are loaded depends on when memory of earlier ones is freed. So both boots execute the same
    instructions until fio reads the first load, which is as long as it was.
    """
    texts = (_KEEP_SYMBOLS, *(_NO_LOAD for _ in job.loads[1:]))
    loads = tuple(replace(load, fio=_pad(text, load)) for text, load in zip(texts, job.loads, strict=True))
    own = prepare_job(lab, prepared.kernel, topology, replace(job, loads=loads, labels={}))
    if own.base != prepared.base or len(own.job_archive) != len(prepared.job_archive):
        raise LabBroken("the boot that reads symbols differs from the profiled one", remedy="report this as a bug")
    # Where modules are loaded also depends on the processor and the memory, which the command line names.
    key = digest_bytes(canonical(dict(own.fingerprint)))

    def fill(into: Path) -> None:
        phase_seen("reading symbols")
        with TemporaryDirectory(prefix="blklab-symbols-") as folder:
            record = run_job(lab, own, Path(folder), phase_seen=phase_seen)
            _check(record)
            (into / _KALLSYMS).write_bytes(_symbols_file(record))

    return read_kallsyms(gzip.decompress((lab.cache.entry(_KIND, key, fill) / _KALLSYMS).read_bytes()).decode())


def _pad(text: str, load: GuestLoad) -> str:
    if len(text) > len(load.fio):
        raise LabBroken(f"the job of load {load.name} is shorter than that which reads symbols", remedy="report this")
    return text.ljust(len(load.fio), "\n")


def read_kallsyms(text: str) -> tuple[Symbol, ...]:
    """The functions of /proc/kallsyms, one name for each address."""
    names: dict[int, Symbol] = {}
    for line in text.splitlines():
        address, kind, name, *module = line.split()
        if kind not in "tTwW":
            continue
        symbol = Symbol(int(address, 16), name, module[0].strip("[]") if module else "")
        known = names.get(symbol.address)
        if known is None or _preference(symbol) < _preference(known):
            names[symbol.address] = symbol
    if not any(names):
        raise LabBroken("the kernel hides the addresses of its symbols", remedy="report this as a bug of blklab")
    return tuple(names[address] for address in sorted(names) if address)


def _preference(symbol: Symbol) -> tuple[bool, bool, int, str]:
    """Smallest for the name that says what is executed; the marks of the linker script share addresses with others."""
    special = _kind(symbol.name, "ret_from_fork") != _PLAIN
    return not special, symbol.name.endswith(("_start", "_end", "_begin", "text")), len(symbol.name), symbol.name


def functions_file(symbols: tuple[Symbol, ...]) -> str:
    """The plugin's list: functions with a special role are recognised by name."""
    names = {symbol.name for symbol in symbols}
    # Since 6.6 the assembler's part has a name of its own (3aec4ecb3d1f).
    fork = "ret_from_fork_asm" if "ret_from_fork_asm" in names else "ret_from_fork"
    return "".join(f"{symbol.address:x} {_kind(symbol.name, fork)}\n" for symbol in symbols)


def _kind(name: str, fork: str) -> str:
    if name == fork:
        return "f"
    if name in _ENTRIES:
        return _ENTRIES[name]
    if name.startswith("asm_sysvec_") or name in _OLD_INTERRUPTS:
        return "i"
    if name.startswith("asm_exc_") or name in _OLD_EXCEPTIONS:
        return "e"
    return "t" if name.startswith(_THUNKS) else _PLAIN


def _plugin_words(lab: Lab, prepared: PreparedJob, symbols: tuple[Symbol, ...], folder: Path) -> tuple[str, ...]:
    (folder / _FUNCTIONS).write_text(functions_file(symbols))
    return (
        str(plugin(lab.cache, lab.qemu.version)),
        f"functions={_FUNCTIONS}",
        *window_marker(lab.cache, sampler_of(prepared.steps)),
        f"output={WINDOW}",
    )


def window_marker(cache: Cache, sampler: str, name: str = _MARKER) -> tuple[str, str]:
    """A plugin's arguments: where a function of the sampler is, and the code that it begins with, up to its first call.

    The sampler calls count_cpu at both ends of its window.
    """
    program = programs.build(cache, sampler, symbols=True)
    stripped = programs.build(cache, sampler)
    markers = [function for function in elf.functions(program) if function.name.split(".")[0] == name]
    if len(markers) != 1:
        raise LabBroken(f"the sampler has {len(markers)} functions {name}", remedy="report the compiler as a bug")
    address = markers[0].address
    code = code_at(stripped, address)
    if code_at(program, address) != code:
        raise LabBroken("stripping moved the sampler's code", remedy="report the compiler as a bug")
    return f"marker={address:x}", f"bytes={code.hex()}"


def code_at(program: bytes, address: int) -> bytes:
    """The first instructions of a function, by which a plugin knows it."""
    segment = next(part for part in elf.executable_segments(program) if 0 <= address - part.address < len(part.data))
    at = address - segment.address
    return segment.data[at : at + _MARKER_BYTES]


def window_files(prepared: PreparedJob, folder: Path) -> Mapping[str, Path]:
    """The file that a plugin wrote for each load with a sampled window. Raises CannotJudge where there is none."""
    loads = [step.name for step in prepared.steps if isinstance(step, RunLoad) and step.watch]
    paths = [folder / f"{WINDOW}.{number}" for number in range(len(loads))]
    if missing := [load for load, path in zip(loads, paths, strict=True) if not path.is_file()]:
        raise LabBroken(f"the plugin saw no window of load {missing[0]}", remedy="report this as a bug of blklab")
    if not loads:
        raise CannotJudge("no load of this cell has a sampled window", remedy="windows of 20 ms and more are sampled")
    return dict(zip(loads, paths, strict=True))


def _check(record: BootRecord) -> None:
    if record.outcome is not Outcome.BYE:
        raise CannotJudge(f"the boot ended badly ({record.outcome}): {record.detail}", remedy=f"see {record.folder}")


def _symbols_file(record: BootRecord) -> bytes:
    try:
        data = record.files[_KALLSYMS]
        gzip.decompress(data)
    except (KeyError, OSError, EOFError, zlib.error) as error:
        raise LabBroken(f"the kernel's symbols did not arrive: {error}", remedy="report this as a bug") from error
    return data
