# SPDX-License-Identifier: GPL-2.0-only
"""Every process that blklab starts on the host; no other module imports subprocess.

``run`` waits for the end and captures the output, ``attend`` leaves the terminal to the program,
``launch`` starts a program that cannot outlive this process. ``progress`` tells how far a long step is.
"""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import IO, Any, TypeVar

from lab.base.errors import LabBroken
from lab.base.units import Tell

_LAST_WORDS = 2000
_LOOK_SECONDS = 0.1
BOUND = ("setpriv", "--pdeathsig", "KILL", "--")
"""What precedes a program that the kernel kills together with the thread that starts it."""

T = TypeVar("T")
Finished = subprocess.CompletedProcess[bytes]
"""A process that has ended, with its captured output."""
Process = subprocess.Popen[bytes]
"""A process that was started, the leader of its process group."""
Look = Callable[[int], str]
"""Asked again and again, with the bytes printed so far, why a program must end; empty if it need not."""


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | Iterable[bytes] | None = None,
    timeout: float | None = None,
    look: Look | None = None,
    accept: Collection[int] = (0,),
    hint: str = "",
) -> Finished:
    """Run ``argv`` (never through a shell), return it with its captured output.

    ``env`` replaces the whole environment. A ``stdin`` of several parts is for a program that says little before it has
    read them all; an exception of the iterator ends the program. Raises LabBroken, with the quoted command, its last
    words and ``hint`` as the remedy, when the program cannot be run, exits other than ``accept``, outlasts ``timeout``
    seconds or ``look`` says why it must end; then whatever it started is killed with it.
    """
    quoted = shlex.join(argv)
    source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    process = _start(argv, hint, cwd=cwd, env=env, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        text = stdin if isinstance(stdin, bytes) else None
        if process.stdin and stdin is not None and not isinstance(stdin, bytes):
            _feed(process.stdin, stdin)
            process.stdin = None
        out, err = _watched(process, text, timeout, look) if look else process.communicate(text, timeout)
    except subprocess.TimeoutExpired as error:
        raise LabBroken(f"no end after {timeout:g} s: {quoted}", remedy=hint) from error
    except TimeoutError as error:
        raise LabBroken(f"{error}: {quoted}", remedy=hint) from error
    finally:
        end(process)
    if process.returncode not in accept:
        words = (err.strip() or out.strip()).decode(errors="replace")[-_LAST_WORDS:]
        raise LabBroken(f"{_manner(process.returncode)}: {quoted}\n{words}".rstrip(), remedy=hint)
    return Finished(list(argv), process.returncode, out, err)


def _watched(process: Process, text: bytes | None, timeout: float | None, look: Look) -> tuple[bytes, bytes]:
    """As ``communicate``. Raises TimeoutError with what ``look`` says."""
    until = time.monotonic() + (timeout or inf)
    while True:
        try:
            return process.communicate(text, _LOOK_SECONDS)
        except subprocess.TimeoutExpired as error:
            text = None
            if why := look(len(error.output or b"") + len(error.stderr or b"")):
                raise TimeoutError(why) from error
            if time.monotonic() > until:
                raise


def _feed(pipe: IO[bytes], parts: Iterable[bytes]) -> None:
    """Write the parts and close. A program that ended early is judged by its exit status."""
    with suppress(BrokenPipeError), pipe:
        for part in parts:
            pipe.write(part)


def attend(argv: Sequence[str], *, cwd: Path, hint: str = "") -> int:
    """The exit status of ``argv``, run on this terminal in the foreground. Raises LabBroken when it cannot be run."""
    # In a group of its own it would be stopped as soon as it read from the terminal.
    process = _start(argv, hint, cwd=cwd, process_group=None)
    try:
        return process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def launch(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    hint: str = "",
    stdin: int | None = None,
) -> tuple[Process, int]:
    """``argv``, started in a session of its own, and its pidfd; its output and errors go to the file ``log``, and
    its input comes from ``stdin``.

    The kernel kills it together with the thread that called this. Raises LabBroken when it cannot be started. A
    program that cannot be executed ends with 126 or 127 and says why.
    """
    try:
        with log.open("wb") as output:
            # In a session of its own it does not receive the terminal's Ctrl-C: this process ends it.
            process = _start(
                child_of(os.getpid(), argv),
                hint,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=None,
                start_new_session=True,
            )
    except OSError as error:
        raise LabBroken(f"cannot write {log}: {error.strerror}", remedy=hint) from error
    try:
        return process, os.pidfd_open(process.pid)
    except BaseException:
        end(process)
        raise


def child_of(parent: int, argv: Sequence[str]) -> Sequence[str]:
    """``argv``, which the kernel kills with its ``parent``; it is not executed when that is gone already."""
    # Where the parent died before setpriv asked for the signal, none comes, and the parent is another process now.
    return [*BOUND, "sh", "-c", '[ "$PPID" = "$1" ] && shift && exec "$@"', "sh", str(parent), *argv]


def end(process: Process) -> None:
    """Kill ``process`` with its group unless it was waited for, reap it, and close its pipes."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _start(argv: Sequence[str], hint: str, *, process_group: int | None = 0, **options: Any) -> Process:
    """In a group of its own, which can be killed as a whole: a grandchild may hold the pipes. Raises LabBroken."""
    quoted, cwd = shlex.join(argv), options.get("cwd")
    if cwd is not None and not cwd.is_dir():
        raise LabBroken(f"there is no folder {cwd} to run in: {quoted}", remedy=hint)
    try:
        return subprocess.Popen(argv, process_group=process_group, **options)
    except FileNotFoundError as error:
        raise LabBroken(f"{argv[0]} is not installed (wanted for: {quoted})", remedy=hint) from error
    except OSError as error:
        raise LabBroken(f"cannot run {argv[0]}: {error.strerror} ({quoted})", remedy=hint) from error


def _manner(returncode: int) -> str:
    if returncode >= 0:
        return f"exit {returncode} from"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


_EVERY = 5.0  # seconds between two lines: a short step prints none
_MINUTE = 60


def beside(call: Callable[[], T]) -> Callable[[], T]:
    """Start ``call`` in a thread; what is returned waits for its end and gives its result, or raises what it raised.

    The thread does not keep an interrupted program alive.
    """
    future = Future[T]()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future.result


@contextmanager
def progress(tell: Tell, line: Callable[[float], str], every: float = _EVERY) -> Iterator[None]:
    """Tell ``line(SECONDS)`` at intervals while the block runs, with the seconds since it began."""
    ended = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not ended.wait(every):
            tell(line(time.monotonic() - began))

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def time_left(done: float, total: float, seconds: float) -> str:
    """``, about 40 s left``: what the rest takes at the speed so far; empty where nothing is done, or all of it."""
    if not 0 < done < total:
        return ""
    left = seconds * (total - done) / done
    return f", about {left:.0f} s left" if left < 2 * _MINUTE else f", about {left / _MINUTE:.0f} min left"
