# SPDX-License-Identifier: GPL-2.0-only
"""The console script. It imports only the standard library before it catches failures."""

import gc
import io
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.commands.parser import Parser

MISUSE = 129
LAB_BROKEN = 128
INTERRUPTED = 130
TERMINATED = 143


_ENDS = (signal.SIGTERM, signal.SIGHUP)
_LENGTHS = ("COLUMNS", "LINES")


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP. It ends a command as SIGINT does: machines stop, the terminal is restored."""


def main(arguments: Sequence[str] | None = None, build: "Callable[[Sequence[str]], Parser] | None" = None) -> int:
    """The exit status of a command line, which the parser of blklab or the one that ``build`` makes reads.

    ``git bisect run`` reads 1 to 127 as a verdict, so every unforeseen failure, including a failed import
    and a verdict that cannot be written, is 128 or above.
    """
    try:
        _open_streams()
        with _terminable():
            code = _run(sys.argv[1:] if arguments is None else arguments, build)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except BaseException:
        _drop_output()
        return LAB_BROKEN
    return code


def _run(arguments: Sequence[str], build: "Callable[[Sequence[str]], Parser] | None") -> int:
    try:
        return _dispatch(arguments, build)
    except SystemExit as leaving:
        # argparse exits after --help, and rich exits with 1 when its output is closed.
        return LAB_BROKEN if leaving.code else 0
    except Terminated:
        print("blklab: terminated", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("blklab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return LAB_BROKEN
    except Exception as error:
        return _report(error, arguments)


def _open_streams() -> None:
    """Open what the caller closed, or the next file would take its number. Output then fails; errors are dropped."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY), number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # In a file or a pipe, results and progress stay in their order.
        sys.stdout.reconfigure(line_buffering=True)


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn the signals that end a program into Terminated. Only the main thread may set a handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(*_: object) -> None:
        raise Terminated

    before = {number: signal.getsignal(number) for number in _ENDS}
    for number, handler in before.items():
        # nohup ignores SIGHUP.
        signal.signal(number, handler if handler is signal.SIG_IGN else terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drop_output() -> None:
    """Discard what is left: the interpreter would try to write it at exit and end with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _dispatch(arguments: Sequence[str], build: "Callable[[Sequence[str]], Parser] | None") -> int:
    # Imports make many objects and no garbage: looking for it takes a fifth of their time, later 20 ms of a run.
    gc.disable()
    try:
        from harness.commands.parser import build_parser
        from lab.base.units import escaped_output

        _check_environment()
        with escaped_output():
            command = (build or build_parser)(arguments).parse(arguments)
            gc.enable()
            code = command.execute()
    finally:
        gc.freeze()
        gc.enable()
    return code


def _check_environment() -> None:
    """Raises Misuse where there is no current folder. A terminal too narrow for a table has its usual size."""
    from lab.base.errors import Misuse
    from lab.base.reading import demand_plain

    demand_plain(Path(__file__).parents[1], "the checkout", "move it to another folder")
    for name in _LENGTHS:
        if not re.fullmatch("[2-9][0-9]|[1-9][0-9]{2,3}", os.environ.get(name, "80")):
            del os.environ[name]
    try:
        Path.cwd()
    except FileNotFoundError:
        raise Misuse("the current folder does not exist any more", remedy="cd to another one") from None


def _report(error: Exception, arguments: Sequence[str]) -> int:
    try:
        from lab.base.errors import BlklabError, LabBroken, Misuse
    except Exception:
        traceback.print_exc()
        return LAB_BROKEN
    if isinstance(error, OSError) and error.errno:
        # A bug of blklab is no error of a file.
        named = str(error.filename or "the output cannot be written")
        kind = Misuse if any(named in word for word in arguments) else LabBroken
        error = kind(f"{named}: {error.strerror}")
    if isinstance(error, BlklabError):
        print(f"blklab: {error}", file=sys.stderr)
        return error.exit_code
    traceback.print_exc()
    print("blklab: this is a bug of blklab, not a verdict", file=sys.stderr)
    return LAB_BROKEN
