# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch``: patches that are read and applied, and when a series is worse."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.cli import main
from harness.commands import patch as command
from harness.commands.common.options import EXECUTED, SCENARIOS
from harness.limits.load import load_scenario
from harness.patch.choice import ScenarioChoice, Sources, choice_lines, choose, definitions
from harness.patch.judgement import Effect, Outcomes, SeriesFinding, outcomes
from harness.patch.report import LINES, exit_code, reply, summary, verdict_line
from harness.patch.series import Branch, read_series
from harness.patch.study import MeasuredSeries, SeriesKernel, Study
from harness.record.store import RunFolder
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.load import find_scenarios
from harness.studies.executed import Executed, load_executed, observe, save_executed
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_MISUSE, EXIT_PASS, CannotJudge, LabBroken, Misuse
from lab.base.units import silent
from lab.executed import source_name
from lab.kernels.model import Kernel
from lab.kernels.mutants import catalogue
from lab.kernels.release import Release
from lab.kernels.tree import read_source
from tests.unit.record_samples import run_of
from tests.unit.series_samples import HEADER, SOURCE, branch_of, patched, series_of, small_tree
from tests.unit.tree_samples import MAKEFILE, commit, fake_tools, git, write_fragments


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
    assert "depth = 1" in branch.text(branch.applied(patch, branch.base), "block/tags.c")


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
    with pytest.raises(CannotJudge, match=r"patch failed: block/tags\.c"):
        branch.applied(first, branch.applied(first, branch.base))


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
    assert "quantum = 1" in branch.text(branch.base, "block/tags.c")
    assert git(branch.folder, "rev-parse", f"{branch.base}^") == base
    assert MAKEFILE.format(minor=12) == branch.text(branch.base, "Makefile")


# The verdict


def built() -> Kernel:
    folder = Path("made-up")
    return Kernel("tree:x", "6.12.7", Release.parse("6.12.7"), "made up", folder, None, folder, {}, "k" * 64)


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
        (slow, Effect.WORSE, EXIT_FAIL),
        (same, None, EXIT_PASS),
        (fast, Effect.BETTER, EXIT_PASS),
    ):
        found = outcomes(base, run)
        one = compared(found)
        assert (found.effect, one.effect, exit_code([one])) == (effect, effect, code)
        assert verdict_line(one).startswith({Effect.WORSE: "WORSE", None: "SAME"}.get(effect, "BETTER"))
    assert exit_code([compared(outcomes(base, fast)), compared(outcomes(base, slow))]) == EXIT_FAIL


def test_a_boot_that_is_lost_has_the_line_of_the_patch(tmp_path: Path) -> None:
    found = outcomes(run_of(tmp_path, [95.0]), run_of(tmp_path, [95.0], day=2))
    lost = SeriesFinding(Effect.WORSE, "arm none, seed 1", "boots", "oops: checked")
    slower = SeriesFinding(Effect.WORSE, "none.together: IOPS of victim", "95", "80")
    one = compared(replace(found, findings=(lost, slower)))
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
    write_fragments(tmp_path / "kconfigs")
    monkeypatch.setattr("lab.kernels.kconfig.FRAGMENTS", tmp_path / "kconfigs")
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
    assert main([*words, "debian:6.1"]) == EXIT_MISUSE
    assert "debian:6.1 is not a source" in capsys.readouterr().err


def test_a_series_that_no_scenario_executes_is_not_judged(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "bench_of", lambda *_: pytest.fail("nothing is measured"))
    path = series_of(tmp_path, patched(tree, "block/tags.c", "depth = 0", "depth = 1"))
    words = ["patch", str(path), "--results", str(tmp_path / "results"), "--base", f"{tree}@HEAD~"]
    assert main(words) == EXIT_CANNOT_JUDGE
    said = capsys.readouterr()
    assert "no measured load executes blk_timeout" in said.out
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


def test_the_tree_of_the_user_is_not_written(tree: Path, tmp_path: Path) -> None:
    mail = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    before = subprocess.run(["git", "-C", str(tree), "count-objects", "-v"], check=True, capture_output=True).stdout
    branch = branch_of(tree, tmp_path)
    branch.applied(read_series(series_of(tmp_path, mail))[0], branch.base)
    after = subprocess.run(["git", "-C", str(tree), "count-objects", "-v"], check=True, capture_output=True).stdout
    assert before == after and git(tree, "status", "--porcelain") == ""


