# SPDX-License-Identifier: GPL-2.0-only
"""Whether the boots of two kernels may be compared: all else that went into them must be the same."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.judge.cells import CellResult
from harness.scenario.model import Status

KERNELS_OWN = frozenset({"kernel", "base", "job"})
"""What of a fingerprint belongs to the kernel: itself, the archive with its modules, the job that loads them."""


def compared(cells: Sequence[CellResult], baseline: Sequence[CellResult]) -> tuple[CellResult, ...]:
    """The cells of the BASE kernel that have a counterpart in ``cells``, with the status that counts.

    ERROR is a cell that differs from its counterpart in more than the kernel, and one in
    which the BASE kernel failed: that says nothing against the kernel under test.
    """
    fellows = {(cell.arm, cell.seed): cell for cell in cells}
    return tuple(_beside(fellows[base.arm, base.seed], base) for base in baseline if (base.arm, base.seed) in fellows)


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Names of what differs between two fingerprints although the kernels do not make it differ."""
    names = (one.keys() | other.keys()) - KERNELS_OWN
    return tuple(sorted(name for name in names if one.get(name) != other.get(name)))


def _beside(cell: CellResult, base: CellResult) -> CellResult:
    if base.status is Status.FAIL:
        return replace(base, status=Status.ERROR)
    if cell.status is not Status.PASS or base.status is not Status.PASS:
        return base
    differing = differences(cell.fingerprint, base.fingerprint)
    if not differing:
        return base
    reason = f"cannot be compared under seed {base.seed}: {_listed(differing)}, not only the kernel"
    return replace(base, status=Status.ERROR, figures={}, reasons=(reason,))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}"
