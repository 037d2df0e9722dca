# SPDX-License-Identifier: GPL-2.0-only
"""The observers of a boot: what CPUs share, where instructions are spent, which functions are executed, and schedules.

Each is a plugin of QEMU that watches the instruction stream; a schedule also ends turns. The window is the sampler's:
it calls one function at each end, and the plugin recognises that function by its address and its first instructions. So
nothing in the guest differs from an ordinary boot, and the digest of the results must be the same.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lab import kit
from lab.base.digest import digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.units import silent
from lab.guest.steps.load import RunLoad
from lab.native import elf, programs
from lab.native.programs import Plugin
from lab.schedule import SCHEDULE_FILE, SCHEDULE_RESULT, Schedule
from lab.session import Job, Lab, PhaseSeen, PreparedJob, sampler_of
from lab.symbols import LINES_FILE, Symbols, image_symbols, twin_symbols

_PATIENCE = 4
"""By how much longer an observed boot may take."""
_MARKER, _FIRST_TURN = "count_cpu", "become_prompt"
"""Functions of the sampler: called at both ends of a window, and before everything that it does in one."""
_MARKER_BYTES = 8
_FIO = "bin/fio"
_ENDS = {"io": "put_io_u", "sync": "add_sync_clat_sample"}
"""fio calls the first for each I/O and each fsync that it completed (io_u.c), the second for each fsync (stat.c); both
are exported."""
_IN_HOT = 12
"""Offset of cpu_number in struct pcpu_hot, where it was from 6.2 to 6.13 (arch/x86/include/asm/current.h)."""
_PLAIN = "-"
Letters = Sequence[tuple[str, str]]
"""Patterns of functions that a plugin has to know, and the letters that it knows them by."""
_LOCKS: Letters = (
    (r"_raw_(spin|write)_lock(_bh|_irq|_irqsave)?(_nested)?|mutex_lock(_killable|_interruptible|_io)?", "l"),
    (r"_raw_read_lock(_bh|_irq|_irqsave)?", "k"),
    (r"_raw_(spin|read|write)_trylock(_bh)?|mutex_trylock", "t"),
    (r"(native_|__pv_)?queued_(spin|write)_lock_slowpath", "w"),
    (r"_raw_(spin|read|write)_unlock(_bh|_irq|_irqrestore)?|mutex_unlock", "u"),
    ("submit_bio", "b"),
    ("__switch_to_asm", "x"),
)
"""native/sharing/locks.h"""
_PATHS: Letters = (
    ("irq_entries_start|spurious_entries_start", "s"),
    ("__switch_to_asm", "x"),
    ("__switch_to", "y"),
    ("cpu_startup_entry", "d"),
    ("asm_sysvec_.*|apic_timer_interrupt|reschedule_interrupt|call_function_interrupt|irq_work_interrupt", "i"),
    ("asm_exc_.*|page_fault|general_protection|int3|debug|nmi|invalid_op|divide_error", "e"),
    ("(__x86_indirect_|__x86_return_thunk|__SCT__|srso_|retbleed_).*", "t"),
)
"""native/profile/functions.h"""


def counted(lab: Lab, prepared: PreparedJob, phase_seen: PhaseSeen = silent) -> PreparedJob:
    """Where there are several CPUs or one is counted: ends the turns of the CPUs, and counts cache lines and locks.

    The counts are measured files of the boot, LOAD.lines, and a part of its digest. Any other job is as it was.
    """
    processors = prepared.topology.processors
    if not processors.observed or prepared.topology.emulated:
        return prepared
    symbols = image_symbols(lab, prepared, phase_seen)
    words = (
        f"number={number_offset(symbols):x}",
        *((f"turn={processors.turn}",) if processors.several else ()),
        *_marker(lab, prepared, _FIRST_TURN, "start", "startbytes"),
        *io_ends(lab.payload.entries[_FIO].data),
    )
    functions = functions_file(symbols, _LOCKS)
    return _observed(lab, prepared, programs.SHARING, functions, words, window_file=LINES_FILE)


def profiled(lab: Lab, prepared: PreparedJob, job: Job, phase_seen: PhaseSeen = silent) -> tuple[PreparedJob, Symbols]:
    """Counts instructions by function and call path (native/profile/plugin.c); with the symbols of image and modules.

    Raises CannotJudge for a guest in which instructions are no measure or cannot be counted.
    """
    topology = prepared.topology
    if topology.emulated:
        raise CannotJudge("on the wall clock nothing is counted in instructions", remedy="profile a virtual-clock run")
    if topology.processors.several:
        # QEMU's inline counters write to wrong addresses there (native/sharing/plugin.c).
        raise CannotJudge("profile counts on one CPU only", remedy="use blklab sharing, or machine: {cpus: 1}")
    if topology.processors.observed:
        raise CannotJudge("the counts of this boot are results, which a profile lacks", remedy="remove machine.counted")
    symbols = twin_symbols(lab, prepared, job, phase_seen)
    # Since 6.6 the assembler's part has a name of its own (3aec4ecb3d1f).
    fork = "ret_from_fork_asm" if symbols.address("ret_from_fork_asm") is not None else "ret_from_fork"
    functions = functions_file(symbols, (*_PATHS, (fork, "f")))
    return _observed(lab, prepared, programs.PROFILE, functions, from_start=True), symbols


def scheduled(lab: Lab, prepared: PreparedJob, schedule: Schedule, places: str) -> PreparedJob:
    """Changes between CPUs where ``schedule`` says so, in the ``places`` (a list of ``functions_file``).

    The guest has several CPUs on the virtual clock. What happened is a measured file, LOAD.schedule, and a part of its
    boot's digest.
    """
    words = (
        f"number={number_offset(image_symbols(lab, prepared)):x}",
        *_marker(lab, prepared, _FIRST_TURN, "start", "startbytes"),
        f"schedule=./{SCHEDULE_FILE}",
    )
    job = _observed(lab, prepared, programs.SCHEDULE, places, words, window_file=SCHEDULE_RESULT)
    files = {**job.plugin.files, SCHEDULE_FILE: schedule.text.encode()}
    key = digest_bytes(f"{programs.source_digest(programs.SCHEDULE)} {schedule.text} {places}".encode())
    # The turns of the topology are those of another plugin.
    fingerprint = {name: text for name, text in job.fingerprint.items() if name != "turns"}
    return replace(job, plugin=replace(job.plugin, files=files), fingerprint={**fingerprint, "schedule": key})


def executed(lab: Lab, prepared: PreparedJob) -> PreparedJob:
    """Notes the blocks that each load executes, and what was executed since the load before it.

    Raises CannotJudge on the wall clock, where CPUs are threads of QEMU and the plugin's notes are not.
    """
    if prepared.topology.emulated:
        raise CannotJudge("what a load executes is noted in virtual time", remedy="use a virtual-clock scenario")
    return _observed(lab, prepared, programs.EXECUTED)


def _observed(
    lab: Lab,
    prepared: PreparedJob,
    library: str,
    functions: str = "",
    words: tuple[str, ...] = (),
    *,
    window_file: str = "",
    from_start: bool = False,
) -> PreparedJob:
    """Raises CannotJudge where no load has a sampled window."""
    loads = tuple(step.name for step in prepared.steps if isinstance(step, RunLoad) and step.watch)
    if not loads:
        raise CannotJudge("no load of this cell has a sampled window", remedy="windows of 20 ms and more are sampled")
    files = {library: programs.plugin(lab.cache, lab.qemu.version, library).read_bytes()}
    if functions:
        files[kit.FUNCTIONS] = functions.encode()
        words = (f"functions=./{kit.FUNCTIONS}", *words)
    words = (*words, *_marker(lab, prepared, _MARKER, "marker", "bytes"))
    plugin = Plugin(library, files, words, loads, window_file, from_start)
    return replace(prepared, plugin=plugin, wall_limit=_PATIENCE * prepared.wall_limit)


def functions_file(symbols: Symbols, letters: Letters) -> str:
    """A plugin's list of functions: "ADDRESS LETTER", sorted by address. Any name of an address may have the letter."""
    patterns = [(re.compile(pattern), letter) for pattern, letter in letters]
    known: dict[int, str] = {}
    for symbol in filter(lambda symbol: symbol.address, symbols.code):
        letter = next((letter for pattern, letter in patterns if pattern.fullmatch(symbol.name)), _PLAIN)
        if letter != _PLAIN or symbol.address not in known:
            known[symbol.address] = letter
    return "".join(f"{address:x} {letter}\n" for address, letter in known.items())


