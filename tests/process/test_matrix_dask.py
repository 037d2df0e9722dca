# SPDX-License-Identifier: GPL-2.0-only
"""A matrix on a real Dask scheduler and two worker processes, each with a cache of its own."""

import io
import json
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.grid.cluster import unpack
from lab.base.errors import EXIT_INTERRUPTED, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS, LabBroken
from tests.process.dask_cluster import Cluster
from tests.process.fake_lab import FakeLab
from tests.process.matrix_lab import WHOLE, assert_whole, lay_out, matrix, runs, words

pytest.importorskip("distributed")


@pytest.fixture
def cluster(lab: FakeLab) -> Iterator[Cluster]:
    lay_out(lab)
    started = Cluster(lab.folder, lab.environment())
    yield started
    started.stop()


def test_two_workers_measure_what_one_host_would(cluster: Cluster, lab: FakeLab) -> None:
    assert matrix(lab, "--results", str(lab.folder / "here")).returncode == EXIT_PASS
    here = len(lab.boots())
    both = cluster.work(), cluster.work()
    cluster.await_workers(2)
    done = matrix(lab, "--dask", cluster.address)
    assert (done.returncode, len(lab.boots()) - here) == (EXIT_PASS, WHOLE), done.stderr
    assert_whole(lab)
    assert "2 at once" in done.stderr
    for number, _ in enumerate(both):
        assert list((lab.folder / f"cache-{number}" / "shipped").iterdir()), "each worker was sent what it lacked"
    assert digests(lab.results) == digests(lab.folder / "here")
    for verdict in runs(lab):
        assert lab.call("judge", str(verdict.parent)).returncode == EXIT_PASS
    assert matrix(lab).stderr.count("as measured before") == 4, "here it is the same record"


def digests(root: Path) -> set[tuple[str, str, str, str, str]]:
    """What every boot was made of and left, whichever folder it lies in."""
    records = (json.loads(path.read_text()) for path in root.glob("[tu]/[0-9]*/boots/*/boot.json"))
    return {
        (record["digest"], *(record["fingerprint"][name] for name in ("kernel", "scenario", "arm", "seed")))
        for record in records
    }


def test_a_worker_that_dies_loses_nothing(cluster: Cluster, lab: FakeLab) -> None:
    hold = lab.plan(hold=[5, "load"])
    workers = cluster.work(**hold), cluster.work(**hold)
    cluster.await_workers(2)
    process = lab.start(*words(lab, "--dask", cluster.address))
    lab.await_boots(1, "held-load")
    # One boot hangs on one worker, and on the other all the others are made.
    lab.await_boots(WHOLE)
    while all(cluster.boots_of(worker) for worker in workers):
        assert process.poll() is None
    (holder,) = (worker for worker in workers if cluster.boots_of(worker))
    holder.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == EXIT_PASS, err
    assert "4 cells: 4 PASS" in out
    assert len(lab.boots()) == WHOLE + 1, "the boot that died with its worker alone is made again"
    assert_whole(lab)


def another_qemu(lab: FakeLab) -> str:
    other = lab.folder / "other-qemu"
    other.write_text((lab.folder / "fake-qemu").read_text() + "# another build\n")
    other.chmod(0o755)
    return str(other)


@pytest.mark.slow
def test_a_worker_with_another_qemu_is_passed_over(cluster: Cluster, lab: FakeLab) -> None:
    cluster.work(BLKLAB_QEMU=another_qemu(lab))
    cluster.work()
    cluster.await_workers(2)
    done = matrix(lab, "--dask", cluster.address)
    assert done.returncode == EXIT_PASS, done.stderr
    assert "is not used: its QEMU 7.2" in done.stderr
    assert_whole(lab)


@pytest.mark.slow
def test_a_cluster_without_a_fit_worker_breaks_its_cells_in_words(cluster: Cluster, lab: FakeLab) -> None:
    cluster.work(BLKLAB_QEMU=another_qemu(lab))
    cluster.await_workers(1)
    done = matrix(lab, "--dask", cluster.address)
    assert done.returncode == EXIT_LAB_BROKEN
    assert "no worker of the cluster can boot this: its QEMU 7.2" in done.stdout
    assert lab.boots() == []


