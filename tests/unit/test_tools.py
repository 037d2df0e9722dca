# SPDX-License-Identifier: GPL-2.0-only
"""Programs of a release that run from the cache: with their own libraries, and without a look at the host's."""

import subprocess

import pytest

from lab.base.cache import Cache
from lab.base.errors import EXIT_MISUSE, LabBroken, Misuse
from lab.packages import lock, tools
from lab.packages.apt import Archive
from lab.packages.sources import debian
from lab.packages.tools import HOST_TOOLS, LIBRARIES, LOADER, QEMU, Toolset, fetch
from tests.unit.kernel_samples import Repository, needs_apt

FOLDER = "/usr/share/of-the-host"
SPEAK = Toolset("speak", ("speak",), (("speak", "usr/bin/speak", ("-x", "@/usr/share")),), (("usr/bin/speak", FOLDER),))
# A loader that shows how it was started.
SHOW = """\
#!/bin/sh
for word; do printf '%s\\n' "$word"; done
"""


def publish(repository: Repository, program: bytes) -> None:
    tree = repository.root.parent / "tree"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / LIBRARIES).mkdir(parents=True)
    (tree / "usr/share/doc").mkdir(parents=True)
    (tree / "usr/share/doc/copyright").write_text("unused\n")
    (tree / "usr/bin/speak").write_bytes(program)
    (tree / LIBRARIES / LOADER).write_text(SHOW)
    (tree / LIBRARIES / LOADER).chmod(0o755)
    repository.add(lock.SUITE, "speak", "1-1", tree)
    repository.publish(lock.SUITE)
    lock.write(Archive(Cache(tree / "own"), debian()), SPEAK.packages)


@needs_apt
@pytest.mark.usefixtures("own_lock")
def test_a_program_starts_by_its_own_loader_and_libraries(repository: Repository, cache: Cache) -> None:
    publish(repository, f"a{FOLDER}\0b".encode())
    speak = fetch(cache, SPEAK, print)
    done = subprocess.run([speak.intact / "speak", "a b"], check=True, capture_output=True, text=True)
    library = f"{speak.intact}/{LIBRARIES}"
    assert done.stdout.splitlines() == [
        *("--library-path", library, "--argv0", "speak", f"{speak.intact}/usr/bin/speak"),
        *("-x", f"{speak.intact}//usr/share", "a b"),
    ]
    sealed = (speak.intact / "usr/bin/speak").read_bytes()
    assert (len(sealed), FOLDER.encode() in sealed) == (len(FOLDER) + 3, False)
    assert not (speak.intact / "usr/share/doc").exists()
    # From now on without the archive.
    assert fetch(Cache(cache.root), SPEAK, print) == speak


@needs_apt
@pytest.mark.usefixtures("own_lock")
def test_a_damaged_toolset_is_refused_when_it_is_used(repository: Repository, cache: Cache) -> None:
    publish(repository, f"a{FOLDER}\0b".encode())
    (fetch(cache, SPEAK, print).folder / "usr/bin/speak").write_bytes(b"damaged")
    speak = fetch(Cache(cache.root), SPEAK, print)
    with pytest.raises(LabBroken, match="usr/bin/speak is damaged"):
        _ = speak.intact


@needs_apt
@pytest.mark.usefixtures("own_lock")
@pytest.mark.parametrize("program", [b"without the folder\0", f"{FOLDER}\0{FOLDER}\0".encode()])
def test_a_program_that_cannot_be_sealed_is_not_kept(program: bytes, repository: Repository, cache: Cache) -> None:
    publish(repository, program)
    with pytest.raises(LabBroken, match="does not name /usr/share/of-the-host once"):
        fetch(cache, SPEAK, print)
    assert [entry for entry in cache.entries() if entry.kind == tools.KIND] == []


@needs_apt
def test_a_toolset_that_is_not_offered_is_a_broken_lab(repository: Repository, cache: Cache) -> None:
    repository.publish(lock.SUITE)
    with pytest.raises(LabBroken, match="host-tools of trixie cannot be fetched"):
        fetch(cache, HOST_TOOLS, print)


def test_another_word_than_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not tools.wanted()  # tests/unit/conftest.py
    monkeypatch.setenv("BLKLAB_TOOLS", "none")
    with pytest.raises(Misuse, match="BLKLAB_TOOLS=none: expected host") as caught:
        tools.wanted()
    assert caught.value.exit_code == EXIT_MISUSE
    monkeypatch.setenv("BLKLAB_TOOLS", "")
    assert tools.wanted()


def test_another_list_of_packages_is_another_pin() -> None:
    fewer = Toolset(HOST_TOOLS.name, HOST_TOOLS.packages[1:], HOST_TOOLS.programs, HOST_TOOLS.sealed)
    assert fewer.pin != HOST_TOOLS.pin
    assert [name for name, _, _ in HOST_TOOLS.programs] == [QEMU, "depmod"]
