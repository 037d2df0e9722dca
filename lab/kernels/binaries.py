# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's files: the ELF kernel inside an x86 bzImage, and the modules that a guest needs, in load order.

The layout of a bzImage is that of the boot protocol (Documentation/arch/x86/boot.rst): ``setup_sects`` at 0x1f1, "HdrS"
at 0x202, the version at 0x206, ``kernel_version`` at 0x20e, and from protocol 2.08 on ``payload_offset`` and
``payload_length`` at 0x248 and 0x24c, counted from the end of the set-up code.
"""

import bz2
import gzip
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Protocol

import zstandard

from lab.base.contents import demand_intact, is_noted
from lab.base.errors import CannotJudge
from lab.base.process import run
from lab.kernels.model import Kernel
from lab.native.elf import has_note, is_elf

DAMAGE = (OSError, ValueError, EOFError, struct.error, lzma.LZMAError, zlib.error, zstandard.ZstdError)
"""What reading a damaged compressed or binary file may raise."""
_SECTOR = 512
_PAYLOAD_PROTOCOL = 0x0208
_XEN_ELFNOTE_PHYS32_ENTRY = 18  # include/xen/interface/elfnote.h: the entry of the PVH boot protocol


def is_bzimage(image: bytes) -> bool:
    return len(image) >= _SECTOR * 2 and image[0x202:0x206] == b"HdrS"


def image_release(image: bytes) -> str | None:
    """What ``uname -r`` will say (``kernel_version`` of the set-up header), None when the image does not tell."""
    if not is_bzimage(image):
        return None
    (offset,) = struct.unpack_from("<H", image, 0x20E)
    text = image[offset + 0x200 : offset + 0x300].split(b"\0")[0].decode("ascii", errors="replace")
    return next(iter(text.split()), None) if offset else None


def extract_vmlinux(image: bytes) -> bytes | None:
    """The uncompressed ELF if it can be booted through a PVH note, else None. Raises ``DAMAGE``."""
    elf = uncompressed(image)
    return elf if elf and is_elf(elf) and has_note(elf, "Xen", _XEN_ELFNOTE_PHYS32_ENTRY) else None


def uncompressed(image: bytes) -> bytes | None:
    """What a bzImage holds, None for another image or a compression that is not known. Raises ``DAMAGE``."""
    payload = _payload(image)
    return _decompress(payload) if payload else None


def _payload(image: bytes) -> bytes | None:
    if not is_bzimage(image) or struct.unpack_from("<H", image, 0x206)[0] < _PAYLOAD_PROTOCOL:
        return None
    start = ((image[0x1F1] or 4) + 1) * _SECTOR
    offset, length = struct.unpack_from("<II", image, 0x248)
    return image[start + offset : start + offset + length]


def _decompress(payload: bytes) -> bytes | None:
    if payload[:4] == b"\x7fELF":
        return payload
    if payload.startswith(_LZ4):
        return run(["lz4", "-dcq"], stdin=payload[:-4], hint="apt-get install lz4").stdout
    for magic, decompressor in _FORMATS.items():
        if payload.startswith(magic):
            # The build appends the uncompressed size behind some formats: what follows the end is ignored.
            stream = decompressor()
            plain = stream.decompress(payload)
            if not stream.eof:
                raise ValueError("its compressed kernel ends early")
            return plain
    return None


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, /) -> bytes: ...


_LZ4 = b"\x02\x21\x4c\x18"
_FORMATS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\x5d\0\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE),
}


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".zst": lambda stored: zstandard.ZstdDecompressor().decompressobj().decompress(stored),
    ".gz": gzip.decompress,
}
# A pattern may have blanks in it (Ubuntu's 4.15 to 5.0).
_PLAIN_ALIAS = re.compile(r"^alias ([^\s:]+) (?:.* )?(\S+)$", re.MULTILINE)
_CPU_ALIAS = re.compile(r"^alias cpu:.* (\S+)$", re.MULTILINE)
_SUFFIX = re.compile(r"\.ko(\.xz|\.zst|\.gz)?$")
_SIGNED = b"~Module signature appended~\n"
_SIGNATURE = struct.Struct(">8xI")
"""Eight bytes of kinds and padding, then the length of the signature in front of it."""


@dataclass(frozen=True)
class Closure:
    """``load`` holds module files in load order, dependencies first; ``missing`` are those of the names asked for that
    this kernel does not have, not even built in."""

    load: tuple[Path, ...]
    missing: tuple[str, ...]


def module_name(path: Path | str) -> str:
    """The name under which the kernel knows a module: ``dm-mod.ko.xz`` is ``dm_mod``."""
    return _SUFFIX.sub("", str(path).rpartition("/")[2]).replace("-", "_")


def module_closure(kernel: Kernel, names: Iterable[str]) -> Closure:
    """The files that ``modprobe`` would load for ``names``, each once. ``-`` and ``_`` are the same.

    Soft dependencies (``softdep pre:``) are included, except variants for a CPU feature: they are not needed,
    and refuse to load if the CPU lacks the feature.
    Raises LabBroken when a table of depmod is missing or damaged.
    """
    index = _index(kernel.modules)
    load, missing = dict[str, None](), list[str]()
    for name in names:
        wanted = module_name(name)
        if wanted in index.files:
            index.add(wanted, load)
        elif wanted not in index.builtin:
            missing.append(name)
    return Closure(tuple(kernel.modules / index.files[name] for name in load), tuple(missing))


def no_modules(kernel: Kernel, names: Iterable[str]) -> str:
    """The sentence that ``kernel`` lacks these modules, and whether its build made them."""
    wanted = tuple(names)
    listed = set(
        map(module_name, (line.removesuffix(".o") for line in _lines_if_any(kernel.modules / "modules.order")))
    )
    built = [name for name in wanted if module_name(name) in listed]
    note = f" (modules.order lists {', '.join(built)}: name the package with the file too, path:A,B)" if built else ""
    return f"{kernel.release} has no module {', '.join(wanted)}{note}"


def read_module(path: Path) -> bytes:
    """A module's ELF, decompressed where the file is compressed.

    Raises LabBroken for a file that is not as it was stored, CannotJudge for one that was damaged then.
    """
    try:
        return _DECOMPRESS.get(path.suffix, bytes)(demand_intact(path).read_bytes())
    except DAMAGE as error:
        raise CannotJudge(f"the module {path.name} is damaged: {error}", remedy="build or install it again") from error


def has_parameter(module: bytes, name: str) -> bool:
    """A parameter with its own setter has a description but no type (module_param_cb: nvme's io_queue_depth)."""
    return any(f"{key}={name}:".encode() in module for key in ("parmtype", "parm"))


def unsigned(module: bytes) -> bytes:
    """The module without the signature behind it (struct module_signature, include/linux/module_signature.h)."""
    end = len(module) - len(_SIGNED)
    if not module.endswith(_SIGNED) or end < _SIGNATURE.size:
        return module
    (length,) = _SIGNATURE.unpack(module[end - _SIGNATURE.size : end])
    start = end - _SIGNATURE.size - int(length)
    return module[:start] if start >= 0 else module


@dataclass(frozen=True)
class _Index:
    """depmod's tables in the folder ``modules`` by module name: file, line of hard dependencies, soft ones."""

    modules: Path
    files: Mapping[str, str]
    needs: Mapping[str, str]
    soft: Mapping[str, tuple[str, ...]]
    builtin: frozenset[str]

    @cached_property
    def aliases(self) -> Mapping[str, tuple[str, ...]]:
        """Plain names (no bus patterns) to the modules behind them that any CPU can load; few modules need them."""
        text = "\n".join(_lines_if_any(self.modules / "modules.alias"))
        cpu_bound = set(_CPU_ALIAS.findall(text))
        aliases = dict[str, tuple[str, ...]]()
        for alias, module in _PLAIN_ALIAS.findall(text):
            if module not in cpu_bound:
                name = module_name(alias)
                aliases[name] = (*aliases.get(name, ()), module)
        return aliases

    def add(self, name: str, load: dict[str, None]) -> None:
        """Append ``name`` to ``load``, after its dependencies."""
        # modules.dep names the one to load first last.
        for module in (*map(module_name, reversed(self.needs[name].split())), name):
            if module in load:
                continue
            for wanted in self.soft.get(module, ()):
                for before in (wanted,) if wanted in self.files else self.aliases.get(wanted, ()):
                    if before not in load and before != module:
                        self.add(before, load)
            load[module] = None


@lru_cache(maxsize=8)
def _index(modules: Path) -> _Index:
    files, needs = dict[str, str](), dict[str, str]()
    for line in _lines(modules / "modules.dep"):
        target, _, listed = line.partition(":")
        name = module_name(target)
        files[name], needs[name] = target, listed
    builtin = frozenset(map(module_name, _lines_if_any(modules / "modules.builtin")))
    return _Index(modules, files, needs, _soft(modules), builtin)


def _soft(modules: Path) -> Mapping[str, tuple[str, ...]]:
    soft = {}
    for line in _lines_if_any(modules / "modules.softdep"):
        words = line.split()
        if words[:1] == ["softdep"] and "pre:" in words:
            before = takewhile(lambda word: word != "post:", words[words.index("pre:") + 1 :])
            soft[words[1]] = tuple(map(module_name, before))
    return soft


def _lines_if_any(path: Path) -> list[str]:
    return _lines(path) if is_noted(path) else []


def _lines(path: Path) -> list[str]:
    return demand_intact(path).read_text().splitlines()
