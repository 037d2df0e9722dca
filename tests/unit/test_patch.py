# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch``: patches that are read and applied, and when a series is worse."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.cli import main
from harness.commands import patch as command
from harness.grid.lines import Kind, Move, Trend
from harness.limits.entries import load_scenario
from harness.patch.choice import Coverage
from harness.patch.report import LINES, base_mail, exit_code, reply, summary, verdict_line
from harness.patch.series import Branch, read_series
from harness.patch.study import MeasuredSeries, Outcomes, SeriesKernel, Study, outcomes
from harness.run.bench import Bench
from harness.run.plan import Request
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_MISUSE, EXIT_PASS, CannotJudge, Misuse
from lab.base.units import silent
from lab.kernels.model import Kernel
from lab.kernels.tree import KernelSource, read_source
from lab.session import Lab
from tests.unit.record_samples import run_of
from tests.unit.series_samples import (
    HEADER,
    SAME,
    SLOWER,
    Measuring,
    branch_of,
    built,
    by_function,
    patched,
    series_of,
    small_tree,
)
from tests.unit.tree_samples import MAKEFILE, commit, fake_tools, git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return small_tree(tmp_path)


# Series


def test_an_mbox_and_a_folder_are_the_same_series(tree: Path, tmp_path: Path) -> None:
    one = patched(tree, "block/tags.c", "depth = 0", "depth = 1", "first")
    two = patched(tree, "block/tags.c", "depth = 1", "depth = 2", "second")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "0001-first.patch").write_text(one)
    (folder / "0002-second.patch").write_text(two)
    (folder / "notes.txt").write_text("not a patch")
    cover = one.partition("diff --git")[0].replace("[PATCH] first", "[PATCH 0/2] cover")
    found = read_series(series_of(tmp_path, cover, one, two))
    assert [patch.title for patch in found] == [patch.title for patch in read_series(folder)] == ["first", "second"]
    assert found[1].line == len((cover + one).splitlines()) + 1
    branch = branch_of(tree, tmp_path)
    tip = branch.base
    for patch in found:
        tip = branch.applied(patch, tip)
    assert git(tree, "rev-parse", "HEAD^{tree}") == git(branch.folder, "rev-parse", f"{tip}^{{tree}}")
    assert branch.applied(found[0], branch.base) == branch.applied(found[0], branch.base)


def test_mails_of_a_thread_are_put_in_order(tree: Path, tmp_path: Path) -> None:
    one = patched(tree, "block/tags.c", "depth = 0", "depth = 1").replace("[PATCH]", "[PATCH v2 1/2]")
    two = patched(tree, "block/tags.c", "depth = 1", "depth = 2").replace("[PATCH]", "[PATCH v2 2/2]")
    found = read_series(series_of(tmp_path, two, one))
    assert [patch.subject for patch in found] == ["[PATCH v2 1/2] change", "[PATCH v2 2/2] change"]


def test_a_mail_in_quoted_printable_applies(tree: Path, tmp_path: Path) -> None:
    mail = patched(tree, "block/tags.c", "tags->depth = 0", "tags->depth = 1").replace("=", "=3D")
    head, _, body = mail.partition("\n\n")
    head = (
        head.replace("=3D", "=")
        + "\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable"
    )
    (patch,) = read_series(series_of(tmp_path, f"{head}\n\n{body}"))
    assert patch.line == 0 and "(line 3 of its patch)" in patch.place(3)
    branch = branch_of(tree, tmp_path)
    assert "depth = 1" in git(branch.folder, "show", f"{branch.applied(patch, branch.base)}:block/tags.c")


