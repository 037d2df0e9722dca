# SPDX-License-Identifier: GPL-2.0-only
"""The symbols of a kernel and of the modules of a guest, as /proc/kallsyms has them.

Without KASLR the image is at the same place in each boot. Where modules are depends on when memory of earlier ones is
freed: a boot's own inventory says it, or a boot that executes the same instructions until its first load.
"""

import gzip
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.record import INVENTORY, LINE_NAMES, BootRecord, Outcome
from lab.base.units import silent
from lab.guest import image
from lab.guest.steps import job_files
from lab.guest.steps.load import EXITALL, Phase, RunLoad
from lab.kernels.binaries import module_name, read_module
from lab.kernels.model import Kernel
from lab.native import elf
from lab.native.programs import Plugin
from lab.realise.inventory import read_inventory
from lab.session import Job, Lab, PhaseSeen, PreparedJob, prepare_job, run_job

LINES_FILE = "{load}.lines"
"""Measured file: what CPUs shared in the window of a load (native/sharing/plugin.c)."""
_KALLSYMS = "kallsyms.gz"
_DEADLINE = 3600
_PER_CPU = ("__per_cpu_start", "__per_cpu_end")
# fio runs a shell command before a job: the guest needs no program of its own for its symbols.
_NO_LOAD = """[symbols]
ioengine=null
rw=read
size=4k
"""
_READ = f"{_NO_LOAD}exec_prerun=/bin/busybox grep -i ' [tdbvaw] ' /proc/kallsyms | gzip -c > /out/{_KALLSYMS} && true\n"


@dataclass(frozen=True)
class Symbol:
    """``module`` is empty for the image itself; ``is_code``: it is executed."""

    address: int
    name: str
    module: str = ""
    is_code: bool = True

    @property
    def order(self) -> tuple[int, bool, int, str]:
        # Without lockdep a lock_class_key has no size, and the address of the variable behind it.
        return self.address, not self.name.startswith("__key."), -len(self.name), self.name


@dataclass(frozen=True)
class Symbols:
    """Sorted by ``order``, of several names for an address the shortest last."""

    every: tuple[Symbol, ...]

    def at(self, address: int) -> tuple[Symbol, int] | None:
        """The last symbol that does not begin after ``address``, and the distance from it."""
        place = bisect_right(self.every, address, key=lambda symbol: symbol.address) - 1
        return (self.every[place], address - self.every[place].address) if place >= 0 else None

    def function_at(self, address: int) -> Symbol | None:
        """The last of ``functions`` that does not begin after ``address``."""
        place = bisect_right(self.functions, address, key=lambda symbol: symbol.address) - 1
        return self.functions[place] if place >= 0 else None

    def address(self, name: str) -> int | None:
        """Of a name of the image."""
        return self._named.get(name)

    @cached_property
    def code(self) -> tuple[Symbol, ...]:
        return tuple(symbol for symbol in self.every if symbol.is_code)

    @cached_property
    def functions(self) -> tuple[Symbol, ...]:
        """Of each address the name that says best what is executed there."""
        names: dict[int, Symbol] = {}
        for symbol in filter(lambda symbol: symbol.address, self.code):
            known = names.setdefault(symbol.address, symbol)
            if _rank(symbol.name) < _rank(known.name):
                names[symbol.address] = symbol
        return tuple(names.values())

    @cached_property
    def per_cpu(self) -> range:
        """Addresses of per-CPU variables, without the base of a CPU."""
        start, end = (self.address(name) for name in _PER_CPU)
        return range(start or 0, end or 0)

    @cached_property
    def _named(self) -> Mapping[str, int]:
        return {symbol.name: symbol.address for symbol in self.every if not symbol.module}


def source_name(symbol: str) -> str:
    """The function's name in the source: gcc appends .isra.0, .constprop.0, .part.0 or .cold to that of a copy."""
    return symbol.partition(".")[0]


def _rank(name: str) -> tuple[bool, int, str]:
    """Marks of the linker script come last."""
    return name.endswith(("_start", "_end", "_begin", "text")), len(name), name


def read_kallsyms(text: str) -> Symbols:
    """Raises LabBroken where the kernel hides addresses."""
    symbols = [
        Symbol(int(address, 16), name, module[0].strip("[]") if module else "", kind in "tTwW")
        for address, kind, name, *module in map(str.split, text.splitlines())
    ]
    if not any(symbol.address for symbol in symbols):
        raise LabBroken("the kernel hides the addresses of its symbols", remedy="report this as a bug of blklab")
    return Symbols(tuple(sorted(symbols, key=lambda symbol: symbol.order)))


def image_symbols(lab: Lab, prepared: PreparedJob, phase_seen: PhaseSeen = silent) -> Symbols:
    """Those of the kernel's image, read once for each kernel."""

    def boot() -> PreparedJob:
        steps = (Phase("rest"), RunLoad("symbols", _READ))
        archive = image.job_archive(job_files(steps, deadline=_DEADLINE))
        return replace(prepared, job_archive=archive, steps=steps, plugin=Plugin())

    symbols = _read(lab, prepared.kernel.digest, boot, phase_seen)
    return Symbols(tuple(symbol for symbol in symbols.every if not symbol.module))


