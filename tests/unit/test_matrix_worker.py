# SPDX-License-Identifier: GPL-2.0-only
"""What a worker of a cluster compares before it boots."""

from pathlib import Path

import pytest

from harness.matrix import worker


def test_the_code_digest_covers_all_of_the_lab(monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    seen: set[str] = set()

    def digest(path: Path) -> str:
        seen.add(str(path.relative_to(checkout)))
        return "0"

    monkeypatch.setattr(worker, "digest_file", digest)
    worker.code_digest.__wrapped__()
    assert {"lab/session.py", "lab/qemu/argv.py", "lab/guest/runner.sh", "lab/native/diskd/model.c"} <= seen
