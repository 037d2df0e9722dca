# SPDX-License-Identifier: GPL-2.0-only
"""Bisection by release: packaged kernels between a good and a bad one, without a tree and without a build."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.bisect.notebook import ClaimSeen, CommitWord, Observation, Question, claim_seen
from harness.grid.lines import GridLine, GridRow, lines
from harness.grid.measure import Sweeper
from harness.grid.timeline import spent
from harness.judge.cells import Ensemble
from harness.report.format import plural
from harness.scenario.model import Scenario, Status
from harness.scenario.ratio import FIGURE, ExpressionError, names_of, parse_ratio
from harness.scenario.registry import OF_ROLES
from lab.base.errors import CannotJudge, Misuse
from lab.base.units import Tell
from lab.yaml.strict import nearest

_SHAPE = "ARM.LOAD.ROLE.METRIC, without ROLE where several roles share it: mq-deadline.solo.fast.cpu.per_io"


@dataclass(frozen=True)
class Releases:
    """What was ``seen`` is by the kernel's place in ``row``, which goes from the good end to the bad one.

    ``good`` and ``bad`` are the places that the first bad release is between or at.
    """

    row: GridRow
    question: Question
    seen: Mapping[int, Observation]
    good: int
    bad: int

    @property
    def left(self) -> tuple[int, ...]:
        """Places between the two that could not be judged: the first bad release may be one of them."""
        return tuple(range(self.good + 1, self.bad))


Observe = Callable[[GridRow, int], tuple[GridRow, Observation]]
"""Measures the kernel at a place."""


def bisect_releases(sweeper: Sweeper, row: GridRow, figure: str, tell: Tell) -> Releases:
    """``row`` goes from the good kernel to the bad one. ``figure`` (ARM.LOAD.ROLE.METRIC) replaces the claims.

    Raises CannotJudge when an end cannot be measured or the ends do not differ, and what ``extended`` raises.
    """
    good, bad = 0, len(row.cells) - 1
    for place in (good, bad):
        tell(f"{row.labels[place]}: measuring an end")
        row = sweeper.extended(row, place)
        if place in row.missing:
            raise CannotJudge(f"{row.cells[place].kernel.spec} cannot be measured: {row.missing[place]}")
    middle = _middle(row, figure, (good, bad)) if figure else None

    def observe(row: GridRow, place: int) -> tuple[GridRow, Observation]:
        row = row if place in row.runs else sweeper.extended(row, place)
        return row, observed(row, place, figure, middle)

    return between(row, observe, tell)


def between(row: GridRow, observe: Observe, tell: Tell) -> Releases:
    """``row`` goes from the good kernel to the bad one. Raises CannotJudge when the ends do not differ."""
    good, bad = 0, len(row.cells) - 1
    seen = dict[int, Observation]()
    for place in (good, bad):
        row, seen[place] = observe(row, place)
    question = Question.between(seen[good], seen[bad])
    while open_places := [place for place in range(good + 1, bad) if place not in seen]:
        place = open_places[len(open_places) // 2]
        tell(f"{row.labels[place]}: measuring, {plural(bad - good - 1, 'kernel')} between good and bad")
        row, seen[place] = observe(row, place)
        answer = question.answer(seen[place])
        tell(f"{row.labels[place]}: {answer.word}" + (f", {answer.reason}" if answer.reason else ""))
        good = place if answer.word is CommitWord.GOOD else good
        bad = place if answer.word is CommitWord.BAD else bad
    return Releases(row, question, seen, good, bad)


def _middle(row: GridRow, figure: str, ends: tuple[int, int]) -> float:
    """The geometric mean of both ends: a kernel counts to the end on whose side its median is.

    Raises CannotJudge unless the ends differ as ``blklab compare`` marks it.
    """
    good, bad = (_figure(row, end, figure).median for end in ends)
    if not _line(row, figure).difference(*ends).marked:
        raise CannotJudge(
            f"{figure} does not differ between the ends: {good:.4g} and {bad:.4g}", remedy="use more seeds: --seeds 8"
        )
    return math.sqrt(good * bad)


def demand_figure(scenario: Scenario, figure: str, arms: Sequence[str] = ()) -> None:
    """Raises Misuse for a figure (without ROLE where several roles share it) that the scenario does not measure, or not
    with only these ``arms``."""
    known, (arm, load, *rest) = names_of(scenario), [*figure.split(".", 2), "", ""]
    if arms and arm in scenario.arms and arm not in arms:
        raise Misuse(f"--figure {figure} is of an arm that --arm leaves out", remedy=f"add --arm {arm}")
    roles = known.loads.get(load, ())
    shared = (f"{arm}.{load}.{role}.{rest[0]}" for role in roles if len(roles) > 1)
    for text in (*shared, figure):
        try:
            ratio = parse_ratio(text, known)
        except ExpressionError as error:
            reason = error.message
        else:
            if (ratio.left.kind, ratio.right) == (FIGURE, None):
                return
            reason = "this is not one figure"
    raise Misuse(f"--figure {figure}: {reason}", remedy=_SHAPE)


def observed(row: GridRow, place: int, figure: str, middle: float | None) -> Observation:
    """A kernel's claims; with a ``figure``, that one as a claim that it is on the first end's side of ``middle``."""
    spec = row.cells[place].kernel.spec
    if (run := row.runs.get(place)) is None:
        return Observation(spec, "", untestable=row.missing[place])
    claims = [claim_seen(claim) for claim in run.verdict.claims]
    if middle is not None:
        ensemble, first = _figure(row, place, figure), _figure(row, 0, figure)
        status = Status.PASS if (ensemble.median > middle) == (first.median > middle) else Status.FAIL
        values = tuple(value for _, value in sorted(ensemble.values.items()))
        claims = [ClaimSeen(figure, figure, status, values)]
    return Observation(spec, "", tuple(claims), run=run.path)


def _figure(row: GridRow, place: int, figure: str) -> Ensemble:
    line = _line(row, figure)
    if place not in line.values:
        raise Misuse(f"{row.cells[place].kernel.spec} has no figure {figure}", remedy=_SHAPE)
    return line.values[place]


def _line(row: GridRow, figure: str) -> GridLine:
    known = {f"{line.arm}.{line.name}": line for line in lines(row, OF_ROLES) if line.arm}
    if figure not in known:
        raise Misuse(f"no kernel of the row has the figure {figure}{nearest(figure, known)}", remedy=_SHAPE)
    return known[figure]


def text(releases: Releases, drift: int, go_on: str) -> Iterator[str]:
    """The report, in the order from the good end to the bad one.

    ``drift`` is how many options of the two configurations differ; ``go_on`` finds the commit, empty without.
    """
    row, left = releases.row, releases.left
    width = max(map(len, row.labels))
    for place, seen in sorted(releases.seen.items()):
        answer = releases.question.answer(seen)
        shown = ", ".join(claim.range for claim in releases.question.ratios(seen))
        yield f"  {row.labels[place]:{width}}  {answer.word:4}  {answer.reason or shown}"
    good, bad = (row.labels[place] for place in (releases.good, releases.bad))
    yield ""
    if left:
        names = ", ".join(row.labels[place] for place in left)
        yield f"Not decided: the first bad release is {bad} or one of {names}"
    else:
        yield f"{good} -> {bad}: {good} is the last good release, {bad} the first bad one"
    before = {claim.that: claim for claim in releases.seen[releases.good].claims}
    for claim in releases.question.ratios(releases.seen[releases.bad]):
        yield f"  {claim.that}: {before[claim.that].range} -> {claim.range}"
    cost = f": {spent(row.runs.values())}" if row.runs else ""
    yield f"  {len(row.runs or releases.seen)} of {plural(len(row.cells), 'kernel')} measured{cost}"
    yield ""
    good, bad = (row.cells[place].kernel.spec for place in (releases.good, releases.bad))
    yield f"{good} and {bad} are distribution kernels: {plural(drift, 'option')} of their configurations differ too"
    if go_on:
        yield f"the commit: {go_on}"
