# SPDX-License-Identifier: GPL-2.0-only
"""A module built from Debian's source against the headers of Debian's package: its code is that of the package."""

import pytest

from lab.base.cache import Cache
from lab.base.units import silent
from lab.kernels import tree
from lab.kernels.binaries import read_module
from lab.kernels.debian import pinned
from lab.kernels.module import headers_of, module_path, replaced
from lab.kernels.resolve import resolve
from lab.native import elf
from lab.packages.store import read_pin
from tests.vm.marks import building

pytestmark = building()


@pytest.mark.parametrize(
    ("file", "name"), [("drivers/md/raid1.c", "raid1"), ("drivers/nvme/target/tcp.c", "nvmet-tcp")]
)
def test_the_code_is_what_the_package_has(file: str, name: str) -> None:
    cache = Cache.default()
    source, kernel = tree.named_source("source:6.12", cache, silent), resolve("debian:6.12", cache)
    package, sources = pinned("debian:6.12", cache), read_pin(cache, "source-debian-6.12")
    assert source and package and sources
    if package.packages[0].version != sources.packages[0].version:
        pytest.skip("source and package are pinned at different versions: store cache prune, or --refresh")
    headers = headers_of(kernel, cache, silent)
    path = module_path(kernel, file, name)
    built = replaced(headers, source.path, source.git_tree, [path], cache, title="the source", tell=silent)
    own, packaged = (read_module(folder / path) for folder in (built.modules, kernel.modules))
    assert elf.code(own) == elf.code(packaged) != ()
    assert built.release == kernel.release and built.digest != kernel.digest
