# SPDX-License-Identifier: GPL-2.0-only
"""Facts about the host, read fresh each time."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

GUEST_OVERHEAD = 256 << 20
"""Bytes that QEMU needs in addition to the guest's memory: translated code, firmware, heap."""
_MOST_CROWDED = 10.0
_NEEDS = Path(__file__).parents[2] / "scripts/host-packages.txt"
_MEMINFO = Path("/proc/meminfo")
# On Debian depmod is in /usr/sbin, which is not in the PATH of ordinary users.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


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
        path = shutil.which(self.program, path=os.pathsep.join((os.environ.get("PATH", ""), *_SYSTEM_FOLDERS)))
        return Path(path) if path else None


def _needs(group: str) -> tuple[Need, ...]:
    rows = (line.split("|") for line in _NEEDS.read_text().splitlines())
    return tuple(Need(*row[1:]) for row in rows if row[0] == group)


NEEDS, BUILD_NEEDS = _needs("run"), _needs("build")
"""Needed to run, and in addition to build kernels. ccache is used if it is installed."""


@dataclass(frozen=True)
class Cgroups:
    """The control groups of one process, with the limits of all enclosing groups.

    Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
    """

    membership: Path = Path("/proc/self/cgroup")
    mount: Path = Path("/sys/fs/cgroup")

    def cpu_limit(self) -> float | None:
        """The CPU limit in CPUs, None without a limit."""
        limits = map(_cpu_limit, self._folders("cpu"))
        return min((limit for limit in limits if limit is not None), default=None)

    def memory_left(self) -> int | None:
        """Bytes below the tightest limit, with the page cache counted as free; None without a limit."""
        left = map(_memory_left, self._folders("memory"))
        return min((value for value in left if value is not None), default=None)

    def _folders(self, controller: str) -> Iterator[Path]:
        """The process's group and its ancestors, of cgroup v1 or v2.

        In a container the path may be the host's and not be mounted: then the groups that are mounted are returned.
        """
        for line in _lines(self.membership):
            _, controllers, group = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = self.mount / controllers if controllers else self.mount
            if controllers and not root.is_dir():
                root = self.mount / controller
            here = root / group.lstrip("/")
            yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(root))


def _cpu_limit(folder: Path) -> float | None:
    quota, period = (*_words(folder / "cpu.max"), "", "")[:2]
    if not quota:
        quota, period = _word(folder / "cpu.cfs_quota_us"), _word(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _memory_left(folder: Path) -> int | None:
    for limit_name, used_name, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        limit, used = _word(folder / limit_name), _word(folder / used_name)
        if limit.isdigit() and used.isdigit():
            fields = dict(line.split() for line in _lines(folder / "memory.stat"))
            cached = sum(int(fields.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
            return int(limit) - int(used) + cached
    return None


def _word(path: Path) -> str:
    return next(iter(_words(path)), "")


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


_OWN_GROUPS = Cgroups()


def distribution() -> str:
    """This host's distribution in words."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "an unknown distribution"


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
