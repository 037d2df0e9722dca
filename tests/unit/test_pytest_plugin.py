# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios as pytest items: what is collected, and that every status keeps its meaning."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from harness import pytest_plugin
from harness.pytest_plugin import is_scenario
from tests.unit.plugin_samples import ENDINGS, KNOWN, RecordedBoots, scenario_text

pytest_plugins = ["pytester"]

Lay = Callable[..., None]
BOTH = ("--kernel", "debian:6.1", "--kernel", "debian:5.10")


@pytest.fixture
def lay(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Lay:
    """Lay out scenario files by name, and say how boots end by kernel."""
    monkeypatch.delenv("KERNEL", raising=False)
    monkeypatch.setattr(pytest_plugin, "runner_of", cache(lambda config: RecordedBoots(config.rootpath)))

    def make(endings: dict[str, object] | None = None, **texts: str) -> None:
        pytester.path.joinpath(ENDINGS).write_text(json.dumps(endings or {}))
        for name, text in (texts or {"sample": scenario_text("sample")}).items():
            path = pytester.path / "scenarios" / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    return make


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    words = options if any(word.startswith("--kernel") for word in options) else ("--kernel=debian:6.1", *options)
    return pytester.runpytest_inprocess("-p", "harness.pytest_plugin", "-ra", *words, "scenarios")


def test_an_item_is_a_scenario_on_a_kernel(pytester: pytest.Pytester, lay: Lay) -> None:
    lay(sample=scenario_text("sample"), other=scenario_text("other"))
    result = run(pytester, "--collect-only", "-q", *BOTH)
    result.stdout.fnmatch_lines_random(
        [
            "scenarios/sample.yaml::sample[[]debian:6.1[]]",
            "scenarios/sample.yaml::sample[[]debian:5.10[]]",
            "scenarios/other.yaml::other[[]debian:6.1[]]",
            "scenarios/other.yaml::other[[]debian:5.10[]]",
        ]
    )
    chosen = run(pytester, "-k", "other", *BOTH)
    chosen.assert_outcomes(passed=2, deselected=2)


def test_the_kernel_is_the_environments_when_none_is_named(
    pytester: pytest.Pytester, lay: Lay, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay()
    monkeypatch.setenv("KERNEL", "debian:5.10")
    result = pytester.runpytest_inprocess("-p", "harness.pytest_plugin", "--collect-only", "-q", "scenarios")
    result.stdout.fnmatch_lines(["*::sample[[]debian:5.10[]]"])


def test_a_failure_is_the_report_and_no_traceback(pytester: pytest.Pytester, lay: Lay) -> None:
    lay({"debian:6.1": {"iops": 5}})
    result = run(pytester)
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*the fast device keeps its share*", "FAIL  1 claim failed (exit 1)", "FAILED scenarios/sample.yaml::*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py:*")


@pytest.mark.parametrize("outcome", ["oops", "hang"])
def test_a_kernel_that_dies_is_a_failure(pytester: pytest.Pytester, lay: Lay, outcome: str) -> None:
    lay({"debian:6.1": {"outcome": outcome}})
    run(pytester).assert_outcomes(failed=1)


@pytest.mark.parametrize("outcome", ["not-ready", "late", "unfit", "garbled", "lost"])
def test_what_could_not_be_measured_is_an_error_and_no_failure(
    pytester: pytest.Pytester, lay: Lay, outcome: str
) -> None:
    lay({"debian:6.1": {"outcome": outcome}})
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["Not measured", "*as it happened*", "ERROR scenarios/sample.yaml::*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_lab_that_does_not_work_is_an_error_with_its_remedy(pytester: pytest.Pytester, lay: Lay) -> None:
    lay({"debian:6.1": {"lab": "QEMU is not installed"}})
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["QEMU is not installed", "  remedy: mend it"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_skip_gives_all_reasons_and_its_file(pytester: pytest.Pytester, lay: Lay) -> None:
    lay({"debian:6.1": {"skip": ["no CONFIG_A", "no module b"]}})
    result = run(pytester)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * scenarios/sample.yaml:1: arm none: no CONFIG_A; no module b*arm red: *"])


def test_an_expected_failure_is_xfailed_and_an_unexpected_pass_fails(pytester: pytest.Pytester, lay: Lay) -> None:
    lay({"debian:5.10": {"iops": 5}}, sample=scenario_text("sample", known=KNOWN))
    result = run(pytester, *BOTH)
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL *[[]debian:5.10[]] - known to fail on kernels 5.10: tags are first come*"])
    lay({}, sample=scenario_text("sample", known=KNOWN))
    result = run(pytester, *BOTH)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the expectation is out of date*"])


@pytest.mark.parametrize(
    ("endings", "selftest", "said"),
    [
        ({"outcome": "oops"}, "{status: FAIL, exit: 1}", ""),
        ({"outcome": "garbled"}, "{status: ERROR, exit: 128}", ""),
        ({"outcome": "oops"}, "{status: FAIL, exit: 1, says: as it happened}", ""),
        ({"outcome": "oops"}, "{status: FAIL, exit: 1, says: something else}", 'the reasons lack "something else": *'),
        ({}, "{status: FAIL, exit: 1}", "status is PASS, must be FAIL"),
        ({"outcome": "garbled"}, "{status: ERROR, exit: 125}", "exit code is 128, must be 125"),
    ],
)
def test_a_selftest_passes_when_it_reaches_its_status(
    pytester: pytest.Pytester, lay: Lay, endings: dict[str, str], selftest: str, said: str
) -> None:
    lay({"debian:6.1": endings}, sample=scenario_text("sample", more=f"selftest: {selftest}"))
    result = run(pytester)
    result.assert_outcomes(**{"failed" if said else "passed": 1})
    if said:
        result.stdout.fnmatch_lines([said])


def test_mistakes_in_a_file_are_errors_of_collection(pytester: pytest.Pytester, lay: Lay) -> None:
    wrong = scenario_text("sample").replace("seeds: 2", 'seeds: "2"').replace("title:", "titel:")
    lay(sample=wrong, other=scenario_text("other"))
    result = run(pytester)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "scenarios/sample.yaml:2:1: titel: unknown key, did you mean title?",
            "scenarios/sample.yaml:7:8: seeds: expected an integer, got *",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_junit_of_pytest_knows_the_run(pytester: pytest.Pytester, lay: Lay) -> None:
    lay({"debian:5.10": {"iops": 5}})
    run(pytester, "--junitxml=r.xml", *BOTH)
    root = Xml.parse(pytester.path / "r.xml").getroot()  # noqa: S314 - of pytest's making
    found = {
        case.get("name"): {item.get("name"): item.get("value") for item in case.iter("property")}
        for case in root.iter("testcase")
    }
    assert set(found) == {"sample[debian:6.1]", "sample[debian:5.10]"}
    failed = found["sample[debian:5.10]"]
    assert (failed["blklab_status"], failed["blklab_exit_code"]) == ("FAIL", "1")
    assert failed["blklab_kernel"] == "5.10.0-46-amd64"
    assert Path(failed["blklab_run"] or "").joinpath("verdict.json").is_file()


def test_an_interrupt_ends_the_session_at_once(
    pytester: pytest.Pytester, lay: Lay, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(a=scenario_text("a"), b=scenario_text("b"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pytest_plugin, "runner_of", lambda _: interrupted)
    options = ("-p", "harness.pytest_plugin", "--kernel=debian:6.1", "scenarios")
    result = pytester.runpytest_inprocess(*options, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*!!! KeyboardInterrupt !!!*"])
    result.stdout.no_fnmatch_line("*passed*")


@pytest.mark.parametrize("seeds", ["0", "65"])
def test_seeds_have_limits(pytester: pytest.Pytester, lay: Lay, seeds: str) -> None:
    lay()
    result = run(pytester, "--seeds", seeds)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*argument --seeds: expected an integer, from 1 to 64, got '{seeds}'"])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("elsewhere/x.yaml", "title: a\nscenario: x\n", True),
        ("elsewhere/x.yaml", "title: a\n  scenario: x\n", False),
        ("scenarios/x.yaml", "titel: a\n", True),
        ("scenarios/deep/x.yaml", "titel: a\n", True),
        ("scenarios/rig.yaml", "topology: rig\nluns:\n", False),
    ],
)
def test_scenarios_are_distinguished_from_other_yaml(tmp_path: Path, name: str, text: str, *, expected: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert is_scenario(path, tmp_path) is expected


def test_a_folder_above_the_root_makes_no_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "scenarios" / "x.yaml"
    path.parent.mkdir()
    path.write_text("something: else\n")
    assert is_scenario(path, tmp_path)
    assert not is_scenario(path, path.parent)


def test_the_environment_has_an_entry_point_for_the_plugin() -> None:
    named = {entry.name: entry.value for entry in entry_points(group="pytest11")}
    assert named["harness.pytest_plugin"] == "harness.pytest_plugin"


def test_every_scenario_of_the_checkout_is_collected(checkout: Path) -> None:
    command = [sys.executable, "-m", "pytest", "scenarios", "--kernel", "debian:6.1", "--collect-only", "-q"]
    done = subprocess.run(command, cwd=checkout, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "::sas-multipath-wall[debian:6.1]" in done.stdout
    assert "zoo" not in done.stdout


def test_an_empty_kernel_is_refused(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    result = run(pytester, "--kernel=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
