# SPDX-License-Identifier: GPL-2.0-only
"""What this host offers and lacks for guests: a finding for each, as soon as it is known."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.base.units import show_size
from lab.guest import payload
from lab.packages import lock, sources
from lab.packages.store import read_pin
from lab.packages.tools import HOST_TOOLS, is_cached
from lab.qemu.probe import Kvm, KvmState, Qemu, find_qemu, prove_kvm, qemu_is_own
from lab.topology.load import catalogue
from lab.topology.model import Topology

_LEAST_MEMORY = 1 << 30
_LEAST_DISK = 2 << 30
_WALL_CLOCK_DEVICES = ("mptsas1068", "megasas", "virtio-scsi-pci", "nvme", "pcie-root-port", "pxb-pcie")
_VIRTUAL_CANNOT_SEE = (
    "It cannot see lock and cache-line contention or true parallelism: "
    "every instruction takes the same time, and all vCPUs share one instruction stream."
)
_KVM_REMEDY = {
    KvmState.ABSENT: "none needed; for KVM, enable virtualisation in the firmware or nested virtualisation outside",
    KvmState.NO_PERMISSION: 'sudo usermod -aG kvm "$USER", then log in again',
    KvmState.HANGS: "none on this host: its hypervisor does not support nested virtualisation",
    KvmState.UNPROVED: "run a scenario once, which downloads a kernel, then run blklab doctor again",
}


class HostStatus(StrEnum):
    """With MISSING no scenario of the virtual clock runs."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True)
class HostFinding:
    status: HostStatus
    subject: str
    fact: str
    remedy: str = ""


ok, note, missing = (partial(HostFinding, status) for status in HostStatus)


def show(finding: HostFinding) -> str:
    remedy = f"; remedy: {finding.remedy}" if finding.remedy else ""
    return f"{finding.status:<8}{finding.subject:<14}{finding.fact}{remedy}\n"


def findings() -> Iterator[HostFinding]:
    yield ok("host", f"{host.distribution()}, kernel {os.uname().release}")
    yield ok("cores", f"{host.usable_cores()} usable, load {host.load():.1f}")
    yield memory_finding(host.memory_available())
    yield guests_finding(host.memory_available(), host.usable_cores(), catalogue())
    yield from _cache_findings()
    # QEMU has its own finding.
    needs = tuple(need for need in host.NEEDS if not need.program.startswith("qemu"))
    yield from program_findings(needs)
    yield builds_finding(host.BUILD_NEEDS)
    yield archive_finding(sources.debian())
    if qemu_is_own() and not is_cached(Cache.default(), HOST_TOOLS):
        yield note("QEMU", "the lab's own is not in the cache", "none needed: the first run fetches it")
        return
    try:
        qemu = find_qemu()
    except BlklabError as error:
        yield missing("QEMU", error.message, error.remedy)
        return
    yield from _qemu_findings(qemu)
    yield ok("programs", lock.state(Cache.default()))
    yield kvm_finding(prove_kvm(qemu, _a_kernel()))
    yield ok("virtual clock", _VIRTUAL_CANNOT_SEE)
    yield ok("wall clock", "It cannot see effects smaller than the noise of the host.")


def memory_finding(available: int) -> HostFinding:
    enough = available >= _LEAST_MEMORY
    remedy = "" if enough else f"free some: a guest needs {_gib(_LEAST_MEMORY)}"
    return (ok if enough else missing)("memory", f"{_gib(available)} available", remedy)


def guests_finding(available: int, cores: int, topologies: Iterable[Topology]) -> HostFinding:
    """Whether the guests of all topologies fit into memory, and how many of the largest fit at once."""
    by_size = sorted(topologies, key=lambda topology: topology.memory)
    too_large = [each for each in by_size if not host.guests_that_fit(each.memory, available)]
    if too_large:
        shown = ", ".join(f"{each.name} ({show_size(each.memory)})" for each in too_large)
        return note("guests", f"too large for this memory: {shown}", "free memory, or do not use them")
    largest = by_size[-1]
    at_once = min(cores, host.guests_that_fit(largest.memory, available))
    fact = f"{at_once} at once of the largest topology, {largest.name} ({show_size(largest.memory)})"
    return ok("guests", fact)


