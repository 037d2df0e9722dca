# SPDX-License-Identifier: GPL-2.0-only
"""CPU and memory limits of this process's control groups (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cgroups:
    """The groups of one process, with the limits of all enclosing groups."""

    membership: Path = Path("/proc/self/cgroup")
    mount: Path = Path("/sys/fs/cgroup")

    def cpu_limit(self) -> float | None:
        """The CPU limit in CPUs, None without a limit."""
        return min(
            (limit for folder in self._folders("cpu") if (limit := _cpu_limit(folder)) is not None), default=None
        )

    def memory_left(self) -> int | None:
        """Bytes below the tightest limit, with the page cache counted as free; None without a limit."""
        left = (_memory_left(folder) for folder in self._folders("memory"))
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
        quota = _word(folder / "cpu.cfs_quota_us")
        period = _word(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _memory_left(folder: Path) -> int | None:
    for limit_name, used_name, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        limit, used = _word(folder / limit_name), _word(folder / used_name)
        if limit.isdigit() and used.isdigit():
            return int(limit) - int(used) + _page_cache(folder / "memory.stat", prefix)
    return None


def _page_cache(stat: Path, prefix: str) -> int:
    fields = dict(line.split() for line in _lines(stat))
    return sum(int(fields.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


def _word(path: Path) -> str:
    return next(iter(_words(path)), "")


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
