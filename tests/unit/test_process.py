# SPDX-License-Identifier: GPL-2.0-only
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from lab.base.errors import LabBroken
from lab.base.process import attend, launch, progress, run, time_left


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def alive(pid: int) -> bool:
    """Whether ``pid`` still runs; a zombie that nobody has reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_output_input_status_and_environment_are_those_of_the_program() -> None:
    done = run(["tr", "a-z", "A-Z"], stdin=b"abc\xff")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ABC\xff", b"")
    assert run(python("raise SystemExit(1)"), accept=(0, 1)).returncode == 1
    done = run(["/usr/bin/env"], env={"ONLY": "this"})
    assert done.stdout == b"ONLY=this\n"


def test_input_in_parts_and_an_iterator_that_fails() -> None:
    assert run(["tr", "a-z", "A-Z"], stdin=(part for part in (b"ab", b"c"))).stdout == b"ABC"
    endless = (bytes(1 << 16) for _ in iter(int, 1))
    assert run(["head", "-c", "2"], stdin=endless).stdout == bytes(2), "a program that reads no more ends it"
    with pytest.raises(ZeroDivisionError):
        run(["cat"], stdin=(bytes(1 // zero) for zero in (0,)))


def test_what_cannot_be_started_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match=r"no-such-program is not installed .*'a b'") as caught:
        run(["no-such-program", "a b"], hint="apt-get install it")
    assert caught.value.remedy == "apt-get install it"
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(LabBroken, match="Permission denied"):
        run([str(script)])
    with pytest.raises(LabBroken, match="no folder"):
        run(["true"], cwd=tmp_path / "gone")


def test_a_failure_quotes_the_command_its_last_words_and_the_signal() -> None:
    code = "import sys; print('on stdout'); print('reason', file=sys.stderr); sys.exit(3)"
    with pytest.raises(LabBroken, match=r"(?s)exit 3 from: .*reason") as caught:
        run(python(code), hint="do this")
    assert "on stdout" not in caught.value.message.splitlines()[-1]
    assert caught.value.remedy == "do this"
    with pytest.raises(LabBroken, match="killed by SIGSEGV"):
        run(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))


def test_no_descriptor_is_leaked() -> None:
    run(["true"])
    before = open_descriptors()
    for _ in range(20):
        run(["true"], stdin=b"")
    assert open_descriptors() == before


@pytest.mark.parametrize("after", ["", "; wait"], ids=["alone", "with its parent"])
def test_a_grandchild_that_holds_the_pipes_is_killed_at_the_timeout(tmp_path: Path, after: str) -> None:
    """The output does not end before it."""
    note = tmp_path / "pid"
    with pytest.raises(LabBroken, match="no end after 1 s"):
        run(["sh", "-c", f'sleep 60 & echo $! >"$1"{after}', "sh", str(note)], timeout=1)
    deadline = time.monotonic() + 5
    while alive(int(note.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_attended_program_brings_its_status(tmp_path: Path) -> None:
    assert attend(["sh", "-c", "exit 7"], cwd=tmp_path) == 7


def test_what_cannot_be_attended_or_launched_is_an_error_of_the_lab(tmp_path: Path) -> None:
    descriptors = open_descriptors()
    with pytest.raises(LabBroken, match=r"no-such-program.* is not installed") as caught:
        attend(["/no-such-program"], cwd=tmp_path, hint="apt-get install it")
    assert caught.value.remedy == "apt-get install it"
    with pytest.raises(LabBroken, match=r"cannot write .*/no/log: No such file"):
        launch(["/bin/true"], cwd=tmp_path, env={}, log=tmp_path / "no/log")
    assert open_descriptors() == descriptors


def test_a_launched_program_that_is_missing_says_so_in_its_log(tmp_path: Path) -> None:
    process, handle = launch(["/no-such-program"], cwd=tmp_path, env={}, log=tmp_path / "log")
    os.close(handle)
    assert process.wait() == 127
    assert "/no-such-program: not found" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("done", "total", "seconds", "says"),
    [
        (25, 100, 10.0, ", about 30 s left"),  # 75 at 2.5 a second
        (100, 1000, 60.0, ", about 9 min left"),  # 900 at 100 a minute
        (0, 100, 10.0, ""),
        (100, 100, 10.0, ""),
        (7, 0, 10.0, ""),
    ],
)
def test_the_time_left_is_that_of_the_speed_so_far(done: float, total: float, seconds: float, says: str) -> None:
    assert time_left(done, total, seconds) == says


def test_lines_are_told_while_the_block_runs_and_not_afterwards() -> None:
    said, told = list[str](), threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    with progress(tell, lambda seconds: f"after {seconds > 0}", every=0.001):
        assert told.wait(60)
    ended = len(said)
    assert set(said) == {"after True"}
    told.clear()
    assert not told.wait(0.02) and len(said) == ended
    with progress(tell, lambda _: pytest.fail("a short step prints nothing")):
        pass
