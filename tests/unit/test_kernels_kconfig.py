# SPDX-License-Identifier: GPL-2.0-only
"""Configuration fragments, what was lost of them, how configurations differ; headers and ranges of mutants."""

from pathlib import Path

import pytest

from harness.base.checkout import SCENARIOS
from harness.commands import load
from harness.commands.parser import Parser
from harness.scenario.load import find_scenarios, read_scenario
from lab.base.errors import CannotJudge, InputErrors, Misuse
from lab.kernels.build import FIXUPS, Fixup, Toolchain, fixups_for, recipe
from lab.kernels.kconfig import describe_drift, drift, fragments, lost, read_fragments
from lab.kernels.model import Release, parse_range
from lab.kernels.mutants import catalogue, mutation
from lab.realise.capability import REQUIRED_OPTIONS

RELEASE = Release.parse("6.12.7")


def wanted(tmp_path: Path, text: str) -> tuple[str, ...]:
    path = tmp_path / "a.config"
    path.write_text(text)
    return tuple(lost(read_fragments([path]), {"CONFIG_A": "y", "CONFIG_NEW": "m"}, RELEASE))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("CONFIG_A=y\n", ()),
        ("CONFIG_A=m\n", ("CONFIG_A=m (a.config:1) is y",)),
        ("# CONFIG_A is not set\n", ("CONFIG_A=n (a.config:1) is y",)),
        ("# CONFIG_B is not set\n", ()),
        ("CONFIG_B=y\n", ("CONFIG_B=y (a.config:1) is n",)),
        ("#: CONFIG_B >= 6.13\nCONFIG_B=y\n", ()),
        ("#: CONFIG_B < 6.13\nCONFIG_B=y\n", ("CONFIG_B=y (a.config:2) is n",)),
        ("#: CONFIG_NEW or CONFIG_OLD\nCONFIG_NEW=m\nCONFIG_OLD=m\n", ()),
        ("#: CONFIG_B or CONFIG_OLD\nCONFIG_B=y\nCONFIG_OLD=y\n", ("CONFIG_B or CONFIG_OLD=y (a.config:3) is n",)),
    ],
)
def test_what_was_lost(tmp_path: Path, text: str, missing: tuple[str, ...]) -> None:
    assert wanted(tmp_path, text) == missing


def test_all_mistakes_of_a_fragment_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.config"
    path.write_text("CONFIG_A y\n#: whatever\n#: CONFIG_A >= 6.2, < 6.1\nCONFIG_A=y\n")
    with pytest.raises(InputErrors) as caught:
        read_fragments([path])
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(1, 1), (2, 1), (3, 16)]


def test_the_labs_own_fragments_hold_what_the_lab_requires() -> None:
    own = {option.option: option.value for option in read_fragments(fragments())}
    assert {f"CONFIG_{option}" for option in REQUIRED_OPTIONS} <= {name for name, value in own.items() if value != "n"}
    # Modules with parameters of a scenario: a built-in one could be given none.
    assert {own[f"CONFIG_{name}"] for name in ("BLK_DEV_NULL_BLK", "SCSI_DEBUG", "LOOPBACK_TARGET")} == {"m"}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("4.19.78", set()),
        ("5.0", {"PVH"}),
        ("5.3.18", {"PVH", "IO_URING"}),
        ("5.4", {"PVH", "IO_URING", "BLK_CGROUP_IOCOST"}),
        ("5.9", {"PVH", "IO_URING", "BLK_CGROUP_IOCOST", "RD_ZSTD"}),
    ],
)
def test_options_that_an_old_kernel_lacks_may_be_lost(release: str, expected: set[str]) -> None:
    newer = {"CONFIG_PVH", "CONFIG_RD_ZSTD", "CONFIG_IO_URING", "CONFIG_BLK_CGROUP_IOCOST"}
    wanted = [option for option in read_fragments(fragments()) if option.option in newer]
    found = {one.option for one in lost(wanted, {}, Release.parse(release)).values()}
    assert found == {f"CONFIG_{name}" for name in expected}


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("#: CONFIG_A >= 4.14\nCONFIG_A=y\n", True),
        ("CONFIG_A=y\n#: CONFIG_B >= 5.0\nCONFIG_B=y\n", True),
        ("#: CONFIG_A >= 5.0\nCONFIG_A=y\n", False),
        ("CONFIG_A=y\n#: CONFIG_B < 5.0\nCONFIG_B=y\n", False),
    ],
)
def test_options_of_other_kernels_change_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, same: bool
) -> None:
    monkeypatch.setattr("lab.kernels.kconfig.FRAGMENTS", tmp_path)
    digests = []
    for content in ("CONFIG_A=y\n", text):
        (tmp_path / "a.config").write_text(content)
        digests.append(recipe(Release.parse("4.19"), Toolchain("gcc 12.2")).digest)
    assert (digests[0] == digests[1]) is same


def test_an_option_is_written_as_a_configuration_has_it(tmp_path: Path) -> None:
    lines = ["CONFIG_A=y", "CONFIG_B=m", "# CONFIG_C is not set", "CONFIG_D=8", "CONFIG_E=0x10", 'CONFIG_F="a b"']
    (tmp_path / "a.config").write_text("\n".join(lines))
    assert [option.line for option in read_fragments([tmp_path / "a.config"])] == lines