def test_a_patch_that_does_not_apply_is_named_with_its_line(tree: Path, tmp_path: Path) -> None:
    good = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    path = series_of(tmp_path, good, good.replace("-\ttags->depth = 0", "-\ttags->depth = 9"))
    first, second = read_series(path)
    branch = branch_of(tree, tmp_path)
    at = path.read_text().splitlines().index(next(line for line in second.text.splitlines() if line[:2] == "@@"))
    expected = second.line + next(n for n, line in enumerate(second.text.splitlines()) if line.startswith("@@"))
    assert at < expected
    with pytest.raises(CannotJudge, match=rf"series\.mbox:{expected}: change does not apply to [0-9a-f]{{12}}"):
        branch.applied(second, branch.base)
    with pytest.raises(CannotJudge, match=r"series\.mbox:1: change is already applied in [0-9a-f]{12}") as refused:
        branch.applied(first, branch.applied(first, branch.base))
    assert refused.value.remedy == "name a base without it"


def test_a_patch_of_an_absent_file_and_a_cut_patch(tree: Path, tmp_path: Path) -> None:
    good = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    absent = series_of(tmp_path, good.replace("block/tags.c", "block/gone.c"))
    line = next(n for n, text in enumerate(absent.read_text().splitlines(), start=1) if text == "--- a/block/gone.c")
    branch = branch_of(tree, tmp_path)
    with pytest.raises(CannotJudge, match=rf"series\.mbox:{line}: "):
        branch.applied(read_series(absent)[0], branch.base)
    cut = series_of(tmp_path, good[: good.index("+\ttags->depth")], name="cut.mbox")
    last = len(cut.read_text().splitlines())
    with pytest.raises(CannotJudge, match=rf"cut\.mbox:{last}: .*does not apply"):
        branch.applied(read_series(cut)[0], branch.base)


@pytest.mark.parametrize("content", ["", "From: a@example.org\nSubject: hello\n\nno diff\n"])
def test_what_is_no_series(tmp_path: Path, content: str) -> None:
    with pytest.raises(Misuse, match="has no patch"):
        read_series(series_of(tmp_path, content))
    with pytest.raises(Misuse, match="does not exist"):
        read_series(tmp_path / "absent")


def test_a_base_without_a_revision_is_refused(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="has no revision"):
        Branch(read_source(str(tree)), tmp_path / "branch")


