# SPDX-License-Identifier: GPL-2.0-only
"""Where a kernel's functions are is read once for all boots that place its modules alike."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import symbols
from lab.base.cache import Cache
from lab.base.record import Outcome
from lab.guest.steps import job_files
from lab.guest.steps.load import EXITALL, LayFiles, RunLoad
from lab.session import GuestLoad, Job

JOB = Job({}, (GuestLoad("reads", "#" * 2000, 2),), 1, 0, {"scenario": "one", "seed": "1"})
ALIKE: Mapping[str, str] = {"kernel": "k", "base": "b", "job": "j", "argv": "-cpu max"}


class Boots:
    """A lab whose guests have ``fingerprint``, and whose modules are at another address in each boot."""

    def __init__(self, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fingerprint, self.made = ALIKE, 0
        self._lab: Any = SimpleNamespace(cache=cache)
        monkeypatch.setattr(symbols, "prepare_job", self._prepare)
        monkeypatch.setattr(symbols, "run_job", self._run)

    def address(self, job: Job = JOB) -> int:
        """Where the only function is."""
        prepared: Any = self._prepare(None, None, None, job)
        (symbol,) = symbols.twin_symbols(self._lab, prepared, job).functions
        return symbol.address

    def _prepare(self, _lab: object, _kernel: object, _topology: object, job: Job) -> object:
        base = SimpleNamespace(digest="b")
        fingerprint = {**self.fingerprint, **job.labels}
        steps = [step for load in job.loads for step in (LayFiles(load.name, load.fio), RunLoad(load.name, load.fio))]
        archive = b"".join(job_files(steps, deadline=1).values())
        return SimpleNamespace(kernel=None, topology=None, base=base, job_archive=archive, fingerprint=fingerprint)

    def _run(self, *_: object, **__: object) -> object:
        self.made += 1
        text = f"{0xFFFFFFFFC0000000 + 0x1000 * self.made:x} t md_write_start [md_mod]\n"
        return SimpleNamespace(outcome=Outcome.BYE, files={"kallsyms.gz": gzip.compress(text.encode())})


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Boots:
    return Boots(Cache(tmp_path), monkeypatch)


def test_another_scenario_with_the_same_guest_reads_no_symbols_again(boots: Boots) -> None:
    other = Job(JOB.queue, JOB.loads, JOB.pause, JOB.phase, {"scenario": "two", "seed": "1"})
    assert boots.address() == boots.address(other)
    assert boots.made == 1


def test_a_load_whose_jobs_end_together_has_as_many_files_in_the_boot_that_reads_symbols(boots: Boots) -> None:
    """Jobs of a role on a filesystem: a profile of them ended in "differs from the profiled one"."""
    together = GuestLoad("reads", f"[global]\n{EXITALL}{'#' * 2000}", 2)
    assert boots.address(Job({}, (together,), 1, 0, {})) and boots.made == 1


@pytest.mark.parametrize("name", ["argv", "cmdline", "qemu", "steady"])
def test_a_guest_that_may_place_modules_elsewhere_reads_its_own_symbols(boots: Boots, name: str) -> None:
    before = boots.address()
    boots.fingerprint = {**ALIKE, name: "another"}
    assert boots.address() != before
    assert boots.made == 2
