# SPDX-License-Identifier: GPL-2.0-only
"""The folios that the page cache got while a load ran, from its trace."""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from io import BytesIO

from harness.metrics.node import MeasurementError, sent
from harness.scenario.model import Load
from harness.scenario.registry import LARGEST_FOLIO, Readings
from lab.base.record import TRACE_FILE

ADDED = "filemap:mm_filemap_add_to_page_cache"
_EVENT = re.compile(rb"mm_filemap_add_to_page_cache: dev (\d+:\d+) ino [0-9a-f]+ .*?(?: order=(\d+))?$", re.MULTILINE)
_KEPT = re.compile(rb"entries-in-buffer/entries-written: ([0-9]+)/([0-9]+)")
_MOST = 1 << 28
"""More text than the guest's ring holds."""
_PAGE_SECTORS = 8
_DISKS = re.compile(rb"^ *(\d+) +(\d+) (\S+) ", re.MULTILINE)


def folio_figures(files: Mapping[str, bytes], load: Load, block: Mapping[str, str]) -> Readings:
    """``folios.*`` of each role, with the ramp; roles on one filesystem share them.

    None where the event has no order: Linux 5.17 added it ("filemap: Convert tracing of page cache operations to
    folio"). Raises MeasurementError, also for a trace that lost events.
    """
    name = TRACE_FILE.format(load=load.name)
    try:
        with gzip.open(BytesIO(sent(files, name))) as packed:
            text = packed.read(_MOST)
    except (OSError, EOFError, zlib.error) as error:
        raise MeasurementError(name, f"it cannot be unpacked: {error}") from error
    kept = _KEPT.search(text)
    if kept is None or kept[1] != kept[2] or len(text) == _MOST:
        raise MeasurementError(name, "it lost events", remedy="shorten the window")
    added = Counter(_EVENT.findall(text))
    if any(not order for _, order in added):
        return
    rows = _DISKS.findall(sent(files, f"{load.name}.after"))
    numbers = {disk.decode(): major + b":" + minor for major, minor, disk in rows}
    for role in load.roles.values():
        own = {numbers[block[disk]] for disk in role.disks}
        counts = {order: sum(added[dev, b"%d" % order] for dev in own) for order in range(LARGEST_FOLIO + 1)}
        sectors = sum(count * _PAGE_SECTORS << order for order, count in counts.items())
        values = {"folios": sum(counts.values()), "folios.sectors": sectors}
        values |= {f"folios.order{order}": count for order, count in counts.items()}
        yield from (((load.name, role.name, name), float(value)) for name, value in values.items())
