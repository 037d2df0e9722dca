# SPDX-License-Identifier: GPL-2.0-only
"""What a bisection by release found, as text."""

from collections.abc import Iterator

from harness.bisect.releases import Releases
from harness.bisect.report import range_of
from harness.report.format import plural
from harness.studies.timeline.sweep import label
from harness.studies.timeline.text import spent


def text(found: Releases, drift: int, go_on: str) -> str:
    """``drift`` is how many options of the two configurations differ; ``go_on`` finds the commit, empty without."""
    return "\n".join([*_steps(found), "", *_conclusion(found), "", *_cautions(found, drift, go_on)]) + "\n"


def _steps(found: Releases) -> Iterator[str]:
    """In the order from the good end to the bad one."""
    specs = found.sweep.specs
    width = max(len(label(spec)) for spec in specs)
    for place in sorted(found.answers):
        answer, shown = found.answers[place], ", ".join(map(range_of, found.question.ratios(found.seen[place])))
        yield f"  {label(specs[place]):{width}}  {answer.word:4}  {answer.reason or shown}"


def _conclusion(found: Releases) -> Iterator[str]:
    specs, left = found.sweep.specs, found.left
    good, bad = label(specs[found.good]), label(specs[found.bad])
    if left:
        names = ", ".join(label(specs[place]) for place in left)
        yield f"Not decided: the first bad release is {bad} or one of {names}"
    else:
        yield f"{good} -> {bad}: {good} is the last good release, {bad} the first bad one"
    before = {claim.that: claim for claim in found.seen[found.good].claims}
    for claim in found.question.ratios(found.seen[found.bad]):
        yield f"  {claim.that}: {range_of(before[claim.that])} -> {range_of(claim)}"
    points = found.sweep.measured
    yield f"  {len(points)} of {plural(len(specs), 'kernel')} measured: {spent(points)}"


def _cautions(found: Releases, drift: int, go_on: str) -> Iterator[str]:
    good, bad = (found.sweep.specs[place] for place in (found.good, found.bad))
    yield f"{good} and {bad} are distribution kernels: {plural(drift, 'option')} of their configurations differ too"
    if go_on:
        yield f"the commit: {go_on}"
