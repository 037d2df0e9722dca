# SPDX-License-Identifier: GPL-2.0-only
"""Kernels built from source, with a make that builds a toy: what is built, what is kept, what an error says."""

import lzma
import os
import shutil
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.kernels import tree
from lab.kernels.binaries import is_bzimage
from lab.kernels.build import Builds, builds
from lab.kernels.model import Kernel
from tests.unit.kernel_samples import bzimage, elf
from tests.unit.tree_samples import commit, fake_tools, git, note_variable, write_fragments, write_source

PATCH = """Mutant: it is broken
Kernels: >= 6.1
From: https://example.org/thread

--- a/block/blk.c
+++ b/block/blk.c
@@ -1 +1 @@
-int blk;
+int mutant;
"""


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tools(tmp_path, monkeypatch)


@pytest.fixture
def mutants(tmp_path: Path) -> Path:
    folder = tmp_path / "mutants"
    folder.mkdir()
    (folder / "broken-blk.patch").write_text(PATCH)
    return folder


def build(cache: Cache, wanted: str, tmp_path: Path, *lines: str) -> Kernel:
    write_fragments(tmp_path / "kconfigs", *lines)
    return tree.built(tree.read_source(wanted, tmp_path / "mutants"), cache)


def makes(cache: Cache) -> list[str]:
    """The targets of every call of make, in order."""
    return [line.split()[-1] for line in made_lines(cache)]


def made_lines(cache: Cache) -> list[str]:
    return [line for log in sorted((cache.root / "trees").glob("*/made")) for line in log.read_text().splitlines()]


def module_text(kernel: Kernel) -> str:
    return (kernel.modules / "kernel/null_blk.ko").read_bytes().decode(errors="replace")


