# SPDX-License-Identifier: GPL-2.0-only
"""Matrices on the made-up lab: a second scenario, a second kernel, and what their records say."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.process.fake_lab import CELLS, RELEASE, FakeLab

WHOLE = 4 * CELLS
"""Boots of two scenarios on two kernels."""


def lay_out(lab: FakeLab) -> None:
    """Beside the sample scenario and kernel another of each."""
    other = lab.folder / "other"
    shutil.copytree(lab.folder / "kernel", other, symlinks=True)
    with (other / "lib" / "modules" / RELEASE / "kernel" / "null_blk.ko").open("ab") as module:
        module.write(b"another build\0")
    (lab.folder / "u.yaml").write_text(lab.scenario.read_text().replace("scenario: t", "scenario: u"))


def words(lab: FakeLab, *options: str, scenarios: tuple[str, ...] = ("t", "u")) -> list[str]:
    """The command line of the matrix; kernels of ``options`` come to its own, results replace its folder."""
    files = [str(lab.folder / f"{name}.yaml") for name in scenarios]
    results = [] if "--results" in options else ["--results", str(lab.results)]
    return ["matrix", *files, "--kernels", kernels(lab), *results, *options]


def kernels(lab: FakeLab) -> str:
    return f"path:{lab.folder / 'kernel'} path:{lab.folder / 'other'}"


def matrix(lab: FakeLab, *options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return lab.call(*words(lab, *options), **variables)


def record(lab: FakeLab, results: Path | None = None) -> dict[str, Any]:
    """matrix.json of the matrix that was begun last."""
    found: dict[str, Any] = json.loads(((results or lab.results) / "matrix" / "latest" / "matrix.json").read_text())
    return found


def statuses(lab: FakeLab) -> dict[tuple[str, str], str | None]:
    """Status by scenario and folder of the kernel."""
    cells = record(lab)["cells"]
    return {(cell["scenario"], Path(cell["kernel"]["spec"]).name): cell["status"] for cell in cells}


def runs(lab: FakeLab) -> list[Path]:
    """Runs that have a verdict."""
    return sorted(lab.results.glob("[tu]/[0-9]*/verdict.json"))


def assert_whole(lab: FakeLab, of: int = 4) -> None:
    """Every cell stands on a run of its own, ``of`` as many there are; each boot counts once, nobody holds anything."""
    cells = record(lab)["cells"]
    named = [cell["run"] for cell in cells]
    assert len(named) == len(set(named)) == 4
    there = [str(path.parent.relative_to(lab.results)) for path in runs(lab)]
    assert len(there) == of
    assert set(named) <= set(there)
    assert all(len(list((lab.results / name).glob("boots/*/boot.json"))) == CELLS for name in named)
    assert record(lab)["ended"]
    assert not lab.machines()
