# SPDX-License-Identifier: GPL-2.0-only
"""Print whom completions of a shared tag set wake, and what that gains: ``python wakes.py trace.LOAD.txt``.

The trace is of one fio process for each device and of the events block_getrq, block_rq_complete, sched_waking and
sched_switch. A wake-up is lost when the woken process sleeps in blk_mq_get_tag (state D) again without a request.
"""

import re
import sys
from collections import Counter
from pathlib import Path

_NAMES = "block_getrq|block_rq_complete|sched_waking|sched_switch"
_EVENT = re.compile(rf"\s*\S+-(?P<pid>\d+) +\[\d+\] \S+ +(?P<time>[\d.]+): (?P<name>{_NAMES}): (?P<rest>.*)")


class Wakes:
    """What one pass over a trace counts. Processes are known by the device of their first request."""

    def __init__(self, events: list[dict[str, str]]) -> None:
        requests = reversed([event for event in events if event["name"] == "block_getrq"])
        self.device = {event["pid"]: event["rest"].split()[0] for event in requests}
        self.waking: Counter[tuple[str, str]] = Counter()
        self.lost: Counter[tuple[str, str]] = Counter()
        self.vain: dict[str, int] = {}
        self.empty: Counter[str] = Counter()
        self._flying: Counter[str] = Counter()
        self._asleep, self._cause, self._since = set[str](), dict[str, str](), dict[str, float]()
        self._completed, self._last, self._row = "", "", 0
        for event in events:
            getattr(self, event["name"])(event["pid"], event["rest"], float(event["time"]))

    def block_getrq(self, pid: str, rest: str, now: float) -> None:
        device = rest.split(maxsplit=1)[0]
        self._flying[device] += 1
        self._cause.pop(pid, None)
        if device in self._since:
            self.empty[device] += round(1e6 * (now - self._since.pop(device)))

    def block_rq_complete(self, _pid: str, rest: str, now: float) -> None:
        self._completed = device = rest.split(maxsplit=1)[0]
        self._flying[device] = max(0, self._flying[device] - 1)
        if not self._flying[device]:
            self._since.setdefault(device, now)

    def sched_waking(self, _pid: str, rest: str, _now: float) -> None:
        pid = rest.partition("pid=")[2].split()[0]
        if pid in self._asleep and self._completed:
            self.waking[self._completed, self.device[pid]] += 1
            self._cause[pid] = self._completed

    def sched_switch(self, pid: str, rest: str, _now: float) -> None:
        self._asleep.discard(pid)
        if pid not in self.device or rest.partition("prev_state=")[2].split()[0] != "D":
            return
        self._asleep.add(pid)
        device, by = self.device[pid], self._cause.pop(pid, "")
        self._row = self._row + 1 if by and self._last in ("", pid) else int(bool(by))
        self._last = pid
        if by:
            self.lost[by, device] += 1
            self.vain[device] = max(self._row, self.vain.get(device, 0))


def main(path: str) -> None:
    with Path(path).open() as file:
        events = [match.groupdict() for line in file if (match := _EVENT.match(line))]
    wakes, span = Wakes(events), float(events[-1]["time"]) - float(events[0]["time"])
    devices = sorted(set(wakes.device.values()))
    print("completed on  woke the process of  times  lost")
    for by in devices:
        for woken in devices:
            print(f"{by:12}  {woken:19}  {wakes.waking[by, woken]:5}  {wakes.lost[by, woken]:4}")
    for device in devices:
        print(
            f"{device}: nothing in flight for {wakes.empty[device] / 1e6 / span:.3f} of the trace; "
            f"its process woke in vain up to {wakes.vain.get(device, 0)} times in a row"
        )


if __name__ == "__main__":
    main(sys.argv[1])
