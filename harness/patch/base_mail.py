# SPDX-License-Identifier: GPL-2.0-only
"""A scenario on two kernels as a mail: what ``blklab run --base --mail`` writes."""

import shlex
from collections.abc import Iterator
from textwrap import wrap

from harness.patch.judgement import outcomes
from harness.patch.report import WIDTH, letter, verdict_line
from harness.patch.study import MeasuredSeries, SeriesKernel, profiled
from harness.record.store import RunFolder
from lab.base.units import Tell
from lab.kernels.kconfig import drift
from lab.kernels.model import Kernel
from lab.session import Lab

_OPTIONS = 3


def base_mail(lab: Lab, runs: tuple[RunFolder, RunFolder], kernels: tuple[Kernel, Kernel], tell: Tell) -> str:
    """The runs of one scenario on BASE and on the other kernel. Two further boots give the functions that differ."""
    base, other = (SeriesKernel("", kernel.origin, kernel) for kernel in kernels)
    result = MeasuredSeries(base, other, (outcomes(*runs),))
    command = shlex.join(runs[1].facts.command)
    return letter([*_head(runs[1], result)], result, profiled(lab, result, tell), command)


def _head(run: RunFolder, result: MeasuredSeries) -> Iterator[str]:
    scenario = run.scenario
    yield f"Subject: {scenario.name}: {result.base.kernel.release} -> {result.series.kernel.release}"
    yield ""
    yield from wrap(f"{scenario.title}.", WIDTH)
    if scenario.source is not None and scenario.source.link:
        yield f"Reported in {scenario.source.link}"
    yield ""
    for word, step in (("base", result.base), ("new", result.series)):
        yield from wrap(f"{word}: {step.kernel.release}, {step.title}", WIDTH, subsequent_indent="  ")
    yield from wrap(_configurations(result.base.kernel, result.series.kernel), WIDTH)
    yield ""
    yield verdict_line(result)


def _configurations(base: Kernel, other: Kernel) -> str:
    options = drift(base.config, other.config).options
    if not options:
        return "Both have the same configuration."
    shown = ", ".join(f"{name} {was} -> {now}" for name, (was, now) in list(options.items())[:_OPTIONS])
    more = f" and {len(options) - _OPTIONS} more" if len(options) > _OPTIONS else ""
    return f"Their configurations differ in {shown}{more}, so a difference is not the code's alone."
