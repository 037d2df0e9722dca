# SPDX-License-Identifier: GPL-2.0-only
"""What a series touches, by text, and which scenarios execute that."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.base.checkout import EXECUTED
from harness.cli import main
from harness.commands import boots
from harness.commands import patch as command
from harness.commands.boots import every_scenario
from harness.limits.entries import load_scenario
from harness.patch.choice import Coverage, ScenarioChoice, choice_lines, choose, load_coverage
from harness.patch.sources import UNCOMMITTED, PatchText, Sources, definitions
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_LAB_BROKEN, LabBroken
from lab.kernels.mutants import catalogue
from tests.unit.series_samples import HEADER, SOURCE, by_function, patched, series_of, small_tree
from tests.unit.tree_samples import commit, git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return small_tree(tmp_path)


# What it touches


def test_definitions_of_the_kernel_s_style() -> None:
    found = {one.name: (one.first, one.last, one.static) for one in definitions(SOURCE + HEADER)}
    assert found["helper"] == (10, 13, True)
    assert found["__get_tag"] == (15, 20, True)
    assert found["blk_get_tag"] == (22, 26, False)
    assert found["may_queue"][2]
    assert set(found) == {"helper", "__get_tag", "blk_get_tag", "blk_timeout", "may_queue"}
    (one,) = definitions("static inline void nothing(void) { }\n")
    assert (one.name, one.static) == ("nothing", True)


@pytest.mark.parametrize(
    ("file", "change", "functions", "data"),
    [
        ("block/tags.c", ("depth = 0", "depth = 1"), {"blk_timeout"}, set()),
        ("block/tags.c", ("\t\tint flags)", "\t\tint flags, int more)"), {"blk_get_tag"}, set()),
        ("block/tags.c", ("quantum = 8", "quantum = 4"), set(), {"quantum"}),
        ("block/tags.c", ("\tint depth;", "\tlong depth;"), set(), {"tags.depth"}),
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
    assert (touched.functions, set(touched.data)) == (frozenset((name, file) for name in functions), data)
    assert touched.others == (() if functions or data else (file,))


def test_a_static_function_that_was_not_observed_is_executed_as_its_callers(tree: Path) -> None:
    patched(tree, "block/blk.h", "depth < TAGS", "depth <= TAGS")
    sources = Sources(tree, "HEAD~", "HEAD")
    may_queue, get_tag = ("may_queue", "block/blk.h"), ("blk_get_tag", "block/tags.c")
    assert sources.executed_as(may_queue, lambda _: {"blk_get_tag"}) == {get_tag}
    assert sources.executed_as(may_queue, lambda _: {"__get_tag", "blk_get_tag"}) == {("__get_tag", "block/tags.c")}
    assert not sources.executed_as(may_queue, lambda file: {"blk_get_tag"} if file != "block/tags.c" else ())
    assert not sources.executed_as(("blk_timeout", "block/tags.c"), lambda _: {"blk_get_tag"})
    assert set(sources.users("TAGS", "block/blk.h")) == {may_queue}
    patched(tree, "block/tags.c", "\ttags->depth = 0;", "\ttags->depth = helper(tags);")
    helper = ("helper", "block/tags.c")
    executed = Sources(tree, "HEAD~", "HEAD").executed_as(helper, lambda _: {"blk_get_tag", "blk_timeout"})
    assert executed == {get_tag, ("blk_timeout", "block/tags.c")}, "of both callers"


RAID = """\
static int read_balance(int disk)
{
	return disk;
}

