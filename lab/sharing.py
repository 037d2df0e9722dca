# SPDX-License-Identifier: GPL-2.0-only
"""Boots of guests with several CPUs: a plugin ends the turns of the CPUs, and counts cache lines and locks that they
share. The counts of each window are measured files of the boot, LOAD.lines, and a part of its digest.
"""

import gzip
import re
import threading
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from lab import kit
from lab.base.digest import digest_results
from lab.base.errors import CannotJudge, LabBroken
from lab.base.record import INVENTORY, LINE_NAMES, BootRecord, Outcome
from lab.base.units import silent
from lab.guest import image
from lab.guest.steps import job_files
from lab.guest.steps.load import Phase, RunLoad
from lab.kernels.model import Kernel
from lab.kernels.modules import module_name, read_module
from lab.native import elf
from lab.native.programs import SHARING, plugin
from lab.profile import WINDOW, Symbol, code_at, window_files, window_marker
from lab.realise.in_qemu.inventory import read_inventory
from lab.session import Lab, PhaseSeen, PreparedJob, run_job, sampler_of, writing

LINES_FILE = "{load}.lines"
"""Measured file: what the plugin counted in the window of a load (native/sharing/plugin.c)."""
_KIND, _KALLSYMS = "kallsyms", "kallsyms.gz"
_FIRST_TURN = "become_prompt"
_FIO, _ENDS_IO = "bin/fio", "put_io_u"
"""fio calls it once for each I/O that it completed (io_u.c); it is exported for engines in files of their own."""
_PATIENCE = 4
_READ_SYMBOLS = f"""[symbols]
ioengine=null
rw=read
size=4k
exec_prerun=/bin/busybox grep -i ' [tdbvaw] ' /proc/kallsyms | gzip -c > /out/{_KALLSYMS} && true
"""
_SYMBOLS_DEADLINE = 3600
_LOCKS = (
    (r"_raw_(spin|write)_lock(_bh|_irq|_irqsave)?(_nested)?|mutex_lock(_killable|_interruptible|_io)?", "l"),
    (r"_raw_read_lock(_bh|_irq|_irqsave)?", "k"),
    (r"_raw_(spin|read|write)_trylock(_bh)?|mutex_trylock", "t"),
    (r"(native_|__pv_)?queued_(spin|write)_lock_slowpath", "w"),
    (r"_raw_(spin|read|write)_unlock(_bh|_irq|_irqrestore)?|mutex_unlock", "u"),
    ("submit_bio", "b"),
    ("__switch_to_asm", "x"),
)
"""Functions by the letters of native/sharing/locks.h."""
_PERCPU = ("__per_cpu_start", "__per_cpu_end")
_IN_HOT = 12
"""Offset of cpu_number in struct pcpu_hot, where it was from 6.2 to 6.13 (arch/x86/include/asm/current.h)."""


@dataclass(frozen=True)
class Symbols:
    """Sorted by address; ``functions`` are those of the image's code."""

    every: tuple[Symbol, ...]
    functions: tuple[Symbol, ...]

    def at(self, address: int) -> tuple[Symbol, int] | None:
        """The last symbol that does not begin after ``address``, and the distance from it."""
        place = bisect_right(self._starts, address) - 1
        return (self.every[place], address - self.every[place].address) if place >= 0 else None

    def address(self, name: str) -> int | None:
        """Of a name of the image."""
        return self._named.get(name)

    @cached_property
    def per_cpu(self) -> range:
        """Addresses of per-CPU variables, without the base of a CPU."""
        start, end = (self.address(name) for name in _PERCPU)
        return range(start or 0, end or 0)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return tuple(symbol.address for symbol in self.every)

    @cached_property
    def _named(self) -> Mapping[str, int]:
        return {symbol.name: symbol.address for symbol in self.every if not symbol.module}


def boot(
    lab: Lab,
    prepared: PreparedJob,
    folder: Path,
    *,
    ends_io: tuple[str, ...] = (),
    phase_seen: PhaseSeen = silent,
    abort: threading.Event | None = None,
) -> BootRecord:
    """``run_job``, with the plugin where there are several CPUs or one is counted.

    ``ends_io`` (``io_end_of``) is given where this lab has no payload: on another host than the one that prepared it.
    Raises CannotJudge, and what ``run_job`` raises.
    """
    if not prepared.processors.observed or prepared.hardware:
        return run_job(lab, prepared, folder, phase_seen=phase_seen, abort=abort)
    symbols = read_symbols(image_kallsyms(lab, prepared, phase_seen=phase_seen))
    with writing(folder):
        (folder / kit.FUNCTIONS).write_text(functions_file(symbols))
        copyfile(plugin(lab.cache, lab.qemu.version, SHARING), folder / kit.SHARING)
    counted = replace(
        prepared,
        plugin=_plugin_words(lab, prepared, symbols, ends_io or io_end_of(lab)),
        wall_limit=_PATIENCE * prepared.wall_limit,
    )
    record = run_job(lab, counted, folder, phase_seen=phase_seen, abort=abort)
    if record.outcome is not Outcome.BYE:
        return record
    lines = {LINES_FILE.format(load=load): path.read_bytes() for load, path in window_files(prepared, folder).items()}
    files = {**record.files, **lines}
    return replace(record, files=files, digest=digest_results(files))


