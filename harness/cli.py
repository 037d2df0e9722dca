# SPDX-License-Identifier: GPL-2.0-only
"""The console script. It imports only the standard library before it catches failures."""

import errno
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

MISUSE = 129
LAB_BROKEN = 128
INTERRUPTED = 130
TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM. It ends a command as SIGINT does: machines stop, the terminal is restored."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of a command line.

    ``git bisect run`` reads 1 to 127 as a verdict, so every unforeseen failure, including a failed import
    and a verdict that cannot be written, is 128 or above.
    """
    try:
        with _terminable():
            code = _run(sys.argv[1:] if arguments is None else arguments)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except BaseException:
        _drop_output()
        return LAB_BROKEN
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        return _dispatch(arguments)
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
        return _report(error)


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into Terminated. Only the main thread may set a handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _drop_output() -> None:
    """Discard what is left: the interpreter would try to write it at exit and end with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _dispatch(arguments: Sequence[str]) -> int:
    # Imports make many objects and no garbage: looking for it takes a fifth of their time, later 20 ms of a run.
    gc.disable()
    try:
        from harness.commands.common.parser import build_parser

        options = build_parser(arguments).parse(arguments)
    finally:
        gc.freeze()
        gc.enable()
    code: int = options.execute(options)
    return code


def _report(error: Exception) -> int:
    try:
        from lab.base.errors import BlklabError
    except Exception:
        traceback.print_exc()
        return LAB_BROKEN
    if isinstance(error, BlklabError):
        print(f"blklab: {error}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EBADF):
        print(f"blklab: {error.filename or 'the output'} cannot be written: {error.strerror}", file=sys.stderr)
        return LAB_BROKEN
    traceback.print_exc()
    print("blklab: this is a bug of blklab, not a verdict", file=sys.stderr)
    return LAB_BROKEN
