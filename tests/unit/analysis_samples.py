# SPDX-License-Identifier: GPL-2.0-only
"""Small scenarios and cells for the tests of judgement."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from harness.base.plain import identity
from harness.judge.cells import CellResult, Ensemble
from harness.limits.limits import arm_bound
from harness.scenario.model import Arm, Bound, Claim, Control, Load, Operand, Ratio, Role, Scenario, Status
from harness.scenario.timing import Clock
from lab.base.record import Outcome
from lab.topology.model import Disk, Driver, Hba, Lun, Topology

GIB = 1 << 30
MS = 10**6
SEEDS = (1, 2, 3)


def null_topology(can_queue: int = 64) -> Topology:
    disks = {"fast": Disk("fast", GIB, service=4 * MS), "slow": Disk("slow", GIB, service=400 * MS)}
    return Topology(
        name="null",
        title="two devices on one tag set",
        memory=512 << 20,
        hbas={"nullb": Hba("nullb", Driver.NULL_BLK, can_queue, can_queue)},
        disks=disks,
        luns={name: Lun(name, "nullb", (name,)) for name in disks},
    )


def role(name: str, disk: str | tuple[str, ...], iodepth: int = 64, bs: int = 4096) -> Role:
    disks = (disk,) if isinstance(disk, str) else disk
    return Role(name, disks, "randread", bs, iodepth, "libaio", True)


def load(name: str, *roles: Role) -> Load:
    return Load(name, {one.name: one for one in roles}, 8000 * MS, 2000 * MS)


def bound(topology: Topology, of: Load, role: Role, metric: str, **queue: str) -> float:
    """That of a role in an arm with these settings."""
    return arm_bound(Arm("a", topology, queue, {}), of, role.name, metric)


SOLO = load("solo", role("fast", "fast"))
TOGETHER = load("together", role("fast", "fast"), role("slow", "slow"))


def operand(text: str) -> Operand:
    first, *rest = text.split(".")
    if first in ("bound", "baseline"):
        return Operand(first, _path(rest))
    return Operand("figure", _path([first, *rest]))


def _path(parts: list[str]) -> tuple[str, ...]:
    return (*parts[:3], ".".join(parts[3:]))


def ratio(left: str, right: str | None = None) -> Ratio:
    text = f"{left} / {right}" if right else left
    return Ratio(text, operand(left), operand(right) if right else None)


SHARE = ratio("none.together.fast.iops", "none.solo.fast.iops")
AT_LEAST = Bound(">= 0.9", 0.9, None)
AT_MOST = Bound("<= 0.5", None, 0.5)


def claim(expect: Bound = AT_LEAST, of: Ratio = SHARE, *, optional: bool = False) -> Claim:
    return Claim("the share is kept", of, expect, optional, "it keeps it", "it starves")


def control(expect: Bound = AT_MOST, of: Ratio | None = None, mutant: str = "") -> Control:
    return Control("it can starve", of or ratio("red.together.fast.iops", "red.solo.fast.iops"), expect, mutant)


def scenario(
    claims: Iterable[Claim] = (), controls: Iterable[Control] = (), arms: Iterable[str] = ("none",)
) -> Scenario:
    model = Scenario(
        name="sample",
        title="A sample",
        path=Path("sample.yaml"),
        digest="",
        clock=Clock.VIRTUAL,
        source=None,
        teaches="",
        seeds=len(SEEDS),
        pause=70 * 10**9,
        arms={name: Arm(name, null_topology(), {"scheduler": "none"}, {"queue.scheduler": "none"}) for name in arms},
        loads={"solo": SOLO, "together": TOGETHER},
        claims=tuple(claims),
        controls=tuple(controls),
    )
    return replace(model, digest=identity(model))


def cell(arm: str, seed: int, together: float, solo: float = 100.0, idle: float = 0.9) -> CellResult:
    figures: Mapping[tuple[str, str, str], float] = {
        ("solo", "fast", "iops"): solo,
        ("together", "fast", "iops"): together,
        ("together", "slow", "iops"): 80.0,
        ("solo", "guest", "cpu.idle"): idle,
        ("together", "guest", "cpu.idle"): idle,
    }
    return CellResult(arm, seed, Status.PASS, figures=figures, digest=f"{arm}{seed}", outcome=Outcome.BYE)


def ensemble(*values: float) -> Ensemble:
    return Ensemble(dict(enumerate(values, start=1)))


def cells(arm: str, *together: float, idle: float = 0.9) -> list[CellResult]:
    return [cell(arm, seed, value, idle=idle) for seed, value in zip(SEEDS, together, strict=False)]
