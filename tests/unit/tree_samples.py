# SPDX-License-Identifier: GPL-2.0-only
"""A kernel source as small as it can be, and a make that builds it: what a compiler would do is one Python script."""

import lzma
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.kernel_samples import bzimage, elf, module

MAKEFILE = "VERSION = 6\nPATCHLEVEL = {minor}\nSUBLEVEL = 7\nEXTRAVERSION =\nNAME = Test\n"
OPTIONS = ("CONFIG_BLOCK=y", "CONFIG_BLK_DEV_NULL_BLK=m")
_MERGE = '#!/bin/sh\nset -e\nshift 3\nconfig=$1\nshift\ncat "$@" >>"$config"\n'
_MAKE = """#!{python} -IS
import pathlib, re, shutil, sys
words = sys.argv[1:]
source = pathlib.Path(words[words.index("-C") + 1])
values = dict(word.split("=", 1) for word in words if "=" in word)
objects = pathlib.Path(values["O"])
with open(objects.parent / "made", "a") as log:
    log.write(" ".join(words) + "\\n")
if "-n" in words:
    for name in "ab":
        command = f"gcc -Wall -c -o {{name}}.o {{name}}.c"
        print(f"{{command}} ; printf '%s' 'savedcmd_{{name}}.o := {{command}}' > x")
    sys.exit(2)
if "allnoconfig" in words:
    shutil.copy(values["KCONFIG_ALLCONFIG"], objects / ".config")
if {{"allnoconfig", "olddefconfig"}} & {{*words}}:
    known = set(re.findall(r"config (\\w+)", (source / "Kconfig").read_text()))
    text = (objects / ".config").read_text()
    lines = dict(re.findall(r"(CONFIG_\\w+)=(.*)", re.sub(r"# (CONFIG_\\w+) is not set", r"\\1=n", text)))
    lines = {{name: value for name, value in lines.items() if value != "n"}}
    kept = [f"{{name}}={{value}}" for name, value in lines.items() if name.removeprefix("CONFIG_") in known]
    (objects / ".config").write_text("\\n".join(kept) + "\\n")
if "bzImage" in words or "vmlinux" in words:
    text = "".join(path.read_text() for path in sorted((source / "block").iterdir()))
    if "#error" in text:
        print(f"{{source}}/block/blk.c:3:2: error: #error broken", file=sys.stderr)
        print("make[1]: *** [scripts/Makefile.build:229: block/blk.o] Error 1", file=sys.stderr)
        sys.exit(2)
    if "full disk" in text:
        print("fatal error: error writing to /tmp/x.s: No space left on device", file=sys.stderr)
        sys.exit(2)
    if "stale" in text and (objects / "vmlinux").exists():
        print("ld: undefined reference to `gone'", file=sys.stderr)
        sys.exit(2)
    made = pathlib.Path({made!r})
    (objects / "include/config").mkdir(parents=True, exist_ok=True)
    (objects / "include/config/kernel.release").write_text(made.joinpath("release").read_text())
    (objects / "arch/x86/boot").mkdir(parents=True, exist_ok=True)
    shutil.copy(made / "bzImage", objects / "arch/x86/boot/bzImage")
    (objects / "vmlinux").write_bytes(made.joinpath("vmlinux").read_bytes() + text.encode())
    for path in made.glob("*.ko"):
        (objects / path.name).write_bytes(path.read_bytes() + text.encode())
    names = sorted(path.stem for path in made.glob("*.ko"))
    (objects / "modules.order").write_text("".join(name + ".o\\n" for name in names))
    shutil.copy(made / "modules.builtin", objects)
"""


def fake_make(
    folder: Path,
    release: str = "6.12.7-blklab",
    modules: Iterable[str] = ("null_blk",),
    builtin: Iterable[str] = ("dm-mod",),
    parameters: Iterable[str] = (),
) -> Path:
    """A folder with a make that builds what ``write_source`` wrote; each module ends with the text of block/."""
    made, tools = folder / "made", folder / "bin"
    made.mkdir()
    tools.mkdir()
    (made / "release").write_text(f"{release}\n")
    (made / "vmlinux").write_bytes(elf() + b"printk.time\0")
    (made / "bzImage").write_bytes(bzimage(lzma.compress((made / "vmlinux").read_bytes()), release))
    told = "".join(f"parmtype={parameter}:int\0" for parameter in parameters)
    for name in modules:
        (made / f"{name}.ko").write_bytes(module() + told.encode())
    (made / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in builtin))
    (tools / "make").write_text(_MAKE.format(python=sys.executable, made=str(made)))
    (tools / "objcopy").write_text('#!/bin/sh\nexec cp "$4" "$5"\n')
    for name in ("make", "objcopy"):
        (tools / name).chmod(0o755)
    return tools


def fake_tools(folder: Path, monkeypatch: pytest.MonkeyPatch, release: str = "6.12.7-blklab") -> None:
    """Put a make in PATH that builds what ``write_source`` wrote by the kconfigs/ of ``folder``, with no other tool."""
    monkeypatch.setenv("PATH", f"{fake_make(folder, release)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("lab.base.host.BUILD_NEEDS", ())
    monkeypatch.setattr("lab.kernels.kconfig.FRAGMENTS", folder / "kconfigs")
    write_fragments(folder / "kconfigs")


def write_source(
    folder: Path, text: str = "int blk;\n", *, minor: int = 12, options: Iterable[str] = ("BLOCK", "BLK_DEV_NULL_BLK")
) -> Path:
    for name in ("block", "scripts/kconfig"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "Makefile").write_text(MAKEFILE.format(minor=minor))
    (folder / "Kconfig").write_text("".join(f"config {name}\n" for name in options))
    (folder / "scripts/kconfig/merge_config.sh").write_text(_MERGE)
    (folder / "block/blk.c").write_text(text)
    return folder


def write_fragments(folder: Path, *lines: str) -> tuple[Path, ...]:
    folder.mkdir(exist_ok=True)
    path = folder / "base.config"
    path.write_text("".join(f"{line}\n" for line in lines or OPTIONS))
    return (path,)


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def note_variable(tmp_path: Path, name: str) -> None:
    """What make is told by it stands in a file of its name."""
    make, note = tmp_path / "bin/make", f"write_text(os.environ.get({name!r}, ''))"
    make.write_text(f"{make.read_text()}\nimport os\npathlib.Path({str(tmp_path / name)!r}).{note}\n")
