# SPDX-License-Identifier: GPL-2.0-only
"""From addresses and machine code to functions."""

import subprocess
from pathlib import Path

import pytest

from harness.profile.attribute import (
    NO_NAME,
    VDSO,
    CallNode,
    CountedWindow,
    Image,
    UserBlock,
    code_of,
    find_images,
    images_of,
    nodes_of,
)
from harness.profile.model import Context
from lab.base.cache import Cache
from lab.native import elf, programs
from lab.native.elf import ElfFunction, Segment
from lab.symbols import Symbol, Symbols

LONG = bytes(range(16, 48))
OTHER = bytes(range(64, 96))
_EVERY = (Symbol(0x1000, "submit"), Symbol(0x2000, "queue_rq", "null_blk"))
SYMBOLS, NO_SYMBOLS = Symbols(_EVERY), Symbols(())


def image(name: str, code: bytes, *functions: ElfFunction, address: int = 0x1000) -> Image:
    return Image(name, (Segment(address, code),), functions)


def block(address: int, data: bytes, runs: int = 1, instructions: int = 4) -> UserBlock:
    return UserBlock(address, data, runs, instructions)


def test_a_function_of_the_kernel_has_the_context_of_its_path() -> None:
    nodes = (CallNode(3, 0, 0x1000, 1, 10), CallNode(4, 3, 0x2000, 2, 20), CallNode(5, 1, 0x2010, 3, 30))
    found = nodes_of(CountedWindow(60, 0, nodes, (), {}), SYMBOLS, [])
    assert [(one.parent, one.function.context, one.function.title, one.calls) for one in found] == [
        (None, Context.KERNEL, "submit", 1),
        (0, Context.KERNEL, "queue_rq [null_blk]", 2),
        (None, Context.INTERRUPT, "queue_rq [null_blk]", 3),
    ]


def test_a_program_is_found_wherever_it_was_loaded_and_its_short_blocks_with_it() -> None:
    program = image("fio", LONG + b"\x90\xc3", ElfFunction("get_io_u", 0x1000, 32), ElfFunction("reap", 0x1020, 2))
    loaded = 0x55AA00000000
    inside = block(loaded + 0x1010, LONG[16:], 9, 36)
    blocks = (block(loaded + 0x1000, LONG, 5, 124), inside, block(loaded + 0x1020, b"\x90\xc3", 7, 14))
    found = nodes_of(CountedWindow(174, 0, (), blocks, {}), NO_SYMBOLS, [image("busybox", b"\x90\xc3" * 50), program])
    assert [(one.function.title, one.calls, one.instructions) for one in found] == [
        ("get_io_u [fio]", 5, 160),
        ("reap [fio]", 7, 14),
    ]


def test_programs_are_identified_by_their_code_and_its_place_in_the_page() -> None:
    one, other = block(0x401000, LONG), block(0x401000, OTHER)
    images = [image("diskd", LONG, address=0x401000), image("sampler", OTHER, address=0x401000)]
    found = find_images((one, other), images)
    assert (found[one].image.name, found[other].image.name) == ("diskd", "sampler")
    assert find_images((block(0x55AA00000008, LONG),), [image("fio", LONG)]) == {}


@pytest.mark.parametrize(("size", "places"), [(15, 0), (16, 1)])
def test_a_block_of_few_bytes_alone_identifies_no_program(size: int, places: int) -> None:
    assert len(find_images((block(0x1000, LONG[:size]),), [image("fio", LONG)])) == places


def test_blocks_of_few_bytes_identify_a_program_together() -> None:
    blocks = (block(0x7FFF00001003, LONG[3:16]), block(0x7FFF00001010, LONG[16:19]), block(0x1000, b"\xc3"))
    assert set(find_images(blocks, [image("fio", LONG + b"\xc3" * 8)])) == set(blocks[:2])


def test_the_patched_vdso_is_recognised_by_its_other_blocks() -> None:
    known, patched = block(0x7FFF00001000, LONG), block(0x7FFF00001020, b"\x0f\x01\xf9")
    code = LONG + b"\x0f\xae\xe8" + bytes(29)
    assert set(find_images((known, patched), [image(VDSO, code)])) == {known, patched}
    assert set(find_images((known, patched), [image("libc.so.6", code)])) == {known}


def test_code_outside_of_named_functions_keeps_its_program_and_code_of_no_program_stays_unexplained() -> None:
    assert nodes_of(CountedWindow(4, 0, (), (block(0x401000, OTHER),), {}), NO_SYMBOLS, [image("fio", LONG)]) == ()
    program = image("fio", LONG + OTHER, ElfFunction("get_io_u", 0x1000, 32))
    blocks = (block(0x1000, LONG), block(0x1020, OTHER, 9, 99))
    found = nodes_of(CountedWindow(103, 0, (), blocks, {}), NO_SYMBOLS, [program])
    assert [(one.function.name, one.calls, one.instructions) for one in found] == [(NO_NAME, 0, 99), ("get_io_u", 1, 4)]


