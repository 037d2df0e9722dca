# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace

import pytest

from harness.metrics.counters import checked_inventory, controller_figures
from harness.metrics.node import MeasurementError
from harness.scenario.model import Load
from lab.base.record import INVENTORY
from lab.topology.model import Hba
from tests.unit.analysis_samples import load, role
from tests.unit.test_inventory import SEEN, TOPOLOGY

HEADER = "           CPU0       CPU1\n"
IRQS = "  22:   {a}   {b}   IO-APIC  22-fasteoi   ioc0\n  31:  7  7  PCI-MSI 1-edge  other\nNMI:  1  1  Non-maskable\n"
ALL = load("all", role("dd", ("slow", "fast")))


def counters(a: int, b: int) -> bytes:
    return f"== /proc/stat\ncpu 1\n== /proc/interrupts\n{HEADER}{IRQS.format(a=a, b=b)}".encode()


def files(**inventory: str) -> dict[str, bytes]:
    seen = {**SEEN, "hba.h.interrupts": "22", **inventory}
    rows = "".join(f"{key}\t{text}\n" for key, text in seen.items())
    return {INVENTORY: rows.encode(), "all.before": counters(100, 5), "all.after": counters(190, 15)}


def figures(measured: dict[str, bytes], one: Load = ALL) -> dict[str, float]:
    seen = checked_inventory(measured, TOPOLOGY)
    return {metric: value for (_, _, metric), value in controller_figures(measured, one, TOPOLOGY, seen)}


def test_interrupts_are_counted_by_processor_over_the_window() -> None:
    found = figures(files())
    assert (found["interrupts"], found["interrupts.cpu0"], found["interrupts.cpu1"]) == (100.0, 90.0, 10.0)
    assert found["interrupts.cpu7"] == 0.0


def test_the_place_of_a_controller_is_a_figure() -> None:
    found = figures(files())
    assert (found["node"], found["slot.lanes"], found["slot.gts"]) == (-1.0, 8.0, 2.5)


def test_controllers_of_different_places_have_no_common_one() -> None:
    two = replace(TOPOLOGY, hbas={"h": TOPOLOGY.hbas["h"], "g": Hba("g", TOPOLOGY.hbas["h"].driver, 118, 64)})
    spread = replace(two, luns={**two.luns, "fast": replace(two.luns["fast"], hba="g")})
    seen = {**SEEN, "hba.g.node": "1", "hba.g.max_link_width": "8", "hba.g.max_link_speed": "5.0 GT/s PCIe"}
    found = {metric: value for (_, _, metric), value in controller_figures(files(), ALL, spread, seen)}
    assert "node" not in found
    assert "slot.gts" not in found
    assert found["slot.lanes"] == 8.0


def test_a_boot_whose_disks_are_others_has_no_figures() -> None:
    with pytest.raises(MeasurementError, match="lun slow: depth is 1, not 64; and 1 more"):
        checked_inventory(files(**{"lun.fast.wwid": "naa.5", "lun.slow.queue_depth": "1"}), TOPOLOGY)


def test_counters_must_be_there() -> None:
    measured = files()
    del measured["all.after"]
    with pytest.raises(MeasurementError, match="did not send it"):
        figures(measured)