def test_a_mutant_as_the_base(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mutants"
    folder.mkdir()
    change = patched(tree, "block/tags.c", "quantum = 8", "quantum = 1")
    (folder / "slow.patch").write_text("Mutant: slow\nKernels: 6.12\n\n" + change[change.index("diff --git") :])
    monkeypatch.setattr("lab.kernels.mutants.catalogue.__defaults__", (folder,))
    base = git(tree, "rev-list", "--max-parents=0", "HEAD")
    source = replace(read_source(f"{tree}@{base}", folder), mutant="slow")
    branch = Branch(source, tmp_path / "branch")
    assert "quantum = 1" in git(branch.folder, "show", f"{branch.base}:block/tags.c")
    assert git(branch.folder, "rev-parse", f"{branch.base}^") == base
    assert git(branch.folder, "show", f"{branch.base}:Makefile") == MAKEFILE.format(minor=12).strip()


# The verdict


def compared(*found: Outcomes) -> MeasuredSeries:
    base, series = (SeriesKernel("0" * 40, title, built()) for title in ("Linux 6.12", "Linux 6.12 with change"))
    return MeasuredSeries(base, series, found, 1.5)


def test_a_load_that_gets_less_is_worse_and_one_that_gets_more_is_better(tmp_path: Path) -> None:
    base = run_of(tmp_path, [95.0, 96.0])
    slow, same, fast = (
        run_of(tmp_path, values, day=day, release="6.1.0-19-amd64")
        for day, values in ((2, [80.0, 82.0]), (3, [95.5, 96.0]), (4, [120.0, 121.0]))
    )
    for run, effect, code in (
        (slow, Trend.WORSE, EXIT_FAIL),
        (same, None, EXIT_PASS),
        (fast, Trend.BETTER, EXIT_PASS),
    ):
        found = outcomes(base, run)
        one = compared(found)
        assert (found.trend, one.trend, exit_code([one])) == (effect, effect, code)
        assert verdict_line(one).startswith({Trend.WORSE: "WORSE", None: "SAME"}.get(effect, "BETTER"))
    assert exit_code([compared(outcomes(base, fast)), compared(outcomes(base, slow))]) == EXIT_FAIL


def test_a_boot_that_is_lost_has_the_line_of_the_patch(tmp_path: Path) -> None:
    found = outcomes(run_of(tmp_path, [95.0]), run_of(tmp_path, [95.0], day=2))
    lost = Move(found.scenario, Kind.BOOT, "arm none, seed 1", "boots", "oops: checked", Trend.WORSE)
    slower = Move(found.scenario, Kind.FIGURE, "none.together: IOPS of victim", "95", "80", Trend.WORSE)
    one = compared(replace(found, moves=(lost, slower)))
    _, *lines = summary(replace(one, series=replace(one.series, place="series.mbox:7")))
    assert lines == [
        f"  series.mbox:7: {found.scenario}: worse: arm none, seed 1: boots -> oops: checked",
        f"  {found.scenario}: worse: none.together: IOPS of victim: 95 -> 80",
    ]


def test_a_reply_is_a_mail_of_forty_lines(tmp_path: Path, tree: Path) -> None:
    mail = patched(tree, "block/tags.c", "depth = 0", "depth = 1").replace("[PATCH]", "[PATCH v3]")
    (one,) = read_series(series_of(tmp_path, mail))
    found = outcomes(run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [80.0, 82.0], day=2, release="6.1.0-19-amd64"))
    text = reply([one], compared(found, found, found, found, found), None, "blklab patch series.mbox")
    assert text.startswith("Subject: Re: [PATCH v3] change\n")
    assert len(text.splitlines()) <= LINES
    assert max(map(len, text.splitlines())) <= 88
    assert "-15.2% *" in text and "blklab patch series.mbox" in text


