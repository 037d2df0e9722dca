# SPDX-License-Identifier: GPL-2.0-only
from pathlib import Path

import pytest

from harness.record.store import load_run
from lab.base.errors import EXIT_PASS
from tests.unit.record_samples import run_of
from tools.fitted import extremes, main


def test_the_fullest_queue_of_stored_runs_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shares = [value for _, (value, _) in extremes(load_run(run_of(tmp_path, [95.0, 99.0]).path))]
    assert 0 < min(shares) < max(shares) < 1
    (tmp_path / "sample/20260102T020000.000Z-other").mkdir()
    assert main(["--results", str(tmp_path)]) == EXIT_PASS
    said = f"MEAN_ROUNDING = 1.001: {max(shares):.4f} at most in {len(shares)} figures, {tmp_path}"
    assert said in capsys.readouterr().out
