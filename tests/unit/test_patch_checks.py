# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch`` as a check of b4 and of NIPA, and a series that b4 fetches by its Message-ID."""

import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli import main
from harness.patch.report import WARNING
from harness.patch.series import read_series
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS, LabBroken
from tests.unit.series_samples import SAME, SLOWER, Measuring, patched, series_of, small_tree
from tests.unit.test_patch import observed_loads
from tests.unit.test_patch_tree import state
from tests.unit.tree_samples import commit, git

Mail = Callable[[bytes | str], None]
ON = ["--scenario", "fair-tags", "--no-profile", "--results"]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = small_tree(tmp_path)
    monkeypatch.chdir(folder / "block")
    monkeypatch.setenv("BLKLAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("B4_TRACKING_FILE", raising=False)
    return folder


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Mail:
    def put(text: bytes | str) -> None:
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    return put


@pytest.fixture
def measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measuring:
    return Measuring(tmp_path, monkeypatch, SAME, SAME)


def rows(out: str) -> list[dict[str, str]]:
    """Of b4's protocol: each row has exactly its five keys, all text."""
    said: list[dict[str, str]] = json.loads(out)
    for row in said:
        assert sorted(row) == ["details", "status", "summary", "tool", "url"]
        assert all(isinstance(text, str) for text in row.values()) and row["tool"] == "blklab"
    return said


def test_b4_gets_the_verdict_of_the_mail_as_json(
    tree: Path, tmp_path: Path, mail: Mail, measuring: Measuring, capsys: pytest.CaptureFixture[str]
) -> None:
    base = git(tree, "rev-parse", "HEAD")
    text = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    git(tree, "reset", "--hard", base)
    for rates, status, code in ((SAME, "pass", EXIT_PASS), (SLOWER, "fail", EXIT_FAIL)):
        mail(text)
        measuring.begin(SAME, rates)
        assert main(["patch", "--b4", *ON, str(tmp_path / status)]) == code
        (row,) = rows(capsys.readouterr().out)
        assert row["status"] == status and row["summary"].startswith("SAME" if status == "pass" else "WORSE")
        assert row["summary"] in row["details"] and "-> " in row["details"]
        assert measuring.commits[0] == base


def test_b4_prep_gets_lines_and_nothing_for_a_pass(
    tree: Path, tmp_path: Path, mail: Mail, measuring: Measuring, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is on standard error is a failure there, so progress must not be."""
    text = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    mail(text)
    assert main(["patch", "--b4-prep", *ON, str(tmp_path / "same")]) == EXIT_PASS
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    mail(text)
    measuring.begin(SAME, SLOWER)
    assert main(["patch", "--b4-prep", *ON, str(tmp_path / "worse")]) == EXIT_FAIL
    said = capsys.readouterr()
    assert said.out.startswith("ERROR: WORSE  ") and said.out.count("\n") == 1 and said.err == ""
    mail("")
    assert main(["patch", "--b4-prep"]) == EXIT_MISUSE
    said = capsys.readouterr()
    assert (said.out, said.err) == ("WARNING: standard input has no patch\n", "")


def test_a_mail_that_is_a_commit_of_the_branch_is_measured_as_that_commit(
    tree: Path, tmp_path: Path, mail: Mail, measuring: Measuring
) -> None:
    """The second of three patches: alone it applies to neither end of the branch."""
    base = git(tree, "rev-parse", "HEAD")
    mails = [patched(tree, "block/tags.c", f"depth = {n}", f"depth = {n + 1}", f"change {n}") for n in range(3)]
    mail(mails[1])
    before = state(tree)
    assert main(["patch", "--b4", *ON, str(tmp_path / "results")]) == EXIT_PASS
    after = state(tree)
    # git renews the time of an object that a clone with this one as alternate would write again.
    renewed = {path for path, changed in after.items() if before.get(path) != changed}
    assert after.keys() == before.keys() and all("/.git/objects/" in path for path in renewed)
    first, second, _ = git(tree, "rev-list", "--reverse", f"{base}..HEAD").split()
    assert measuring.commits[0] == first
    shown = git(next((tmp_path / "results").rglob("clone.git")), "show", measuring.commits[-1], "--format=%P")
    assert shown.startswith(first) and "+\ttags->depth = 2;" in shown and second


def test_a_cover_letter_is_the_series_that_b4_tracks(
    tree: Path, tmp_path: Path, mail: Mail, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(tree, "rev-parse", "HEAD")
    for number in range(2):
        patched(tree, "block/tags.c", f"depth = {number}", f"depth = {number + 1}", f"change {number}")
    first, last = git(tree, "rev-list", "--reverse", f"{base}..HEAD").split()
    git(tree, "branch", "b4/review/abc")
    (tree / "README").write_text("the commit of b4 review\n")
    commit(tree, "cover letter")
    git(tree, "branch", "-f", "b4/review/abc")
    git(tree, "reset", "--hard", base)
    tracking = tmp_path / "tracking.json"
    tracking.write_text(json.dumps({"series": {"change-id": "abc", "first-patch-commit": first}}))
    monkeypatch.setenv("B4_TRACKING_FILE", str(tracking))
    mail("From: me@localhost\nSubject: [PATCH 0/2] cover\n\nWords.\n")
    assert main(["patch", "--b4", *ON, str(tmp_path / "results")]) == EXIT_PASS
    assert measuring.commits[0] == base and last
    shown = git(next((tmp_path / "results").rglob("clone.git")), "diff", base, measuring.commits[-1])
    assert "+\ttags->depth = 2;" in shown and "README" not in shown


@pytest.mark.parametrize("content", ["", "[]", '{"series": {}}', '{"series": {"change-id": 1}}'])
def test_a_damaged_tracking_file_is_a_warning_that_names_it(
    tree: Path,
    mail: Mail,
    content: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracking = tree / "tracking.json"
    tracking.write_text(content)
    monkeypatch.setenv("B4_TRACKING_FILE", str(tracking))
    mail("")
    assert main(["patch", "--b4"]) == EXIT_MISUSE
    (row,) = rows(capsys.readouterr().out)
    assert row["status"] == "warn" and row["summary"].startswith(f"{tracking} is no tracking file of b4: ")


def test_what_nothing_executes_is_nothing_to_say(
    tree: Path, mail: Mail, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    observed_loads(monkeypatch, fair_tags="elsewhere")
    mail(patched(tree, "block/tags.c", "depth = 0", "depth = 1"))
    assert main(["patch", "--b4"]) == EXIT_PASS
    assert rows(capsys.readouterr().out) == []


def test_what_cannot_be_judged_is_a_warning(tree: Path, mail: Mail, capsys: pytest.CaptureFixture[str]) -> None:
    """No mail, a mail without a patch, a patch that does not apply, one that the named base has, no base at all."""
    good = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    bad = good.replace("-\ttags->depth = 0", "-\ttags->depth = 9")
    has, none = "already applied in", "standard input has no patch"
    for text, base, code, summary in (
        ("", "HEAD", EXIT_MISUSE, none),
        ("From: me@localhost\nSubject: hello\n\nWords.\n", "HEAD", EXIT_MISUSE, none),
        (bad, "HEAD~1", EXIT_CANNOT_JUDGE, "change does not apply to"),
        (good, "HEAD", EXIT_CANNOT_JUDGE, has),
        (good, "gone", EXIT_MISUSE, "gone"),
    ):
        mail(text)
        assert main(["patch", "--b4", "--base", f"{tree}@{base}"]) == code
        (row,) = rows(capsys.readouterr().out)
        assert row["status"] == "warn" and summary in row["summary"] and "\n" not in row["summary"]
        assert "remedy: " in row["details"]


def test_ten_megabytes_of_mail_are_read_in_seconds(
    tree: Path, mail: Mail, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words, a diff of 300,000 lines of a file that no load executes, and bytes that are no text."""
    observed_loads(monkeypatch, fair_tags="elsewhere")
    began = time.process_time()
    mail(b"From: me@localhost\nSubject: much\n\n" + b"words of a mail\n" * 700_000)
    assert main(["patch", "--b4"]) == EXIT_MISUSE
    assert "standard input has no patch" in rows(capsys.readouterr().out)[0]["summary"]
    lines = 300_000
    head = f"--- /dev/null\n+++ b/block/large.txt\n@@ -0,0 +1,{lines} @@\n".encode()
    mail(b"From: me@localhost\nSubject: much\n\n" + head + b"+the same line of a file, 33 bytes\n" * lines)
    assert main(["patch", "--b4"]) == EXIT_PASS
    assert rows(capsys.readouterr().out) == []
    mail(bytes(range(256)) * 40_000)
    assert main(["patch", "--b4"]) == EXIT_MISUSE
    assert len(rows(capsys.readouterr().out)) == 1
    assert time.process_time() - began < 20


def test_a_lab_that_fails_does_not_fail_the_patch(
    tree: Path, mail: Mail, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LabBroken("the disk is full", remedy="free some space")

    monkeypatch.setattr("harness.patch.study.tree.built", broken)
    text = patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    mail(text)
    assert main(["patch", "--b4", "--scenario", "fair-tags"]) == EXIT_LAB_BROKEN
    (row,) = rows(capsys.readouterr().out)
    assert (row["status"], row["summary"]) == ("warn", "the disk is full")
    assert main(["patch", "--nipa", "--scenario", "fair-tags"]) == WARNING


def test_nipa_gets_250_for_what_is_not_judged_and_a_text_on_its_descriptor(
    tree: Path, tmp_path: Path, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HEAD is the patch under test there; 250 is not 125."""
    base = git(tree, "rev-parse", "HEAD")
    patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    read, write = os.pipe()
    monkeypatch.setenv("DESC_FD", str(write))
    assert main(["patch", "--nipa", *ON, str(tmp_path / "same")]) == EXIT_PASS
    assert measuring.commits[0] == base
    assert os.read(read, 1000).startswith(b"SAME  ")
    measuring.begin(SAME, SLOWER)
    assert main(["patch", "--nipa", *ON, str(tmp_path / "worse")]) == EXIT_FAIL
    assert os.read(read, 1000).startswith(b"WORSE  ")
    broken = series_of(
        tmp_path,
        "diff --git a/block/gone.c b/block/gone.c\n--- a/block/gone.c\n+++ b/block/gone.c\n@@ -1 +1 @@\n-a\n+b\n",
    )
    assert main(["patch", str(broken), "--base", f"{tree}@HEAD", "--nipa"]) == WARNING == 250
    assert b"does not apply" in os.read(read, 1000)
    os.close(write)
    os.close(read)


def test_a_descriptor_that_is_not_open_is_refused(
    tree: Path,
    tmp_path: Path,
    measuring: Measuring,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    for number in ("1000000", "stdout"):
        monkeypatch.setenv("DESC_FD", number)
        assert main(["patch", "--nipa", *ON, str(tmp_path / "results")]) == EXIT_MISUSE
        assert f"DESC_FD={number} is no open descriptor" in capsys.readouterr().err
        measuring.begin(SAME, SAME)


# A series by its Message-ID


def fake_b4(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder.mkdir()
    (folder / "b4").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "b4").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "named",
    ["20260101.1-2-a@b.example", "<20260101.1-2-a@b.example>", "https://x.example/list/20260101.1-2-a@b.example/T/"],
)
def test_a_message_id_is_fetched_by_b4(tree: Path, tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = patched(tree, "block/tags.c", "depth = 0", "depth = 1", "first")
    # As b4 0.16 begins each mail.
    path = series_of(tmp_path, "From git@z Thu Jan  1 00:00:00 1970\n" + mail.partition("\n")[2])
    fake_b4(tmp_path / "bin", monkeypatch, f'[ "$*" = "am -o- 20260101.1-2-a@b.example" ] && cat {path}')
    (patch,) = read_series(Path(named))
    assert patch.title == "first"


def test_without_b4_or_without_its_archive_the_message_has_the_remedy(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without = tmp_path / "without"
    without.mkdir()
    (without / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(without))
    assert main(["patch", "1-a@b.example", "--base", f"{tree}@HEAD"]) == EXIT_LAB_BROKEN
    said = capsys.readouterr().err
    assert said == (
        "blklab: b4 is not installed (wanted for: b4 am -o- 1-a@b.example)\n"
        "  remedy: pipx install b4 where it is missing, or save the mails as a file and name it\n"
    )
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    fake_b4(tmp_path / "bin", monkeypatch, "echo 'That message-id is not known.' >&2; exit 1")
    assert main(["patch", "1-a@b.example", "--base", f"{tree}@HEAD"]) == EXIT_LAB_BROKEN
    assert "That message-id is not known." in capsys.readouterr().err


def test_a_file_whose_name_looks_like_a_message_id_is_a_file(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = patched(tree, "block/tags.c", "depth = 0", "depth = 1", "first")
    monkeypatch.chdir(tmp_path)
    series_of(tmp_path, text, name="1-a@b.example")
    assert [patch.title for patch in read_series(Path("1-a@b.example"))] == ["first"]
