# SPDX-License-Identifier: GPL-2.0-only
"""The device models of one or several kernels, as tables."""

import re
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.format import figure
from harness.studies.calibration.models import TOLERANCE, Calibration, Model

_PER_CENT = 100
_MICROSECOND = 1000


def print_calibration(console: Console, calibration: Calibration) -> None:
    """What was measured on one kernel, beside the closed forms."""
    console.print()
    console.print(Text(f"device models on Linux {calibration.release}, {_qemu(calibration)}", "bold"))
    table = _table("model", "closed form", "measured", "error", "CPU a request")
    for model in calibration.models:
        measured = "-" if model.measured is None else figure(model.measured)
        table.add_row(Text(model.name), figure(model.closed), measured, _error(model), _cost(model))
    console.print(table)
    for model in calibration.models:
        if model.measured is None:
            console.print(Text(f"{model.name}: not measured: {model.reason}"), soft_wrap=True)
    console.print(Text(_conclusion(calibration)), soft_wrap=True)


def print_kernels(console: Console, calibrations: Sequence[Calibration]) -> None:
    """The errors of several kernels side by side."""
    console.print()
    console.print(Text("error against the closed form", "bold"))
    table = _table("model", *headings([calibration.release for calibration in calibrations]))
    errors = [{model.name: model for model in calibration.models} for calibration in calibrations]
    for name in dict.fromkeys(name for known in errors for name in known):
        table.add_row(Text(name), *(_error(known[name]) if name in known else Text("-") for known in errors))
    console.print(table)


def headings(releases: list[str]) -> list[str]:
    """Releases without what a distribution appends, as far as that tells them apart."""
    short = [re.split(r"[-+]", release)[0] for release in releases]
    return short if len(set(short)) == len(set(releases)) else releases


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    table.add_column(first, overflow="fold")
    for title in others:
        table.add_column(title, justify="right", overflow="fold")
    return table


def _error(model: Model) -> Text:
    if model.error is None:
        return Text("-", "bold magenta")
    return Text(f"{model.error * _PER_CENT:+.2f} %", "green" if model.sound else "bold red")


def _cost(model: Model) -> str:
    return "" if model.cost is None else f"{model.cost / _MICROSECOND:.1f} us"


def _qemu(calibration: Calibration) -> str:
    return f"QEMU {calibration.qemu.rsplit(' ', 1)[0]}" if calibration.qemu else "QEMU unknown"


def _conclusion(calibration: Calibration) -> str:
    off = [model.name for model in calibration.models if not model.sound]
    if off:
        return f"more than {TOLERANCE * _PER_CENT:g} % off, or not measured: {'; '.join(off)}"
    return f"every model is within {TOLERANCE * _PER_CENT:g} % of its closed form"