def test_two_kernels_as_a_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both origins, what their configurations differ in, the claims and figures, and the command that repeats it."""
    monkeypatch.setattr("harness.patch.report.profiled", lambda *_: None)
    runs = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [80.0, 82.0], day=2, release="6.12.0-1-amd64")
    old = replace(built(), release="6.1.0", origin="Debian bookworm, linux-image 6.1", config={"CONFIG_HZ": "250"})
    new = replace(built(), release="6.12.0", origin="Debian trixie, linux-image 6.12", config={"CONFIG_HZ": "1000"})
    text = base_mail(cast(Lab, None), runs, (old, new), silent)
    lines = text.splitlines()
    assert lines[0] == f"Subject: {runs[0].facts.scenario}: 6.1.0 -> 6.12.0"
    assert "base: 6.1.0, Debian bookworm, linux-image 6.1" in lines
    assert "new: 6.12.0, Debian trixie, linux-image 6.12" in lines
    assert "Their configurations differ in CONFIG_HZ 250 -> 1000, so" in text
    assert "-15.2% *" in text and len(lines) <= LINES
    assert "Both have the same configuration." in base_mail(cast(Lab, None), runs, (old, old), silent)


def test_a_mail_announces_that_it_boots_again(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "shared-queue", "--kernel", "debian:6.12", "--base", "debian:6.1", "--dry-run"]
    assert main([*words, "--mail", "x"]) == main(words) == EXIT_PASS
    said = "--mail: each of both kernels boots once more and is profiled, where figures differ"
    assert capsys.readouterr().err.count(said) == 1


def test_a_mail_needs_a_base_and_the_virtual_clock(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "shared-queue", "--kernel", "debian:6.1", "--mail", "x"]) == EXIT_MISUSE
    wall = ["run", "scenarios/wall/nvme-63-tags.yaml", "--kernel", "debian:6.12", "--base", "debian:6.1", "--mail", "x"]
    assert main(wall) == EXIT_MISUSE
    said = capsys.readouterr().err
    assert "add --base SPEC and name one scenario" in said and "--mail names functions by instructions" in said


def test_nothing_judged_on_both_sides_is_no_verdict(tmp_path: Path) -> None:
    found = replace(outcomes(run_of(tmp_path, [95.0]), run_of(tmp_path, [95.0], day=2)), judged=0)
    assert exit_code([compared(found)]) == EXIT_CANNOT_JUDGE
    assert verdict_line(compared(found)).startswith("CANNOT JUDGE")


# The command


def test_a_series_that_does_not_build_is_named_with_the_compiler_s_line(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tools(tmp_path, monkeypatch)
    mail = patched(tree, "block/blk.c", "int blk;\n", "int blk;\n\n#error broken\n")
    (one,) = read_series(series_of(tmp_path, mail))
    line = next(number for number, text in enumerate(mail.splitlines(), start=1) if text == "+#error broken")
    branch = branch_of(tree, tmp_path)
    cache = Cache(tmp_path / "cache")
    study = Study(branch, "the base", cast(Bench, None), silent, cache)
    with pytest.raises(
        CannotJudge, match=rf"series\.mbox:{line}: .*does not build: block/blk\.c:3:2: error: #error broken"
    ):
        study.step(one, branch.applied(one, branch.base))
    cache.close()


def test_words_that_contradict_each_other_and_a_base_that_is_no_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tree: Path
) -> None:
    words = ["patch", str(tmp_path), "--all", "--scenario", "waiters"]
    assert main(words) == EXIT_MISUSE
    assert "--all does not go with --scenario" in capsys.readouterr().err
    path = series_of(tmp_path, patched(tree, "block/tags.c", "depth = 0", "depth = 1"))
    words = ["patch", str(path), "--results", str(tmp_path / "results"), "--base"]
    assert main([*words, "ubuntu:5.4"]) == EXIT_MISUSE
    assert "ubuntu:5.4 is not a source" in capsys.readouterr().err


def test_a_series_that_no_scenario_executes_is_not_judged(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "bench_of", lambda *_, **__: pytest.fail("nothing is measured"))
    path = series_of(tmp_path, patched(tree, "block/tags.c", "depth = 0", "depth = 1"))
    words = ["patch", str(path), "--results", str(tmp_path / "results"), "--base", f"{tree}@HEAD~"]
    assert main(words) == EXIT_CANNOT_JUDGE
    said = capsys.readouterr()
    assert "not observed: blk_timeout" in said.out or "no observed load executes: blk_timeout" in said.out
    assert "no scenario executes what the series touches" in said.err


def test_a_matrix_of_what_changed(tree: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tree / "block/mq.c").write_text(HEADER.replace("static inline bool may_queue", "bool blk_mq_submit_bio"))
    commit(tree, "before")
    patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    patched(tree, "block/mq.c", "depth < TAGS", "depth <= TAGS")
    words = ["matrix", "--kernels", "debian:6.1", "--seeds", "1", "--dry-run", "--results", str(tmp_path)]
    changed = [*words, "--tree", str(tree), "--changed", "HEAD~..HEAD"]
    assert main(changed) == EXIT_PASS
    out = capsys.readouterr().out
    assert "fair-tags" in out and "null-shared-tags" in out
    assert main([*words, "--tree", str(tree), "--changed", "HEAD~2..HEAD~"]) == EXIT_CANNOT_JUDGE
    assert "no scenario executes what HEAD~2..HEAD~ touches" in capsys.readouterr().err
    for wrong in ("HEAD", "HEAD~...HEAD", "..HEAD"):
        assert main([*words, "--tree", str(tree), "--changed", wrong]) == EXIT_MISUSE
    assert main([*words, "--changed", "HEAD~..HEAD"]) == EXIT_MISUSE
    assert main([*changed, "waiters"]) == EXIT_MISUSE


def observed_loads(monkeypatch: pytest.MonkeyPatch, **functions: str) -> None:
    """The list of executed functions: that of each scenario's only load."""
    loads = {f"{name.replace('_', '-')}.arm.load": frozenset(words.split()) for name, words in functions.items()}
    monkeypatch.setattr("harness.commands.boots.load_coverage", lambda _: Coverage("6.12", {}, by_function(loads)))


