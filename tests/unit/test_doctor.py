# SPDX-License-Identifier: GPL-2.0-only
import io
from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands.doctor import (
    HostFinding,
    HostStatus,
    archive_finding,
    builds_finding,
    doctor,
    guests_finding,
    kvm_finding,
    memory_finding,
    program_findings,
    show,
)
from lab.base.errors import EXIT_LAB_BROKEN
from lab.base.host import Need
from lab.packages import sources, tools
from lab.qemu.kvm import Kvm, KvmState
from tests.unit.analysis_samples import null_topology

ABSENT = Need("no-such-program", "a-pkg", "test")


def test_a_finding_is_one_line_with_its_remedy() -> None:
    assert show(HostFinding(HostStatus.OK, "cores", "2")) == "ok      cores         2\n"
    line = "missing QEMU          none; remedy: get one\n"
    assert show(HostFinding(HostStatus.MISSING, "QEMU", "none", "get one")) == line


def test_memory_is_weighed_for_the_host_and_for_the_catalogue() -> None:
    assert memory_finding(1 << 29).status is HostStatus.MISSING
    assert memory_finding(1 << 31).status is HostStatus.OK
    small, large = null_topology(), replace(null_topology(), name="large", memory=3 << 30)
    fits = guests_finding(8 << 30, 4, [large, small])
    assert (fits.status, fits.fact) == (HostStatus.OK, "2 at once of the largest topology, large (3G)")
    assert guests_finding(8 << 30, 1, [large, small]).fact.startswith("1 at once")
    too_large = guests_finding(3 << 30, 4, [large, small])
    assert (too_large.status, too_large.fact) == (HostStatus.NOTE, "too large for this memory: large (3G)")


def test_missing_programs_come_with_the_line_to_type_and_those_for_builds_stop_no_scenario() -> None:
    single, together = program_findings((ABSENT,))
    assert (single.status, single.remedy) == (HostStatus.MISSING, together.remedy)
    assert together.remedy == "apt-get install -y --no-install-recommends a-pkg"
    finding = builds_finding((ABSENT,))
    assert finding.status is HostStatus.NOTE
    assert "no-such-program" in finding.fact
    assert finding.remedy == "scripts/host-packages --build, or: apt-get install -y --no-install-recommends a-pkg"
    assert builds_finding(()).status is HostStatus.OK


@pytest.mark.parametrize("state", KvmState)
def test_kvm_never_stops_the_virtual_clock(state: KvmState) -> None:
    finding = kvm_finding(Kvm(state, "seen this"))
    assert finding.status is (HostStatus.OK if state is KvmState.WORKS else HostStatus.NOTE)
    assert finding.fact.startswith(f"{state}")
    assert "TCG" in finding.fact
    assert bool(finding.remedy) is (state is not KvmState.WORKS)


def test_without_qemu_the_exit_code_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BLKLAB_QEMU", str(tmp_path / "none"))
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    out = io.StringIO()
    assert doctor(out) == EXIT_LAB_BROKEN
    assert "missing QEMU" in out.getvalue()
    assert "remedy: correct it, or unset it" in out.getvalue()


def test_a_qemu_that_is_not_fetched_yet_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BLKLAB_QEMU", raising=False)
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    out = io.StringIO()
    doctor(out)
    assert "note    QEMU          the lab's own is not in the cache; remedy: none needed" in out.getvalue()
    # Nothing was downloaded.
    assert not (tmp_path / "cache" / tools.KIND).exists()


def test_a_host_without_a_debian_mirror_gets_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "debian-archive-keyring.gpg").touch()
    none = sources.debian(tmp_path, tmp_path, {})
    finding = archive_finding(none)
    assert finding.status is HostStatus.MISSING
    assert "BLKLAB_DEBIAN_MIRROR" in finding.remedy