def test_drift_is_in_options_and_not_in_abilities() -> None:
    first = {"CONFIG_A": "y", "CONFIG_B": "m", "CONFIG_HAVE_X": "y", "CONFIG_SAME": "1"}
    second = {"CONFIG_B": "y", "CONFIG_C": "8", "CONFIG_GCC_VERSION": "12", "CONFIG_SAME": "1"}
    found = drift(first, second)
    assert found.options == {"CONFIG_A": ("y", "n"), "CONFIG_B": ("m", "y"), "CONFIG_C": ("n", "8")}
    assert found.given == 2
    assert describe_drift(found, "good", "bad").splitlines() == [
        "3 options differ from good to bad, 2 more that compiler and architecture decide:",
        "CONFIG_A  y -> n",
        "CONFIG_B  m -> y",
        "CONFIG_C  n -> 8",
    ]
    assert "agree" in describe_drift(drift(first, first), "good", "bad")


def test_fixups_go_by_kernel_and_compiler() -> None:
    old = parse_range("< 5.15")
    rows = (Fixup("old", kernels=old), Fixup("new compiler", compiler=12), Fixup("both", old, 12))
    because = {
        (release, compiler): [row.because for row in fixups_for(Release.parse(release), compiler, rows)]
        for release in ("5.10.3", "6.12")
        for compiler in (10, 12)
    }
    assert because == {
        ("5.10.3", 10): ["old"],
        ("5.10.3", 12): ["old", "new compiler", "both"],
        ("6.12", 10): [],
        ("6.12", 12): ["new compiler"],
    }
    off = "# CONFIG_RETPOLINE is not set"
    without = {
        text: any(off in row.options for row in fixups_for(Release.parse(text), 12))
        for text in ("4.19.78", "5.4.1", "5.10.262", "6.12")
    }
    assert without == {"4.19.78": True, "5.4.1": True, "5.10.262": False, "6.12": False}


@pytest.mark.parametrize("row", FIXUPS, ids=lambda row: row.because[:30])
def test_every_fixup_does_something_on_a_range_that_ends(row: Fixup) -> None:
    assert row.variables or row.options
    assert not row.kernels.has(Release.parse("99.0"))


@pytest.mark.parametrize(
    ("said", "major"),
    [("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", 12), ("gcc (GCC) 15.1.1 20250425 (Red Hat 15.1.1-1)", 15), ("tcc", 0)],
)
def test_major_version_of_a_compiler(said: str, major: int) -> None:
    assert Toolchain(f"{said}\nGNU ld 2.40").major == major


BODY = "\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def test_the_patch_for_the_kernel_is_taken(tmp_path: Path) -> None:
    (tmp_path / "late.5.10.patch").write_text(f"Mutant: late\nKernels: 5.10\n{BODY}")
    header = "Mutant: late\nKernels: >= 6.1\nFrom: https://example.org/a\nOptions: A B\n"
    (tmp_path / "late.patch").write_text(f"{header}{BODY}")
    known = catalogue(tmp_path)
    assert mutation("late", Release.parse("5.10.3"), known).patch.name == "late.5.10.patch"
    late = mutation("late", Release.parse("6.12"), known)
    assert late.options == ("A", "B")
    with pytest.raises(CannotJudge, match=r"mutant late is for kernels 5\.10; >= 6\.1, and this is 5\.15"):
        mutation("late", Release.parse("5.15"), known)
    with pytest.raises(Misuse, match=r"no mutant lat\b.*late"):
        mutation("lat", Release.parse("6.12"), known)


def test_all_mistakes_of_all_headers(tmp_path: Path) -> None:
    (tmp_path / "Bad_Name.patch").write_text(f"Mutant: x\nKernels: 6.1\n{BODY}")
    (tmp_path / "no-range.patch").write_text(f"Mutant: x\n{BODY}")
    (tmp_path / "wrong-range.patch").write_text(f"Mutant: x\nKernels: <= 6.1\n{BODY}")
    with pytest.raises(InputErrors) as caught:
        catalogue(tmp_path)
    said = [problem.message for problem in caught.value.problems]
    assert said == [
        "not the name of a mutant's file",
        "the line Kernels: is missing before the diff",
        'expected kernels, got "<= 6.1"',
    ]


def test_every_mutant_of_a_control_exists_and_every_mutant_has_a_control_or_scenarios() -> None:
    scenarios = [read_scenario(name) for name in find_scenarios()]
    named = {control.mutant for scenario in scenarios for control in scenario.controls if control.mutant}
    known = {name: {file for patch in patches for file in patch.scenarios} for name, patches in catalogue().items()}
    assert named <= known.keys()
    assert {name for name in known if name not in named and not known[name]} == set()
    assert {file for files in known.values() for file in files} <= {path.stem for path in SCENARIOS.rglob("*.yaml")}


def test_every_mutant_is_for_the_packaged_source() -> None:
    for name, patches in catalogue().items():
        assert mutation(name, Release.parse("6.12.107"), catalogue()) in patches


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("run x --kernel debian:6.1", "debian:6.1"),
        ("run x", "distro"),
        ("run x --base debian:6.1 --kernel path:/", "path:/, debian:6.1"),
        ("hunt x", "distro"),
        ("bisect x --good debian:6.1 --bad debian:6.12", "debian:6.1, debian:6.12"),
        ("run x --base debian:6.1 --kernel source:6.12", ""),
        ("bisect x --good v6.1 --bad v6.2 --tree /", ""),
        ("patch x --base debian:6.12", ""),
    ],
)
def test_a_configuration_for_kernels_that_are_not_built_is_refused(
    tmp_path: Path, words: str, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERNEL", raising=False)
    config = tmp_path / "own"
    config.write_text("CONFIG_X86_64=y\nCONFIG_CC_IS_GCC=y\n")
    command, _, rest = f"{words} --config {config}".partition(" ")
    parser = Parser()
    parser.take(load(command))
    if refused:
        with pytest.raises(Misuse, match=rf"--config: nothing is built for {refused}\n"):
            parser.parse(rest.split())
    else:
        parser.parse(rest.split())
