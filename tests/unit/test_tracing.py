# SPDX-License-Identifier: GPL-2.0-only
"""What ``run --trace`` asks of a guest."""

import pytest

from harness.run.plan import guest_job
from harness.run.tracing import chosen_arm, parse_events
from lab.base.errors import Misuse
from lab.guest.steps import job_files
from lab.guest.steps.load import RunLoad, TraceOff, TraceOn
from lab.session import Job, guest_steps
from tests.unit.analysis_samples import claim, null_topology, scenario

MODEL = scenario([claim()], arms=["none", "red"])


def job(*events: str) -> Job:
    plain = guest_job(MODEL, MODEL.arms["none"], 1)
    return Job(plain.queue, plain.loads, plain.pause, plain.phase, plain.labels, trace=events)


def test_events_are_separated_by_commas() -> None:
    assert parse_events("block:*, scsi,block:block_rq_?omplete") == ("block:*", "scsi", "block:block_rq_?omplete")


@pytest.mark.parametrize("text", ["", ",", "block,", "a b", "$(reboot)", "block:a:b", "!block", "../x", "blöck"])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="is not an event"):
        parse_events(text)


def test_events_are_on_during_each_load_only() -> None:
    steps = [step for step in guest_steps(null_topology(), job("block:*", "irq")) if _concerned(step)]
    kinds = [type(step).__name__ for step in steps]
    assert kinds == ["TraceOn", "RunLoad", "TraceOff"] * len(MODEL.loads)
    assert [step.load for step in steps if isinstance(step, TraceOff)] == list(MODEL.loads)


def test_without_events_nothing_is_traced() -> None:
    script = job_files(guest_steps(null_topology(), job()), deadline=1)["script"]
    assert b"trac" not in script


def test_the_guest_gets_all_events_as_one_field() -> None:
    script = job_files(guest_steps(null_topology(), job("block:*", "irq")), deadline=1)["script"]
    assert script.count(b"\ntrace-on\tblock:* irq\n") == len(MODEL.loads)
    assert b"\ntrace-off\ttrace.solo.txt.gz\n" in script


def test_the_first_arm_is_the_default() -> None:
    assert [chosen_arm(MODEL, name).name for name in (None, "red")] == ["none", "red"]
    with pytest.raises(Misuse):
        chosen_arm(MODEL, "blue")


def _concerned(step: object) -> bool:
    return isinstance(step, TraceOn | TraceOff | RunLoad)
