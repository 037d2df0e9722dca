# SPDX-License-Identifier: GPL-2.0-only
"""docs/first-steps.md, from its first to its last command: builds seven kernels and boots each three times."""

from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.kernels import build, tree
from lab.kernels.resolve import resolve
from lab.qemu.probe import find_qemu
from tests.unit.tutorial_page import PAGE, Place, shown, steady
from tests.vm.marks import building

pytestmark = building()


def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    text = PAGE.read_text()
    source = str(build.facts(resolve(tree.DEFAULT, Cache.default()).image.parent / build.FACTS)["source"])
    for made_with in (source, f"QEMU {find_qemu().version_text}"):
        if made_with not in text:
            pytest.skip(f"the page was not made with {made_with}: python -m tests.unit.tutorial_page writes it again")
    place = Place(tmp_path)
    for one in shown(text):
        printed = place.execute(one.command)
        assert steady(printed) == steady(one.output), one.command
