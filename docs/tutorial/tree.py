# SPDX-License-Identifier: GPL-2.0-only
"""Makes the tutorial's tree: the commits of history.mbox on Debian's linux-source-6.12, in FOLDER/clone.git."""

import sys
from pathlib import Path

from harness.commands.options import tell
from harness.patch.series import Branch, read_series
from lab.base.cache import Cache
from lab.base.process import run
from lab.kernels import tree

branch = Branch(tree.source_of("6.12", Cache.default(), tell=tell), Path(sys.argv[1]))
tip = branch.base
patches = read_series(Path(__file__).with_name("history.mbox"))
for number, patch in enumerate(patches):
    tell(f"commit {number + 1} of {len(patches)}: {patch.subject}")
    tip = branch.applied(patch, tip)
    name = f"change-{number}" if number else "good"
    run(["git", "-C", str(branch.folder), "update-ref", f"refs/tags/{name}", tip])
run(["git", "-C", str(branch.folder), "update-ref", "refs/heads/main", tip])
run(["git", "-C", str(branch.folder), "symbolic-ref", "HEAD", "refs/heads/main"])
