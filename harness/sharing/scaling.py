# SPDX-License-Identifier: GPL-2.0-only
"""At how many CPUs a line or a lock saturates: a model, not a measurement.

Each line and each lock is a station that serves one CPU at a time. A line is busy for the time of a transfer, a lock
for as long as it is held and for the transfer of its line. The rest of an I/O's instructions is think time, 1 ns each.
What each CPU has of its own (per-CPU) is no station, because more CPUs have more of it.
Bounds of a closed queueing network (Denning and Buzen 1978): throughput is at most N / (think time + all demands) and
at most 1 / the largest demand.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.sharing.window import Window

TRANSFERS = (40, 200)
"""Nanoseconds of a transfer between CPUs: within a socket, and what published pairs imply between two."""
MODEL = (
    f"A model of more CPUs: an instruction takes 1 ns, the transfer of a line {TRANSFERS[0]} to {TRANSFERS[1]} ns,"
    " one at a time"
)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Station:
    """``demand`` in ns for each I/O."""

    name: str
    demand: float


@dataclass(frozen=True)
class Scaling:
    """For transfers of ``transfer`` ns: the busiest station, and the number of CPUs at which it saturates."""

    transfer: int
    busiest: Station
    alone: float
    demands: float

    @property
    def saturates(self) -> float:
        return (self.alone + self.demands) / self.busiest.demand

    def speed_up(self, cpus: int) -> float:
        """Throughput at most, as a multiple of one CPU's, to which no line moves."""
        return (
            1.0 if cpus == 1 else min(cpus * self.alone / (self.alone + self.demands), self.alone / self.busiest.demand)
        )


def scaling_of(window: Window, transfer: int) -> Scaling | None:
    """None where nothing is shared."""
    stations = [
        Station(str(group.place), line_moves * transfer)
        for group in window.groups
        if not group.place.per_cpu and (line_moves := group.saturated / len(group.lines))
    ]
    stations += [
        Station(f"lock {lock.place}", lock.held + lock.taken * transfer)
        for lock in window.locks
        if not lock.place.per_cpu
    ]
    if not stations:
        return None
    demands = sum(group.saturated * transfer for group in window.groups)
    busiest = max(stations, key=lambda station: (station.demand, station.name))
    return Scaling(transfer, busiest, window.figures["instructions"], demands)


def _models(window: Window) -> list[Scaling]:
    return [model for transfer in TRANSFERS if (model := scaling_of(window, transfer))]


def scaling_sentence(window: Window) -> str:
    """The CPUs at which something saturates, what that is, and what as many CPUs as the guest has reach at most."""
    if not (models := _models(window)):
        return "no line and no lock is shared"
    fast, slow = models
    names = " or ".join(dict.fromkeys(model.busiest.name for model in (slow, fast)))
    reach = " to ".join(f"{model.speed_up(window.head.cpus):.1f}" for model in (slow, fast))
    return (
        f"saturated by {slow.saturates:.0f} to {fast.saturates:.0f} CPUs: {names};"
        f" {window.head.cpus} CPUs reach at most {reach} times the throughput of one"
    )


def scaling_lines(window: Window) -> Iterator[str]:
    if not (models := _models(window)):
        return
    yield f"{MODEL}."
    yield f"{'CPUs':>9}  " + "".join(f"{count:>7}" for count in _COUNTS)
    for model in models:
        yield f"{model.transfer:>6} ns  " + "".join(f"{model.speed_up(count):>7.1f}" for count in _COUNTS)
    for model in models:
        yield f"at {model.transfer} ns saturated by {model.saturates:.0f} CPUs: {model.busiest.name}"[:112]
