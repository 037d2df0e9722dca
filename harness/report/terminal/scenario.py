# SPDX-License-Identifier: GPL-2.0-only
"""A scenario as text: in words, and as the steps that its guests carry out."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.limits.cost import SHORT, LoadCost, boot_seconds, costs
from harness.noise import stopping_rule
from harness.record.index import IndexedRun, indexed_runs
from harness.report.format import duration, figure, percent, plural
from harness.report.terminal import console_of, figures, plain_table, print_wide
from harness.report.topology import tree
from harness.run.plan import guest_job
from harness.scenario.model import Arm, Claim, Load, Role, Scenario
from lab.base.errors import Misuse
from lab.base.units import show_size, show_time
from lab.guest.steps import job_files
from lab.session import guest_steps

_MOST = 3
"""Scenarios whose loads are listed."""
_MOST_LOADS = 3
_SHARE = 0.2
"""Of the time of all loads: what takes less is left out."""


@dataclass(frozen=True)
class Estimate:
    """A scenario on the kernel that ``spec`` names. On the wall clock ``boots`` is a maximum.

    ``arms`` are those that boot, all when none is named.
    """

    scenario: Scenario
    spec: str
    boots: int
    arms: tuple[str, ...] = ()

    def seconds(self, runs: Sequence[IndexedRun]) -> float | None:
        """Host time from stored runs of the scenario, preferably on the same kernel; None without any."""
        usable = [run for run in runs if run.scenario == self.scenario.name and run.seconds and run.boots]
        alike = [run for run in usable if run.kernel.spec == self.spec] or usable
        return self.boots * median((run.seconds or 0) / run.boots for run in alike) if alike else None

    @property
    def modelled(self) -> float:
        """Host time from bounds and windows at most, one boot after another."""
        return self.boots * boot_seconds(self.scenario, self.arms)

    def words(self, runs: Sequence[IndexedRun]) -> str:
        """``about 8.4 s``, or where no run is stored ``at most 40 s``."""
        seconds = self.seconds(runs)
        return f"at most {duration(self.modelled)}" if seconds is None else f"about {duration(seconds)}"


def print_estimates(estimates: Sequence[Estimate], root: Path) -> None:
    """Print a row for each estimate, and the sum. ``root`` holds the stored runs."""
    runs = indexed_runs(root)
    table = plain_table("scenario", "kernel", figures("boots"), figures("time"))
    for estimate in estimates:
        boots = f"{'<= ' if estimate.scenario.timing.by_rule else ''}{estimate.boots}"
        table.add_row(estimate.scenario.name, estimate.spec, boots, estimate.words(runs))
    print_wide(console_of(), table)
    print(total(estimates, runs))
    for line in dominant(estimates):
        print(f"  {line}")


def total(estimates: Sequence[Estimate], runs: Sequence[IndexedRun]) -> str:
    """Cells, boots, and the time of those with stored runs and of the others."""
    stored = [seconds for estimate in estimates if (seconds := estimate.seconds(runs)) is not None]
    others = [estimate.modelled for estimate in estimates if estimate.seconds(runs) is None]
    boots = plural(sum(estimate.boots for estimate in estimates), "boot")
    most = "at most " if any(estimate.scenario.timing.by_rule for estimate in estimates) else ""
    parts = [f"about {duration(sum(stored))} as earlier runs took"] if stored else []
    parts += [f"at most {duration(sum(others))} on an idle host (no earlier run to go by)"] if others else []
    cells = f"{len(estimates)} cells (scenario x kernel), " if len(estimates) > 1 else ""
    return f"{cells}{most}{boots}, {' and '.join(parts)}"


def dominant(estimates: Sequence[Estimate]) -> Iterator[str]:
    """The loads that take most of the time, of few scenarios."""
    scenarios = {estimate.scenario.name: estimate for estimate in estimates}
    for name, estimate in scenarios.items() if len(scenarios) <= _MOST else ():
        yield from (f"{name}: {line}" for line in cost_lines(estimate.scenario, estimate.arms))


def cost_lines(scenario: Scenario, arms: Sequence[str] = ()) -> Iterator[str]:
    """The loads that dominate the time of a boot (none on the wall clock), and what shorter windows would take."""
    longest = dominant_costs(scenario, arms).values()
    if longest:
        yield f"longest loads, host time in a boot at most: {', '.join(map(_cost_words, longest))}"
    for cost in longest:
        if less := cost.shorter:
            short = f"{cost.load} with runtime: {1000 * SHORT:g}ms takes {duration(less.seconds)}"
            yield f"{short} and has at least {figure(less.iops * SHORT)} I/Os"


def dominant_costs(scenario: Scenario, arms: Sequence[str] = ()) -> dict[str, LoadCost]:
    """The loads that take most, longest first, each in the arm where it takes longest: the first one, and those with
    a large share."""
    longest = {cost.load: cost for cost in sorted(costs(scenario, arms), key=lambda cost: cost.seconds)}
    ordered = sorted(longest.values(), key=lambda cost: -cost.seconds)
    least = _SHARE * sum(cost.seconds for cost in ordered)
    chosen = (cost for cost in ordered[:_MOST_LOADS] if cost is ordered[0] or cost.seconds >= least)
    return {cost.load: cost for cost in chosen}


def _cost_words(cost: LoadCost) -> str:
    busy = f"for {percent(cost.busy)} of them" if cost.bounded else "perhaps throughout: nothing bounds it"
    return f"{cost.load} {duration(cost.seconds)} (arm {cost.arm}: {cost.window:g} s in the guest, CPU busy {busy})"


_WIDTH = 80
_LONG = 5.0
"""Host seconds of a load that are worth a word."""
_USUAL = ("libaio", True)
_WHERE = ("size", "offset", "files")
"""Options that say where a role reads and writes, not how."""


def describe_scenario(scenario: Scenario, arms: Sequence[str] = ()) -> str:
    """One screen: purpose, loads, claims, controls and arms; the devices of the ``arms`` that are named."""
    devices = (line for arm in _arms_of(scenario, arms) if arms for line in _devices(arm))
    return "\n".join([*_preface(scenario), *_arms(scenario), *devices])


def steps_of(scenario: Scenario, arms: Sequence[str] = ()) -> str:
    """What lab/guest/runner.sh gets for each arm: a step on each line, then the files that steps use."""
    return "\n".join(line for arm in _arms_of(scenario, arms) for line in _steps(scenario, arm))


def _arms_of(scenario: Scenario, arms: Sequence[str]) -> list[Arm]:
    if unknown := [arm for arm in arms if arm not in scenario.arms]:
        raise Misuse(f"no arm {', '.join(unknown)}", remedy=f"the arms are {', '.join(scenario.arms)}")
    return [arm for arm in scenario.arms.values() if not arms or arm.name in arms]


def _boots(scenario: Scenario) -> str:
    if not scenario.timing.by_rule:
        return plural(scenario.seeds, "seed")
    looks = ", ".join(str(look.rounds) for look in stopping_rule(scenario.seeds).looks)
    return f"{scenario.seeds} boots of each arm at most, {scenario.windows} windows each; judged after {looks}"


def _preface(scenario: Scenario) -> Iterator[str]:
    yield f"{scenario.name}: {scenario.title}"
    if scenario.source:
        facts = (scenario.source.by, scenario.source.on, scenario.source.kernel and f"Linux {scenario.source.kernel}")
        yield f"from: {scenario.source.report} ({', '.join(filter(None, facts))})"
    yield from textwrap.wrap(scenario.teaches, _WIDTH)
    yield f"clock: {scenario.clock}; {_boots(scenario)}; {show_time(scenario.pause)} of rest before each load"
    yield "\nloads"
    by_load = {name: cost for name, cost in dominant_costs(scenario).items() if cost.seconds >= _LONG}
    for load in scenario.loads.values():
        yield from _load(load, by_load.get(load.name))
    if scenario.claims:
        yield "\nclaims"
    for claim in scenario.claims:
        yield from _claim(claim)
    if scenario.controls:
        yield "\nnegative controls"
    for control in scenario.controls:
        kernel = f" (kernel with the mutant {control.mutant})" if control.mutant else ""
        yield f"  {control.that}{kernel}: {control.expect.text}"


def _load(load: Load, cost: LoadCost | None) -> Iterator[str]:
    roles = ", ".join(map(_role, load.roles.values()))
    before = ((_role(step), show_size(int(step.options["size"]))) for step in (*load.prepare, *load.warm))
    steps = "".join(f"; before: {step}, {size}" for step, size in before)
    lost = "".join(f"; {loss.path} fails from {show_time(loss.start)} to {show_time(loss.end)}" for loss in load.lost)
    events = "".join(f"; {event.text}" for event in load.events)
    times = f"{show_time(load.ramp)} ramp, " * bool(load.ramp) + show_time(load.runtime)
    if cost:
        less = f", {1000 * SHORT:g}ms would be {duration(cost.shorter.seconds)}" if cost.shorter else ""
        times += f"; host <= {duration(cost.seconds)}{less}"
    text = f"{load.name} ({times}): {roles}{steps}{lost}{events}"
    yield from textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _role(role: Role) -> str:
    usual = (role.ioengine, role.direct) == _USUAL
    kind = "" if usual else f" {role.ioengine} {'direct' if role.direct else 'buffered'}"
    disks = role.disk if len(role.disks) == 1 else f"{len(role.disks)} disks {role.disks[0]}..{role.disks[-1]}"
    jobs = f"{role.numjobs} x " if role.numjobs > 1 else ""
    options = "".join(f" {key}={text}" for key, text in role.options.items() if key not in _WHERE)
    return f"{role.name} {role.rw} {show_size(role.bs)} {jobs}QD{role.iodepth}{kind} on {disks}{options}"


def _claim(claim: Claim) -> Iterator[str]:
    yield f"  {claim.that}{' (draft)' if claim.draft else ' (optional)' if claim.optional else ''}"
    yield f"    {claim.ratio.text} {claim.expect.text}"
    for known in claim.known:
        yield f"    known to fail on kernels {known.kernels}: {known.because} ({known.link})"


def _arms(scenario: Scenario) -> Iterator[str]:
    yield "\narms"
    width, earlier = max(map(len, scenario.arms)), list[Arm]()
    for arm in scenario.arms.values():
        text = f"{arm.name:{width}}  {', '.join(_setting(arm, earlier))}"
        yield from textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        earlier.append(arm)


def _setting(arm: Arm, earlier: Sequence[Arm]) -> Iterator[str]:
    """The arm's topology and settings; or an arm above that has all but few of them, and these."""
    items = arm.settings.items()
    alike = [above for above in earlier if above.topology.name == arm.topology.name and items & above.settings.items()]
    fewer = [above for above in alike if above.settings.keys() <= arm.settings.keys()]
    base = min(fewer, key=lambda above: len(items - above.settings.items()), default=None)
    yield f"as {base.name}" if base else arm.topology.name
    given = base.settings.items() if base else ()
    yield from (f"{key}: {value}" for key, value in items if (key, value) not in given and key != "topology")


def _devices(arm: Arm) -> Iterator[str]:
    yield f"\narm {arm.name}"
    yield f"  {arm.topology.name}: {arm.topology.title}"
    yield from (f"    {line}".rstrip() for line in tree(arm.topology))
    for attribute, value in arm.queue.items():
        yield f"  queue {attribute} = {value}"


def _steps(scenario: Scenario, arm: Arm) -> Iterator[str]:
    files = job_files(guest_steps(arm.topology, guest_job(scenario, arm, 1)), deadline=0)
    for name, text in files.items():
        if name != "deadline":
            yield f"\narm {arm.name}: {name}"
            yield from (f"  {line}".expandtabs(1) for line in text.decode().splitlines())
