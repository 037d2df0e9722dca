# SPDX-License-Identifier: GPL-2.0-only
"""Runs on the wall clock: boots in turn, a rule that stops them, and nothing lost when they are killed."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.plain import identity
from harness.record.judging import Run, judge_run, rejudge
from harness.record.store import KernelFacts, Store, load_run
from harness.run.bench import Bench
from harness.run.events import CellStarted, Event
from harness.run.plan import Request
from harness.scenario.load import read_scenario
from harness.scenario.model import Agreement, Scenario, Status
from harness.scenario.timing import Clock
from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.kernels.model import series_of
from lab.kernels.resolve import resolve
from lab.qemu.machine import Limits
from lab.session import open_lab
from tests.process.fake_lab import FakeLab
from tools.evidence.pages import agree
from tools.evidence.rows import claim_rows, clock_rows
from tools.evidence.scorer import score_clocks, score_newest

BOOTS = 12
PATIENT = 600.0
"""Seconds within which a made-up guest is ready on any host."""
QUIET: dict[str, object] = {"noise": 0.02, "iops": {"hog": 10.0}}
ARMS = ["shared", "limited"]


class Rig:
    """The sample scenario on the wall clock, run in this process on the made-up QEMU."""

    def __init__(self, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab, self._monkeypatch = lab, monkeypatch
        self.started: list[tuple[str, int]] = []
        self.store = Store(lab.results)
        plain = read_scenario(str(lab.scenario), search=lab.folder)
        noisy = replace(plain, clock=Clock.WALL, seeds=BOOTS, windows=2)
        self.scenario: Scenario = replace(noisy, digest=identity(noisy))

    def be(self, **plan: object) -> None:
        """What the made-up guests do from now on."""
        for name, value in self.lab.environment(**self.lab.plan(**{**QUIET, **plan})).items():
            self._monkeypatch.setenv(name, value)

    def run(self, after: Callable[[int], None] = lambda _: None, against: str | None = None, **plan: object) -> Run:
        """A run, or one beside that of the kernel ``against``; ``after`` is told the number of each boot."""
        self.be(**plan)
        cache = Cache(self.lab.folder / "cache")

        def listen(event: Event) -> None:
            if isinstance(event, CellStarted):
                self.started.append((event.arm, event.seed))
                after(event.number if against else len(self.started))

        kernel = resolve(f"path:{self.lab.folder / 'kernel'}", cache)
        bench = Bench(open_lab(cache), self.store, lambda: nullcontext(listen))
        request = Request(self.scenario, kernel)
        if against is None:
            return bench.run(request)
        facts = replace(KernelFacts.of(kernel), spec=against)
        return bench.run_beside(request, replace(request, base=facts))[1]


@pytest.fixture
def rig(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(lab, monkeypatch)


def kill_when_held(lab: FakeLab) -> None:
    """Kill the QEMU of the boot that is being held."""
    deadline = time.monotonic() + 240
    while not lab.boots("held-load"):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    for process in lab.machines():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def there_and_back(rounds: int) -> list[tuple[str, int]]:
    return [(arm, seed) for seed in range(1, rounds + 1) for arm in (ARMS if seed % 2 else ARMS[::-1])]


def test_a_clear_result_stops_at_the_first_look(rig: Rig) -> None:
    run = rig.run(iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert run.verdict.status is Status.PASS
    assert rig.started == there_and_back(6)
    (claim,) = run.verdict.claims
    assert claim.judgement.interval is not None and claim.judgement.interval.rounds == 6
    assert claim.judgement.interval.low > 1.8


def test_the_rule_is_on_disk_before_the_first_boot(rig: Rig) -> None:
    seen = []

    def look(_: int) -> None:
        (folder,) = rig.store.unfinished("t")
        seen.append(load_run(folder).facts.rule)

    run = rig.run(look, iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert len(set(seen)) == 1
    assert run.folder.facts.rule == seen[0]
    assert seen[0] is not None
    assert [look.rounds for look in seen[0].looks] == [6, 12]


def test_what_lies_at_the_bound_is_done_and_says_how_many_more(rig: Rig) -> None:
    run = rig.run(iops={"hog": 10.0, "lopsided.victim": 902.0}, noise=0.05)
    assert (run.verdict.status, run.verdict.exit_code) == (Status.DONE, 125)
    assert rig.started == there_and_back(BOOTS)
    (claim,) = run.verdict.claims
    assert "more boots a side" in claim.sentence or "not even 64" in claim.sentence
    assert run.verdict.seeds == tuple(range(1, BOOTS + 1))


def compared(rig: Rig) -> None:
    """Let the claim be about the BASE kernel."""
    text = rig.lab.scenario.read_text().replace("/ limited.solo.victim", "/ baseline.limited.lopsided.victim")
    rig.lab.scenario.write_text(text.replace('">= 0.9"', '">= 1.5"'))
    plain = read_scenario(str(rig.lab.scenario), search=rig.lab.folder)
    noisy = replace(plain, clock=Clock.WALL, seeds=BOOTS, windows=2)
    rig.scenario = replace(noisy, digest=identity(noisy))


def test_rounds_of_two_kernels_alternate_and_one_rule_ends_both(rig: Rig) -> None:
    """The kernel under test has twice the IOPS of BASE. Boots of BASE have the numbers from 25 on."""
    compared(rig)
    numbers: list[int] = []

    def be_one_of_both(number: int) -> None:
        numbers.append(number)
        rig.be(iops={"hog": 10.0, "lopsided.victim": 1000.0 if number > 2 * BOOTS else 2000.0})

    run = rig.run(be_one_of_both, against="base")
    assert [number > 2 * BOOTS for number in numbers] == [False, False, True, True, True, True, False, False] * 3
    one, other = ARMS, ARMS[::-1]
    assert [arm for arm, _ in rig.started] == [*one, *one, *other, *other] * 3
    (claim,) = run.verdict.claims
    assert run.verdict.status is Status.PASS
    assert claim.judgement.interval is not None and claim.judgement.interval.rounds == 6
    assert 1.8 < claim.judgement.interval.low < claim.judgement.interval.high < 2.2
    assert claim.judgement.scatter is not None and claim.judgement.scatter.windows > 0
    base = load_run(run.folder.path.parent / run.folder.facts.baseline)
    assert base.facts.beside == run.folder.facts.kernel
    for folder in (base, run.folder):
        assert rejudge(folder.path).differences == ()


def test_a_killed_pair_goes_on_and_takes_no_other_run_for_its_base(rig: Rig) -> None:
    compared(rig)

    def kill(_: int) -> None:
        if len(rig.started) in (3, 11):
            raise KeyboardInterrupt

    for against in (None, "base"):
        with pytest.raises(KeyboardInterrupt):
            rig.run(kill, against=against)
    assert len(rig.store.unfinished("t")) == 3
    run = rig.run(against="base", iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert (run.resumed, len(rig.store.runs("t")), len(rig.store.unfinished("t"))) == (3, 2, 1)
    # Seven of 24 boots of the pair were made: of the second round one is left.
    assert (rig.started[11], len(rig.started)) == (("shared", 2), 11 + 17)
    assert run.verdict.status is Status.FAIL


def test_a_claim_that_fails_is_told_early(rig: Rig) -> None:
    run = rig.run(iops={"hog": 10.0, "lopsided.victim": 100.0})
    assert (run.verdict.status, run.verdict.exit_code) == (Status.FAIL, 1)
    assert len(rig.started) == 2 * 6


def test_a_killed_run_goes_on_where_it_was(rig: Rig) -> None:
    def kill(number: int) -> None:
        if number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rig.run(kill, iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert len(rig.lab.boots()) == 3
    assert judge_run(load_run(rig.store.unfinished("t")[0])).status is Status.MISS
    run = rig.run(iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert (run.resumed, run.verdict.status) == (3, Status.PASS)
    assert rig.started[4:] == there_and_back(6)[3:]
    assert len(rig.lab.boots()) == 2 * 6
    rejudged = rejudge(run.folder.path)
    assert rejudged.before
    assert rejudged.differences == ()


def test_a_boot_that_is_lost_costs_that_boot_alone(rig: Rig) -> None:
    killer = threading.Thread(target=kill_when_held, args=(rig.lab,))
    killer.start()
    run = rig.run(hold=[3, "load"])
    killer.join()
    assert (run.verdict.status, run.verdict.exit_code, run.unfinished) == (Status.ERROR, 128, True)
    assert rig.started == there_and_back(2)
    assert rig.store.runs("t") == ()
    again = rig.run(iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert (again.folder.path, again.resumed, again.unfinished) == (run.folder.path, 3, False)
    assert again.verdict.status is Status.PASS
    assert len(rig.lab.boots()) == 2 * 6 + 1


def test_a_boot_that_the_host_made_late_is_made_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(number: int) -> None:
        starved = number == 3
        monkeypatch.setattr(Limits, "ready_seconds", 0.0 if starved else PATIENT)
        (plan,) = rig.lab.plan(**QUIET, **({"linger": PATIENT} if starved else {})).items()
        monkeypatch.setenv(*plan)

    run = rig.run(starve)
    assert (run.verdict.status, run.verdict.exit_code, run.unfinished) == (Status.MISS, 125, True)
    assert rig.started == there_and_back(2)
    assert rig.store.runs("t") == ()
    again = rig.run(iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert (again.folder.path, again.resumed, again.unfinished) == (run.folder.path, 3, False)
    assert again.verdict.status is Status.PASS


def test_other_runs_of_this_host_wait_for_their_turn(rig: Rig) -> None:
    held: list[bool] = []

    def look(_: int) -> None:
        held.extend(entry.in_use for entry in Cache(rig.lab.folder / "cache").entries() if entry.kind == "turn")

    rig.run(look, iops={"hog": 10.0, "lopsided.victim": 2000.0})
    assert held == [True] * 2 * 6


def test_both_clocks_stand_side_by_side(rig: Rig) -> None:
    ratio = rig.scenario.claims[0].ratio
    twin = replace(rig.scenario, name="t-wall", agrees=(Agreement("share", ratio, "t", ratio.text),))
    wall = rig.scenario = replace(twin, digest=identity(twin))
    rig.run(iops={"hog": 10.0, "lopsided.victim": 2000.0})
    rig.scenario = read_scenario(str(rig.lab.scenario), search=rig.lab.folder)
    rig.run(iops={"hog": 10.0, "lopsided.victim": 2000.0})
    rows = [*clock_rows(wall, rig.lab.folder)]
    (score,) = score_clocks(rows, rig.store)
    assert (series_of(score.kernel), agree(score)) == ("6.1", True)
    claims = [it for it in score_newest(claim_rows(wall), rig.store) if it.row.entry in wall.claims]
    assert [series_of(it.kernel) for it in claims] == ["6.1"] * len(wall.claims)
    assert not score_clocks(clock_rows(replace(wall, name="t-never-run"), rig.lab.folder), rig.store)
    rig.run(iops={"hog": 10.0, "lopsided.victim": 950.0})
    (score,) = score_clocks(rows, rig.store)
    assert agree(score) is False


def test_what_cannot_be_asked_of_the_wall_clock(rig: Rig) -> None:
    cache = Cache(rig.lab.folder / "cache")
    kernel = resolve(f"path:{rig.lab.folder / 'kernel'}", cache)
    for name, value in rig.lab.environment().items():
        rig._monkeypatch.setenv(name, value)
    lab = open_lab(cache)
    with pytest.raises(Misuse, match="do not repeat exactly"):
        Bench(lab, rig.store).run(Request(rig.scenario, kernel, verify=True))
    assert not Path(rig.store.root / "t").exists()
