# SPDX-License-Identifier: GPL-2.0-only
"""Damaged captures and job files: a topology that loads or a clear error, never anything else."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.intake.capture import capture
from harness.intake.draft import Drafter, made_up_topology
from harness.intake.jobfile import read_jobs
from harness.intake.jobs import draft_jobs
from harness.intake.snapshot import Snapshot, collect
from harness.intake.yaml_text import read_text, yaml_text
from lab.base.errors import BlklabError
from tests.unit.machine_samples import MachineTree, megaraid, mpt3sas, nvme_four_paths

EXAMPLES = sorted((Path(__file__).parent / "fixtures" / "fio").glob("*.fio"))
VALUES = (
    "",
    "-1",
    "0",
    "1",
    "7",
    "x",
    "9" * 18,
    "8:16",
    "a\tb\tc",
    "none [x]",
    "1 2 multipath 3",
    "0 1 linear 8:16",
    "[[",
    "\n\n",
    "8:32 8:48",
)


@pytest.mark.parametrize("machine", [megaraid, mpt3sas, nvme_four_paths])
def test_damaged_captures(machine: Callable[[Path], MachineTree], tmp_path: Path) -> None:
    whole = dict(collect(machine(tmp_path).root, (), identities=False).files)
    dice = random.Random(20)  # noqa: S311
    refused = 0
    for _ in range(150):
        files = dict(whole)
        for name in dice.sample(sorted(files), dice.choice((1, 3, 20))):
            how = dice.randrange(3)
            if how == 0:
                del files[name]
            else:
                other = files[dice.choice(sorted(files))]
                files[name] = dice.choice(VALUES) if how == 1 else other
        try:
            captured = capture(Snapshot("damaged", files), "damaged")
        except BlklabError:
            refused += 1
            continue
        read_text(yaml_text(captured.document, (*captured.notes, *captured.read)), "captured.yaml")
    assert refused < 50


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_damaged_job_files(example: Path, tmp_path: Path) -> None:
    lines = example.read_text().splitlines()
    others = [line for path in EXAMPLES for line in path.read_text().splitlines() if "=" in line]
    dice = random.Random(20)  # noqa: S311
    for number in range(10):
        damaged = list(lines)
        for _ in range(dice.choice((1, 2, 5))):
            place = dice.randrange(len(damaged))
            damaged[place : place + 1] = dice.choice(
                ([], [dice.choice(others)], [damaged[place] * 2], [damaged[place][::-1]], ["\x00\xff=", damaged[place]])
            ) or [""]
        path = tmp_path / f"{number}.fio"
        path.write_text("\n".join(damaged))
        try:
            jobs = draft_jobs(read_jobs(path, {}))
            Drafter("damaged", jobs, made_up_topology(jobs), {}).draft({})
        except BlklabError as error:
            assert str(error)
