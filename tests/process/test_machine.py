# SPDX-License-Identifier: GPL-2.0-only
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base import host
from lab.base.errors import LabBroken
from lab.base.record import Outcome
from lab.observe import Observer
from lab.qemu import snapshot
from lab.qemu.machine import Channel, Limits, Machine, Note, Reason, run
from lab.qemu.probe import Kvm, KvmState, Qemu, prove_kvm
from tests.process.conftest import FakeQemu, Recorder

SHORT = Limits(ready_seconds=0.5, total_seconds=1.5, stop_seconds=0.3)
LONG = Limits(ready_seconds=60, total_seconds=60, stop_seconds=5)
OOPS = "BUG: kernel NULL pointer dereference, address: 0000000000000000"


def reaped(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_output_is_passed_on_as_lines_of_text(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu('console.write(b"one\\r\\ntwo\\r\\n"); results.write(b"READY\\nbye\\n")')
    watch = Recorder({"READY": Note.READY})
    ending = run(spec, folder, watch, LONG)
    assert (ending.returncode, ending.reason) == (0, Reason.EXITED)
    assert watch.on(Channel.CONSOLE) == ["one", "two"]
    assert watch.on(Channel.RESULTS) == ["READY", "bye"]
    assert (folder / "console.txt").read_bytes() == b"one\r\ntwo\r\n"
    watch = Recorder()
    run(fake_qemu('results.write(b"\\xff\\x00\\r\\n\\n\\xc3")'), folder, watch, LONG)
    assert watch.on(Channel.RESULTS) == ["\ufffd\0", "", "\ufffd"]


def test_lines_are_handed_over_while_the_machine_runs_and_the_watcher_may_stop_it(
    fake_qemu: FakeQemu, folder: Path
) -> None:
    spec = fake_qemu('results.write(b"half "); results.write(b"a line\\n"); forever()')
    ending = run(spec, folder, Recorder({"half a line": Note.STOP}), LONG)
    assert (ending.reason, ending.returncode) == (Reason.WATCH, -signal.SIGTERM)
    spec = fake_qemu(f'console.write(b"[    1.0] fine\\n{OOPS}\\n"); forever()')
    watch = Recorder({OOPS: Note.STOP})
    assert run(spec, folder, watch, LONG).reason is Reason.WATCH
    assert watch.on(Channel.CONSOLE)[-1] == OOPS


def test_large_results_arrive_whole(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu(
        "for number in range(9000): results.write(b'%06d ' % number + b'A' * 90 + (b'\\n' if number < 8999 else b''))"
    )
    watch = Recorder()
    run(spec, folder, watch, LONG)
    assert watch.on(Channel.RESULTS) == [f"{number:06d} {'A' * 90}" for number in range(9000)]


def test_leftovers_of_an_earlier_run_are_not_read(fake_qemu: FakeQemu, folder: Path) -> None:
    for name in ("console.txt", "results.txt"):
        (folder / name).write_text("READY\n")
    watch = Recorder()
    run(fake_qemu("pass"), folder, watch, LONG)
    assert watch.lines == []


def test_an_error_before_a_word_is_a_refusal_and_after_it_an_ending(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu('sys.exit("qemu: -frobnicate: invalid option")')
    with pytest.raises(LabBroken, match="invalid option") as caught:
        run(spec, folder, Recorder(), LONG)
    assert "fake-qemu -M pc" in caught.value.message
    ending = run(fake_qemu('console.write(b"x"); sys.exit("no more")'), folder, Recorder(), LONG)
    assert (ending.returncode, ending.reason, ending.stderr) == (1, Reason.EXITED, "no more\n")
    ending = run(fake_qemu("os.kill(os.getpid(), signal.SIGSEGV)"), folder, Recorder(), LONG)
    assert (ending.returncode, ending.reason) == (-signal.SIGSEGV, Reason.EXITED)


def test_silence_and_a_hang_after_ready_end_at_their_deadlines(fake_qemu: FakeQemu, folder: Path) -> None:
    ending = run(fake_qemu("forever()"), folder, Recorder(), SHORT)
    assert ending.reason is Reason.DEADLINE
    assert 0.5 <= ending.wall < 1.5
    spec = fake_qemu('results.write(b"READY\\n"); forever()')
    ending = run(spec, folder, Recorder({"READY": Note.READY}), SHORT)
    assert ending.reason is Reason.DEADLINE
    assert ending.wall >= 1.5
    spec = fake_qemu('results.write(b"bye\\n"); results.close(); console.close(); forever()')
    assert run(spec, folder, Recorder(), SHORT).reason is Reason.DEADLINE


def test_what_ignores_the_polite_request_is_killed(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu('signal.signal(signal.SIGTERM, signal.SIG_IGN); console.write(b"deaf\\n"); forever()')
    ending = run(spec, folder, Recorder({"deaf": Note.STOP}), SHORT)
    assert (ending.reason, ending.returncode) == (Reason.WATCH, -signal.SIGKILL)


@pytest.mark.parametrize("chunk", ["b'x' * 4096", "b'WARNING\\n' * 512"], ids=["one-endless-line", "many-lines"])
def test_a_flooding_console_is_stopped(fake_qemu: FakeQemu, folder: Path, chunk: str) -> None:
    limits = Limits(console_bytes=100_000)
    ending = run(fake_qemu(f"while True: console.write({chunk})"), folder, Recorder(), limits)
    assert ending.reason is Reason.FLOOD


def test_a_request_to_end_is_answered_while_results_flood(fake_qemu: FakeQemu, folder: Path) -> None:
    """At most eight chunks of 256 KiB are read between two looks at the request: 2 MiB, or 262,144 of these lines."""
    abort = threading.Event()

    class Impatient(Recorder):
        def line(self, channel: Channel, text: str) -> Note | None:
            abort.set()
            return super().line(channel, text)

    watch, spec = Impatient(), fake_qemu("while True: results.write(b'PHASE x\\n' * 65536)")
    ending = run(spec, folder, watch, replace(LONG, results_bytes=64 << 20), abort)
    assert ending.reason is Reason.ABORTED
    assert 0 < len(watch.lines) <= 262_144


def test_flooded_results_are_no_flooded_console(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu(
        "results.write(b'BLKLAB 2\\nREADY 6.1.0 0.5\\n')\nwhile True: results.write(b'PHASE 1.0 x\\n' * 512)"
    )
    observer = Observer(lambda phase: None)
    ending = run(spec, folder, observer, replace(LONG, results_bytes=1 << 20))
    record = observer.record(folder, ending, {})
    assert ending.reason is Reason.OVERFLOW
    assert record.outcome is Outcome.GARBLED
    assert record.detail == "the results were flooded: the guest named more than 10,000 phases"
    assert len(observer._marks) <= 10_001


def test_a_line_without_an_end_is_a_flood(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu("while True: results.write(b'x' * 65536)")
    ending = run(spec, folder, Recorder(), LONG)
    assert ending.reason is Reason.OVERFLOW
    assert (folder / "results.txt").stat().st_size < LONG.results_bytes


def test_a_machine_that_goes_on_after_bye_is_ended(fake_qemu: FakeQemu, folder: Path) -> None:
    lines = "BLKLAB 2\\nREADY 6.1.0 0.5\\nEND 0 1.0\\nBYE\\n"
    observer = Observer(lambda phase: None)
    ending = run(fake_qemu(f"results.write(b'{lines}'); forever()"), folder, observer, replace(LONG, done_seconds=0.5))
    assert ending.reason is Reason.DEADLINE
    assert ending.wall < LONG.total_seconds
    assert observer.record(folder, ending, {}).outcome is Outcome.BYE


@pytest.mark.parametrize(
    "said",
    [
        b"hello\n",
        b"[]\n",
        b"\xff\xfe\n",
        b"9" * 5000 + b"\n",
        b"x" * (2 << 20),
        b'{"QMP": {}}\n{"return": 1}\n{"return": 2}\n',
        b'{"QMP": {}}\n{"return": {}}\n{"return": {}}\n',
        b'{"QMP": {}}\n{"error": 1}\n',
        b'{"event": "RESET"}\n' * 2000,
    ],
)
def test_a_monitor_that_talks_nonsense(said: bytes, fake_qemu: FakeQemu, folder: Path) -> None:
    (folder / "said").write_bytes(said)
    spec = replace(fake_qemu('os.write(0, open("said", "rb").read()); time.sleep(600)'), job="job")
    with pytest.raises(LabBroken, match=r"no snapshot of the guest: QEMU's monitor does not speak QMP"):
        snapshot.save(spec, folder, LONG)


def test_another_thread_can_end_it(fake_qemu: FakeQemu, folder: Path) -> None:
    abort = threading.Event()
    aborter = threading.Timer(0.1, abort.set)
    aborter.start()
    ending = run(fake_qemu("forever()"), folder, Recorder(), LONG, abort)
    aborter.join()
    assert ending.reason is Reason.ABORTED


def test_an_exception_of_the_watcher_leaves_no_machine(fake_qemu: FakeQemu, folder: Path) -> None:
    class Faulty:
        def line(self, channel: Channel, text: str) -> Note | None:
            raise ValueError(text)

    machine = Machine(fake_qemu('console.write(b"up\\n"); forever()'), folder, LONG)
    with pytest.raises(ValueError, match="up"), machine:
        machine.follow(Faulty())
    assert reaped(machine.pid)


def test_missing_things_are_named(fake_qemu: FakeQemu, folder: Path, tmp_path: Path) -> None:
    spec = fake_qemu("pass")
    gone = tmp_path / "gone"
    for broken, what in (
        (replace(spec, program=gone), "QEMU"),
        (replace(spec, kernel=gone), "kernel image"),
        (replace(spec, initrd=gone), "initramfs"),
    ):
        with pytest.raises(LabBroken, match=f"{what} .*gone does not exist"):
            run(broken, folder, Recorder(), LONG)
    with pytest.raises(LabBroken, match="does not exist"):
        run(spec, gone, Recorder(), LONG)


@pytest.mark.parametrize("name", ["console.txt", "results.txt", "qemu.log"])
def test_a_folder_that_cannot_be_written(fake_qemu: FakeQemu, folder: Path, name: str) -> None:
    (folder / name).mkdir()
    with pytest.raises(LabBroken, match="Is a directory"):
        run(fake_qemu("pass"), folder, Recorder(), LONG)


def test_a_program_that_cannot_be_executed(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu("pass")
    spec.program.write_bytes(b"\x7fELF but not really")
    with pytest.raises(LabBroken, match=r"refused to start .*fake-qemu: Exec format error"):
        run(spec, folder, Recorder(), LONG)


def test_a_guest_larger_than_the_host_is_refused(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = replace(fake_qemu("pass"), memory=host.memory_available() >> 20)
    with pytest.raises(LabBroken, match="does not fit"):
        run(spec, folder, Recorder(), LONG)


def test_nothing_is_left_after_many_runs(fake_qemu: FakeQemu, folder: Path) -> None:
    spec = fake_qemu("pass")
    spec.program.write_text("#!/bin/sh\necho up >console.txt\n")
    run(spec, folder, Recorder(), LONG)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        run(spec, folder, Recorder(), LONG)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


BOTH = """
BOOT = b"Linux version 6.1\\nVFS: Unable to mount root fs on unknown-block(0,0)\\n"
host = sys.argv[sys.argv.index("-cpu") + 1] == "host"
"""


def kvm_verdict(fake_qemu: FakeQemu, tmp_path: Path, body: str, patience: float = 60) -> Kvm:
    spec = fake_qemu(BOTH + body)
    qemu = Qemu(spec.program, (7, 2, 0), "", frozenset(), None, "")
    device = tmp_path / "kvm"
    device.write_bytes(b"")
    return prove_kvm(qemu, spec.kernel, device=device, patience=patience)


WORKING = "console.write(BOOT)\nforever()\n"
REFUSAL = 'sys.exit("error: failed to set MSR 0x10a to 0x0")'


@pytest.mark.parametrize(
    ("body", "state", "model", "words"),
    [
        (WORKING, KvmState.WORKS, "host", ("looked for a root file system",)),
        (f"if host:\n    {REFUSAL}\n{WORKING}", KvmState.WORKS, "qemu64", ()),
        ('console.write(b"Booting from ROM\\n"); forever()', KvmState.HANGS, "", ('last words "Booting from ROM"',)),
        (REFUSAL, KvmState.HANGS, "", ("MSR 0x10a", "MSR 0x10a")),
    ],
    ids=["it wants a root", "one model is refused", "it stops after its first words", "both models are refused"],
)
def test_a_kernel_is_the_proof(
    fake_qemu: FakeQemu, tmp_path: Path, body: str, state: KvmState, model: str, *, words: tuple[str, ...]
) -> None:
    kvm = kvm_verdict(fake_qemu, tmp_path, body, patience=1 if "Booting" in body else 60)
    assert (kvm.state, kvm.model) == (state, model)
    assert all(kvm.proof.count(word) == words.count(word) for word in words)
    assert "Booting" not in body or "qemu64" not in kvm.proof
