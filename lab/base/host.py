# SPDX-License-Identifier: GPL-2.0-only
"""Facts about the host, read fresh each time."""

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from lab.base.errors import LabBroken, Misuse
from lab.base.process import run

GUEST_OVERHEAD = 256 << 20
"""Bytes that QEMU needs in addition to the guest's memory: translated code, firmware, heap."""
_MOST_CROWDED = 10.0
_NEEDS = Path(__file__).parents[2] / "scripts/host-packages.txt"
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Need:
    """A program (or, with a slash, a pattern of file names) that blklab uses on the host, and Debian's ``package``."""

    program: str
    package: str
    purpose: str

    def find(self) -> Path | None:
        if self.program.startswith("/"):
            pattern = Path(self.program)
            return next(iter(sorted(pattern.parent.glob(pattern.name))), None)
        path = shutil.which(self.program, path=search_path())
        return Path(path) if path else None


def search_path() -> str:
    """PATH with the folders of the system, which that of ordinary users lacks: Debian's depmod is in /usr/sbin."""
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


def _needs(group: str) -> tuple[Need, ...]:
    rows = (line.split("|") for line in _NEEDS.read_text().splitlines())
    return tuple(Need(*row[1:]) for row in rows if row[0] == group)


NEEDS, BUILD_NEEDS = _needs("run"), _needs("build")
"""Needed to run, and in addition to build kernels. ccache, of the group "faster", is used if it is installed."""


@dataclass(frozen=True)
class Cgroups:
    """The control groups (version 2) of one process, with the limits of all enclosing groups.

    Documentation/admin-guide/cgroup-v2.rst.
    """

    membership: Path = Path("/proc/self/cgroup")
    mount: Path = Path("/sys/fs/cgroup")

    def cpu_limit(self) -> float | None:
        """The CPU limit in CPUs, None without a limit."""
        limits = (_read(folder / "cpu.max").split() for folder in self._folders())
        return min((int(words[0]) / int(words[1]) for words in limits if words and words[0].isdecimal()), default=None)

    def memory_left(self) -> int | None:
        """Bytes below the tightest limit, with the page cache counted as free; None without a limit."""
        return min((left for folder in self._folders() if (left := _memory_left(folder)) is not None), default=None)

    def _folders(self) -> Iterator[Path]:
        """The process's group and its ancestors.

        In a container the path may be the host's and not be mounted: then the groups that are mounted are returned.
        """
        for line in _read(self.membership).splitlines():
            if line.startswith("0::"):
                here = self.mount / line[3:].lstrip("/")
                yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(self.mount))


def _memory_left(folder: Path) -> int | None:
    limit, used = _read(folder / "memory.max"), _read(folder / "memory.current")
    if not limit.isdecimal() or not used.isdecimal():
        return None
    fields = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
    return int(limit) - int(used) + sum(int(fields.get(f"{kind}_file", 0)) for kind in ("active", "inactive"))


def _read(path: Path) -> str:
    """The text without surrounding space, empty for a file that cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


_OWN_GROUPS = Cgroups()


def distribution() -> str:
    """This host's distribution in words."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "an unknown distribution"


def number_of(variable: str, least: int, most: int = 10**6) -> int:
    """The number in a variable of the environment, 0 without one. Raises Misuse."""
    text = os.environ.get(variable) or ""
    if text and not (re.fullmatch("[0-9]{1,7}", text) and least <= int(text) <= most):
        raise Misuse(f"{variable}={text}: expected a number from {least} to {most:,}", remedy="correct or unset it")
    return int(text or 0)


def usable_cores(groups: Cgroups = _OWN_GROUPS) -> int:
    """Cores that this process may use: its CPU affinity, limited by its groups' CPU limit rounded up."""
    allowed = len(os.sched_getaffinity(0))
    limit = groups.cpu_limit()
    return allowed if limit is None else max(1, min(allowed, ceil(limit)))


def memory_available(groups: Cgroups = _OWN_GROUPS, meminfo: Path = _MEMINFO) -> int:
    """Bytes of memory available to new processes."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) << 10
    left = groups.memory_left()
    return free if left is None else max(0, min(free, left))


def guests_that_fit(memory: int, available: int) -> int:
    """How many guests of ``memory`` bytes run side by side in ``available`` bytes."""
    return available // (memory + GUEST_OVERHEAD)


def disk_free(path: Path) -> int:
    """Free bytes for this user in the file system of ``path``, which need not exist yet."""
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]


def crowding(groups: Cgroups = _OWN_GROUPS) -> float:
    """By how much deadlines in host time are extended: runnable processes per core, 1 to 10."""
    return min(_MOST_CROWDED, max(1.0, load() / usable_cores(groups)))


def missing_needs(needs: tuple[Need, ...] = NEEDS) -> tuple[Need, ...]:
    return tuple(need for need in needs if need.find() is None)


def install_line(needs: tuple[Need, ...]) -> str:
    """The command that installs the packages of ``needs`` as root, on Debian and its derivatives."""
    packages = " ".join(sorted({need.package for need in needs}))
    if shutil.which("apt-get") is None:
        return f"install, under the names that your distribution gives them: {packages}"
    return f"apt-get install -y --no-install-recommends {packages}"


COMPILER = "gcc"
REMEDY = "apt-get install gcc libc6-dev, or what scripts/host-packages names on other distributions"
SECONDS = 120


def compiler_version(wanted_for: str) -> str:
    """The output of gcc --version. Raises LabBroken when there is no compiler; ``wanted_for`` ends its message."""
    if shutil.which(COMPILER) is None:
        raise LabBroken(f"no C compiler is installed; {wanted_for}", remedy=REMEDY)
    return run([COMPILER, "--version"], timeout=SECONDS, hint=REMEDY).stdout.decode(errors="replace")
