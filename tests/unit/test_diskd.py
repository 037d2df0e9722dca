# SPDX-License-Identifier: GPL-2.0-only
"""The parts of the in-guest disk on the host: SCSI answers, kept data, a fake ring, and the language of its model."""

import ctypes
import shutil
import struct
import subprocess
from ctypes import byref, c_bool, c_uint64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.cache import Cache
from lab.base.errors import LabBroken
from lab.native.programs import DIALECT, DISKD, PROGRAMS, ROOT, SAMPLER, WARNINGS, build
from tests.unit.diskd_library import SENSE_LENGTH, SOURCES, Command, Identity, Ring, RingCommand, Store

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
FUZZ = Path(__file__).parents[1] / "diskd" / "fuzz.c"
REPLY, READ, WRITE, FLUSH, CHECK = range(5)


IDENTITY = Identity(blocks=(1 << 30) // 512, wwn=0x5001405100000000, serial=b"lab00000")


def parse(lib: ctypes.CDLL, cdb: bytes, identity: Identity = IDENTITY) -> Command:
    command = Command()
    lib.scsi_parse(cdb, ctypes.c_size_t(len(cdb)), byref(identity), byref(command))
    return command


def answer(command: Command) -> bytes:
    assert command.kind == REPLY
    return bytes(command.reply)[: command.reply_length]


def sense(command: Command) -> tuple[int, int]:
    assert command.kind == CHECK
    return command.sense[2], command.sense[12] << 8 | command.sense[13]


def test_identity_pages(lib: ctypes.CDLL) -> None:
    standard = answer(parse(lib, bytes((0x12, 0, 0, 0, 96, 0))))
    assert (len(standard), standard[8:16]) == (36, b"BLKLAB  ")
    assert answer(parse(lib, bytes((0x12, 1, 0, 0, 96, 0)))) == b"\0\0\0\3\x00\x80\x83"
    assert answer(parse(lib, bytes((0x12, 1, 0x80, 0, 96, 0)))) == b"\0\x80\0\x08lab00000"
    naa = b"\0\x83\0\x0c\x01\x03\0\x08" + (0x5001405100000000).to_bytes(8, "big")
    assert answer(parse(lib, bytes((0x12, 1, 0x83, 0, 96, 0)))) == naa
    assert answer(parse(lib, bytes((0x12, 1, 0x83, 0, 6, 0)))) == naa[:6]
    assert sense(parse(lib, bytes((0x12, 1, 0xB0, 0, 96, 0)))) == (5, 0x2400)


def test_capacity_and_modes(lib: ctypes.CDLL) -> None:
    last = (1 << 30) // 512 - 1
    assert answer(parse(lib, bytes((0x25, *([0] * 9))))) == struct.pack(">II", last, 512)
    sixteen = bytes((0x9E, 0x10, *([0] * 8), 0, 0, 0, 32, 0, 0))
    assert answer(parse(lib, sixteen)) == struct.pack(">QI20x", last, 512)
    huge = Identity(blocks=1 << 40, wwn=1, serial=b"s")
    assert answer(parse(lib, bytes((0x25, *([0] * 9))), huge)) == struct.pack(">II", 0xFFFFFFFF, 512)
    assert answer(parse(lib, bytes((0x1A, 0, 0x3F, 0, 255, 0))))[:6] == b"\x17\0\0\0\x08\x12"
    assert answer(parse(lib, bytes((0x5A, 0, 0x08, *([0] * 4), 0, 255, 0))))[:10] == b"\0\x1a\0\0\0\0\0\0\x08\x12"
    assert answer(parse(lib, bytes(6))) == b""
    assert len(answer(parse(lib, bytes((0xA0, *([0] * 8), 16, 0, 0))))) == 16


@pytest.mark.parametrize(
    ("cdb", "kind", "lba", "blocks"),
    [
        (struct.pack(">BBHBB", 0x08, 0x01, 2, 0, 0), READ, 0x10002, 256),
        (struct.pack(">BBHBB", 0x0A, 0, 2, 5, 0), WRITE, 2, 5),
        (struct.pack(">BBIBHB", 0x28, 0, 0x12345, 0, 7, 0), READ, 0x12345, 7),
        (struct.pack(">BBIBHB", 0x2A, 8, 1, 0, 0, 0), WRITE, 1, 0),
        (struct.pack(">BBIIBB", 0xA8, 0, 9, 8, 0, 0), READ, 9, 8),
        (struct.pack(">BBIIBB", 0xAA, 0, 9, 8, 0, 0), WRITE, 9, 8),
        (struct.pack(">BBQIBB", 0x88, 0, 9, 8, 0, 0), READ, 9, 8),
        (struct.pack(">BBQIBB", 0x8A, 0, 9, 8, 0, 0), WRITE, 9, 8),
    ],
)
def test_transfers(lib: ctypes.CDLL, cdb: bytes, kind: int, lba: int, blocks: int) -> None:
    command = parse(lib, cdb)
    assert (command.kind, command.offset, command.length) == (kind, lba * 512, blocks * 512)


@pytest.mark.parametrize(
    ("cdb", "wanted"),
    [
        (struct.pack(">BBQIBB", 0x88, 0, (1 << 21) - 7, 8, 0, 0), (5, 0x2100)),
        (struct.pack(">BBQIBB", 0x88, 0, (1 << 64) - 1, 8, 0, 0), (5, 0x2100)),
        (bytes((0x41, *([0] * 9))), (5, 0x2000)),
        (bytes((0x42, *([0] * 9))), (5, 0x2000)),
        (bytes((0x28, 0)), (5, 0x2000)),
        (b"", (5, 0x2000)),
        (bytes((0xFF, *([0] * 15))), (5, 0x2000)),
    ],
)
def test_what_a_disk_refuses(lib: ctypes.CDLL, cdb: bytes, wanted: tuple[int, int]) -> None:
    assert sense(parse(lib, cdb)) == wanted


@given(st.lists(st.tuples(st.integers(0, 40_000), st.binary(min_size=1, max_size=9000)), max_size=20))
def test_what_was_written_is_kept_and_the_rest_is_zero(lib: ctypes.CDLL, writes: list[tuple[int, bytes]]) -> None:
    store, expected = Store(), bytearray(1 << 16)
    for offset, data in writes:
        assert lib.store_write(byref(store), c_uint64(offset), data, ctypes.c_size_t(len(data)))
        expected[offset : offset + len(data)] = data
    back = ctypes.create_string_buffer(b"\xff" * len(expected), len(expected))
    lib.store_read(byref(store), c_uint64(0), back, ctypes.c_size_t(len(expected)))
    lib.store_drop(byref(store))
    assert back.raw == bytes(expected)


def test_a_store_grows(lib: ctypes.CDLL) -> None:
    store, page = Store(), ctypes.create_string_buffer(8)
    for number in range(5000):
        assert lib.store_write(byref(store), c_uint64(number << 20), struct.pack("<Q", number), ctypes.c_size_t(8))
    assert store.used == 4999, "the first page holds zeros"
    for number in range(5000):
        lib.store_read(byref(store), c_uint64(number << 20), page, ctypes.c_size_t(8))
        assert struct.unpack("<Q", page.raw) == (number,)
    lib.store_drop(byref(store))


def test_zeros_take_no_memory_and_give_it_back(lib: ctypes.CDLL) -> None:
    store, page = Store(), ctypes.create_string_buffer(4096)
    assert lib.store_write(byref(store), c_uint64(100), bytes(9000), ctypes.c_size_t(9000))
    assert store.kept == 0
    assert lib.store_write(byref(store), c_uint64(4096), b"x" * 8192, ctypes.c_size_t(8192))
    assert store.kept == 2
    assert lib.store_write(byref(store), c_uint64(4096), bytes(4100), ctypes.c_size_t(4100))
    assert store.kept == 1, "the second page still holds something else than zeros"
    lib.store_read(byref(store), c_uint64(8192), page, ctypes.c_size_t(4096))
    assert page.raw == bytes(4) + b"x" * 4092
    assert lib.store_write(byref(store), c_uint64(4096), b"y", ctypes.c_size_t(1))
    assert (store.kept, store.used) == (2, 2)
    lib.store_drop(byref(store))


MAILBOX = 192
RING_SIZE = 2048
ENTRY = 176
INTERPRETER = 3
PAD, COMMAND, RESET, UNKNOWN = 0, 1, 2, 5
OOOC = 1


class FakeKernel:
    """The kernel's side of a ring, as drivers/target/target_core_user.c keeps it."""

    def __init__(self, lib: ctypes.CDLL, *, flags: int = OOOC, version: int = 2) -> None:
        self.lib = lib
        self.memory = ctypes.create_string_buffer(MAILBOX + RING_SIZE + 4096)
        struct.pack_into("<HHIII", self.memory, 0, version, flags, MAILBOX, RING_SIZE, 0)
        self.cleaned = self.head = 0
        self.outstanding: set[int] = set()
        self.finished: list[tuple[int, int]] = []
        self.ring = Ring()

    def open(self) -> bool:
        return bool(self.lib.ring_open(byref(self.ring), self.memory, ctypes.c_size_t(len(self.memory))))

    def room(self) -> int:
        return RING_SIZE - 8 - (self.head - self.cleaned) % RING_SIZE

    def put(self, length: int, operation: int, ident: int = 0) -> None:
        """One entry; a pad before it when it would not fit behind the last."""
        if RING_SIZE - self.head < length:
            self._entry(RING_SIZE - self.head, PAD, 0)
        self._entry(length, operation, ident)
        struct.pack_into("<I", self.memory, 12, self.head)

    def _entry(self, length: int, operation: int, ident: int) -> None:
        at = MAILBOX + self.head
        struct.pack_into("<IHBB", self.memory, at, length | operation, ident, 0, 0)
        if operation == COMMAND:
            data = MAILBOX + RING_SIZE
            struct.pack_into("<III4xQ16xQQ", self.memory, at + 8, 1, 0, 0, at + 160, data, 512)
            struct.pack_into(">BBIBHB", self.memory, at + 160, 0x28, 0, ident, 0, 1, 0)
            self.outstanding.add(ident)
        self.head = (self.head + length) % RING_SIZE

    def next(self) -> RingCommand | None:
        command, found = RingCommand(), c_bool()
        assert self.lib.ring_next(byref(self.ring), byref(command), byref(found)), self.ring.fault
        return command if found.value else None

    def complete(self, ident: int, failed: bytes | None = None) -> None:
        assert self.lib.ring_complete(byref(self.ring), ident, failed, ctypes.c_size_t(SENSE_LENGTH)), self.ring.fault
        self.clean()

    def clean(self) -> None:
        """What tcmu_handle_completions does."""
        (tail,) = struct.unpack_from("<I", self.memory, 64)
        while self.cleaned != tail:
            at = MAILBOX + self.cleaned
            len_op, ident = struct.unpack_from("<IH", self.memory, at)
            if len_op & 7 == COMMAND:
                assert ident in self.outstanding, "completed twice, or never commanded"
                self.outstanding.remove(ident)
                self.finished.append((ident, self.memory.raw[at + 8]))
            self.cleaned = (self.cleaned + (len_op & ~7)) % RING_SIZE


def test_commands_are_completed_in_any_order(lib: ctypes.CDLL) -> None:
    kernel = FakeKernel(lib)
    assert kernel.open()
    for ident in (7, 8, 9):
        kernel.put(ENTRY, COMMAND, ident)
    seen = [kernel.next() for _ in range(3)]
    assert [command.id for command in seen if command] == [7, 8, 9]
    assert kernel.next() is None
    kernel.complete(9)
    kernel.complete(7, bytes(SENSE_LENGTH))
    kernel.complete(8)
    assert kernel.finished == [(9, 0), (7, 2), (8, 0)]


def test_a_command_shows_its_block_and_its_data(lib: ctypes.CDLL) -> None:
    kernel = FakeKernel(lib)
    assert kernel.open()
    kernel.put(ENTRY, COMMAND, 3)
    command = kernel.next()
    assert command is not None and (command.length, command.part_count, command.cdb[0]) == (512, 1, 0x28)


def test_what_needs_no_answer_is_passed_over(lib: ctypes.CDLL) -> None:
    kernel = FakeKernel(lib)
    assert kernel.open()
    kernel.put(32, RESET)
    kernel.put(64, UNKNOWN)
    assert kernel.next() is None
    kernel.clean()
    assert kernel.cleaned == 96
    assert kernel.memory.raw[MAILBOX + 32 + 7] == 1, "flagged as unknown"


@given(st.data())
def test_no_command_is_lost_or_answered_twice(lib: ctypes.CDLL, data: st.DataObject) -> None:
    kernel, held, put, idents = FakeKernel(lib), list[int](), 0, iter(range(1 << 16))
    assert kernel.open()
    for _ in range(data.draw(st.integers(1, 80))):
        length = ENTRY + 8 * data.draw(st.integers(0, 20))
        operation = data.draw(st.sampled_from((COMMAND, COMMAND, COMMAND, RESET, UNKNOWN)))
        if length + max(0, RING_SIZE - kernel.head if RING_SIZE - kernel.head < length else 0) <= kernel.room():
            kernel.put(length, operation, next(idents))
            put += operation == COMMAND
        while (command := kernel.next()) is not None:
            held.append(command.id)
        kernel.clean()
        for ident in data.draw(st.permutations(held))[: data.draw(st.integers(0, len(held)))]:
            kernel.complete(ident)
            held.remove(ident)
    for ident in held:
        kernel.complete(ident)
    kernel.next()
    kernel.clean()
    assert (kernel.outstanding, len(kernel.finished)) == (set(), put)
    assert kernel.cleaned == kernel.head


@pytest.mark.parametrize(("options", "fault"), [({"flags": 0}, "in order only"), ({"version": 1}, "another version")])
def test_a_ring_of_another_kind_is_refused(lib: ctypes.CDLL, options: dict[str, int], fault: str) -> None:
    kernel = FakeKernel(lib, **options)
    assert not kernel.open()
    assert fault in kernel.ring.fault.decode()


def test_completing_more_than_was_commanded_is_a_fault(lib: ctypes.CDLL) -> None:
    kernel = FakeKernel(lib)
    assert kernel.open()
    assert not lib.ring_complete(byref(kernel.ring), 1, None, ctypes.c_size_t(0))
    assert kernel.ring.fault == b"more was completed than commanded"


def test_nothing_is_touched_that_is_not_the_handler_s(tmp_path: Path) -> None:
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sources = [str(path) for path in PROGRAMS[DISKD].sources() if path.suffix == ".c" and path.name != "main.c"]
    program = tmp_path / "fuzz"
    flags = [*DIALECT, *WARNINGS, "-g", "-O1", *sanitizers, f"-I{SOURCES}"]
    subprocess.run(["gcc", *flags, "-o", str(program), str(FUZZ), *sources], check=True, cwd=ROOT)
    for seed in range(1, 5):
        done = subprocess.run([str(program), str(seed), "2000"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_program_is_static_and_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    first = build(Cache(tmp_path / "one"), DISKD)
    assert first == build(Cache(tmp_path / "two"), DISKD)
    assert first[:4] == b"\x7fELF"
    (headers,), (size, count) = struct.unpack_from("<Q", first, 32), struct.unpack_from("<HH", first, 54)
    kinds = {struct.unpack_from("<I", first, headers + size * number)[0] for number in range(count)}
    assert INTERPRETER not in kinds, "it needs no loader"
    assert str(SOURCES).encode() not in first


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabBroken, match="no C compiler") as caught:
        build(Cache(tmp_path / "cache"), DISKD)
    assert "apt-get install gcc libc6-dev" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("disk a 1024 1 0\nbackstore a a s 1 w\n", "line 2"),
        ("disk a 1024 0 0\n", "line 1"),
        ("link w 1 0\ndisk a 1024 1 0\nbackstore a b s 1 w\n", "line 3"),
        ("disk a 1024 1 -1\n", "line 1"),
        ("", "line 1"),
        ("disc a 1024 1 0\n", "line 1"),
    ],
)
def test_a_wrong_model_ends_the_program_with_the_line(text: str, wrong: str, tmp_path: Path) -> None:
    program = tmp_path / "diskd"
    program.write_bytes(build(Cache(tmp_path / "cache"), DISKD))
    program.chmod(0o755)
    (tmp_path / "conf").write_text(text)
    done = subprocess.run([program, tmp_path / "conf", "r", "c"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert f"{wrong} is wrong" in done.stderr


def test_the_order_of_linking_stays() -> None:
    """Addresses depend on it, and the digests of base archives on them."""

    def order(name: str) -> list[str]:
        return [path.name for path in PROGRAMS[name].sources() if path.suffix == ".c"]

    assert order(SAMPLER) == ["process.c", "load.c", "main.c", "series.c"]
    assert order(DISKD)[6:9] == ["model.c", "process.c", "ring.c"]
    assert order(DISKD) == sorted(order(DISKD))


SHOW = Path(__file__).parents[1] / "diskd" / "show.c"


@pytest.fixture(scope="session")
def show(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("show") / "show"
    parts = [str(SOURCES / name) for name in ("ahead.c", "config.c", "level.c", "model.c", "share.c")]
    command = ["gcc", *DIALECT, *WARNINGS, f"-I{SOURCES}", "-o", str(program), str(SHOW), *parts]
    subprocess.run(command, check=True)
    return program


def understood(show: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([show], input=text, capture_output=True, text=True, check=False)


def test_everything_that_can_be_said(show: Path) -> None:
    text = """\
memory 1073741824
link port 1200000000 0
link slot 2000000000 500
disk a 1073741824 80000000 8500000
disk b 1073741824 80000000 0 rotation=8333333 ncq=32 zone=1000000:70000000 zone=900000000:40000000
disk c 512 1 0 ncq=256 look_ahead=2097152
disk d 512 1 5 ncq=2 coalesce=16
disk e 1024 1000 0 buffer=768
backstore a0 a lab00000 5001405100000000 port slot
backstore a1 a lab00000 5001405100000000 slot
backstore b0 b lab00001 5001405100000001
backstore c0 c lab00002 5001405100000002 port slot port slot
more a slot
more b
"""
    assert understood(show, text).stdout == text


def test_as_many_backstores_as_a_topology_may_have(show: Path) -> None:
    disks = "".join(f"disk d{number} 512 1 0\n" for number in range(256))
    paths = "".join(f"backstore p{number} d{number} s{number} {number + 1:x}\n" for number in range(256))
    assert understood(show, disks + paths).stdout == disks + paths
    assert understood(show, disks + paths + "backstore q d0 s 1\n").stderr == "line 513\n"


@pytest.mark.parametrize(
    "line",
    [
        "memory 0",
        "memory 1 2",
        "disk b 1024 1 0 buffer=1",
        "disk b 1024 1 0 buffer=2 buffer=2",
        "disk b 1024 1 5 buffer=2",
        "disk b 1024 1 0 buffer=2 ncq=2",
        "disk b 1024 1 0 buffer=2 look_ahead=512",
        "disk b 1024 1 0 buffer=2 coalesce=2",
        "disk b 1024 1 0 coalesce=1",
        "disk b 1024 1 0 coalesce=2 coalesce=2",
        "disk b 1024 1 0 look_ahead=0",
        "disk b 1024 1 0 look_ahead=512 look_ahead=512",
        "disk b 1024 1 0 rotation",
        "disk b 1024 1 0 rotation=0",
        "disk b 1024 1 0 rotation=1 rotation=2",
        "disk b 1024 1 0 ncq=0",
        "disk b 1024 1 0 ncq=257",
        "disk b 1024 1 0 zone=5",
        "disk b 1024 1 0 zone=0:5",
        "disk b 1024 1 0 zone=5:0",
        "disk b 1024 1 0 zone=5:1 zone=5:2",
        "disk b 1024 1 0 depth=5",
        "disk b 1024 1 0 " + " ".join(f"zone={n}:1" for n in range(1, 17)),
        "disk b 1024 1",
        "backstore p a s 1 l l l l l",
        "backstore p a s 1 m",
        "more a",
        "backstore p a s 1\nmore b",
        "backstore p a s 1\nmore a m",
        "backstore p a s 1\nmore a l l l l l",
        "backstore p a s 1" + 16 * "\nmore a",
        "link m 1",
    ],
)
def test_what_is_wrong_is_told_by_its_line(show: Path, line: str) -> None:
    done = understood(show, f"link l 1 0\ndisk a 1024 1 0\n{line}\nbackstore a a s 1\n")
    assert (done.returncode, done.stderr) == (1, f"line {3 + line.count(chr(10))}\n")


@pytest.mark.parametrize(
    ("offset", "length", "pieces"),
    [
        (0, 512, ["a 0 512"]),
        (1024, 512, ["b 0 512"]),
        (512, 1024, ["a 512 512", "b 0 512"]),
        (0, 4096, ["a 0 1024", "b 0 2048", "c 0 1024"]),
        (4096, 0, ["c 1024 0"]),
    ],
)
def test_a_transfer_goes_to_the_disks_that_it_lies_on(show: Path, offset: int, length: int, pieces: list[str]) -> None:
    disks = "disk a 1024 1 0\ndisk b 2048 1 0\ndisk c 1024 1 0\n"
    command, text = [str(show), str(offset), str(length)], disks + "backstore all a s 1\nmore b\nmore c\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert [line.removeprefix("piece ") for line in done.stdout.splitlines() if line.startswith("piece")] == pieces
