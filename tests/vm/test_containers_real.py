# SPDX-License-Identifier: GPL-2.0-only
"""The steps of action.yml and of the Containerfile in a throw-away root: no runner and no builder of images is here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.containers import action, filled, instructions
from tests.vm import test_hosts_real
from tests.vm.test_hosts_real import CHECKOUT, USER, make_root, type_in

pytestmark = [*test_hosts_real.pytestmark, pytest.mark.timeout(3600)]
SCENARIO = "idle-lun"


def test_the_container_is_built_and_runs(tmp_path: Path) -> None:
    root, user, variables, entry, folder = make_root(tmp_path, "trixie"), "root", "", "", "/"
    shutil.rmtree(root / "home" / USER)
    subprocess.run(["chroot", root, "userdel", USER], check=True)
    for word, rest in instructions():
        if word == "RUN":
            done = type_in(root, rest, user=user, folder=folder, variables=variables)
            assert done.returncode == 0, done.stderr
        elif word == "COPY":
            subprocess.run(["git", "clone", "-q", CHECKOUT, root / rest.split()[-1].lstrip("/")], check=True)
        elif word == "ENV":
            variables = rest
        elif word == "USER":
            user = rest
        elif word == "WORKDIR":
            folder = rest
        elif word == "ENTRYPOINT":
            entry = " ".join(re.findall(r'"(.*?)"', rest))
    line = f"{entry} run {SCENARIO} --kernel debian:6.1 --seeds 1"
    done = type_in(root, line, user=user, folder=folder, variables=variables)
    assert done.returncode == 0, done.stderr
    assert f"PASS  {SCENARIO} on Linux 6.1" in done.stdout
    assert [*(root / "var/lib/blklab/results" / SCENARIO).glob("2*")]


@pytest.mark.parametrize(
    ("inputs", "status", "said"),
    [
        (
            {"scenario": SCENARIO, "kernel": "debian:6.1", "seeds": "1"},
            0,
            "::notice title=blklab::idle-lun on debian:6.1: pass",
        ),
        (
            {"scenario": "null-shared-tags", "kernel": "debian:5.10", "seeds": "1"},
            1,
            "::error title=blklab::none: fast with slow gets half of the tags # ",
        ),
        ({"scenario": "gone", "kernel": "debian:6.1"}, 129, ""),
    ],
)
def test_the_action_annotates_what_a_scenario_says(root: Path, inputs: dict[str, str], status: int, said: str) -> None:
    home = root / "home" / USER
    output, summary = home / f"output-{status}", home / f"summary-{status}"
    runner = f"GITHUB_ACTION_PATH=/home/{USER}/blklab RUNNER_TEMP=/home/{USER}/temp-{status}"
    runner += f" GITHUB_OUTPUT=/home/{USER}/{output.name} GITHUB_STEP_SUMMARY=/home/{USER}/{summary.name}"
    (step,) = (step for step in action()["runs"]["steps"] if "run" in step)
    values = " ".join(f"{name}='{filled(text, inputs)}'" for name, text in step["env"].items())
    (home / "step.sh").write_text(step["run"])
    # As a runner starts "shell: bash".
    line = f"bash --noprofile --norc -eo pipefail /home/{USER}/step.sh"
    done = type_in(root, line, variables=f"{runner} {values}")
    assert done.returncode == status, done.stderr
    assert said in done.stdout
    assert f"status={status}\n" in output.read_text()
    assert ("::error" in done.stdout) == (status == 1)
    assert summary.read_text().startswith("```\n")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("root"), "trixie")
