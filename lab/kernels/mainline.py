# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of kernel.org as Ubuntu's mainline archive builds them: ``mainline:v6.12``, by virtme-ng's downloader.

The archive is not signed and not mirrored: use these kernels for a quick test, and tree: or debian: for a verdict.
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.process import run
from lab.base.units import Tell
from lab.kernels import store
from lab.kernels.model import Kernel
from lab.packages.apt import BOUND

DOWNLOADER = "virtme_ng"
_FORM = re.compile(r"v\d+\.\d+(?:\.\d+)?(?:-rc\d+)?")
# The downloader writes below the home folder that it is told.
_FETCH = "import sys; from virtme_ng.mainline import KernelDownloader as Fetch; Fetch(sys.argv[1], 'amd64')"
_ABSENT = re.compile(r"error: 404|could not find kernel packages")
_REMEDY = "build it from source instead: KERNEL=tree:PATH@REV"


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is a tag such as ``v6.12``. Raises CannotJudge when the archive has no such kernel,
    LabBroken when virtme-ng is not installed or the archive is out of reach.
    """
    if _FORM.fullmatch(wanted) is None:
        raise Misuse(f'"mainline:{wanted}" is not a kernel', remedy="give a tag of kernel.org, such as mainline:v6.12")

    def fill(into: Path) -> None:
        _demand_downloader()
        tell(f"fetching mainline {wanted}")
        home = into / ".home"
        home.mkdir()
        _fetch(wanted, home)
        tree = next((image.parents[1] for image in sorted(home.rglob("boot/vmlinuz-*"))), home)
        store.keep_only(
            tree,
            into,
            lambda number: LabBroken(
                f"the packages of mainline {wanted} hold {number} kernels, 1 expected", remedy=_REMEDY
            ),
        )
        run(["rm", "-rf", str(home)])

    folder = cache.entry(store.KIND, f"mainline-{wanted}", fill)
    return store.load(folder, f"mainline:{wanted}", f"Ubuntu's mainline archive, {wanted}, fetched by virtme-ng")


def _demand_downloader() -> None:
    if importlib.util.find_spec(DOWNLOADER) is None:
        raise LabBroken(
            "virtme-ng, which fetches mainline kernels, is not installed",
            remedy=f"pip install --require-hashes -r requirements/shell.txt in the virtual environment; or {_REMEDY}",
        )


def _fetch(wanted: str, home: Path) -> None:
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    try:
        run([*BOUND, sys.executable, "-c", _FETCH, wanted], cwd=home, env=environment, hint=_REMEDY)
    except LabBroken as error:
        last = error.message.strip().splitlines()[-1]
        if _ABSENT.search(error.message):
            raise CannotJudge(f"the mainline archive has no {wanted}: {last}", remedy=_REMEDY) from error
        raise LabBroken(
            f"mainline {wanted} cannot be fetched: {last}", remedy=f"check the network; or {_REMEDY}"
        ) from error
