# SPDX-License-Identifier: GPL-2.0-only
"""Profiles in the formats of other tools: callgrind, speedscope, folded stacks."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from harness.profile.model import BLIND, Cost, Function, Profile

Path = tuple[Function, ...]
PER = 1000
"""I/Os to which folded stacks of two profiles refer, for their counts must be whole numbers."""


def folded(profile: Profile) -> str:
    """flamegraph.pl's lines "FRAME;FRAME;... INSTRUCTIONS" of the window, outermost first.

    The format has no comments, so the first line is a note that counts nothing.
    """
    counts = _paths(profile)
    return f"{BLIND} 0\n" + "".join(f"{_fold(path)} {counts[path]}\n" for path in sorted(counts) if counts[path])


def differential_folded(before: Profile, after: Profile) -> str:
    """The lines "FRAME;... BEFORE AFTER" that difffolded.pl writes, instructions per 1,000 I/Os, rounded."""
    sides = [
        {path: round(profile.per_io(PER * count)) for path, count in _paths(profile).items()}
        for profile in (before, after)
    ]
    paths = sorted(sides[0].keys() | sides[1].keys())
    rows = ((path, sides[0].get(path, 0), sides[1].get(path, 0)) for path in paths)
    return f"{BLIND} 0 0\n" + "".join(f"{_fold(path)} {old} {new}\n" for path, old, new in rows if old or new)


def _paths(profile: Profile) -> Mapping[Path, int]:
    counts: dict[Path, int] = defaultdict(int)
    for index, node in enumerate(profile.nodes):
        counts[profile.stack(index)] += node.instructions
    return counts


def _fold(path: Path) -> str:
    return ";".join((str(path[0].context), *(function.title for function in path)))


def speedscope(profile: Profile) -> str:
    """speedscope's JSON (https://www.speedscope.app/file-format-schema.json): a sample for each call path."""
    functions = sorted(profile.costs)
    numbers = {function: number for number, function in enumerate(functions)}
    paths = [(path, count) for path, count in sorted(_paths(profile).items()) if count]
    name = f"{profile.head.scenario} {profile.head.cell} {profile.head.release}, instructions. {BLIND}"
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "blklab profile",
            "name": name,
            "shared": {"frames": [{"name": one.title, "file": _file(one)} for one in functions]},
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
    return "\n".join((*_callgrind_head(profile), *_callgrind_body(profile), ""))


def _callgrind_head(profile: Profile) -> Iterator[str]:
    head = profile.head
    yield "# callgrind format"
    yield "version: 1"
    yield "creator: blklab profile"
    yield f"cmd: {head.scenario} {head.cell} seed {head.seed} on {head.release}"
    yield f"desc: I/Os: {float(profile.ios):.3f}"
    yield f"desc: Note: {BLIND}"
    yield "positions: line"
    yield "events: Ir"
    yield f"summary: {profile.total}"


def _callgrind_body(profile: Profile) -> Iterator[str]:
    calls: dict[Function, list[tuple[Function, Cost]]] = defaultdict(list)
    for (caller, callee), cost in sorted(profile.edges.items()):
        calls[caller].append((callee, cost))
    for function in sorted(profile.costs):
        yield ""
        yield f"ob={function.owner}"
        yield f"fl={_file(function)}"
        yield f"fn={function.name}"
        yield f"0 {profile.costs[function].instructions}"
        for callee, cost in calls[function]:
            if cost.calls:
                yield f"cob={callee.owner}"
                yield f"cfi={_file(callee)}"
                yield f"cfn={callee.name}"
                yield f"calls={cost.calls} 0"
                yield f"0 {cost.instructions}"


def _file(function: Function) -> str:
    return f"{function.context}/{function.owner}"