def test_a_changed_header_is_judged_by_what_differs_between_the_builds_of_both(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text says nothing of who uses the macro; the builds say that waiters executes a function that differs."""
    observed_loads(monkeypatch, fair_tags="blk_get_tag", waiters="blk_mq_differs")
    base = git(tree, "rev-parse", "HEAD")
    path = series_of(tmp_path, patched(tree, "block/blk.h", "TAGS 4", "TAGS 2"))
    looks: list[str] = []

    def in_objects(kernel: Kernel, *_: object, **__: object) -> dict[str, str]:
        looks.append(kernel.digest)
        return {"blk_mq_differs": "block/mq.o"}

    def measure(request: Request) -> SimpleNamespace:
        measured.append(request.scenario.name)
        run = run_of(tmp_path / "runs", [95.0, 96.0], day=len(measured))
        return SimpleNamespace(folder=run)

    measured: list[str] = []
    monkeypatch.setattr(command, "bench_of", lambda *_, **__: SimpleNamespace(measure=measure, lab=None))
    built_as = "harness.patch.study.tree"

    def build(source: KernelSource, *_: object, **__: object) -> Kernel:
        looks.append(f"build {source.revision}")
        return replace(built(), digest=source.revision)

    monkeypatch.setattr(f"{built_as}.built", build)
    monkeypatch.setattr(f"{built_as}.in_objects", in_objects)
    words = ["patch", str(path), "--base", f"{tree}@{base}", "--no-profile", "--results", str(tmp_path / "results")]
    for _ in range(2):
        main(words)
        said = capsys.readouterr()
        assert "and TAGS, which the text of 1 further function has: may_queue" in said.out
        assert "between the builds of both differs the code of 1 function: blk_mq_differs" in said.out
        assert set(measured) == {"waiters"}
    first, second, third, fourth = looks[:4]
    assert (first, second) == (f"build {base}", base), "the objects of the base are kept before the series is built"
    assert third == f"build {fourth}"
    assert [look for look in looks if not look.startswith("build")] == [base, fourth], "compared once"


def test_a_dry_run_of_a_tree_and_of_a_source_that_is_not_here(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    observed_loads(monkeypatch, fair_tags="blk_timeout", waiters="__get_tag")
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("lab.kernels.tree.built", lambda *_: pytest.fail("nothing is built"))
    monkeypatch.setattr("lab.packages.apt.run", lambda *_: pytest.fail("nothing is fetched"))
    kept = {"lost": SimpleNamespace(seeds=20)}
    monkeypatch.setattr("harness.commands.patch.finds_in", lambda names: kept if "blk_timeout" in names else {})
    base = git(tree, "rev-parse", "HEAD")
    path = series_of(tmp_path, patched(tree, "block/tags.c", "depth = 0", "depth = 1"))
    words = ["patch", str(path), "--seeds", "1", "--dry-run", "--results", str(tmp_path / "results"), "--base"]
    assert main([*words, f"{tree}@{base}"]) == EXIT_PASS
    said, progress = capsys.readouterr()
    assert progress.startswith("blklab: looking for the scenarios that execute the change\n")
    assert "touches 1 function: blk_timeout\n" in said and "fair-tags: 1 load executes blk_timeout" in said
    assert "fetch  nothing\nbuild  2 kernels, unless they are in the cache: unknown, unknown\n" in said
    assert "unknown, unknown\nhunt   lost: up to 20 seeds, on the base too where the series fails\n" in said
    boots = len(load_scenario("fair-tags").arms)
    assert f"2 cells (scenario x kernel), {2 * boots} boots, at most " in said
    assert main([*words, "source:6.12"]) == EXIT_PASS
    said = capsys.readouterr().out
    assert "touches 1 function: blk_timeout\n" in said and "fair-tags: 1 load executes blk_timeout" in said
    assert "by the text of the series alone" in said
    assert "fetch  source:6.12, of unknown size and time\n" in said
    facts = tmp_path / "cache/kernels/x/build.json"
    Cache(tmp_path / "cache").write_text("marks", "empty", "")
    facts.parent.mkdir(parents=True)
    facts.write_text('{"seconds": 480.0, "compiled": 2000}')
    (facts.parent.parent / "y").mkdir()
    (facts.parent.parent / "y/build.json").write_text('{"seconds": 40.0, "compiled": 0}')
    assert main([*words, "source:6.12"]) == EXIT_PASS
    assert "about 8 min 0 s, about 40 s\n" in capsys.readouterr().out
    assert main([*words, "debian:6.1"]) == EXIT_PASS
    assert "fetch  source:6.1, of unknown" in capsys.readouterr().out
    assert main([*words, "ubuntu:5.4"]) == EXIT_MISUSE
    series_of(tmp_path, patched(tree, "block/blk.h", "TAGS 4", "TAGS 2"))
    assert main([*words, "source:6.12"]) == EXIT_PASS
    assert capsys.readouterr().out.endswith("boots  unknown: no scenario is chosen yet\n")


def test_a_dry_run_says_what_one_cpu_does_not_show(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the series does once it is measured; words of a mail are no code."""
    observed_loads(monkeypatch, waiters="__get_tag")
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    base = git(tree, "rev-parse", "HEAD")
    one = patched(tree, "block/tags.c", "depth = 0", "depth = READ_ONCE(tags->depth)", "one")
    two = patched(tree, "block/tags.c", "quantum = 8", "quantum = 9", "two\n\n- no spin_lock() is taken")
    line = "not visible with one CPU: the series changes memory barriers (block/tags.c); "
    for spec in (f"{tree}@{base}", "source:6.12"):
        words = ["patch", str(series_of(tmp_path, one, two)), "--dry-run", "--base", spec]
        assert main([*words, "--results", str(tmp_path / "results")]) == EXIT_PASS
        said = [each for each in capsys.readouterr().out.splitlines() if each.startswith("not visible")]
        assert len(said) == 1 and said[0].startswith(line)


def test_each_patch_is_compared_with_the_one_before(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = git(tree, "rev-parse", "HEAD")
    one = patched(tree, "block/tags.c", "depth = 0", "depth = 1", "harmless")
    two = patched(tree, "block/tags.c", "depth = 1", "depth = READ_ONCE(depth)", "harmful")
    path = series_of(tmp_path, one, two)
    measuring = Measuring(tmp_path, monkeypatch, SAME, SAME, SLOWER)
    words = ["patch", str(path), "--base", f"{tree}@{base}", "--scenario", "fair-tags", "--no-profile"]
    words += ["--results", str(tmp_path / "results")]
    assert main([*words, "--each"]) == EXIT_FAIL
    said = capsys.readouterr().out
    verdicts = [line.split()[0] for line in said.splitlines() if line.startswith(("SAME", "WORSE"))]
    # Of each patch, and of the series in the reply.
    assert verdicts == ["SAME", "WORSE", "WORSE"]
    # Of the second patch, and of the series in the reply: the first one needs one CPU only.
    assert said.count("not visible with one CPU: the series changes memory barriers (block/tags.c)") == 2
    assert f"@{base} ({base[:12]}) -> " in said and "with harmless -> " in said
    assert "Subject: Re: [PATCH] harmless" in said and "--scenario fair-tags --each" in said
    assert len(measuring.commits) == 3
    (kept,) = (tmp_path / "results").glob("patch/series/*/message.txt")
    assert said.endswith(kept.read_text())
