# SPDX-License-Identifier: GPL-2.0-only
"""``blklab profile``: what a load's instructions were spent on, and what differs between two runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.base.checkout import results_root
from harness.commands.common.boots import kernel_again, lab_of_host
from harness.commands.common.options import tell
from harness.commands.common.pairs import add_pair, cell_words, runs_of
from harness.profile.differential import differential
from harness.profile.formats import write_profiles
from harness.profile.lines import Side, code_of, lines_text, listed_functions
from harness.profile.mail import differential_lines, function_lines, profile_lines
from harness.profile.model import Profile
from harness.profile.recorded import chosen_cell, parse_cell, profiles_of_runs
from lab.base.errors import EXIT_PASS
from lab.kernels.lines import Wanted, source_lines, source_of
from lab.kernels.model import Kernel
from lab.session import Lab


def configure(parser: argparse.ArgumentParser) -> None:
    add_pair(parser, "the first, or that whose cpu.per_io differs most")
    parser.add_argument("--function", metavar="NAME", help="callers and callees of a function, with counts")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write text, page, callgrind, speedscope and folded stacks there"
    )


def execute(options: argparse.Namespace) -> int:
    root = results_root(options.results)
    new, cells = cell_words(options.further, root)
    runs = runs_of(options.run, new, root, options.scenario)
    chosen = parse_cell(runs[0], cells[0], options.seed) if cells else chosen_cell(runs, options.seed)
    lab = lab_of_host()
    kernels = [kernel_again(run) for run in runs]
    profiles = profiles_of_runs(lab, runs, chosen, kernels, tell)
    lines = _lines(lab, profiles, kernels, options.function) if options.lines else []
    _print(profiles, lines, options)
    return EXIT_PASS


def _print(profiles: Sequence[Profile], by_line: Sequence[str], options: argparse.Namespace) -> None:
    alone = len(profiles) == 1
    if options.function:
        lines = function_lines(profiles, options.function)
    else:
        lines = profile_lines(profiles[0]) if alone else differential_lines(differential(*profiles))
    print("\n".join([*lines, *([""] if by_line else []), *by_line]))
    if options.out:
        paths = write_profiles(options.out, profiles, by_line=by_line)
        tell(f"wrote {', '.join(path.name for path in paths)} to {options.out}")


def _lines(lab: Lab, profiles: Sequence[Profile], kernels: Sequence[Kernel], function: str | None) -> list[str]:
    functions = listed_functions(profiles, function)
    sides = []
    for profile, kernel in zip(profiles, kernels, strict=True):
        codes = code_of(profile, [(listed.owner, listed.name) for listed in functions])
        wanted = [Wanted(code.owner, code.name, code.counts) for code in codes]
        lines = source_lines(kernel, source_of(kernel, lab.cache, tell), wanted, lab.cache, tell=tell)
        sides.append(Side(profile, dict(zip(codes, lines, strict=True))))
    return list(lines_text(sides, functions))
