# SPDX-License-Identifier: GPL-2.0-only
"""The newest kernel that the host's own distribution packages."""

import platform
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.base.units import Tell
from lab.kernels import debian, ubuntu
from lab.kernels.model import Kernel

_CHOICES = {"debian": debian.choice, "ubuntu": ubuntu.default_of}


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """Raises Misuse when the host is neither Debian nor Ubuntu."""
    name, codename = _host()
    if name not in _CHOICES:
        raise Misuse(
            f"this host is {name or 'of an unknown distribution'}: `distro` needs Debian or Ubuntu",
            remedy="name a kernel, such as KERNEL=debian:6.1 or KERNEL=path:DIR",
        )
    pin = f"distro-{name}-{codename}"
    return debian.fetched("distro", pin, _CHOICES[name](codename), name, cache, refresh=refresh, tell=tell)


def _host() -> tuple[str, str]:
    """The host's ID and code name from os-release."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        return "", ""
    return facts.get("ID", ""), facts.get("VERSION_CODENAME", "") or _debian_testing()


def _debian_testing() -> str:
    """Debian testing has no code name in os-release, but "trixie/sid" in debian_version."""
    path = Path("/etc/debian_version")
    return path.read_text().strip().partition("/")[0] if path.exists() else ""
