# SPDX-License-Identifier: GPL-2.0-only
"""``blklab capture`` over folders that look like machines: what it reads, guesses, leaves out and refuses."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from harness.cli import main
from harness.intake.snapshot import SCRIPT
from lab.base.errors import EXIT_MISUSE
from lab.topology.load import load_topology
from lab.topology.model import Driver, StackKind, Topology
from tests.unit.machine_samples import MachineTree, megaraid, mpt3sas, nvme_four_paths, two_paths_each

Machine = Callable[[Path], MachineTree]
SAMPLES = (megaraid, mpt3sas, nvme_four_paths)


def _captured(tmp_path: Path, *more: str) -> tuple[Topology, str]:
    output = tmp_path / "captured.yaml"
    assert main(["capture", "--output", str(output), *more]) == 0
    return load_topology(str(output), near=Path()), output.read_text()


def _of(machine: Machine, tmp_path: Path, *more: str) -> tuple[Topology, str]:
    root = tmp_path / "machine"
    machine(root)
    return _captured(tmp_path, "--root", str(root), *more)


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["capture", *words]) == EXIT_MISUSE
    said = capsys.readouterr().err
    assert "remedy:" in said
    return said


def test_a_megaraid_with_a_mirror_on_partitions(tmp_path: Path) -> None:
    topology, _ = _of(megaraid, tmp_path)
    assert {name: (hba.original_driver, hba.can_queue, hba.cmd_per_lun) for name, hba in topology.hbas.items()} == {
        "host0": ("megaraid_sas", 1024, 256),
        "host1": ("ahci", 1024, 32),
    }
    assert list(topology.luns) == ["sda", "sdb", "sdc", "sdd", "sde"]
    assert topology.disks["sda"].seek and topology.disks["sde"].buffer
    assert topology.links["pcie-host0"].what == "PCIe 3.0 x8"
    mirror = topology.stacks["md127"]
    assert (mirror.level, mirror.over) == ("raid1", ("sda2", "sdb2"))
    assert (topology.stacks["sda2"].offset, topology.stacks["sda2"].size) == (513 << 20, 1 << 40)
    assert topology.queue == {"scheduler": "mq-deadline", "nr_requests": "256", "read_ahead_kb": "128"}
    kinds = {origin.of: origin.kind for origin in topology.origins}
    assert (kinds["hba.host0.can_queue"], kinds["disk.*.seek"]) == ("cites", "guessed")


def test_sas_with_multipath_below_a_striped_volume(tmp_path: Path) -> None:
    topology, text = _of(mpt3sas, tmp_path)
    assert len(topology.disks) == 4
    assert {lun.hba for lun in topology.luns.values()} == {"host0", "host1"}
    path = topology.stacks["dm-2"]
    assert (path.kind, path.over, path.selector, path.policy) == (
        StackKind.MULTIPATH,
        ("sdc", "sdg"),
        "round-robin",
        "multibus",
    )
    assert topology.luns["sdc"].disks == topology.luns["sdg"].disks
    volume = topology.stacks["dm-4"]
    assert (volume.chunk, volume.over) == (128 << 10, ("dm-0", "dm-1", "dm-2", "dm-3"))
    assert "left out: dm-0..3: used from 1M on" in text
    assert topology.hbas["host1"].node == 1


def test_sas_ports_are_links_of_the_disks_behind_them(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path / "machine")
    pci = tree.pci("0000:03:00.0", "0x010700", speed="8.0", width=8, node=1)
    host = tree.host(0, pci, can_queue=128, cmd_per_lun=7, driver="mptsas")
    wide = tree.sas_port(host, "0:0", 4, "3.0 Gbit")
    tree.scsi_disk("sda", wide, 0, 10, depth=64, wwid=1, spins=True)
    tree.scsi_disk("sdb", wide, 1, 10, depth=64, wwid=2, spins=True)
    tree.scsi_disk("sdc", tree.sas_port(host, "0:1", 1, "1.5 Gbit"), 2, 10, depth=64, wwid=3, spins=True)
    topology, text = _captured(tmp_path, "--root", str(tmp_path / "machine"))
    assert [topology.luns[name].links for name in ("sda", "sdb", "sdc")] == [("sas-port-0-0",), ("sas-port-0-0",), ()]
    assert topology.links["sas-port-0-0"].rate == 1_200_000_000
    assert "left out: port-0:1: a SAS port of 1 phys at 1.5 Gbit" in text
    kinds = {origin.of: (origin.kind, origin.text) for origin in topology.origins}
    assert kinds["hba.*.node"] == ("cites", "read: numa_node")
    assert kinds["disk.*.size"] == ("cites", "read: size")
    assert kinds["link.sas-port-0-0.rate"] == ("cites", "read: num_phys and negotiated_linkrate")


def test_nvme_with_four_paths(tmp_path: Path) -> None:
    topology, text = _of(nvme_four_paths, tmp_path)
    assert {hba.driver for hba in topology.hbas.values()} == {Driver.NVMET_TCP}
    stack = topology.stacks["nvme0n1"]
    assert stack.over == ("nvme0c0n1", "nvme0c1n1", "nvme0c2n1", "nvme0c3n1")
    assert stack.iopolicy == "round-robin"
    assert topology.stacks["nvme4n1"].over == ("nvme4c4n1",)
    assert [topology.hbas[f"nvme{number}"].node for number in range(5)] == [0, 0, 1, 1, 1]
    assert topology.links["pcie-nvme0"].what == "PCIe 4.0 x4"
    assert "nvme0..4: 2 hardware queues, on CPUs 0-3; 4-7" in text


@pytest.mark.parametrize("machine", SAMPLES)
def test_the_archive_of_the_printed_script_gives_the_same_file(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, here = _of(machine, tmp_path)
    capsys.readouterr()
    assert main(["capture", "--script"]) == 0
    script = tmp_path / "collect.sh"
    script.write_text(capsys.readouterr().out)
    environment = {**os.environ, "ROOT": str(tmp_path / "machine")}
    subprocess.run(["sh", str(script)], cwd=tmp_path, env=environment, check=True)
    archive = tmp_path / "blklab-capture.tar"
    assert _captured(tmp_path, "--from", str(archive))[1] == here
    subprocess.run(["tar", "-xf", archive], cwd=tmp_path, check=True)
    with tarfile.open(archive, "w") as packed:
        packed.add(tmp_path / "blklab-capture", ".")
    assert _captured(tmp_path, "--from", str(archive))[1] == here


@pytest.mark.parametrize("machine", SAMPLES)
def test_no_identity_leaves_the_machine(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "machine"
    machine(root)
    kernel = root / "proc" / "sys" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "hostname").write_text("secret-host\n")
    folder = tmp_path / "collected"
    folder.mkdir()
    environment = {**os.environ, "ROOT": str(root)}
    subprocess.run(["sh", str(SCRIPT), "--folder", str(folder)], env=environment, check=True)
    texts = [path.read_text().lower() for path in folder.rglob("*") if path.is_file()]
    assert not any("secret" in text or "naa." in text for text in texts)


def test_more_disks_need_no_more_programs(tmp_path: Path) -> None:
    """Programs are slow to start where sysfs is large: in a guest, a minute for 48 disks with two paths."""
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    for name in ("awk", "cat", "cp", "grep", "mkdir", "rm", "sed", "xargs"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} >>{log}\nexec {shutil.which(name)} "$@"\n')
        (programs / name).chmod(0o755)
    counts = []
    for disks in (2, 100):
        two_paths_each(tmp_path / f"{disks}", disks)
        (folder := tmp_path / f"collected-{disks}").mkdir()
        log.unlink(missing_ok=True)
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "ROOT": str(tmp_path / f"{disks}")}
        subprocess.run(["sh", str(SCRIPT), "--folder", str(folder)], env=environment, check=True)
        assert len(list((folder / "block").iterdir())) == 2 * disks
        counts.append(len(log.read_text().splitlines()))
    assert counts[0] == counts[1]


def test_names_with_a_line_break_add_nothing(tmp_path: Path) -> None:
    tree = megaraid(tmp_path / "machine")
    sda = (tree.sys / "block" / "sda").resolve()
    (sda / "slaves").mkdir()
    (sda / "slaves" / "a\nblock\tsdq").write_text("")
    (sda / "x\n..\t").mkdir()
    for name in ("partition", "dev", "start", "size"):
        (sda / "x\n..\t" / name).write_text("1\n")
    (tree.sys / "bus" / "pci" / "devices" / "a b").symlink_to(sda)
    (sda / "class").write_text("0x010000\n")
    topology, text = _captured(tmp_path, "--root", str(tree.root))
    assert list(topology.luns) == ["sda", "sdb", "sdc", "sdd", "sde"]
    assert "left out: a device: its name has other characters than the names of Linux" in text


@pytest.mark.skipif(not Path("/sys/block").is_dir(), reason="needs sysfs")
def test_attributes_of_this_machine_are_collected_whole(tmp_path: Path) -> None:
    subprocess.run(["sh", str(SCRIPT), "--folder", str(tmp_path)], check=True)
    disks = {
        f"block/{disk.name}/{name}": Path("/sys/block", disk.name, name)
        for disk in tmp_path.glob("block/*")
        for name in ("size", "queue/scheduler", "queue/max_sectors_kb")
    }
    for own, there in disks.items():
        assert (tmp_path / own).read_text().strip() == there.read_text().strip()


_WORDS = {"original_driver", "driver", "links", "kind", "over", "selector", "policy", "iopolicy"}


@pytest.mark.parametrize("machine", SAMPLES)
def test_each_figure_has_an_origin(machine: Machine, tmp_path: Path) -> None:
    topology, text = _of(machine, tmp_path)
    file = yaml.safe_load(text)
    figures = [f"queue.{key}" for key in file["queue"]]
    for section in ("links", "disks", "hbas", "stacks"):
        for name, row in file.get(section, {}).items():
            keys = ["rate"] if section == "links" else [key for key in row if key not in _WORDS]
            figures += [f"{section[:-1]}.{name}.{key}" for key in keys]
    assert [one for one in figures if not any(fnmatchcase(one, origin.of) for origin in topology.origins)] == []


def test_only_the_disks_that_are_named(tmp_path: Path) -> None:
    topology, _ = _of(megaraid, tmp_path, "--disk", "sda", "--disk", "sde")
    assert list(topology.luns) == ["sda", "sde"]


# Hostile captures


def _archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as packed:
        for info, data in members:
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


ABOUT = (_member("about"), b"format 1\n")


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (_member("../outside"), "../outside has a name"),
        (_member("/etc/passwd"), "/etc/passwd has a name"),
        (_member("block/sda/size", tarfile.SYMTYPE, "/etc/passwd"), "block/sda/size is not a regular file"),
        (_member("block/sda/size", tarfile.LNKTYPE, "about"), "block/sda/size is not a regular file"),
        (_member("block/fifo", tarfile.FIFOTYPE), "block/fifo is not a regular file"),
        (_member("block/null", tarfile.CHRTYPE), "block/null is not a regular file"),
        (_member("block/\x1b[2Jsda/size"), "block/\\x1b[2Jsda/size has a name"),
        (_member("block/" + "s" * 90), "has a name"),
    ],
)
def test_members_that_the_script_does_not_write(
    member: tarfile.TarInfo, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _refused(capsys, "--from", str(_archive(tmp_path / "x.tar", ABOUT, (member, b""))))
    assert says in said


def test_archives_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    huge = _archive(tmp_path / "huge.tar", ABOUT, (_member("block/sda/size"), b"1" * ((1 << 20) + 1)))
    assert "block/sda/size is larger than 1 MiB" in _refused(capsys, "--from", str(huge))
    cut = tmp_path / "cut.tar"
    cut.write_bytes(huge.read_bytes()[:1500])
    assert "cut.tar" in _refused(capsys, "--from", str(cut))
    text = tmp_path / "text.tar"
    text.write_text("not an archive")
    assert "not a whole tar archive" in _refused(capsys, "--from", str(text))
    assert "no capture" in _refused(capsys, "--from", str(_archive(tmp_path / "no.tar", (_member("a"), b"b"))))
    assert "No such file" in _refused(capsys, "--from", str(tmp_path / "absent.tar"))
    os.mkfifo(tmp_path / "fifo.tar")
    assert "not a regular file" in _refused(capsys, "--from", str(tmp_path / "fifo.tar"))


def test_numbers_that_are_none_leave_the_disk_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = megaraid(tmp_path / "machine")
    place = (tree.sys / "block" / "sdd").resolve()
    for size in ("-1", "9" * 40, "many", "", "\x00\xff"):
        (place / "size").write_text(size)
        topology, text = _captured(tmp_path, "--root", str(tree.root))
        assert "sdd" not in topology.luns
        assert "left out: sdd: smaller than 1 MiB" in text


def test_a_tree_with_loops_fifos_and_binary_names(tmp_path: Path) -> None:
    tree = megaraid(tmp_path / "machine")
    (tree.sys / "block" / "sdx").symlink_to("sdx")
    (tree.sys / "block" / "sdy").symlink_to("/")
    (tree.sys / os.fsdecode(b"block/sd\xff\n")).mkdir()
    queue = (tree.sys / "block" / "sda" / "queue").resolve()
    (queue / "scheduler").unlink()
    os.mkfifo(queue / "scheduler")
    (queue / "nr_requests").write_text("7" * (3 << 20))
    (queue / "read_ahead_kb").unlink()
    (queue / "read_ahead_kb").symlink_to("/etc/passwd")
    topology, text = _captured(tmp_path, "--root", str(tree.root))
    assert list(topology.luns) == ["sda", "sdb", "sdc", "sdd", "sde"]
    assert "sdx, sdy: its link leads nowhere, or out of sysfs" in text
    assert "a block device: its name has other characters" in text
    assert "left out: sda: scheduler not shown" in text


def test_one_identifier_on_disks_of_two_sizes(tmp_path: Path) -> None:
    tree = mpt3sas(tmp_path / "machine")
    (tree.sys / "block" / "sde" / "size").write_text("8388608\n")
    for table in (tree.root / "dm").glob("*/table"):
        table.unlink()
    topology, text = _captured(tmp_path, "--root", str(tree.root))
    assert topology.luns["sda"].disks != topology.luns["sde"].disks
    assert topology.luns["sdb"].disks == topology.luns["sdf"].disks
    assert "sde: its identifier is that of sda, which has another size" in text
    assert "dm-0..4: its table was not read (no type known): capture as root" in text


def test_a_dm_device_over_itself(tmp_path: Path) -> None:
    tree = megaraid(tmp_path / "machine")
    assert tree.mapped(0, 1, "linear 8:128 0", "dm-1") == "8:112"
    assert tree.mapped(1, 1, "linear 8:112 0", "dm-0") == "8:128"
    tree.mapped(2, 1, "crypt aes-xts-plain64 :64:logon:key 0 8:16 4096", "sda")
    tree.mapped(3, 1, "striped 0 0", "")
    tree.mapped(4, 1, "multipath 99 x", "sda")
    topology, text = _captured(tmp_path, "--root", str(tree.root))
    assert set(topology.stacks) == {"sda2", "sdb2", "md127"}
    assert "is over itself" in text
    assert "dm-2: a dm table with crypt" in text


def test_more_disks_than_a_topology_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = megaraid(tmp_path / "machine")
    for number in range(10_000):
        (tree.sys / "block" / f"sd{number}x").symlink_to("sda")
    said = _refused(capsys, "--root", str(tree.root))
    assert "10006 block devices" in said and "--disk" in said


def test_a_machine_without_disks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MachineTree(tmp_path / "machine")
    assert "it has no block devices" in _refused(capsys, "--root", str(tmp_path / "machine"))
    assert "sys/block" in _refused(capsys, "--root", str(tmp_path))
    assert "is no name" in _refused(capsys, "--name", "../x")
