# SPDX-License-Identifier: GPL-2.0-only
"""The plugin's call stacks, driven block by block: the C parts as a shared library of the host's."""

import ctypes
import subprocess
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_uint64, c_void_p, cast
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.native.programs import ROOT, WARNINGS, interface, plugin
from lab.observers import _PATHS, functions_file
from lab.symbols import read_kallsyms

PARTS = ("functions.c", "memory.c", "stack.c", "tree.c")
SIZE = 0x100
NAMES = (
    *("entry_SYSCALL_64", "submit", "insert", "insert.cold", "queue", "thunk", "common_interrupt", "fault"),
    *("__switch_to_asm", "__switch_to", "schedule", "ret_from_fork", "worker", "cpu_startup_entry", "do_idle"),
    "sync_core",
)
KINDS = {
    "thunk": "t",
    "common_interrupt": "i",
    "fault": "e",
    "__switch_to_asm": "x",
    "__switch_to": "y",
    "ret_from_fork": "f",
    "cpu_startup_entry": "d",
}
ADDRESSES = {name: 0xFFFFFFFF81000000 + SIZE * number for number, name in enumerate(NAMES)}
OTHER, CALL, RETURN, IRET, SYSRET = range(5)
ROOTS = ("kernel", "interrupt", "idle")


class Function(Structure):
    _fields_ = [("address", c_uint64), ("kind", c_int)]


class Block(Structure):
    _fields_ = [
        ("address", c_uint64),
        ("end", c_uint64),
        ("function", POINTER(Function)),
        ("ending", c_int),
        ("user", c_bool),
    ]


class Node(Structure):
    pass