def program_findings(needs: tuple[host.Need, ...]) -> Iterator[HostFinding]:
    for need in needs:
        program = need.find()
        if program is None:
            yield missing("program", f"{need.program}, to {need.purpose}", host.install_line((need,)))
        else:
            yield ok("program", f"{program}, to {need.purpose}")
    if absent := host.missing_needs(needs):
        yield note("packages", "all of them", host.install_line(absent))


def builds_finding(needs: tuple[host.Need, ...]) -> HostFinding:
    """Only kernels built from source need these programs."""
    absent = host.missing_needs(needs)
    if not absent:
        return ok("builds", "kernels can be built from source")
    fact = f"kernels cannot be built from source without {', '.join(need.program for need in absent)}"
    return note("builds", fact, f"scripts/host-packages --build, or: {host.install_line(absent)}")


def archive_finding(debian: sources.Distribution) -> HostFinding:
    """Debian kernels and the guest's programs come from Debian's archive on every host."""
    try:
        return ok("archive", debian.uri(lock.SUITE))
    except BlklabError as error:
        status = HostStatus.NOTE if read_pin(Cache.default(), payload.PIN) else HostStatus.MISSING
        return HostFinding(status, "archive", error.message, error.remedy)


def kvm_finding(kvm: Kvm) -> HostFinding:
    if kvm.state is KvmState.WORKS:
        return ok("KVM", f"{kvm.state} (-cpu {kvm.model}): {kvm.proof}; the virtual clock uses TCG")
    return note("KVM", f"{kvm.state}: {kvm.proof}; blklab uses TCG", _KVM_REMEDY[kvm.state])


def _cache_findings() -> Iterator[HostFinding]:
    cache = Cache.default()
    free = host.disk_free(cache.root)
    fact = f"{_gib(free)} free under {cache.root}"
    if free < _LEAST_DISK:
        remedy = "free some, run blklab store cache prune, or set BLKLAB_CACHE to another folder"
        yield missing("disk", fact, f"{remedy}; {_gib(_LEAST_DISK)} are needed")
    else:
        yield ok("disk", fact)
    there = next(folder for folder in (cache.root, *cache.root.parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield missing("cache", f"{there} cannot be written", "set BLKLAB_CACHE to another folder")
        return
    entries = cache.entries()
    yield ok("cache", f"{len(entries)} entries, {_gib(sum(entry.size for entry in entries))}")


def _qemu_findings(qemu: Qemu) -> Iterator[HostFinding]:
    package = f" ({qemu.package})" if qemu.package else ""
    yield ok("QEMU", f"{qemu.version_text}{package}, {len(qemu.devices)} devices, {qemu.path}")
    if qemu.firmware is None:
        fact = "no qboot.rom in its data folders: boots take longer"
        yield note("firmware", fact, "install qemu-system-data (Debian)")
    absent = [name for name in _WALL_CLOCK_DEVICES if name not in qemu.devices]
    if absent:
        remedy = "install the full QEMU package; only scenarios of the wall clock use them"
        yield note("devices", f"not in this QEMU: {', '.join(absent)}", remedy)


def _a_kernel() -> Path | None:
    """The newest kernel image in the cache, else in /boot."""
    for folder, pattern in ((Cache.default().root, "kernels/*/image"), (Path("/boot"), "vmlinuz-*")):
        images = [path for path in folder.glob(pattern) if path.is_file() and os.access(path, os.R_OK)]
        if images:
            return max(images, key=lambda path: (path.stat().st_mtime, path))
    return None


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