def test_a_commit_is_built_once_and_the_users_tree_is_left_alone(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux")
    first = commit(source, "first")
    write_source(source, "int second;\n")
    commit(source, "second")
    (source / "block/blk.c").write_text("int work in progress;\n")
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    kernel = build(cache, f"tree:{source}@{first}".removeprefix("tree:"), tmp_path)
    assert (kernel.release, kernel.mutant) == ("6.12.7-blklab", "")
    assert "int blk;" in module_text(kernel)
    assert first[:12] in kernel.origin or first in kernel.origin
    assert kernel.config["CONFIG_BLK_DEV_NULL_BLK"] == "m"
    assert build(cache, f"{source}@HEAD~1", tmp_path).digest == kernel.digest
    assert makes(cache).count("modules") == 1
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before


def test_the_next_commit_goes_on_in_the_same_folder(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux")
    first = commit(source, "first")
    write_source(source, "int second;\n")
    second = commit(source, "second")
    build(cache, f"{source}@{first}", tmp_path)
    (workspace,) = (cache.root / "trees").iterdir()
    unchanged = (workspace / "src/Makefile").stat().st_mtime_ns
    assert "int second" in module_text(build(cache, f"{source}@{second}", tmp_path))
    assert (workspace / "src/Makefile").stat().st_mtime_ns == unchanged
    borrows = tmp_path / "clone.git"
    git(source, "clone", "--quiet", "--bare", "--shared", str(source), str(borrows))
    assert "int second" in module_text(build(cache, f"{borrows}@{second}", tmp_path))
    assert "int edited" in module_text(build(cache, str(write_source(source, "int edited;\n")), tmp_path))
    assert list((cache.root / "trees").iterdir()) == [workspace]
    assert len([*(workspace / "git/objects").glob("??/*")]) == 3  # the file, block/ and the top


def test_a_folder_is_built_as_it_is_now(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux-source-6.12")
    # As in Debian's source packages, whose .gitignore leaves out everything but debian/.
    (source / ".gitignore").write_text("/*\n!/debian/\n")
    one = build(cache, str(source), tmp_path)
    again = build(cache, str(source), tmp_path)
    write_source(source, "int other;\n")
    other = build(cache, str(source), tmp_path)
    assert one.digest == again.digest != other.digest
    assert makes(cache).count("modules") == 2
    assert "int other" in module_text(other)
    assert not (source / ".git").exists()


def test_a_folder_in_which_was_built_is_refused(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux")
    (source / ".config").write_text("")
    with pytest.raises(Misuse, match=r"products of a build: \.config") as caught:
        build(cache, str(source), tmp_path)
    assert "mrproper" in caught.value.remedy


def test_a_configuration_of_its_own_is_a_kernel_of_its_own_and_an_option_that_was_lost_is_named(
    tmp_path: Path, cache: Cache
) -> None:
    source = write_source(tmp_path / "linux")
    one = build(cache, str(source), tmp_path)
    other = build(cache, str(source), tmp_path, "CONFIG_BLOCK=y", "CONFIG_BLK_DEV_NULL_BLK=y")
    assert one.image != other.image
    assert other.config["CONFIG_BLK_DEV_NULL_BLK"] == "y"
    source = write_source(tmp_path / "linux")
    with pytest.raises(CannotJudge) as caught:
        build(cache, str(source), tmp_path, "CONFIG_BLOCK=y", "CONFIG_GONE=y")
    assert "CONFIG_GONE=y (base.config:2) is n: this tree has no option of that name" in caught.value.message


def test_the_first_error_is_named_and_a_full_disk_is_not_blamed_on_a_commit(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux", "int a;\n#error broken\n")
    with pytest.raises(CannotJudge, match=r"block/blk\.c:3:2: error: #error broken") as caught:
        build(cache, str(source), tmp_path)
    (log,) = (cache.root / "trees").glob("*/logs/*.failed.log")
    assert str(log) in caught.value.remedy
    assert "Error 1" in log.read_text()
    assert caught.value.exit_code == 125
    source = write_source(tmp_path / "linux", "full disk\n")
    with pytest.raises(LabBroken, match=r"no space left|No space left"):
        build(cache, str(source), tmp_path)


def test_leftovers_of_an_older_build_fail_no_commit(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux")
    note_variable(tmp_path, "CCACHE_RECACHE")
    commit(source, "first")
    build(cache, f"{source}@HEAD", tmp_path)
    assert not (tmp_path / "CCACHE_RECACHE").read_text()
    write_source(source, "stale objects break this\n")
    commit(source, "second")
    assert "stale objects" in module_text(build(cache, f"{source}@HEAD", tmp_path))
    assert makes(cache).count("modules") == 3
    assert (tmp_path / "CCACHE_RECACHE").read_text() == "1"


def test_a_mutant_is_the_source_with_its_patch(tmp_path: Path, cache: Cache, mutants: Path) -> None:
    source = write_source(tmp_path / "linux")
    commit(source, "first")
    stock = build(cache, f"{source}@HEAD", tmp_path)
    mutant = build(cache, f"{source}@HEAD+broken-blk", tmp_path)
    assert (mutant.mutant, stock.mutant) == ("broken-blk", "")
    assert "int mutant;" in module_text(mutant)
    assert "mutant broken-blk" in mutant.origin
    assert git(source, "status", "--porcelain") == ""
    assert build(cache, f"{source}+broken-blk", tmp_path).digest == mutant.digest


def test_a_mutant_may_need_more_options_than_the_source(tmp_path: Path, cache: Cache, mutants: Path) -> None:
    source = write_source(tmp_path / "linux")
    (mutants / "broken-blk.patch").write_text(f"Options: BLK_DEV_NULL_BLK\n{PATCH}")
    stock, mutant = (build(cache, f"{source}{suffix}", tmp_path) for suffix in ("", "+broken-blk"))
    assert (stock.config["CONFIG_BLK_DEV_NULL_BLK"], mutant.config["CONFIG_BLK_DEV_NULL_BLK"]) == ("m", "y")
    (mutants / "broken-blk.patch").write_text(f"Options: GONE\n{PATCH}")
    with pytest.raises(CannotJudge, match=r"CONFIG_GONE=y \(the mutant's Options\) is n"):
        build(cache, f"{source}+broken-blk", tmp_path)


def test_a_mutant_that_does_not_apply_cannot_be_judged(tmp_path: Path, cache: Cache, mutants: Path) -> None:
    source = write_source(tmp_path / "linux", "int other;\n")
    with pytest.raises(CannotJudge, match=r"broken-blk\.patch does not apply"):
        build(cache, f"{source}+broken-blk", tmp_path)
    write_source(source, minor=0)
    with pytest.raises(CannotJudge, match=r"mutant broken-blk is for kernels >= 6\.1, and this is 6\.0\.7"):
        build(cache, f"{source}+broken-blk", tmp_path)


@pytest.mark.parametrize("lost", ["HEAD^{tree}", "HEAD:block", "HEAD:block/blk.c"])
@pytest.mark.parametrize("suffix", ["", "+broken-blk"])
def test_a_repository_that_lacks_objects_is_named(
    tmp_path: Path, cache: Cache, mutants: Path, lost: str, suffix: str
) -> None:
    source = write_source(tmp_path / "linux")
    commit(source, "first")
    name = git(source, "rev-parse", lost).strip()
    (source / ".git/objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(LabBroken, match=f"git objects are missing or damaged in {source}/.git/objects") as caught:
        build(cache, f"{source}@HEAD{suffix}", tmp_path)
    assert "git fsck" in caught.value.remedy
    assert "apt-get" not in caught.value.remedy


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("{root}/none", "does not exist"),
        ("{root}/linux@HEAD", "not the top of a git repository"),
        ("{root}/linux@", "does not exist"),
        ("{root}/repository@v1", "has no commit v1"),
        ("{root}/repository@--all", "not a revision"),
        ("{root}/repository@HEAD+no-such", "has no commit"),
        ("{root}/empty", "is not a kernel's source"),
    ],
)
def test_mistakes_are_misuse(tmp_path: Path, cache: Cache, mutants: Path, wanted: str, says: str) -> None:
    write_source(tmp_path / "linux")
    commit(write_source(tmp_path / "repository"), "first")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Misuse, match=says):
        build(cache, wanted.format(root=tmp_path), tmp_path)


def test_paths_may_hold_signs_that_mean_something(tmp_path: Path, cache: Cache, mutants: Path) -> None:
    source = write_source(tmp_path / "linux@home+broken-blk")
    commit(source, "first")
    assert build(cache, str(source), tmp_path).mutant == ""
    assert build(cache, f"{source}@HEAD", tmp_path).release
    assert build(cache, f"{source}@HEAD+broken-blk", tmp_path).mutant == "broken-blk"


def test_the_objects_of_a_kernel_are_there_to_be_looked_at(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "linux")
    first = commit(source, "first")
    write_source(source, "int second;\n")
    wanted = tree.read_source(f"{source}@{first}")
    kernel = tree.built(wanted, cache)
    tree.built(tree.read_source(f"{source}@{commit(source, 'second')}"), cache)

    def look(objects: Path, files: Path) -> tuple[str, str]:
        return (objects / "vmlinux").read_text().rpartition("\0")[2], (files / "block/blk.c").read_text()

    # The toy's image is no ELF file.
    monkeypatch.setattr("lab.native.elf.code", lambda data: data[:0])
    assert tree.in_objects(kernel, wanted, cache, look) == ("int blk;\n", "int blk;\n")
    other = iter((b"what was measured", b"what is built now"))
    monkeypatch.setattr("lab.native.elf.code", lambda _: next(other))
    with pytest.raises(LabBroken, match="is not built as"):
        tree.in_objects(kernel, wanted, cache, look)


def test_a_first_build_says_how_far_it_is_and_the_cache_knows_what_builds_took(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "linux")
    assert builds(cache) == Builds(0, 0)
    made, heard, lines_told = tmp_path / "bin/make", tmp_path / "heard", list[str]()

    def tell(line: str) -> None:
        lines_told.append(line)
        if " of " in line and line.startswith("compiled"):
            heard.touch()

    # The made-up make leaves two objects, later one of them again, and ends when it was told of.
    lines = [
        "for name in 'ab' if not (objects / 'vmlinux').exists() else 'b': (objects / (name + '.o')).write_text('')",
        "(objects / 'include/config').mkdir(parents=True, exist_ok=True)",
        "(objects / 'include/config/auto.conf').write_text('')",
        f"import time\n    while not pathlib.Path({str(heard)!r}).exists(): time.sleep(0.01)",
    ]
    begins = 'if "bzImage" in words or "vmlinux" in words:\n'
    made.write_text(made.read_text().replace(begins, f"{begins}    " + "\n    ".join(lines) + "\n"))
    monkeypatch.setattr("lab.kernels.build._EVERY", 0.05)
    monkeypatch.setattr("lab.kernels.build._LONG", 0)
    monkeypatch.setattr("lab.kernels.build.time_left", lambda *_: "")
    tree.built(tree.read_source(str(source)), cache, tell=tell)
    assert "compiled 2 of 4 objects" in lines_told, "two were there when make -n told of two more"
    assert builds(cache).first > 0 and builds(cache).further == 0
    write_source(source, "int other;\n")
    lines_told.clear()
    heard.unlink()
    tree.built(tree.read_source(str(source)), cache, tell=tell)
    assert {"compiled 1 of 3 objects", "compiled 0 of 2 objects"} & {*lines_told}, "of this build alone"
    assert builds(cache).further > 0


@pytest.mark.parametrize("own", [None, "0"])
def test_ccache_runs_no_preprocessor_unless_the_user_says_so(
    own: str | None, tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_variable(tmp_path, "CCACHE_DEPEND")
    monkeypatch.setenv("CCACHE_DEPEND", own) if own else None
    build(cache, str(write_source(tmp_path / "linux")), tmp_path)
    assert (tmp_path / "CCACHE_DEPEND").read_text() == (own or "1")


@pytest.mark.parametrize(("minor", "major", "image"), [(12, 6, "vmlinux"), (19, 4, "bzImage")])
def test_what_a_guest_boots_is_built_and_nothing_else(
    minor: int, major: int, image: str, tmp_path: Path, cache: Cache
) -> None:
    """QEMU enters a kernel through its PVH note from 5.0 on; only before it needs the bzImage."""
    source = write_source(tmp_path / "linux", minor=minor)
    makefile = source / "Makefile"
    makefile.write_text(makefile.read_text().replace("VERSION = 6", f"VERSION = {major}"))
    (tmp_path / "made/release").write_text(f"{major}.{minor}.7-blklab\n")
    (tmp_path / "made/bzImage").write_bytes(bzimage(lzma.compress(elf()), f"{major}.{minor}.7-blklab"))
    kernel = build(cache, str(source), tmp_path)
    (made,) = [line for line in made_lines(cache) if line.endswith(" modules")]
    assert {"vmlinux", "bzImage"} & {*made.split()} == {image}
    assert (kernel.vmlinux is not None) == (image == "vmlinux")
    assert is_bzimage(kernel.image.read_bytes()) == (image == "bzImage")


def test_a_configuration_is_made_again_only_where_it_may_come_out_otherwise(tmp_path: Path, cache: Cache) -> None:
    source = write_source(tmp_path / "linux")
    commit(source, "first")
    build(cache, f"{source}@HEAD", tmp_path)
    write_source(source, "int second;\n")
    commit(source, "second")
    build(cache, f"{source}@HEAD", tmp_path)
    assert makes(cache) == ["allnoconfig", "modules", "modules"]
    write_source(source, "#error broken\n", options=("BLOCK", "BLK_DEV_NULL_BLK", "NEW"))
    commit(source, "a Kconfig, and code that does not build")
    with pytest.raises(CannotJudge, match="error broken"):
        build(cache, f"{source}@HEAD", tmp_path)
    # The folder now has the configuration of the one that failed.
    write_source(source, "int third;\n")
    commit(source, "third")
    build(cache, f"{source}@HEAD", tmp_path)
    assert makes(cache)[3:] == ["allnoconfig", "modules"] * 2


def test_a_clone_that_was_built_and_is_gone_fails_no_other_build(tmp_path: Path, cache: Cache) -> None:
    """Clones that borrow the objects of one repository share a folder of objects."""
    source, clone = write_source(tmp_path / "linux"), tmp_path / "clone"
    commit(source, "first")
    git(source, "clone", "--quiet", "--shared", ".", str(clone))
    write_source(clone, "int second;\n")
    commit(clone, "second")
    build(cache, f"{clone}@HEAD", tmp_path)
    shutil.rmtree(clone)
    build(cache, f"{source}@HEAD", tmp_path)
    assert makes(cache) == ["allnoconfig", "modules"] * 2


def test_the_user_says_how_many_compilers_run_and_how_they_give_way(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "bin/make"
    note = f"import os\npathlib.Path({str(tmp_path / 'nice')!r}).write_text(str(os.nice(0)))\n"
    made.write_text(f"{made.read_text()}\n{note}")
    own, source = os.nice(0), write_source(tmp_path / "linux")
    build(cache, str(source), tmp_path)
    assert int((tmp_path / "nice").read_text()) == own
    monkeypatch.setenv("BLKLAB_NICE", "2")
    monkeypatch.setenv("BLKLAB_JOBS", "7")
    write_source(source, "int other;\n")
    build(cache, str(source), tmp_path)
    assert int((tmp_path / "nice").read_text()) == min(own + 2, 19)
    assert " -j7 " in made_lines(cache)[-1]
    write_source(source, "int third;\n")
    monkeypatch.setenv("BLKLAB_NICE", "-5")
    with pytest.raises(Misuse, match="BLKLAB_NICE=-5: expected a number from 0 to 19"):
        build(cache, str(source), tmp_path)


OWN = "CONFIG_X86_64=y\nCONFIG_BLOCK=y\nCONFIG_BLK_DEV_NULL_BLK=y\nCONFIG_HZ=1000\nCONFIG_SOUND=m\nCONFIG_DM=m\n"


def test_a_configuration_of_the_users_own_gets_what_scenarios_need_and_the_rest_stays(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("X86_64", "BLOCK", "BLK_DEV_NULL_BLK", "HZ", "SOUND", "DM", "TTY", "NEW", "NR")
    source, own, said = write_source(tmp_path / "linux", options=names), tmp_path / "mine", list[str]()
    own.write_text(OWN)
    monkeypatch.setenv("BLKLAB_CONFIG", str(own))
    lines = ("CONFIG_BLOCK=y", "CONFIG_BLK_DEV_NULL_BLK=m", "CONFIG_TTY=y", "CONFIG_NR=4", "# CONFIG_HZ is not set")
    write_fragments(tmp_path / "kconfigs", *lines)
    (tmp_path / "kconfigs/md.config").write_text("CONFIG_DM=y\n")
    kernel = tree.built(tree.read_source(str(source)), cache, tell=said.append)
    assert kernel.config == {
        **{"CONFIG_X86_64": "y", "CONFIG_BLOCK": "y", "CONFIG_HZ": "1000", "CONFIG_TTY": "y", "CONFIG_NR": "4"},
        **{"CONFIG_BLK_DEV_NULL_BLK": "m", "CONFIG_DM": "m"},
    }
    told = "added: NR=4 TTY=y; changed: BLK_DEV_NULL_BLK=m, was y; left out: 1 module that no scenario loads"
    assert f"your configuration, {told}" in said
    monkeypatch.delenv("BLKLAB_CONFIG")
    assert tree.built(tree.read_source(str(source)), cache).config.get("CONFIG_HZ") is None
    assert len(list((cache.root / "trees").glob("*/objects-*"))) == 2, "each configuration keeps its objects"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CONFIG_ARM64=y\n", "is not for x86-64"),
        (f"{OWN}CONFIG_CC_IS_CLANG=y\n", "is for clang"),
        (None, "there is no configuration"),
    ],
)
def test_a_configuration_that_cannot_be_built_here(
    text: str | None, words: str, tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "linux")
    if text is not None:
        (tmp_path / "mine").write_text(text)
    monkeypatch.setenv("BLKLAB_CONFIG", str(tmp_path / "mine"))
    with pytest.raises(Misuse, match=words) as caught:
        build(cache, str(source), tmp_path)
    assert caught.value.remedy and makes(cache) == []


def test_objects_are_counted_while_make_removes_files(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kbuild tries options of the compiler in .tmp_PID, which is gone a moment later, as what this link leads to."""
    heard, source = tmp_path / "heard", write_source(tmp_path / "linux")
    made = tmp_path / "bin/make"
    begins = 'if "bzImage" in words or "vmlinux" in words:\n'
    lines = f"""    import time
    (objects / "try.o").symlink_to("gone")
    (objects / "there.o").write_text("")
    until = time.monotonic() + 20
    while not pathlib.Path({str(heard)!r}).exists() and time.monotonic() < until:
        time.sleep(0.01)
"""
    made.write_text(made.read_text().replace(begins, f"{begins}{lines}"))
    monkeypatch.setattr("lab.kernels.build._EVERY", 0.05)

    def tell(line: str) -> None:
        if line == "compiled 1 objects":
            heard.touch()

    tree.built(tree.read_source(str(source)), cache, tell=tell)
    assert heard.exists()