@pytest.mark.parametrize("name", list(programs.PROGRAMS))
def test_a_program_with_symbols_has_the_code_of_the_stripped_one(name: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    stripped, full = programs.build(cache, name), programs.build(cache, name, symbols=True)
    assert elf.executable_segments(stripped) == elf.executable_segments(full)
    assert "main" in {function.name for function in elf.functions(full)}
    assert elf.functions(stripped) == ()


def test_the_vdso_is_found_in_the_image_of_the_kernel_and_text_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int shown(int a) { return a / 3; }\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", str(tmp_path / "a.so"), str(tmp_path / "a.c")], check=True)
    shared = (tmp_path / "a.so").read_bytes()
    # The image is an ELF file itself, and holds one for programs of 32 bits too.
    kernel = shared[:64] + shared[:4] + b"\x01" + bytes(59) + shared[:16] + b"\x01" + bytes(47) + shared
    found = images_of({"fio": shared, "read me": b"text", "ash": shared}, kernel)
    assert [each.name for each in found] == ["ash", "fio", VDSO]
    assert found[2].function(found[2].functions[0].address) == found[2].functions[0] == found[0].functions[0]
    assert found[2].segments == found[0].segments


def test_a_function_that_a_stripped_file_does_not_name_is_its_address(tmp_path: Path) -> None:
    hidden = "__attribute__((noinline)) static int hidden(int a) { return a / 3 + a % 7; }"
    (tmp_path / "a.c").write_text(f"{hidden}\nint shown(int a) {{ return hidden(a) + 1; }}\n")
    path = tmp_path / "a.so"
    words = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(path), str(tmp_path / "a.c")]
    subprocess.run(words, check=True)
    named = {one.name: one for one in elf.functions(path.read_bytes())}
    subprocess.run(["strip", str(path)], check=True)
    stripped = {one.name: one for one in elf.functions(path.read_bytes())}
    assert stripped["shown"] == named["shown"]
    own = named["hidden"]
    assert "hidden" not in stripped
    assert stripped[f"{own.address:#x}"] == ElfFunction(f"{own.address:#x}", own.address, own.size)


def test_the_code_of_a_function_is_kept_by_offset() -> None:
    window = CountedWindow(12, 0, (), (), {0x2000: 7, 0x1004: 2, 0x1000: 3})
    found = [(one.owner, one.name, one.address, dict(one.counts)) for one in code_of(window, SYMBOLS)]
    assert found == [("vmlinux", "submit", 0x1000, {0: 3, 4: 2}), ("null_blk", "queue_rq", 0x2000, {0: 7})]
    assert [*found[0][3]] == [0, 4]
    (below,) = code_of(CountedWindow(2, 0, (), (), {0xFFF: 2}), SYMBOLS)
    assert (below.name, dict(below.counts)) == (NO_NAME, {0xFFF: 2})


@pytest.mark.parametrize(("parts", "found"), [(0, "whole"), (7, "whole"), (8, None)])
def test_a_function_is_looked_for_among_the_eight_that_begin_before(parts: int, found: str | None) -> None:
    inner = (ElfFunction(f"part{number}", 0x1010 + number, 1) for number in range(parts))
    of = image("fio", LONG, ElfFunction("whole", 0x1000, 64), *inner, ElfFunction("next", 0x1040, 8))
    known = of.function(0x1020)
    assert (known and known.name) == found
    assert of.function(0x0FFF) is None and of.function(0x1048) is None


def test_a_program_is_loaded_at_a_page_and_its_blocks_are_whole() -> None:
    """At the first page and at an odd one; a block that ends beyond the program is none of it."""
    for base in (0, 0x3000):
        (found,) = find_images((block(base + 0x1000, LONG),), [image("fio", LONG)]).values()
        assert found.base == base
    assert find_images((block(0x1010, LONG[16:] + b"\x90"),), [image("fio", LONG)]) == {}


def test_a_block_belongs_to_the_program_that_has_most_of_its_neighbours_and_the_longest_block_decides_first() -> None:
    long, short, other = block(0x1000, LONG), block(0x1020, OTHER[:8]), block(0x1028, OTHER[8:16])
    whole, parts = image("a", LONG + OTHER[:8]), image("b", OTHER[:16], address=0x1020)
    found = find_images((other, short, long), [whole, parts])
    assert {each: mapped.image.name for each, mapped in found.items()} == {long: "a", short: "a"}
    alone = image("c", LONG)
    for images in ([alone, whole], [whole, alone]):
        found = find_images((long, short), images)
        assert {mapped.image.name for mapped in found.values()} == {"a"}


def test_code_at_the_first_symbol_is_its_and_code_below_it_has_no_name() -> None:
    nodes = tuple(CallNode(3 + at, 0, address, 1, 1) for at, address in enumerate((0xFFF, 0x1000)))
    found = nodes_of(CountedWindow(2, 0, nodes, (), {}), SYMBOLS, [])
    assert [node.function.name for node in found] == [NO_NAME, "submit"]


def test_an_object_has_functions_where_its_code_is(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int number = 1;\nint twice(int x) { return 2 * x; }\n")
    subprocess.run(["gcc", "-O2", "-c", "-o", str(tmp_path / "a.o"), str(tmp_path / "a.c")], check=True)
    data = (tmp_path / "a.o").read_bytes()
    assert {(label.name, label.section, label.is_code) for label in elf.labels(data)} >= {
        ("number", ".data", False),
        ("twice", ".text", True),
    }
    assert elf.function_in(data, "number") is None
    assert elf.function_in(data, "twice") == elf.Label("twice", ".text", 0, True)
    assert len(elf.code(data)) == 1