def test_each_patch_is_compared_with_the_one_before(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = git(tree, "rev-parse", "HEAD")
    one = patched(tree, "block/tags.c", "depth = 0", "depth = 1", "harmless")
    two = patched(tree, "block/tags.c", "depth = 1", "depth = READ_ONCE(depth)", "harmful")
    path = series_of(tmp_path, one, two)
    measured: dict[str, RunFolder] = {}
    values = iter(([95.0, 96.0], [95.0, 96.0], [80.0, 82.0]))

    def run(request: Request) -> SimpleNamespace:
        digest = request.kernel.digest
        if digest not in measured:
            measured[digest] = run_of(tmp_path / "runs", next(values), day=len(measured) + 1)
        return SimpleNamespace(folder=measured[digest])

    monkeypatch.setattr(command, "bench_of", lambda *_: SimpleNamespace(measure=run, lab=None))
    monkeypatch.setattr(
        "harness.patch.study.tree.built", lambda source, *_, **__: replace(built(), digest=source.revision)
    )
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
    assert len(measured) == 3
    (kept,) = (tmp_path / "results").glob("patch/series/*/reply.txt")
    assert said.endswith(kept.read_text())


# What it touches


def test_definitions_of_the_kernel_s_style() -> None:
    found = {one.name: (one.first, one.last, one.static, one.inline) for one in definitions(SOURCE + HEADER)}
    assert found["helper"] == (10, 13, True, False)
    assert found["__get_tag"] == (15, 20, True, False)
    assert found["blk_get_tag"] == (22, 26, False, False)
    assert found["may_queue"][2:] == (True, True)
    assert set(found) == {"helper", "__get_tag", "blk_get_tag", "blk_timeout", "may_queue"}
    (one,) = definitions("static inline void nothing(void) { }\n")
    assert (one.name, one.inline) == ("nothing", True)


@pytest.mark.parametrize(
    ("file", "change", "functions", "data"),
    [
        ("block/tags.c", ("depth = 0", "depth = 1"), {"blk_timeout"}, set()),
        ("block/tags.c", ("\t\tint flags)", "\t\tint flags, int more)"), {"blk_get_tag"}, set()),
        ("block/tags.c", ("quantum = 8", "quantum = 4"), set(), {"quantum"}),
        ("block/tags.c", ("\tint depth;", "\tlong depth;"), set(), {"tags"}),
        ("block/blk.h", ("TAGS 4", "TAGS 2"), set(), {"TAGS"}),
        ("block/blk.h", ("depth < TAGS", "depth <= TAGS"), {"may_queue"}, set()),
        ("block/tags.c", ("// A file", "// The file"), set(), set()),
    ],
)
def test_what_a_patch_touches(
    tree: Path, file: str, change: tuple[str, str], functions: set[str], data: set[str]
) -> None:
    patched(tree, file, *change)
    touched = Sources(tree, "HEAD~", "HEAD").touched()
    assert (set(touched.functions), set(touched.data)) == (functions, data)
    assert touched.others == (() if functions or data else (file,))


def test_an_inlined_function_is_executed_as_its_callers_and_one_with_several_counts_for_itself(tree: Path) -> None:
    patched(tree, "block/blk.h", "depth < TAGS", "depth <= TAGS")
    sources = Sources(tree, "HEAD~", "HEAD")
    assert sources.executed_as("may_queue", "block/blk.h", {"blk_get_tag"}) == {"blk_get_tag"}
    assert sources.executed_as("may_queue", "block/blk.h", {"__get_tag", "blk_get_tag"}) == {"__get_tag"}
    assert sources.executed_as("blk_timeout", "block/tags.c", {"blk_get_tag"}) == frozenset()
    assert set(sources.users("TAGS", "block/blk.h")) == {("may_queue", "block/blk.h")}
    patched(tree, "block/tags.c", "\ttags->depth = 0;", "\ttags->depth = helper(tags);")
    assert Sources(tree, "HEAD~", "HEAD").executed_as("helper", "block/tags.c", {"blk_get_tag"}) == frozenset()


# Which scenarios that chooses


def chosen(tree: Path, executed: Executed, names: Sequence[str]) -> ScenarioChoice:
    scenarios = [load_scenario(name, search=SCENARIOS) for name in names]
    return choose(Sources(tree, "HEAD~", "HEAD"), executed, scenarios, catalogue())


def test_rare_functions_come_first_and_what_none_executes_is_said(tree: Path) -> None:
    patched(tree, "block/tags.c", "\treturn helper(tags);", "\treturn helper(tags) + 1;")
    path = tree / "block/tags.c"
    path.write_text(path.read_text().replace("depth = 0", "depth = 1"))
    git(tree, "commit", "-q", "--amend", "-a", "-m", "both")
    loads = {
        "waiters.a.load": frozenset({"blk_get_tag"}),
        "fair-tags.shared.solo": frozenset({"blk_get_tag", "__get_tag"}),
        "ioprio.as-is.alone": frozenset({"other"}),
    }
    choice = chosen(tree, Executed("6.12", {}, loads), ("waiters", "fair-tags", "ioprio"))
    assert [one.scenario.name for one in choice.candidates] == ["fair-tags"]
    assert choice.unexecuted == ("blk_timeout",)
    text = "\n".join(choice_lines(choice, 1))
    assert "no measured load executes blk_timeout" in text
    assert "fair-tags: 1 load executes __get_tag" in text
    assert "not chosen from, as no load was observed: waiters, fair-tags, ioprio" in text


def test_a_scenario_with_a_control_that_breaks_the_function_comes_first(tree: Path) -> None:
    (tree / "block/mq.c").write_text(HEADER.replace("may_queue", "hctx_may_queue").replace("static inline ", ""))
    commit(tree, "before")
    patched(tree, "block/mq.c", "depth < TAGS", "depth <= TAGS")
    loads = {f"{name}.arm.load": frozenset({"hctx_may_queue"}) for name in ("waiters", "fair-tags")}
    choice = chosen(tree, Executed("6.12", {}, loads), ("waiters", "fair-tags"))
    assert [(one.scenario.name, one.mutants) for one in choice.candidates] == [
        ("fair-tags", ("no-fair-tags",)),
        ("waiters", ()),
    ]
    assert "not measured, though they execute them too: waiters (--all)" in "\n".join(choice_lines(choice, 1))


def test_the_list_of_executed_functions_survives_its_file(tmp_path: Path) -> None:
    loads = {
        "a.x.one": frozenset({"f", "g"}),
        "a.x.two": frozenset({"f"}),
        "b.y.one": frozenset({"f", "g", "h"}),
        "c.z.none": frozenset[str](),
    }
    executed = Executed("6.12", {"a": "1", "b": "2"}, loads)
    path = tmp_path / "executed.json"
    save_executed(path, executed)
    assert load_executed(path) == executed
    assert load_executed(tmp_path / "absent.json") is None
    path.write_text(path.read_text().replace('"0,2"', '"0,9"'))
    with pytest.raises(LabBroken, match="damaged"):
        load_executed(path)


def test_arms_in_which_another_plugin_counts_are_not_observed() -> None:
    counted = load_scenario("scsi-lines", search=SCENARIOS)
    assert observe(cast(Bench, None), Request(counted, cast(Kernel, None))) == {}


def test_a_scenario_that_is_observed_again_replaces_its_loads() -> None:
    scenario = load_scenario("waiters", search=SCENARIOS)
    before = Executed("6.12", {"waiters": "old"}, {"waiters.a.b": frozenset({"f"}), "other.a.b": frozenset({"g"})})
    assert before.outdated([scenario]) == ["waiters"]
    after = before.with_scenario(scenario, {"waiters.c.d": frozenset({"h"})})
    assert set(after.loads) == {"waiters.c.d", "other.a.b"}
    assert after.outdated([scenario]) == []


def test_the_shipped_list_is_of_known_scenarios_and_knows_the_block_layer() -> None:
    executed = load_executed(EXECUTED)
    assert executed is not None
    known = find_scenarios(SCENARIOS)
    for load in executed.loads:
        scenario, arm, name = load.split(".")
        found = load_scenario(scenario, search=SCENARIOS)
        assert scenario in known and arm in found.arms and name in found.loads
    every = {load for load in executed.loads if "fair-tags" in load}
    assert executed.by_function["blk_mq_submit_bio"] >= every
    assert "hctx_may_queue" not in executed.by_function


def test_copies_that_gcc_makes_have_their_function_s_name() -> None:
    assert source_name("dd_request_merge.part.0") == "dd_request_merge"
    assert source_name("blk_mq_submit_bio") == "blk_mq_submit_bio"
