# SPDX-License-Identifier: GPL-2.0-only
"""What a bisection by release found, as text."""

from collections.abc import Iterator

from harness.bisect.releases import Releases
from harness.bisect.report import range_of
from harness.report.format import plural
from harness.studies.timeline.sweep import label
from harness.studies.timeline.text import spent


def text(releases: Releases, drift: int, go_on: str) -> str:
    """``drift`` is how many options of the two configurations differ; ``go_on`` finds the commit, empty without."""
    return "\n".join([*_steps(releases), "", *_conclusion(releases), "", *_cautions(releases, drift, go_on)]) + "\n"


def _steps(releases: Releases) -> Iterator[str]:
    """In the order from the good end to the bad one."""
    specs = releases.sweep.specs
    width = max(len(label(spec)) for spec in specs)
    for place in sorted(releases.answers):
        answer = releases.answers[place]
        shown = ", ".join(map(range_of, releases.question.ratios(releases.seen[place])))
        yield f"  {label(specs[place]):{width}}  {answer.word:4}  {answer.reason or shown}"


def _conclusion(releases: Releases) -> Iterator[str]:
    specs, left = releases.sweep.specs, releases.left
    good, bad = label(specs[releases.good]), label(specs[releases.bad])
    if left:
        names = ", ".join(label(specs[place]) for place in left)
        yield f"Not decided: the first bad release is {bad} or one of {names}"
    else:
        yield f"{good} -> {bad}: {good} is the last good release, {bad} the first bad one"
    before = {claim.that: claim for claim in releases.seen[releases.good].claims}
    for claim in releases.question.ratios(releases.seen[releases.bad]):
        yield f"  {claim.that}: {range_of(before[claim.that])} -> {range_of(claim)}"
    points = releases.sweep.measured
    yield f"  {len(points)} of {plural(len(specs), 'kernel')} measured: {spent(points)}"


def _cautions(releases: Releases, drift: int, go_on: str) -> Iterator[str]:
    good, bad = (releases.sweep.specs[place] for place in (releases.good, releases.bad))
    yield f"{good} and {bad} are distribution kernels: {plural(drift, 'option')} of their configurations differ too"
    if go_on:
        yield f"the commit: {go_on}"