int make_request(int disk)
{
	return read_balance(disk);
}
"""


def test_a_function_is_one_of_its_file_and_counts_for_loads_with_the_module_of_that(tree: Path) -> None:
    folder = tree / "drivers/md"
    folder.mkdir(parents=True)
    for name in ("raid1", "raid10"):
        (folder / f"{name}.c").write_text(RAID.replace("make", f"{name}_make"))
    (folder / "Makefile").write_text(
        "dm-snapshot-y += dm-snap.o \\\n\tdm-exception-store.o\nobj-m += raid1.o raid10.o\n"
    )
    commit(tree, "before")
    patched(tree, "drivers/md/raid1.c", "return disk;", "return 0;", "raid1: read from the first disk")
    loads = {
        "mirror-reads.plain.random": frozenset({"raid1_make_request"}),
        "verified-arrays.plain.write": frozenset({"read_balance", "raid10_make_request"}),
    }
    choice = chosen(tree, Coverage("6.12", {}, by_function(loads)), ("mirror-reads", "verified-arrays"))
    assert [(each.scenario.name, each.functions) for each in choice.candidates] == [
        ("mirror-reads", frozenset({"raid1_make_request"}))
    ]
    silent = chosen(tree, Coverage("6.12", {}, {}), ("mirror-reads", "verified-arrays"))
    assert [(each.scenario.name, each.modules) for each in silent.candidates] == [("mirror-reads", ("raid1",))]
    assert "  mirror-reads: loads raid1" in choice_lines(silent, 1)
    sources = Sources(tree, "HEAD~", "HEAD")
    assert sources.module("drivers/md/dm-exception-store.c") == "dm-snapshot"
    assert (sources.module("drivers/md/raid1.c"), sources.module("drivers/md/raid1.h")) == ("raid1", "")


STRUCTS = """\
struct queue {
	int depth;

#ifdef CONFIG_BUSY
	/* Requests in flight. */
	atomic_t		nr_active;
#endif
	void (*done)(struct queue *q);
	unsigned int		flags:4;
};

enum state {
	QUEUE_IDLE,
	QUEUE_BUSY,
};
"""
USERS = """\
void by_member(struct queue *q)
{
	atomic_inc(&q->nr_active);
}

void by_done(struct queue *q)
{
	q->done(q);
}

int by_state(int state)
{
	return state == QUEUE_BUSY;
}
"""


@pytest.mark.parametrize(
    ("old", "new", "data", "users"),
    [
        ("atomic_t		nr_active", "atomic_long_t		nr_active", "queue.nr_active", {"by_member"}),
        ("*done)(struct queue *q", "*done)(struct queue *queue", "queue.done", {"by_done"}),
        ("	int depth;", "	int depth;\n	int added;", "queue.added", {"by_member", "by_done"}),
        ("flags:4", "flags:5", "queue.flags", {"by_member", "by_done"}),
        ("QUEUE_BUSY,", "QUEUE_BUSY = 4,", "QUEUE_BUSY", {"by_state"}),
    ],
)
def test_a_member_of_a_struct_counts_for_what_uses_it_and_one_in_no_text_for_what_has_the_struct(
    tree: Path, old: str, new: str, data: str, users: set[str]
) -> None:
    (tree / "include/linux").mkdir(parents=True)
    (tree / "include/linux/queue.h").write_text(STRUCTS)
    (tree / "block/queue.c").write_text(USERS)
    commit(tree, "before")
    mail = patched(tree, "include/linux/queue.h", old, new)
    touched = Sources(tree, "HEAD~", "HEAD").touched()
    assert (touched.functions, set(touched.data), touched.others, touched.certain) == (frozenset(), {data}, (), False)
    found = dict(Sources(tree, "HEAD~", "HEAD").users(data, "include/linux/queue.h"))
    assert found == dict.fromkeys(users, "block/queue.c")
    assert set(PatchText((mail,)).touched().data) == {data}, "the hunk's head names the struct"
    choice = chosen(tree, Coverage("6.12", {}, by_function({"fair-tags.a.b": frozenset(users)})), ("fair-tags",))
    assert [one.scenario.name for one in choice.candidates] == ["fair-tags"]


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("block/tags.c", ("depth = 0", "depth = 1")),
        ("block/tags.c", ("\t\tint flags)", "\t\tint flags, int more)")),
        ("block/tags.c", ("quantum = 8", "quantum = 4")),
        ("block/tags.c", ("\tint depth;", "\tlong depth;")),
        ("block/blk.h", ("TAGS 4", "TAGS 2")),
        ("block/blk.h", ("depth < TAGS", "depth <= TAGS")),
        ("block/tags.c", ("// A file", "// The file")),
    ],
)
def test_the_text_of_a_patch_tells_what_the_source_tells(tree: Path, file: str, change: tuple[str, str]) -> None:
    mail = patched(tree, file, *change)
    assert PatchText((mail,)).touched() == Sources(tree, "HEAD~", "HEAD").touched()


# Which scenarios that chooses


def chosen(tree: Path, executed: Coverage, names: Sequence[str]) -> ScenarioChoice:
    scenarios = [load_scenario(name) for name in names]
    return choose(Sources(tree, "HEAD~", "HEAD"), executed, scenarios, catalogue())


def test_what_no_load_executes_is_said(tree: Path) -> None:
    patched(tree, "block/tags.c", "\treturn helper(tags);", "\treturn helper(tags) + 1;")
    path = tree / "block/tags.c"
    path.write_text(path.read_text().replace("depth = 0", "depth = 1"))
    git(tree, "commit", "-q", "--amend", "-a", "-m", "both")
    loads = {
        "waiters.a.load": frozenset({"blk_get_tag"}),
        "fair-tags.shared.solo": frozenset({"blk_get_tag", "__get_tag"}),
        "ioprio.as-is.alone": frozenset({"other"}),
    }
    choice = chosen(tree, Coverage("6.12", {}, by_function(loads)), ("waiters", "fair-tags", "ioprio"))
    assert [one.scenario.name for one in choice.candidates] == ["fair-tags"]
    assert choice.unexecuted == ("blk_timeout",)
    text = "\n".join(choice_lines(choice, 1))
    assert "not observed: blk_timeout, as 3 scenarios were not observed" in text
    assert "fair-tags: 1 load executes __get_tag" in text
    assert "not observed as they are now: waiters, fair-tags, ioprio" in text
    digests = {name: load_scenario(name).digest for name in ("waiters", "fair-tags", "ioprio")}
    complete = chosen(tree, Coverage("6.12", digests, by_function(loads)), ("waiters", "fair-tags", "ioprio"))
    assert "no observed load executes: blk_timeout" in choice_lines(complete, 1)


@pytest.mark.parametrize(("file", "mutants"), [("block/blk-mq.h", ("no-fair-tags",)), ("block/mq.c", ())])
def test_a_scenario_with_a_control_that_breaks_the_function_comes_first(
    tree: Path, file: str, mutants: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant changes hctx_may_queue of block/blk-mq.h; a function of that name elsewhere is another one."""
    monkeypatch.setattr("harness.patch.choice.relevances", lambda *_: {"waiters": 1.5, "fair-tags": 1.0})
    (tree / file).write_text(HEADER.replace("may_queue", "hctx_may_queue").replace("static inline ", ""))
    commit(tree, "before")
    patched(tree, file, "depth < TAGS", "depth <= TAGS")
    loads = {f"{name}.arm.load": frozenset({"hctx_may_queue"}) for name in ("waiters", "fair-tags")}
    choice = chosen(tree, Coverage("6.12", {}, by_function(loads)), ("waiters", "fair-tags"))
    expected = [("fair-tags", mutants), ("waiters", ())]
    got = [(each.scenario.name, each.mutants) for each in choice.candidates]
    assert got == (expected if mutants else expected[::-1])
    assert f"not measured, though they execute them too: {got[1][0]} (--all)" in "\n".join(choice_lines(choice, 1))


