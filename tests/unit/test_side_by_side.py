# SPDX-License-Identifier: GPL-2.0-only
"""What the first command needs is fetched side by side."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.commands import boots
from lab import session
from lab.base.errors import LabBroken
from lab.base.process import beside


def test_a_call_beside_gives_its_result_or_raises_what_it_raised() -> None:
    begun, released = threading.Event(), threading.Event()

    def call() -> int:
        begun.set()
        assert released.wait(10)
        return 7

    result = beside(call)
    assert begun.wait(10), "it runs before anybody asks for its result"
    released.set()
    assert result() == result() == 7

    def fails() -> int:
        raise LabBroken("no network", remedy="plug it in")

    with pytest.raises(LabBroken, match="no network"):
        beside(fails)()


def test_programs_and_kernels_are_fetched_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the four waits until all have begun: one after another, none would end. The announcement comes once."""
    all_begun = threading.Barrier(4, timeout=20)
    told: list[str] = []

    def fetching(what: object) -> object:
        all_begun.wait()
        return what

    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BLKLAB_QEMU", raising=False)
    monkeypatch.setattr(boots, "tell", told.append)
    monkeypatch.setattr(session, "find_qemu", lambda *_: fetching("qemu"))
    monkeypatch.setattr(session, "steady", lambda _: Path("steady.so"))
    monkeypatch.setattr("lab.native.programs.compiler_identity", lambda *_: fetching(None))
    monkeypatch.setattr("lab.guest.payload.fetch", lambda *_: fetching("payload"))
    monkeypatch.setattr(boots, "resolve", lambda spec, *_, **__: fetching(SimpleNamespace(spec=spec)))
    bench, (kernel,) = boots.bench_and_kernels(str(tmp_path / "results"), 1, ["debian:6.1"])
    assert [str(what) for what in (bench.lab.qemu, bench.lab.payload)] == ["qemu", "payload"]
    assert kernel.spec == "debian:6.1"
    assert [line[:9] for line in told] == ["first use"]


def test_a_kernel_that_cannot_be_fetched_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise LabBroken("no network", remedy="plug it in")

    monkeypatch.setattr(boots, "announce", lambda *_: None)
    monkeypatch.setattr(boots, "open_lab", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(boots, "resolve", none)
    with pytest.raises(LabBroken, match="no network"):
        boots.bench_and_kernels(str(tmp_path / "results"), 1, ["debian:6.1"])


@pytest.mark.parametrize(
    ("specs", "beside_it"), [(["debian:6.1", "distro"], True), (["debian:6.1", "tree:/linux"], False)]
)
def test_what_may_build_stays_in_the_main_thread(
    tmp_path: Path, specs: list[str], beside_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There an interrupt ends the processes of the build, too."""
    threads = []

    def resolving(spec: str, *_: object, **__: object) -> SimpleNamespace:
        threads.append(threading.current_thread() is threading.main_thread())
        return SimpleNamespace(spec=spec)

    monkeypatch.setattr(boots, "announce", lambda *_: None)
    monkeypatch.setattr(boots, "open_lab", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(boots, "resolve", resolving)
    _, kernels = boots.bench_and_kernels(str(tmp_path / "results"), 1, specs)
    assert [kernel.spec for kernel in kernels] == specs and threads == [not beside_it] * 2
