# SPDX-License-Identifier: GPL-2.0-only
"""Debian's linux-source, built with the lab's configuration: the same bytes anywhere, and a mutant that is seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.kernels import build, git, mutants, tree
from lab.kernels.kconfig import fragments as own_fragments
from lab.kernels.kconfig import lost, read_fragments
from lab.kernels.resolve import resolve
from tests.vm.host import CHECKOUT
from tests.vm.linked_cache import linked_cache
from tests.vm.marks import building

pytestmark = building()


def test_every_option_survives_and_every_mutant_applies() -> None:
    cache = Cache.default()
    kernel = resolve(tree.DEFAULT, cache)
    assert lost(read_fragments(own_fragments()), kernel.config, kernel.version) == {}
    facts = build.facts(kernel.image.parent / build.FACTS)
    (entry,) = {
        path.parent for path in (cache.root / "sources").glob("*/tree-id") if path.read_text().strip() == facts["tree"]
    }
    for name, patches in mutants.catalogue().items():
        patch = mutants.mutation(name, kernel.version, {name: patches}).patch
        assert git.Checkout(entry).patched(str(facts["tree"]), patch) != facts["tree"]


def test_the_same_bytes_in_another_folder(tmp_path: Path) -> None:
    kernel = resolve(tree.DEFAULT, Cache.default())
    cache = linked_cache(tmp_path / "cache", Cache.default().root, ("sources", "pins"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCACHE_DISABLE", "1")
        assert resolve(tree.DEFAULT, cache).digest == kernel.digest


def test_a_mutant_is_seen_and_its_source_is_clean(tmp_path: Path) -> None:
    words = ["controls", "no-plug-merge", "--seeds", "1", "--results", str(tmp_path)]
    argv = [sys.executable, "-m", "tools.evidence", *words]
    done = subprocess.run(argv, cwd=CHECKOUT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no-plug-merge" in done.stdout


def test_a_mutant_of_other_kernels_cannot_be_judged() -> None:
    with pytest.raises(CannotJudge, match=r"mutant no-plug-merge is for kernels 6\.12"):
        resolve("source:6.1+no-plug-merge", Cache.default())
