# SPDX-License-Identifier: GPL-2.0-only
"""Progress of downloads."""

import threading
from pathlib import Path

from lab.packages.apt import following


def test_a_download_is_followed_by_the_size_of_its_files(tmp_path: Path) -> None:
    folders = tmp_path / "archives", tmp_path / "partial"
    folders[0].mkdir()
    (folders[0] / "earlier.deb").write_bytes(bytes(700_000))
    said: list[str] = []
    told = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    with following(tell, "fio", 2_000_000, folders, every=0.001):
        folders[1].mkdir()
        (folders[1] / "fio.deb").write_bytes(bytes(500_000))
        told.clear()
        assert told.wait(60)
        told.clear()
        assert told.wait(60)
    assert said[-1] == "fio: 0.5 of 2.0 MB"
    ended = len(said)
    assert not told.wait(0.02) or len(said) == ended


def test_a_short_download_prints_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    with following(said.append, "fio", 10, (tmp_path,)):
        (tmp_path / "fio.deb").write_bytes(bytes(10))
    assert said == []
