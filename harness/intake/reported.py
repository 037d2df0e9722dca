# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a report from fio's JSON output (``--output-format=json``) on the machine."""

from pathlib import Path

from lab.base.errors import Misuse
from lab.base.reading import LIMIT, parse_json, read_regular

_REMEDY = "write it with fio --output-format=json --output=FILE JOB.fio"


def reported_iops(path: Path) -> dict[str, float]:
    """Reads and writes a second of each job, by its name; of clones their sum. Raises Misuse."""
    try:
        text = read_regular(path, LIMIT).decode("utf-8", "replace")
        # fio writes warnings in front of the document.
        document = parse_json(text[max(text.find("{"), 0) :])
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}", remedy="check the path") from error
    except ValueError as error:
        raise Misuse(f"{path} is no JSON: {error}", remedy=_REMEDY) from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise Misuse(f'{path} has no list "jobs": it is no output of fio', remedy=_REMEDY)
    totals: dict[str, float] = {}
    for job in jobs:
        sides = (job.get(side) for side in ("read", "write"))
        rates = [side.get("iops") for side in sides if isinstance(side, dict)]
        total = sum(float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0)
        name = str(job.get("jobname", ""))
        if total:
            totals[name] = totals.get(name, 0.0) + total
    return totals
