# SPDX-License-Identifier: GPL-2.0-only
"""Folders and files of the checkout, from which blklab runs."""

import os
from pathlib import Path

from lab.base.errors import no_such_folder

CHECKOUT = Path(__file__).resolve().parents[2]
SCENARIOS = CHECKOUT / "scenarios"
HUNTS = CHECKOUT / "hunts"
WALL = SCENARIOS / "wall"
EXECUTED = SCENARIOS / "executed.json"
PAGES = CHECKOUT / "docs" / "results"


def results_root(chosen: str | None) -> Path:
    """The folder of all runs: the chosen one, else $BLKLAB_RESULTS, else results/ of the checkout; installed from a
    wheel, which has no Makefile, that of the current folder, in a kernel tree that of the user's data. Raises Misuse
    for what is no folder."""
    own = CHECKOUT if (CHECKOUT / "Makefile").is_file() else Path.cwd()
    if any((folder / ".git").exists() and (folder / "Kconfig").is_file() for folder in (own, *own.parents)):
        own = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "blklab"
    root = Path(chosen or os.environ.get("BLKLAB_RESULTS") or own / "results")
    if root.exists() and not root.is_dir():
        raise no_such_folder(root, "the results")
    return root


def of_results(text: str) -> Path:
    """The path; one below ``results/`` that the current folder does not have is in the folder of all runs."""
    path = Path(text)
    return path if path.exists() or path.parts[:1] != ("results",) else results_root(None).joinpath(*path.parts[1:])
