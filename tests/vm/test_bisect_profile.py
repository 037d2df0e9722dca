# SPDX-License-Identifier: GPL-2.0-only
"""The mail of a bisection of cost: the functions that the culprit changes, against its parent."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.base.units import silent
from lab.kernels import packaged
from tests.vm.kernel_history import make_history
from tests.vm.kernel_patches import write_mutant
from tests.vm.null_reads import write_reads

pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(2 * 3600),
    pytest.mark.skipif(bool(host.missing_needs(host.BUILD_NEEDS)), reason="needs scripts/host-packages --build"),
]
CHECKOUT = Path(__file__).parents[2]
COUNT, CULPRIT, ADDED = 4, 2, 20_000


def test_the_mail_names_the_function_that_the_culprit_makes_expensive(tmp_path: Path) -> None:
    source = packaged.source_of("6.12", Cache.default(), tell=silent)
    name = write_mutant(tmp_path, source, "block/mq-deadline.c", "dd_insert_requests", ADDED)
    history = make_history(
        *(tmp_path / "linux.git", source.path / "objects", source.git_tree, tmp_path / f"{name}.patch"),
        count=COUNT,
        culprit=CULPRIT,
        broken=(),
    )
    ends = ["--tree", str(history.repository), "--good", history.commits[0], "--bad", "main"]
    command = [sys.executable, "-m", "harness", "bisect", str(write_reads(tmp_path)), *ends, "--seeds", "1"]
    command += ["--results", str(tmp_path / "results")]
    done = subprocess.run(command, check=False, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    (path,) = tmp_path.glob("results/bisect/*/mail.txt")
    mail = path.read_text()
    print(mail)
    assert f"#regzbot introduced: {history.commits[CULPRIT]}\n" in mail
    row = re.search(r"delta +instructions +calls +function\n +\+([\d,]+) .* (\w+)\n", mail)
    assert row is not None, mail
    assert row[2] == "dd_insert_requests"
    assert int(row[1].replace(",", "")) == pytest.approx(ADDED, rel=0.1)
    assert re.search(r"^ +0 +0 +\+0  unexplained$", mail, re.MULTILINE)