def image_kallsyms(lab: Lab, prepared: PreparedJob, *, phase_seen: PhaseSeen) -> str:
    """/proc/kallsyms of the kernel's image: the same in every boot without KASLR, so one boot reads it."""

    def fill(into: Path) -> None:
        phase_seen("reading symbols")
        steps = (Phase("rest"), RunLoad("symbols", _READ_SYMBOLS))
        archive = image.job_archive(job_files(steps, deadline=_SYMBOLS_DEADLINE))
        with TemporaryDirectory(prefix="blklab-symbols-") as folder:
            record = run_job(lab, replace(prepared, job_archive=archive, steps=steps), Path(folder))
            if record.outcome is not Outcome.BYE:
                what = f"{record.outcome}: {record.detail}"
                raise CannotJudge(f"the kernel's symbols cannot be read: {what}", remedy="use another kernel")
            (into / _KALLSYMS).write_bytes(record.files[_KALLSYMS])

    return gzip.decompress((lab.cache.entry(_KIND, prepared.kernel.digest, fill) / _KALLSYMS).read_bytes()).decode()


def symbols_of(lab: Lab, prepared: PreparedJob, record: BootRecord, *, phase_seen: PhaseSeen) -> Symbols:
    """Those of the image and of the modules that the boot loaded."""
    image = read_symbols(image_kallsyms(lab, prepared, phase_seen=phase_seen))
    return with_modules(image, prepared.kernel, read_inventory(record.files.get(INVENTORY, b"")))


def read_symbols(kallsyms: str) -> Symbols:
    """The symbols of the image; several names of one address are kept, the shortest last."""
    rows = [line.split() for line in kallsyms.splitlines() if "[" not in line]
    every = sorted((int(address, 16), -len(name), name, kind) for address, kind, name in rows)
    code = tuple(Symbol(address, name) for address, _, name, kind in every if kind in "tTwW")
    return Symbols(tuple(Symbol(address, name) for address, _, name, _ in every), code)


def with_modules(symbols: Symbols, kernel: Kernel, sections: Mapping[str, str]) -> Symbols:
    """``symbols`` with those of modules. ``sections`` maps MODULE.SECTION (null_blk.text) to its address in hex, as a
    guest recorded it.
    """
    files = {module_name(path): path for path in kernel.modules.rglob("*.ko*")}
    named: dict[str, dict[str, int]] = {}
    for key, address in sections.items():
        module, _, section = key.partition(".")
        if address and module in files:
            named.setdefault(module, {})[f".{section}"] = int(address, 16)
    own = [
        Symbol(starts[section] + offset, name, module)
        for module, starts in named.items()
        for section, offset, name in elf.labels(read_module(files[module]))
        if section in starts
    ]
    return replace(symbols, every=tuple(sorted((*symbols.every, *own), key=lambda symbol: symbol.address)))


def with_line_names(
    lab: Lab, prepared: PreparedJob, record: BootRecord, names: Collection[str], *, phase_seen: PhaseSeen
) -> BootRecord:
    """``record`` with the addresses of these functions and variables, where it has counts of lines."""
    if not names or not any(name.endswith(LINES_FILE.format(load="")) for name in record.files):
        return record
    text = names_file(symbols_of(lab, prepared, record, phase_seen=phase_seen), names)
    return replace(record, files={**record.files, LINE_NAMES: text.encode()})


def names_file(symbols: Symbols, names: Collection[str]) -> str:
    """The rows of ``LINE_NAMES``, of every symbol with such a name."""
    starts = sorted({symbol.address for symbol in symbols.every})
    rows = []
    for symbol in symbols.every:
        if (name := symbol.name.partition(".")[0]) in names:
            end = next(iter(starts[bisect_right(starts, symbol.address) :]), symbol.address + 1)
            rows.append(f"{name} {int(symbol.address in symbols.per_cpu)} {symbol.address:x} {end:x}\n")
    return "".join(sorted(rows))


def functions_file(symbols: Symbols) -> str:
    """The plugin's list of functions: "ADDRESS LETTER", sorted by address."""
    letters: dict[int, str] = {}
    for address, name in ((symbol.address, symbol.name) for symbol in symbols.functions):
        letter = next((letter for pattern, letter in _LOCKS if re.fullmatch(pattern, name)), "-")
        letters[address] = letter if letter != "-" else letters.get(address, "-")
    return "".join(f"{address:x} {letter}\n" for address, letter in letters.items() if address)


def _plugin_words(lab: Lab, prepared: PreparedJob, symbols: Symbols, ends_io: tuple[str, ...]) -> tuple[str, ...]:
    sampler = sampler_of(prepared.steps)
    start, bytes_of_start = window_marker(lab.cache, sampler, _FIRST_TURN)
    return (
        f"./{kit.SHARING}",
        f"functions=./{kit.FUNCTIONS}",
        f"number={number_offset(symbols):x}",
        *((f"turn={prepared.processors.turn}",) if prepared.processors.several else ()),
        start.replace("marker", "start"),
        bytes_of_start.replace("bytes", "startbytes"),
        *window_marker(lab.cache, sampler),
        *ends_io,
        f"output={WINDOW}",
    )


def io_end_of(lab: Lab) -> tuple[str, ...]:
    """The plugin's arguments: where fio's function is that ends each I/O, and its first code. Raises LabBroken."""
    return _io_words(lab.payload.entries[_FIO].data)


def _io_words(fio: bytes) -> tuple[str, str]:
    addresses = [function.address for function in elf.functions(fio) if function.name == _ENDS_IO]
    if len(addresses) != 1:
        raise LabBroken(f"fio has {len(addresses)} functions {_ENDS_IO}", remedy="use the fio that the lab fetches")
    return f"io={addresses[0]:x}", f"iobytes={code_at(fio, addresses[0]).hex()}"


def number_offset(symbols: Symbols) -> int:
    """Where a per-CPU area has the number of its CPU. Raises CannotJudge."""
    if (number := symbols.address("cpu_number")) is not None:
        return number
    if (hot := symbols.address("pcpu_hot")) is not None:
        return hot + _IN_HOT
    raise CannotJudge("the kernel does not say where it keeps the number of a CPU", remedy="use one CPU")
