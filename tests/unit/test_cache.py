# SPDX-License-Identifier: GPL-2.0-only
"""The cache: complete or absent, whoever is killed and whoever else is there."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base import contents, digest
from lab.base.cache import Cache
from lab.base.errors import LabBroken, Misuse

Fill = Callable[[Path], None]


def put(text: str = "x") -> Fill:
    def fill(into: Path) -> None:
        (into / "file").write_text(text)

    return fill


def leftovers(cache: Cache) -> list[Path]:
    return list((cache.root / ".fill").glob("*/*"))


def test_fills_once(cache: Cache) -> None:
    calls = []

    def fill(into: Path) -> None:
        calls.append(into)
        (into / "file").write_text("x")

    first, second = (cache.entry("kind", "key", fill) for _ in range(2))
    assert first == second == cache.root / "kind/key"
    assert (first / "file").read_text() == "x"
    assert len(calls) == 1
    assert not leftovers(cache)


def test_a_fill_that_fails_leaves_nothing(cache: Cache) -> None:
    def fill(into: Path) -> None:
        (into / "half").write_text("x")
        raise LabBroken("no")

    with pytest.raises(LabBroken, match="no"):
        cache.entry("kind", "key", fill)
    assert cache.find("kind", "key") is None
    assert not leftovers(cache)
    assert (cache.entry("kind", "key", put()) / "file").exists()


def test_find_never_fills(cache: Cache) -> None:
    assert cache.find("kind", "key") is None
    made = cache.entry("kind", "key", put())
    assert Cache(cache.root).find("kind", "key") == made


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_refuses_names_that_lead_elsewhere(cache: Cache, name: str) -> None:
    with pytest.raises(ValueError, match="not fit"):
        cache.entry("kind", name, put())


def test_default_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("BLKLAB_CACHE", raising=False)
    assert Cache.default().root == tmp_path / ".cache/blklab"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache.default().root == tmp_path / "xdg/blklab"
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "own"))
    assert Cache.default().root == tmp_path / "own"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "a file"),
        OSError(errno.EDQUOT, "Disk quota exceeded", "a file"),
        LabBroken("exit 2 from: dpkg-deb\nfailed to write (No space left on device)"),
    ],
)
def test_a_full_disk_names_the_remedies(cache: Cache, error: Exception) -> None:
    def fill(into: Path) -> None:
        raise error

    with pytest.raises(LabBroken, match=r"no space left for kind key .* MB free") as caught:
        cache.entry("kind", "key", fill)
    assert str(cache.root) in caught.value.message
    assert "blklab store cache prune" in caught.value.remedy
    assert "BLKLAB_CACHE=" in caught.value.remedy


def test_an_error_of_the_fill_itself_is_not_blamed_on_the_cache(cache: Cache) -> None:
    with pytest.raises(FileNotFoundError):
        cache.entry("kind", "key", lambda into: (into / "absent").unlink())


FILL_AND_HANG = """
import sys, time
from pathlib import Path
from lab.base.cache import Cache
def fill(into):
    (into / "half").write_text("x")
    print("filling", flush=True)
    time.sleep(600)