@pytest.mark.slow
def test_stopped_the_workers_stop_and_it_goes_on(cluster: Cluster, lab: FakeLab) -> None:
    import signal

    worker = cluster.work(**lab.plan(hold=[3, "load"]))
    cluster.await_workers(1)
    process = lab.start(*words(lab, "--dask", cluster.address))
    lab.await_boots(1, "held-load")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=lab.patience)
    assert process.returncode == EXIT_INTERRUPTED, err
    while cluster.boots_of(worker):
        assert worker.poll() is None
    done = matrix(lab, "--dask", cluster.address)
    assert done.returncode == EXIT_PASS, done.stderr
    assert len(lab.boots()) == WHOLE + 1
    assert_whole(lab)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["from the start", "in the middle"])
def test_without_a_worker_the_matrix_ends(when: str, cluster: Cluster, lab: FakeLab) -> None:
    """Once a minute has passed all cells fail together: nothing waits for each of them."""
    if when == "in the middle":
        worker = cluster.work(**lab.plan(hold=[1, "load"]))
        cluster.await_workers(1)
    process = lab.start(*words(lab, "--dask", cluster.address))
    if when == "in the middle":
        lab.await_boots(1, "held-load")
        worker.kill()
    out, err = process.communicate(timeout=600)
    assert process.returncode == EXIT_LAB_BROKEN, err
    assert "the cluster has no worker; waiting 60 s for one" in err
    assert (out.count("the cluster has no worker"), "4 cells: 4 ERROR" in out) == (1, True), out
    assert "Traceback" not in err


def test_a_scheduler_that_dies_in_the_middle_is_named(cluster: Cluster, lab: FakeLab) -> None:
    cluster.work(**lab.plan(hold=[1, "load"]))
    cluster.await_workers(1)
    process = lab.start(*words(lab, "--dask", cluster.address))
    lab.await_boots(1, "held-load")
    cluster.scheduler.kill()
    out, err = process.communicate(timeout=600)
    assert process.returncode == EXIT_LAB_BROKEN, err
    assert "the Dask scheduler is gone" in out + err, (out, err)
    assert "Traceback" not in out + err, err


@pytest.fixture
def port() -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening


ANSWERS = (b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\xff" * 64, bytes(64))
"""A silent port takes 15 s, so the others are slow tests."""


@pytest.mark.parametrize(
    ("scheme", "answer"),
    [
        pytest.param(scheme, answer, marks=() if (scheme, answer) == ("tcp", b"") else pytest.mark.slow)
        for scheme in ("tcp", "ws", "tls")
        for answer in ANSWERS
    ],
)
def test_a_port_of_something_else(scheme: str, answer: bytes, port: socket.socket, lab: FakeLab) -> None:
    lay_out(lab)

    def reply() -> None:
        with suppress(OSError):
            while True:
                kept.append(port.accept()[0])
                kept[-1].sendall(answer)

    kept: list[socket.socket] = []
    threading.Thread(target=reply, daemon=True).start()
    done = matrix(lab, "--dask", f"{scheme}://127.0.0.1:{port.getsockname()[1]}")
    assert done.returncode == EXIT_LAB_BROKEN, done.stderr
    assert f"no Dask scheduler answers at {scheme}://127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr
    assert lab.boots() == []


@pytest.mark.parametrize(
    "address, code, says",
    [
        ("tcp://127.0.0.1:1", EXIT_LAB_BROKEN, "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("nosuch://x", EXIT_MISUSE, "--dask nosuch://x"),
    ],
)
def test_no_cluster(lab: FakeLab, address: str, code: int, says: str) -> None:
    lay_out(lab)
    done = matrix(lab, "--dask", address)
    assert (done.returncode, lab.boots()) == (code, []), done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["../outside", "a/../../outside"])
def test_an_archive_writes_nothing_outside_its_folder(name: str, tmp_path: Path) -> None:
    archive, folder = io.BytesIO(), tmp_path / "boot"
    folder.mkdir()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(LabBroken, match="tar -x"):
        unpack(archive.getvalue(), folder)
    assert not (tmp_path / "outside").exists()
