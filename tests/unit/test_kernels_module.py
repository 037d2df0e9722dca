# SPDX-License-Identifier: GPL-2.0-only
"""Modules in place of a packaged kernel's own, with a make that builds a toy."""

import os
import sys
from pathlib import Path

import pytest

from harness.patch.sources import Sources
from harness.patch.study import PackagedModules, modules_alone
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.kernels.binaries import read_module
from lab.kernels.model import Kernel
from lab.kernels.module import Headers, headers_of, module_path, replaced
from lab.kernels.resolve import resolve
from tests.unit.kernel_samples import install_kernel
from tests.unit.kernel_samples import module as module_file
from tests.unit.tree_samples import commit, write_source

RELEASE = "6.12.7-amd64"
MAGIC = f"vermagic={RELEASE} SMP"
_MAKE = """#!{python} -IS
import pathlib, sys
words = sys.argv[1:]
folder = pathlib.Path(next(word[2:] for word in words if word.startswith("M=")))
text = (folder / "null_blk.c").read_text()
if "#error" in text:
    print(f"{{folder}}/null_blk.c:1:2: error: #error broken", file=sys.stderr)
    sys.exit(2)
lines = text.splitlines()
(folder / "Module.symvers").write_text("".join(line[3:] + "\\n" for line in lines if line.startswith("// 0x")))
magic = next((line[3:] for line in lines if line.startswith("// vermagic=")), {magic!r})
code = "".join(line + "\\n" for line in lines if not line.startswith("//"))
assert f"KCFLAGS=-fmacro-prefix-map={{folder.parent}}/=" in words
(folder / "null_blk.ko").write_bytes({module!r} + b"\\0" + magic.encode() + b"\\0" + code.encode())
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Its null_blk is what the package has."""
    folder = write_source(tmp_path / "linux")
    (folder / "drivers").mkdir()
    (folder / "drivers/Makefile").write_text("obj-m += null_blk.o\n")
    (folder / "drivers/null_blk.c").write_text("int packaged;\n")
    commit(folder, "base")
    return folder


@pytest.fixture
def headers(tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> Headers:
    install_kernel(tmp_path / "package", RELEASE)
    packaged = module_file() + f"\0{MAGIC}\0int packaged;\n".encode()
    (tmp_path / f"package/lib/modules/{RELEASE}/kernel/drivers/null_blk.ko").write_bytes(packaged)
    folder = tmp_path / "headers"
    for name, text in (
        ("bin/make", _MAKE.format(python=sys.executable, magic=MAGIC, module=module_file())),
        ("bin/x86_64-linux-gnu-objcopy", "#!/bin/sh\n"),
        (f"usr/src/linux-headers-{RELEASE}/Module.symvers", "0x01\tnull_add\tdrivers/null_blk\tEXPORT_SYMBOL_GPL\t\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return Headers(resolve(f"path:{tmp_path}/package", cache), folder, "gcc", "a toy", {"PATH": path})


def edit(tree: Path, text: str) -> None:
    (tree / "drivers/null_blk.c").write_text(text)
    commit(tree, text)


def build(headers: Headers, tree: Path, cache: Cache) -> Kernel:
    paths = [module_path(headers.kernel, "drivers/null_blk.c", "null_blk")]
    return replaced(headers, tree, "HEAD", paths, cache, title="a change", tell=lambda _: None)


def test_a_module_takes_the_place_of_the_packages_and_all_else_is_shared(
    headers: Headers, tree: Path, cache: Cache
) -> None:
    edit(tree, "int changed;\n")
    kernel, packaged = build(headers, tree, cache), headers.kernel
    path = kernel.modules / "kernel/drivers/null_blk.ko"
    assert read_module(path).endswith(b"int changed;\n")
    assert read_module(packaged.modules / "kernel/drivers/null_blk.ko").endswith(b"int packaged;\n")
    assert kernel.image.samefile(packaged.image) and kernel.digest != packaged.digest
    assert kernel.origin.endswith(", with modules of a change")
    assert resolve(kernel.spec, cache).digest == kernel.digest, "path:DIR names it again"
    assert build(headers, tree, cache).digest == kernel.digest


def test_base_and_change_are_builds_of_one_configuration_and_compiler(
    headers: Headers, tree: Path, cache: Cache
) -> None:
    """Also of a base whose source is the package's: its strings and relocations are those of this compiler."""
    base = build(headers, tree, cache)
    edit(tree, "int changed;\n")
    changed = build(headers, tree, cache)
    assert base.build == changed.build != "" and base.digest != changed.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#error broken\n", r"a change does not build against .*: drivers/null_blk\.c:1:2: error: #error broken"),
        (
            "// vermagic=6.13.0 SMP\nint changed;\n",
            r"null_blk\.ko has the vermagic 6\.13\.0 SMP, .* 6\.12\.7-amd64 SMP",
        ),
        ("// 0x02\tnull_add\tx\tEXPORT_SYMBOL\n", "a change exports another null_add than 6.12.7-amd64"),
        ("// 0x07\tnull_new\tx\tEXPORT_SYMBOL\nint changed;\n", ""),
    ],
    ids=["compiler", "vermagic", "symbol version", "new symbol"],
)
def test_a_module_that_does_not_build_or_would_be_refused(
    text: str, words: str, headers: Headers, tree: Path, cache: Cache
) -> None:
    edit(tree, text)
    if not words:
        assert build(headers, tree, cache).digest != headers.kernel.digest
        return
    with pytest.raises(CannotJudge, match=words) as caught:
        build(headers, tree, cache)
    assert "source:6.12" in caught.value.remedy


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"drivers/null_blk.c": "int changed;\n"}, ""),
        (
            {"drivers/null_blk.c": "int changed;\n", "block/blk.c": "int b;\n"},
            r"block/blk.c is in no module of 6.12.7-",
        ),
        ({"drivers/null_blk.h": "int changed;\n"}, "drivers/null_blk.h is in no module"),
        ({"Makefile": "VERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL =\nEXTRAVERSION =\n"}, "Makefile is in no module"),
    ],
    ids=["module", "built in", "header", "Makefile"],
)
def test_a_header_and_built_in_code_take_a_kernel(
    changed: dict[str, str], words: str, headers: Headers, tree: Path
) -> None:
    for name, text in changed.items():
        (tree / name).write_text(text)
    commit(tree, "change")
    alone = modules_alone(headers, Sources(tree, "HEAD~1", "HEAD"))
    if words:
        assert isinstance(alone, str) and words in alone
    else:
        assert alone == PackagedModules(headers, ("kernel/drivers/null_blk.ko",))


def test_a_tree_of_another_series_is_built_whole(headers: Headers, tree: Path) -> None:
    write_source(tree, minor=13)
    commit(tree, "6.13")
    edit(tree, "int changed;\n")
    said = modules_alone(headers, Sources(tree, "HEAD~1", "HEAD"))
    assert said == "6.12.7-amd64 is of series 6.12, the tree of 6.13"


def test_only_debians_packages_have_headers_here(headers: Headers, cache: Cache) -> None:
    with pytest.raises(CannotJudge, match="is no package of Debian"):
        headers_of(headers.kernel, cache, print)