Cache(Path(sys.argv[1])).entry("kind", sys.argv[2], fill)
"""


def hanging_fill(cache: Cache, key: str, checkout: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", FILL_AND_HANG, str(cache.root), key]
    process = subprocess.Popen(argv, cwd=checkout, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "filling\n"
    return process


@pytest.mark.parametrize("key", ["killed", "another"])
def test_the_next_fill_removes_what_a_killed_one_left(cache: Cache, key: str, checkout: Path) -> None:
    with hanging_fill(cache, "killed", checkout) as process:
        process.send_signal(signal.SIGKILL)
    assert len(leftovers(cache)) == 1
    assert cache.find("kind", "killed") is None
    made = cache.entry("kind", key, put())
    assert {path.name for path in made.iterdir()} == {"file", contents.NAME}
    assert not leftovers(cache)


def test_a_fill_that_still_runs_is_left_alone(cache: Cache, checkout: Path) -> None:
    with hanging_fill(cache, "running", checkout) as process:
        try:
            cache.entry("kind", "another", put())
            cache.prune()
            assert len(leftovers(cache)) == 1
            assert (leftovers(cache)[0] / "half").exists()
        finally:
            process.kill()


def test_a_second_process_waits_for_the_first(cache: Cache) -> None:
    started, finish = threading.Event(), threading.Event()
    results = []

    def slow(into: Path) -> None:
        (into / "file").write_text("slow")
        started.set()
        assert finish.wait(30)

    def use(fill: Fill) -> None:
        results.append((Cache(cache.root).entry("kind", "key", fill) / "file").read_text())

    first = threading.Thread(target=use, args=(slow,))
    first.start()
    assert started.wait(30)
    second = threading.Thread(target=use, args=(put("second"),))
    second.start()
    finish.set()
    first.join(30)
    second.join(30)
    assert results == ["slow", "slow"]


def test_prune_spares_what_is_in_use(cache: Cache) -> None:
    used = cache.entry("kind", "used", put())
    other = Cache(cache.root)
    idle = other.entry("kind", "idle", put())
    other.close()
    pruned = Cache(cache.root).prune()
    assert [entry.path for entry in pruned.removed] == [idle]
    assert [entry.path for entry in pruned.in_use] == [used]
    assert not idle.exists()
    assert used.exists()
    cache.close()
    assert len(cache.prune().removed) == 1
    assert not leftovers(cache)


def fill_aged(cache: Cache, **ages: float) -> None:
    for key, age in ages.items():
        cache.entry("kind", key, put("x" * 100_000))
        cache.close()
        os.utime(cache.root / ".lock/kind" / key, (0, time.time() - age))


def test_prune_takes_the_longest_unused_first(cache: Cache) -> None:
    fill_aged(cache, new=10, old=1000, older=2000)
    entries = cache.entries()
    assert [entry.key for entry in entries] == ["older", "old", "new"]
    assert not any(entry.in_use for entry in entries)
    assert entries[0].size >= 100_000
    pruned = cache.prune(keep_bytes=entries[0].size)
    assert [entry.key for entry in pruned.removed] == ["older", "old"]
    assert pruned.freed == entries[0].size * 2


def test_prune_by_age_and_kind(cache: Cache) -> None:
    fill_aged(cache, new=10, old=1000)
    assert not cache.prune(older_than=500, kind="other").removed
    assert [entry.key for entry in cache.prune(older_than=500).removed] == ["old"]
    assert [entry.key for entry in cache.prune(kind="kind").removed] == ["new"]


@pytest.mark.parametrize("content", ["photos/2006/disk.jpg", "notes", ".config/app/settings"])
def test_no_folder_but_a_cache_is_pruned_or_filled(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path))
    (tmp_path / content).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / content).write_text("kept")
    other = Cache(tmp_path)
    for attempt in (Cache.default, other.prune, other.entries, lambda: other.entry("kind", "key", put())):
        with pytest.raises(Misuse, match="is no cache of blklab") as caught:
            attempt()
        assert "BLKLAB_CACHE=" in caught.value.remedy
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / content]


def test_prune_deletes_only_what_the_cache_made(cache: Cache, tmp_path: Path) -> None:
    fill_aged(cache, old=1000)
    (cache.root / "photos/2006").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (cache.root / "kind/link").symlink_to(tmp_path / "elsewhere")
    assert [entry.key for entry in cache.prune().removed] == ["old"]
    assert (cache.root / "photos/2006").is_dir()
    assert (cache.root / "kind/link").is_symlink()


def test_a_cache_made_before_there_was_a_mark_gets_one(cache: Cache) -> None:
    fill_aged(cache, old=1000)
    tag = cache.root / "CACHEDIR.TAG"
    assert tag.read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    tag.unlink()
    assert [entry.key for entry in cache.entries()] == ["old"]
    cache.entry("kind", "new", put())
    assert tag.exists()


def test_use_is_remembered(cache: Cache) -> None:
    fill_aged(cache, old=1000, older=2000)
    Cache(cache.root).find("kind", "older")
    assert [entry.key for entry in cache.entries()] == ["old", "older"]


def test_small_files_are_replaced_whole(cache: Cache) -> None:
    cache.write_text("pins", "a.json", "one")
    path = cache.write_text("pins", "a.json", "two")
    assert path.read_text() == "two"
    assert [item.name for item in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/cache", "/proc/no-such"])
def test_a_place_that_can_hold_no_cache_is_named(place: str) -> None:
    cache = Cache(Path(place))
    assert cache.find("kind", "key") is None
    with pytest.raises(LabBroken, match=f"the cache {place} cannot be written") as caught:
        cache.entry("kind", "key", put())
    assert "BLKLAB_CACHE=" in caught.value.remedy
    with pytest.raises(LabBroken, match=f"the cache {place} cannot be written"):
        cache.write_text("kind", "name", "text")


def test_a_failing_sync_is_an_error_of_the_lab(cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "sync"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'sync: Input/output error' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def many(into: Path) -> None:
        for number in range(100):
            (into / str(number)).touch()

    with pytest.raises(LabBroken, match="Input/output error"):
        cache.entry("kind", "key", many)


def test_the_files_of_an_entry_are_listed_with_their_digests(cache: Cache) -> None:
    def fill(into: Path) -> None:
        put()(into)
        (into / "folder").mkdir()
        (into / "folder" / "link").symlink_to("../file")
        (into / "outside").symlink_to("/etc/passwd")
        (into / "dangling").symlink_to("gone")

    made = cache.entry("kind", "key", fill)
    names = [line.split("  ")[1] for line in (made / contents.NAME).read_text().splitlines()]
    assert names == ["file", "folder/link"]
    assert contents.demand_intact(made / "folder/link") == made / "folder/link"
    subprocess.run(["sha256sum", "-c", "--quiet", contents.NAME], cwd=made, check=True)


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_text("y"), r"key/file is damaged: its sha256 is a1fce436.*, expected 2d711642"),
        (lambda path: path.write_text(""), "key/file is damaged"),
        (lambda path: path.unlink(), "key/file is missing"),
        (lambda path: (path.parent / contents.NAME).write_text(f"{'0' * 64}  other\n"), "expected no such file"),
        (lambda path: (path.parent / contents.NAME).write_text("junk"), "sha256sums cannot be read"),
        (lambda path: (path.parent / contents.NAME).unlink(), "is in no cache entry"),
        (as_fifo, "key/file cannot be read: not a regular file"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "key/file cannot be read: not a regular file"),
    ],
    ids=["changed", "cut", "gone", "not listed", "list damaged", "list gone", "a fifo", "endless"],
)
def test_a_file_that_changed_is_named_with_a_remedy(cache: Cache, damage: Callable[[Path], object], says: str) -> None:
    made = cache.entry("kind", "key", put())
    contents.demand_intact(made / "file")
    contents.demand_all_intact(made)
    damage(made / "file")
    with pytest.raises(LabBroken, match=says) as caught:
        contents.demand_intact(made / "file")
    assert caught.value.exit_code == 128
    assert f"rm -r {made}" in caught.value.remedy
    if "key/file" in says:
        with pytest.raises(LabBroken, match=says):
            contents.demand_all_intact(made)


def test_fifos_in_place_of_the_cache_s_own_files_are_not_waited_for(cache: Cache) -> None:
    made = cache.entry("kind", "key", put())
    cache.close()
    for path in (made / contents._SEEN, cache.root / ".lock/kind/key"):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    assert contents.demand_intact(cache.entry("kind", "key", put()) / "file").read_text() == "x"
    assert [entry.key for entry in cache.entries()] == ["key"]


def test_a_damage_that_keeps_size_and_time_stamp_is_noticed(cache: Cache) -> None:
    path = contents.demand_intact(cache.entry("kind", "key", put()) / "file")
    before = path.stat()
    time.sleep(0.02)
    path.write_text("y")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(LabBroken, match="is damaged"):
        contents.demand_intact(path)


def test_a_file_that_does_not_change_is_read_once(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache.entry("kind", "key", put()) / "file"
    contents.demand_intact(path)
    monkeypatch.setattr(digest, "digest_file", lambda path: "read again")
    assert contents.demand_intact(path) == path


def test_a_file_that_looks_as_it_did_is_not_read_by_another_process(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cache.entry("kind", "key", put())
    monkeypatch.setattr(contents, "_TICK", 0)
    contents.demand_all_intact(made)
    assert contents.lasting_digest(made / "file") == digest.digest_bytes((made / "file").read_bytes())
    monkeypatch.setattr(
        contents, "known_digest", lambda path: digest.digest_file(path) if path.name == contents.NAME else ""
    )
    contents.demand_all_intact(made)
    os.utime(made / "file")
    with pytest.raises(LabBroken, match="file is damaged"):
        contents.demand_all_intact(made)


def test_a_file_that_just_changed_is_read_again(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one tick of the kernel's clock ctime does not show a second change."""
    made = cache.entry("kind", "key", put())
    contents.demand_all_intact(made)
    monkeypatch.setattr(
        contents, "known_digest", lambda path: digest.digest_file(path) if path.name == contents.NAME else ""
    )
    with pytest.raises(LabBroken, match="file is damaged"):
        contents.demand_all_intact(made)


def test_a_cache_that_cannot_be_written_is_read_again(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cache.entry("kind", "key", put())
    monkeypatch.setattr(contents, "_TICK", 0)
    (made / "seen").mkdir()
    monkeypatch.setattr(contents, "_SEEN", "seen")
    contents.demand_all_intact(made)
    (made / "file").write_text("y")
    with pytest.raises(LabBroken, match="file is damaged"):
        contents.demand_all_intact(made)


def test_who_waits_for_a_workspace_is_told(cache: Cache) -> None:
    said: list[str] = []

    def work() -> None:
        with cache.workspace("trees", "key", said.append):
            pass

    with cache.workspace("trees", "key", said.append) as path:
        second = threading.Thread(target=work)
        second.start()
        while not said:
            time.sleep(0.01)
    second.join()
    assert said == [f"waiting for another blklab that works in {path}"]
