# SPDX-License-Identifier: GPL-2.0-only
"""Lines about a long step, and what they say of the time left."""

import threading

import pytest

from lab.base.process import progress, time_left


@pytest.mark.parametrize(
    ("done", "total", "seconds", "says"),
    [
        (25, 100, 10.0, ", about 30 s left"),  # 75 at 2.5 a second
        (100, 1000, 60.0, ", about 9 min left"),  # 900 at 100 a minute
        (0, 100, 10.0, ""),
        (100, 100, 10.0, ""),
        (7, 0, 10.0, ""),
    ],
)
def test_the_time_left_is_that_of_the_speed_so_far(done: float, total: float, seconds: float, says: str) -> None:
    assert time_left(done, total, seconds) == says


def test_lines_are_told_while_the_block_runs_and_not_afterwards() -> None:
    said, told = list[str](), threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    with progress(tell, lambda seconds: f"after {seconds > 0}", every=0.001):
        assert told.wait(60)
    ended = len(said)
    assert set(said) == {"after True"}
    told.clear()
    assert not told.wait(0.02) and len(said) == ended
    with progress(tell, lambda _: pytest.fail("a short step prints nothing")):
        pass
