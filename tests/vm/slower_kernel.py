# SPDX-License-Identifier: GPL-2.0-only
"""A kernel in which one function executes a known number of instructions more, made without a compiler.

The function's first pushes and moves are replaced by a jump into its own .cold part, which only warnings reach, where
nops precede them and a jump back follows.
"""

import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from lab.base.digest import digest_bytes
from lab.kernels.model import Kernel
from lab.symbols import Symbol

JUMP = 5
_NOP = b"\x90"
_HEADER, _LOAD = struct.Struct("<IIQQQQ"), 1
# endbr64; the call of __fentry__, which ftrace replaces at boot
_ENTRY = re.compile(rb"(\xf3\x0f\x1e\xfa)?\xe8.{4}", re.DOTALL)
# push; mov between registers; sub from rsp: the same wherever they are executed
_MOVABLE = re.compile(rb"(?:\x41?[\x50-\x57]|[\x48\x49\x4c\x4d]\x89[\xc0-\xff]|\x48\x83\xec.)", re.DOTALL)


def room(image: bytes, symbols: Sequence[Symbol], name: str) -> int:
    """How many instructions can be added to the function; 0 where it cannot be changed in this way."""
    try:
        _, moved, cave, size = _places(image, symbols, name)
    except LookupError:
        return 0
    return max(0, size - len(moved) - JUMP + 2) if cave else 0


def slower(kernel: Kernel, symbols: Sequence[Symbol], name: str, added: int, folder: Path) -> Kernel:
    """``kernel`` with ``added`` (3 or more) instructions at the beginning of the function, an image in ``folder``."""
    assert kernel.vmlinux is not None
    image = bytearray(kernel.vmlinux.read_bytes())
    start, moved, cave, size = _places(bytes(image), symbols, name)
    code = _NOP * (added - 2) + moved
    code += _jump(cave + len(code), start + len(moved))
    assert len(code) <= size
    for address, data in ((start, _jump(start, cave).ljust(len(moved), _NOP)), (cave, code)):
        at = _offset(bytes(image), address)
        image[at : at + len(data)] = data
    path = folder / f"vmlinux-{name}"
    path.write_bytes(image)
    return replace(kernel, vmlinux=path, digest=digest_bytes(bytes(image)), mutant=f"slower:{name}")


def _places(image: bytes, symbols: Sequence[Symbol], name: str) -> tuple[int, bytes, int, int]:
    """Where the code to be moved is, that code, where there is room for more, and how much."""
    addresses = {symbol.name: symbol.address for symbol in symbols if not symbol.module}
    ends = {symbol.address: after.address for symbol, after in pairwise(symbols)}
    begin, cave = addresses[name], addresses[f"{name}.cold"]
    at = _offset(image, begin)
    entry = _ENTRY.match(image, at)
    if entry is None:
        raise LookupError(name)
    end = entry.end()
    while end - entry.end() < JUMP:
        instruction = _MOVABLE.match(image, end)
        if instruction is None:
            raise LookupError(name)
        end = instruction.end()
    return begin + entry.end() - at, image[entry.end() : end], cave, ends[cave] - cave


def _jump(at: int, to: int) -> bytes:
    return b"\xe9" + struct.pack("<i", to - at - JUMP)


def _offset(image: bytes, address: int) -> int:
    (headers,), (count,) = struct.unpack_from("<Q", image, 0x20), struct.unpack_from("<H", image, 0x38)
    for number in range(count):
        kind, _, offset, start, _, size = _HEADER.unpack_from(image, headers + 56 * number)
        if kind == _LOAD and start <= address < start + size:
            return int(offset + address - start)
    raise LookupError(f"{address:x}")