Node._fields_ = [("parent", POINTER(Node)), ("function", POINTER(Function)), ("instructions", c_uint64)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "stacks.so"
    sources = [str(ROOT / "profile" / part) for part in PARTS]
    subprocess.run(["gcc", "-std=gnu11", "-O1", *WARNINGS, "-shared", "-fPIC", "-o", str(path), *sources], check=True)
    return path


class Cpu:
    """Executes blocks of made-up functions, ``NAME`` or ``NAME+OFFSET``: which path is each one counted for?"""

    def __init__(self, library: Path, functions: Path) -> None:
        functions.write_text("".join(f"{at:x} {KINDS.get(name, '-')}\n" for name, at in ADDRESSES.items()))
        self.own = ctypes.CDLL(str(library))
        self.own.functions_read(c_char_p(str(functions).encode()))
        self.own.function_at.restype = POINTER(Function)
        self.own.function_at.argtypes = [c_uint64]
        self.own.stack_follow.restype = POINTER(Node)
        self.own.root.restype = c_void_p
        self.own.stack_surprises.restype = c_uint64
        self.own.stack_accessed.argtypes = [c_uint64, c_bool]
        self.roots = {self.own.root(number): name for number, name in enumerate(ROOTS)}
        self.names = {at: name for name, at in ADDRESSES.items()}
        self.before = Block(user=True)

    def user(self) -> None:
        self.before = Block(user=True)

    def run(self, where: str, ending: int = OTHER, *, complete: bool = True) -> str:
        """The call path of the block; its last instruction ends at +0x10 behind its first."""
        name, _, offset = where.partition("+")
        address = ADDRESSES[name] + int(offset or "0", 16)
        block = Block(address, address + 0x10, self.own.function_at(address), ending, False)
        node = self.own.stack_follow(byref(self.before), complete, byref(block))
        self.before = block
        return self._path(node)

    def surprises(self) -> int:
        return int(self.own.stack_surprises())

    def switch(self, old: int, new: int) -> None:
        """What __switch_to_asm writes and reads."""
        self.own.stack_accessed(old, True)
        self.own.stack_accessed(new, False)

    def _path(self, node: "ctypes._Pointer[Node]") -> str:
        names: list[str] = []
        while node.contents.function:
            names.insert(0, self.names[node.contents.function.contents.address])
            node = node.contents.parent
        return ";".join((self.roots[cast(node, c_void_p).value or 0], *names))


@pytest.fixture
def cpu(library: Path, tmp_path: Path) -> Iterator[Cpu]:
    # A library of its own for each test: what it followed is in its variables.
    own = tmp_path / "stacks.so"
    own.write_bytes(library.read_bytes())
    found = Cpu(own, tmp_path / "functions.txt")
    yield found
    assert found.surprises() == 0


@pytest.fixture
def called(cpu: Cpu) -> Cpu:
    """In a system call."""
    cpu.run("entry_SYSCALL_64", CALL)
    return cpu


def test_calls_nest_and_return(cpu: Cpu) -> None:
    assert cpu.run("entry_SYSCALL_64", CALL) == "kernel;entry_SYSCALL_64"
    assert cpu.run("submit", CALL) == "kernel;entry_SYSCALL_64;submit"
    assert cpu.run("insert", RETURN) == "kernel;entry_SYSCALL_64;submit;insert"
    assert cpu.run("submit+10", RETURN) == "kernel;entry_SYSCALL_64;submit"
    assert cpu.run("entry_SYSCALL_64+10") == "kernel;entry_SYSCALL_64"


def test_a_recursion_is_deeper_each_time_and_a_loop_is_not(called: Cpu) -> None:
    assert called.run("submit", CALL) == "kernel;entry_SYSCALL_64;submit"
    assert called.run("submit", OTHER) == "kernel;entry_SYSCALL_64;submit;submit"
    assert called.run("submit", RETURN) == "kernel;entry_SYSCALL_64;submit;submit"
    assert called.run("submit+10") == "kernel;entry_SYSCALL_64;submit"


def test_a_jump_is_a_call_that_returns_to_the_callers_caller(called: Cpu) -> None:
    called.run("submit", OTHER)
    assert called.run("queue", RETURN) == "kernel;entry_SYSCALL_64;submit;queue"
    assert called.run("entry_SYSCALL_64+10") == "kernel;entry_SYSCALL_64"


def test_a_part_that_was_moved_away_jumps_back(called: Cpu) -> None:
    called.run("insert", OTHER)
    assert called.run("insert.cold+20") == "kernel;entry_SYSCALL_64;insert;insert.cold"
    assert called.run("insert+40", RETURN) == "kernel;entry_SYSCALL_64;insert"
    assert called.run("entry_SYSCALL_64+10") == "kernel;entry_SYSCALL_64"


def test_an_indirect_call_is_one_of_its_caller_not_of_the_thunk(called: Cpu) -> None:
    called.run("thunk", CALL)
    assert (
        called.run("thunk+20", RETURN) == "kernel;entry_SYSCALL_64;thunk"
    )  # retpoline: the call's return is overwritten
    assert called.run("queue", RETURN) == "kernel;entry_SYSCALL_64;queue"
    assert called.run("entry_SYSCALL_64+10") == "kernel;entry_SYSCALL_64"


def test_an_interrupt_has_no_caller_and_ends_with_its_iret(called: Cpu) -> None:
    called.run("submit", CALL)
    # It strikes after a call, before the callee's first block.
    assert called.run("common_interrupt", CALL) == "interrupt;common_interrupt"
    assert called.run("queue", RETURN) == "interrupt;common_interrupt;queue"
    assert called.run("common_interrupt+10", IRET) == "interrupt;common_interrupt"
    assert called.run("insert", RETURN) == "kernel;entry_SYSCALL_64;submit;insert"
    assert called.run("submit+10") == "kernel;entry_SYSCALL_64;submit"


def test_a_fault_in_a_block_comes_back_to_it(called: Cpu) -> None:
    called.run("submit", CALL)
    assert called.run("fault", CALL, complete=False) == "kernel;entry_SYSCALL_64;submit;fault"
    called.run("queue", RETURN)
    called.run("fault+10", IRET)
    assert called.run("submit+8", CALL) == "kernel;entry_SYSCALL_64;submit"


def test_an_iret_within_a_function_ends_no_interrupt(cpu: Cpu) -> None:
    cpu.run("common_interrupt", CALL)
    cpu.run("sync_core", IRET)
    assert cpu.run("sync_core+20", RETURN) == "interrupt;common_interrupt;sync_core"
    assert cpu.run("common_interrupt+10") == "interrupt;common_interrupt"


@pytest.mark.parametrize("ending", [IRET, SYSRET])
def test_an_interrupt_before_the_first_instruction_of_user_space_is_one_of_user_space(cpu: Cpu, ending: int) -> None:
    cpu.run("entry_SYSCALL_64", ending)
    assert cpu.run("common_interrupt", IRET) == "interrupt;common_interrupt"
    cpu.user()
    assert cpu.run("fault") == "kernel;fault"


def test_each_task_has_its_own_stack(cpu: Cpu) -> None:
    one, other = 0xFFFFC90000010000, 0xFFFFC90000020000
    cpu.run("entry_SYSCALL_64", CALL)
    cpu.run("schedule", CALL)
    cpu.run("__switch_to_asm", OTHER)
    cpu.switch(one + 0x3E00, other + 0x3F00)
    cpu.run("__switch_to", RETURN)
    assert cpu.run("ret_from_fork", CALL) == "kernel;ret_from_fork"
    cpu.run("worker", CALL)
    cpu.run("schedule", CALL)
    cpu.run("__switch_to_asm", OTHER)
    cpu.switch(other + 0x3D00, one + 0x3E28)
    assert cpu.run("__switch_to", RETURN).startswith("kernel;entry_SYSCALL_64;schedule;__switch_to_asm")
    assert cpu.run("schedule+10", RETURN) == "kernel;entry_SYSCALL_64;schedule"
    assert cpu.run("entry_SYSCALL_64+10") == "kernel;entry_SYSCALL_64"


def test_the_idle_task_is_idle_except_in_interrupts(cpu: Cpu) -> None:
    cpu.run("worker", CALL)
    assert cpu.run("cpu_startup_entry", CALL) == "idle;cpu_startup_entry"
    assert cpu.run("do_idle") == "idle;cpu_startup_entry;do_idle"
    assert cpu.run("common_interrupt", IRET) == "interrupt;common_interrupt"
    assert cpu.run("do_idle+20", RETURN) == "idle;cpu_startup_entry;do_idle"
    assert cpu.run("cpu_startup_entry+10", CALL) == "idle;cpu_startup_entry"


def test_a_return_that_no_call_explains_is_counted(library: Path, tmp_path: Path) -> None:
    cpu = Cpu(library, tmp_path / "functions.txt")
    cpu.run("entry_SYSCALL_64", CALL)
    cpu.run("submit", RETURN)
    assert cpu.run("worker+30") == "kernel;entry_SYSCALL_64;submit;worker"
    assert cpu.surprises() == 1


KALLSYMS = """\
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t irq_entries_start
ffffffff81000100 T __irqentry_text_start
ffffffff81000800 T asm_sysvec_apic_timer_interrupt
ffffffff81000900 T asm_exc_page_fault
ffffffff81000a00 T ret_from_fork_asm
ffffffff81000b00 t ret_from_fork
ffffffff81000c00 T __softirqentry_text_end
ffffffff81000c00 T __x86_indirect_thunk_rax
ffffffff81000d00 D jiffies
ffffffff81000e00 T __switch_to_asm
ffffffffc0001000 t null_queue_rq\t[null_blk]
"""


def test_an_address_has_the_name_of_the_function_executed_there() -> None:
    symbols = read_kallsyms(KALLSYMS)
    names = {symbol.address & 0xFFFFFFF: (symbol.name, symbol.module) for symbol in symbols.functions}
    assert names[0x1000000] == ("startup_64", "")
    assert names[0x1000100] == ("irq_entries_start", "")
    assert names[0x1000C00] == ("__x86_indirect_thunk_rax", "")
    assert names[0x0001000] == ("null_queue_rq", "null_blk")
    assert 0x1000D00 not in names
    kinds = [line.split()[1] for line in functions_file(symbols, (*_PATHS, ("ret_from_fork_asm", "f"))).splitlines()]
    assert kinds == ["-", "s", "i", "e", "f", "-", "t", "x", "-"]


@pytest.mark.parametrize(("version", "number"), [((7, 2, 22), 1), ((9, 0, 1), 2), ((9, 1), 3), ((10, 0, 2), 4)])
def test_the_plugin_is_built_for_the_interface_of_its_qemu(
    version: tuple[int, ...], number: int, tmp_path: Path
) -> None:
    assert interface(version) == number
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", str(plugin(Cache(tmp_path), version))],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert exported[2::3] == ["qemu_plugin_install", "qemu_plugin_version"]