def test_a_scenario_that_a_mutant_of_the_function_names_comes_first(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``Scenarios: mirror-reads`` in raid1-first-disk.patch: its claims fail there, and no control names the mutant."""
    monkeypatch.setattr("harness.patch.choice.relevances", lambda *_: {"verified-data": 1.5, "mirror-reads": 1.0})
    (tree / "drivers/md").mkdir(parents=True)
    (tree / "drivers/md/raid1.c").write_text(HEADER.replace("may_queue", "choose_best_rdev"))
    commit(tree, "before")
    patched(tree, "drivers/md/raid1.c", "depth < TAGS", "depth <= TAGS")
    names = ("verified-data", "mirror-reads")
    coverage = Coverage(
        "6.12", {}, by_function({f"{name}.arm.load": frozenset({"choose_best_rdev"}) for name in names})
    )
    found = [(each.scenario.name, each.mutants) for each in chosen(tree, coverage, names).candidates]
    assert found == [("mirror-reads", ("raid1-first-disk",)), ("verified-data", ())]


def test_a_scenario_that_only_loads_the_module_counts_half(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "drivers/md").mkdir(parents=True)
    (tree / "drivers/md/raid1.c").write_text(HEADER.replace("may_queue", "raid1_add"))
    commit(tree, "before")
    patched(tree, "drivers/md/raid1.c", "depth < TAGS", "depth <= TAGS")
    names = ("md-locks", "mirror-reads")
    coverage = Coverage("6.12", {}, by_function({"mirror-reads.plain.random": frozenset({"raid1_add"})}))
    for relevance, first in ((1.9, "mirror-reads"), (2.1, "md-locks")):
        words = {"md-locks": relevance, "mirror-reads": 1.0}
        monkeypatch.setattr("harness.patch.choice.relevances", lambda *_, words=words: words)
        candidates = chosen(tree, coverage, names).candidates
        assert candidates[0].scenario.name == first
        assert {each.scenario.name: each.modules for each in candidates} == {"md-locks": ("raid1",), "mirror-reads": ()}


def test_the_shipped_list_is_of_known_scenarios_and_knows_the_block_layer() -> None:
    executed = load_coverage(EXECUTED)
    assert executed is not None
    names = {load.split(".")[0] for load in executed.loads}
    assert names <= set(find_scenarios())
    scenarios = {name: load_scenario(name) for name in names}
    for scenario, arm, load in (load.split(".") for load in executed.loads):
        assert arm in scenarios[scenario].arms and load in scenarios[scenario].loads
    every = {load for load in executed.loads if "fair-tags" in load}
    assert executed.executed["blk_mq_submit_bio"] >= every
    assert "hctx_may_queue" not in executed.executed


EDIT = """\
--- a/block/blk-mq-tag.c
+++ b/block/blk-mq-tag.c
@@ -111 +111 @@ static int __blk_mq_get_tag(struct blk_mq_alloc_data *data,
-            !hctx_may_queue(data->hctx, bt))
+            !hctx_may_queue(data->hctx, bt) && (jiffies & 1))
"""


@pytest.mark.parametrize(
    ("subject", "first"), [(UNCOMMITTED + " on 401f56f9f732", 1), ("blk-mq: ignore the fair share of tags", 3)]
)
def test_a_change_of_the_share_of_tags_concerns_the_scenarios_of_it(subject: str, first: int) -> None:
    coverage = load_coverage(EXECUTED)
    assert coverage
    choice = choose(PatchText((f"Subject: {subject}\n{EDIT}",)), coverage, every_scenario(), catalogue())
    names = [candidate.scenario.name for candidate in choice.candidates]
    assert {*names[:first]} & {"null-shared-tags", "fair-tags", "shared-queue"}, names


def test_scenarios_are_read_once_until_they_or_blklab_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(boots, "find_scenarios", lambda: ["fair-tags"])
    read: list[str] = []

    def load(name: str) -> Scenario:
        read.append(name)
        return load_scenario(name)

    monkeypatch.setattr(boots, "load_scenario", load)
    assert boots.every_scenario() == [load_scenario("fair-tags")] == boots.every_scenario()
    assert read == ["fair-tags"]
    for number, changed in enumerate(("harness", "lab", "scenarios"), start=2):
        monkeypatch.setattr(boots, "digest_folder", lambda folder, name=changed: str(folder.name == name))
        boots.every_scenario()
        boots.every_scenario()
        assert len(read) == number, changed
    for kept in tmp_path.glob("scenarios/*/scenarios.pickle"):
        kept.write_bytes(b"another file")
    with pytest.raises(LabBroken, match=r"scenarios\.pickle"):
        boots.every_scenario()


def test_where_only_builds_tell_what_differs_the_likely_scenarios_are_told_before_them(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All candidates were listed, on a line each, and nothing said what their boots may take."""
    names = ("fair-tags", "waiters", "ioprio", "nr-requests")
    coverage = Coverage("6.12", {}, by_function({f"{name}.arm.load": {"blk_get_tag"} for name in names}))
    monkeypatch.setattr(boots, "load_coverage", lambda _: coverage)
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))

    def no_bench(*_: object, **__: object) -> None:
        raise LabBroken("nothing is built here")

    monkeypatch.setattr(command, "bench_of", no_bench)
    base = git(tree, "rev-parse", "HEAD")
    path = series_of(tmp_path, patched(tree, "block/blk.h", "TAGS 4", "TAGS 2"))
    words = ["patch", str(path), "--seeds", "1", "--results", str(tmp_path / "results"), "--base", f"{tree}@{base}"]
    assert main(words) == EXIT_LAB_BROKEN
    out, err = capsys.readouterr()
    likely = [name for name in names if f"  {name}: 1 load executes blk_get_tag" in out]
    (other,) = {*names} - {*likely}
    assert f"these execute them too: {other} (--all)\n" in out and "not measured" not in out
    count = sum(len(load_scenario(name).arms) for name in likely)
    assert f"blklab: likely 6 cells (scenario x kernel), {2 * count} boots, at most " in err
    assert "both sides are built, and compared function by function\nblklab: nothing is built here\n" in err
