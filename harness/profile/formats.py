# SPDX-License-Identifier: GPL-2.0-only
"""Profiles in the formats of other tools (callgrind, speedscope, folded stacks), and the files of ``--out``."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.base.files import write_atomic, writing
from harness.profile.differential import differential
from harness.profile.mail import differential_lines, profile_lines
from harness.profile.model import BLIND, Cost, Function, Profile
from harness.profile.page import differential_page, profile_page

CallPath = tuple[Function, ...]
PER = 1000
"""I/Os to which folded stacks of two profiles refer, for their counts must be whole numbers."""


def folded_stacks(profile: Profile) -> str:
    """flamegraph.pl's lines "FRAME;FRAME;... INSTRUCTIONS" of the window, outermost first.

    The format has no comments, so the first line is a note that counts nothing.
    """
    counts = _paths(profile)
    return f"{BLIND} 0\n" + "".join(f"{_fold(path)} {counts[path]}\n" for path in sorted(counts))


def differential_stacks(before: Profile, after: Profile) -> str:
    """The lines "FRAME;... BEFORE AFTER" that difffolded.pl writes, instructions per 1,000 I/Os, rounded."""
    old, new = (
        {path: round(profile.per_io(PER * count)) for path, count in _paths(profile).items()}
        for profile in (before, after)
    )
    rows = ((path, old.get(path, 0), new.get(path, 0)) for path in sorted(old.keys() | new.keys()))
    lines = (f"{_fold(path)} {was} {now}\n" for path, was, now in rows if was or now)
    return f"{BLIND} 0 0\n{''.join(lines)}"


def _paths(profile: Profile) -> Mapping[CallPath, int]:
    counts = Counter[CallPath]()
    for stack, node in zip(profile.stacks, profile.nodes, strict=True):
        counts[stack] += node.instructions
    return +counts


def _fold(path: CallPath) -> str:
    return ";".join((str(path[0].context), *(function.title for function in path)))


def speedscope(profile: Profile) -> str:
    """speedscope's JSON (https://www.speedscope.app/file-format-schema.json): a sample for each call path."""
    functions = sorted(profile.costs)
    numbers = {function: number for number, function in enumerate(functions)}
    paths = sorted(_paths(profile).items())
    name = f"{profile.head.scenario} {profile.head.cell} {profile.head.release}, instructions. {BLIND}"
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "blklab profile",
            "name": name,
            "shared": {"frames": [{"name": function.title, "file": _file(function)} for function in functions]},
            "profiles": [
                {
                    "type": "sampled",
                    "name": name,
                    "unit": "none",
                    "startValue": 0,
                    "endValue": sum(count for _, count in paths),
                    "samples": [[numbers[function] for function in path] for path, _ in paths],
                    "weights": [count for _, count in paths],
                }
            ],
        },
        indent=1,
    )


def callgrind(profile: Profile) -> str:
    """A callgrind.out file (Callgrind Format Specification, version 1) with exact inclusive costs in the kernel.

    The file is the context (user, kernel, interrupt, idle) with the module or program, which is the object too.
    """
    head = profile.head
    lines = (
        "# callgrind format",
        "version: 1",
        "creator: blklab profile",
        f"cmd: {head.scenario} {head.cell} seed {head.seed} on {head.release}",
        f"desc: I/Os: {float(profile.ios):.3f}",
        f"desc: Note: {BLIND}",
        "positions: line",
        "events: Ir",
        f"summary: {profile.total}",
    )
    return "\n".join((*lines, *_callgrind_functions(profile), ""))


def _callgrind_functions(profile: Profile) -> Iterator[str]:
    calls: dict[Function, list[tuple[Function, Cost]]] = defaultdict(list)
    for (caller, callee), cost in sorted(profile.edges.items()):
        calls[caller].append((callee, cost))
    for function in sorted(profile.costs):
        yield from ("", f"ob={function.owner}", f"fl={_file(function)}", f"fn={function.name}")
        yield f"0 {profile.costs[function].instructions}"
        for callee, cost in calls[function]:
            if cost.calls:
                yield from (f"cob={callee.owner}", f"cfi={_file(callee)}", f"cfn={callee.name}")
                yield from (f"calls={cost.calls} 0", f"0 {cost.instructions}")


def _file(function: Function) -> str:
    return f"{function.context}/{function.owner}"


def write_profiles(folder: Path, profiles: Sequence[Profile], *, by_line: Sequence[str] = ()) -> tuple[Path, ...]:
    """One profile, or two and their differential; ``by_line`` are the lines of lines.txt, if any.

    Raises LabBroken when the folder cannot be written.
    """
    if len(profiles) == 1:
        texts = {"profile.txt": _text(profile_lines(profiles[0])), "profile.html": profile_page(profiles[0])}
        prefixes: tuple[str, ...] = ("",)
    else:
        texts = {
            "differential.txt": _text(differential_lines(differential(*profiles))),
            "differential.html": differential_page(*profiles),
            "differential.folded": differential_stacks(*profiles),
        }
        prefixes = ("before.", "after.")
    for prefix, profile in zip(prefixes, profiles, strict=True):
        texts[f"{prefix}callgrind.out"] = callgrind(profile)
        texts[f"{prefix}speedscope.json"] = speedscope(profile)
        texts[f"{prefix}folded"] = folded_stacks(profile)
    texts |= {"lines.txt": _text(by_line)} if by_line else {}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomic(folder / name, text.encode())
    return tuple(folder / name for name in texts)


def _text(lines: Iterable[str]) -> str:
    return "\n".join((*lines, ""))