def twin_symbols(lab: Lab, prepared: PreparedJob, job: Job, phase_seen: PhaseSeen = silent) -> Symbols:
    """Those of image and modules, from a boot that is the same until fio reads the first load, which is as long."""
    # The guest has a file more for a load with exitall (LayFiles).
    ends = (EXITALL if EXITALL in load.fio else "" for load in job.loads)
    texts = [text + end for text, end in zip((_READ, *(_NO_LOAD for _ in job.loads[1:])), ends, strict=True)]
    if short := [load.name for text, load in zip(texts, job.loads, strict=True) if len(text) > len(load.fio)]:
        raise LabBroken(f"the job of load {short[0]} is shorter than that which reads symbols", remedy="report this")
    loads = (replace(load, fio=text.ljust(len(load.fio), "\n")) for text, load in zip(texts, job.loads, strict=True))
    twin = prepare_job(lab, prepared.kernel, prepared.topology, replace(job, loads=tuple(loads), labels={}))
    if twin.base != prepared.base or len(twin.job_archive) != len(prepared.job_archive):
        raise LabBroken("the boot that reads symbols differs from the profiled one", remedy="report this as a bug")
    # Where modules are loaded also depends on the processor and the memory, which the command line names.
    return _read(lab, digest_bytes(canonical(dict(twin.fingerprint))), lambda: twin, phase_seen)


def _read(lab: Lab, key: str, boot: Callable[[], PreparedJob], phase_seen: PhaseSeen) -> Symbols:
    """Those that the cache has under ``key``, or that ``boot`` reads. Raises CannotJudge where it ends badly."""

    def fill(into: Path) -> None:
        phase_seen("reading symbols")
        with TemporaryDirectory(prefix="blklab-symbols-") as folder:
            record = run_job(lab, boot(), Path(folder), phase_seen=phase_seen)
        if record.outcome is not Outcome.BYE:
            what = f"{record.outcome}: {record.detail}"
            raise CannotJudge(f"the kernel's symbols cannot be read: {what}", remedy="use another kernel")
        try:
            data = record.files[_KALLSYMS]
            gzip.decompress(data)
        except (KeyError, OSError, EOFError, zlib.error) as error:
            raise LabBroken(f"the kernel's symbols did not arrive: {error}", remedy="report this as a bug") from error
        (into / _KALLSYMS).write_bytes(data)

    return read_kallsyms(gzip.decompress((lab.cache.entry("kallsyms", key, fill) / _KALLSYMS).read_bytes()).decode())


def symbols_of(lab: Lab, prepared: PreparedJob, record: BootRecord, phase_seen: PhaseSeen = silent) -> Symbols:
    """Those of the image and of the modules that the boot loaded, by the sections that its inventory has."""
    own = image_symbols(lab, prepared, phase_seen)
    return with_modules(own, prepared.kernel, read_inventory(record.files.get(INVENTORY, b"")))


def with_modules(symbols: Symbols, kernel: Kernel, sections: Mapping[str, str]) -> Symbols:
    """``symbols`` with those of modules. ``sections`` maps MODULE.SECTION (null_blk.text) to its address in hex, as a
    guest recorded it.
    """
    files = {module_name(path): path for path in kernel.modules.rglob("*.ko*")}
    starts: dict[str, dict[str, int]] = {}
    for key, address in sections.items():
        module, _, section = key.partition(".")
        if address and module in files:
            starts.setdefault(module, {})[f".{section}"] = int(address, 16)
    of_modules = (
        Symbol(own[label.section] + label.offset, label.name, module, label.section == ".text")
        for module, own in starts.items()
        for label in elf.labels(read_module(files[module]))
        if label.section in own
    )
    return Symbols(tuple(sorted((*symbols.every, *of_modules), key=lambda symbol: symbol.order)))


def with_line_names(
    lab: Lab, prepared: PreparedJob, record: BootRecord, names: Collection[str], phase_seen: PhaseSeen = silent
) -> BootRecord:
    """``record`` with the addresses of these functions and variables, where it has counts of lines."""
    if not names or not any(name.endswith(LINES_FILE.format(load="")) for name in record.files):
        return record
    text = names_file(symbols_of(lab, prepared, record, phase_seen), names)
    return replace(record, files={**record.files, LINE_NAMES: text.encode()})


def names_file(symbols: Symbols, names: Collection[str]) -> str:
    """The rows of ``LINE_NAMES``, of every symbol with such a name."""
    starts = sorted({symbol.address for symbol in symbols.every})
    rows = []
    for symbol in symbols.every:
        if (name := source_name(symbol.name)) in names:
            end = next(iter(starts[bisect_right(starts, symbol.address) :]), symbol.address + 1)
            rows.append(f"{name} {int(symbol.address in symbols.per_cpu)} {symbol.address:x} {end:x}\n")
    return "".join(sorted(rows))
