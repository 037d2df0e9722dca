# SPDX-License-Identifier: GPL-2.0-only
"""The console script. Nothing but the standard library is imported before failures are caught here."""

import os
import sys
import traceback
from collections.abc import Sequence

MISUSE = 129
LAB_BROKEN = 128
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the process's exit code.

    ``git bisect run`` reads 1 to 127 as a verdict, so everything unforeseen, a failed import
    included, ends in 128 or above; so does a verdict that could not be written out.
    """
    try:
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
        # argparse leaves so after --help, and rich with 1 when nobody reads its output any more.
        return LAB_BROKEN if leaving.code else 0
    except KeyboardInterrupt:
        print("blklab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return LAB_BROKEN
    except Exception as error:
        return _report(error)


def _drop_output() -> None:
    """Nobody takes it; the interpreter would try once more at its end, and then leave with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _dispatch(arguments: Sequence[str]) -> int:
    from harness.commands.parser import build_parser

    options = build_parser(arguments).parse(arguments)
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
    traceback.print_exc()
    print("blklab: this is a bug of blklab, not a verdict", file=sys.stderr)
    return LAB_BROKEN
