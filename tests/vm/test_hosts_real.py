# SPDX-License-Identifier: GPL-2.0-only
"""The same bytes on every host: throw-away roots of other releases, with a user who has no sudo and an empty cache."""

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from lab.base.errors import BlklabError
from lab.packages import sources

CHECKOUT = Path(__file__).parents[2]
DEBIAN, UBUNTU = ("bookworm", "trixie"), "noble"
INCLUDED = "python3-venv,make,ca-certificates,debian-archive-keyring"
SCENARIOS = ("shared-queue", "tag-lines", "io-cost", "md-stripe-cache", "nvme-multipath-iopolicy", "sas-multipath")
"""With $BLKLAB_TEST_HOSTS all of them on two kernels (an hour); else the first two, with one CPU and with four."""
USER = "lab"
SCRIPTS = "/usr/share/debootstrap/scripts"

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap"),
]


def make_root(folder: Path, release: str) -> Path:
    """A minimal system with what README asks for, this checkout, and the host's way to the network."""
    root = folder / release
    words = ["--variant=minbase", f"--include={INCLUDED}"]
    if release == UBUNTU:
        # debootstrap of Debian 12 knows no release of Ubuntu after jammy; debian-archive-keyring is in universe.
        words += ["--components=main,universe", release, str(root), sources.ubuntu().uri(release), f"{SCRIPTS}/jammy"]
    else:
        words += [release, str(root), sources.debian().uri(release)]
    subprocess.run(["debootstrap", *words], check=True)
    subprocess.run(["chroot", root, "useradd", "-m", USER], check=True)
    for path in (*Path("/etc/apt/apt.conf.d").iterdir(), Path("/etc/resolv.conf"), Path("/etc/hosts")):
        if path.is_file():
            shutil.copy(path, root / path.relative_to("/"))
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs")
    for configured in (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf"):
        if configured.is_file():
            shutil.copy(configured, root / "etc/pip.conf")
    home = root / "home" / USER
    subprocess.run(["git", "clone", "-q", CHECKOUT, home / "blklab"], check=True)
    subprocess.run(["chroot", root, "chown", "-R", USER, f"/home/{USER}"], check=True)
    return root


def releases() -> tuple[str, ...]:
    """Ubuntu only where its mirror ($BLKLAB_UBUNTU_MIRROR) and keyring are known."""
    with suppress(BlklabError):
        if sources.ubuntu().has(UBUNTU):
            return (*DEBIAN, UBUNTU)
    return DEBIAN


def type_in(
    root: Path, command: str, *, user: str = USER, folder: str = f"/home/{USER}/blklab", variables: str = ""
) -> subprocess.CompletedProcess[str]:
    """What the user types in the checkout. The mounts go with the process."""
    mounts = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount -t sysfs sysfs {root}/sys"
    # A minimal root names no security updates, without which a series has an older newest package.
    debian = sources.debian()
    named = f"BLKLAB_DEBIAN_MIRROR={debian.main} BLKLAB_DEBIAN_SECURITY_MIRROR={debian.security}"
    named += f" PIP_CERT=/etc/ssl/certs/ca-certificates.crt {variables}"
    line = f"cd {folder} && export {named} && {{ {command}; }}"
    inside = ["unshare", "-m", "sh", "-c", f'{mounts} && exec chroot {root} su {user} -c "$0"', line]
    return subprocess.run(inside, check=False, capture_output=True, text=True)


def digests(results: Path) -> dict[str, tuple[str, str]]:
    """Fingerprint and digest of each boot, by scenario, kernel, arm and seed."""
    boots = [json.loads(path.read_text()) for path in results.glob("*/2*/boots/*/boot.json")]
    keys = ("scenario", "kernel", "arm", "seed")
    return {
        " ".join(boot["fingerprint"][key] for key in keys): (json.dumps(boot["fingerprint"]), boot["digest"])
        for boot in boots
    }


def test_a_scenario_has_one_digest_on_all_hosts(tmp_path: Path) -> None:
    many = bool(os.environ.get("BLKLAB_TEST_HOSTS"))
    kernels = ("debian:6.1", "debian:7.2") if many else ("debian:6.1",)
    results = {}
    for release in releases():
        root = make_root(tmp_path, release)
        home = root / "home" / USER / "blklab"
        for kernel in kernels:
            for name in SCENARIOS if many else SCENARIOS[:2]:
                # Twice: with an empty cache, and from snapshots.
                for folder in ("cold", "warm"):
                    done = type_in(root, f"make scenario NAME={name} KERNEL={kernel} SEEDS=1 RESULTS={folder}")
                    assert "sudo" not in done.stderr
                    assert done.returncode == 0 or "exit 1 " in done.stderr, done.stderr
        results[release] = digests(home / "cold")
        assert results[release]
        assert digests(home / "warm") == results[release]
    assert all(result == results[DEBIAN[0]] for result in results.values())