def _marker(lab: Lab, prepared: PreparedJob, name: str, where: str, code_word: str) -> tuple[str, str]:
    """A plugin's arguments: where a function of the sampler is, and the code that it begins with."""
    sampler = sampler_of(prepared.steps)
    program = programs.build(lab.cache, sampler, symbols=True)
    stripped = programs.build(lab.cache, sampler)
    address = _only_function(program, name, "the sampler")
    code = _code_at(stripped, address)
    if _code_at(program, address) != code:
        raise LabBroken("stripping moved the sampler's code", remedy="report the compiler as a bug")
    return f"{where}={address:x}", f"{code_word}={code.hex()}"


def io_ends(fio: bytes) -> Iterator[str]:
    """The plugin's arguments: where the functions of fio's program are that end I/Os and fsyncs, and their first code.

    Raises LabBroken.
    """
    for what, name in _ENDS.items():
        address = _only_function(fio, name, "fio")
        yield from (f"{what}={address:x}", f"{what}bytes={_code_at(fio, address).hex()}")


def _only_function(program: bytes, name: str, what: str) -> int:
    """Its address. Raises LabBroken."""
    addresses = [function.address for function in elf.functions(program) if function.name.split(".")[0] == name]
    if len(addresses) != 1:
        raise LabBroken(f"{what} has {len(addresses)} functions {name}", remedy="unset BLKLAB_TOOLS, or report this")
    return addresses[0]


def _code_at(program: bytes, address: int) -> bytes:
    """The first instructions of a function, by which a plugin knows it."""
    segment = next(part for part in elf.executable_segments(program) if 0 <= address - part.address < len(part.data))
    at = address - segment.address
    return segment.data[at : at + _MARKER_BYTES]


def number_offset(symbols: Symbols) -> int:
    """Where a per-CPU area has the number of its CPU. Raises CannotJudge."""
    if (number := symbols.address("cpu_number")) is not None:
        return number
    if (hot := symbols.address("pcpu_hot")) is not None:
        return hot + _IN_HOT
    raise CannotJudge("the kernel does not say where it keeps the number of a CPU", remedy="use one CPU")
