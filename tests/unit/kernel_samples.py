# SPDX-License-Identifier: GPL-2.0-only
"""Kernels, packages and a signed archive, as small as they can be and still be real."""

import hashlib
import lzma
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_HAS_DEPMOD = shutil.which("depmod", path=os.environ["PATH"] + ":/usr/sbin:/sbin") is not None
_HAS_APT = all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb", "gpg", "xz"))
needs_depmod = pytest.mark.skipif(not _HAS_DEPMOD, reason="needs kmod")
needs_apt = pytest.mark.skipif(not (_HAS_APT and _HAS_DEPMOD), reason="needs apt, dpkg, gpg, xz and kmod")
PVH = struct.pack("<III4sI", 4, 4, 18, b"Xen\0", 0x1000)
OTHER_NOTE = struct.pack("<III4sI", 4, 4, 6, b"Xen\0", 0x1000)


def elf(notes: bytes = PVH) -> bytes:
    """A 64-bit ELF of one PT_NOTE segment."""
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    return header + segment + notes


def module() -> bytes:
    """An ELF object without sections of interest, as depmod accepts one."""
    names = b"\0.shstrtab\0"
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 1, 62, 1, 0, 0, 80, 0, 64, 0, 0, 64, 2, 1)
    sections = bytes(64) + struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    return header + names.ljust(16, b"\0") + sections


def bzimage(payload: bytes, release: str = "6.1.0-50-amd64", protocol: int = 0x020F) -> bytes:
    """A boot sector and one set-up sector by the x86 boot protocol, then the payload."""
    image = bytearray(1024)
    image[0x1F1] = 1
    struct.pack_into("<4sH", image, 0x202, b"HdrS", protocol)
    struct.pack_into("<H", image, 0x20E, 0x80)
    struct.pack_into("<II", image, 0x248, 0, len(payload))
    text = f"{release} (builder)".encode() + b"\0"
    image[0x280 : 0x280 + len(text)] = text
    return bytes(image) + payload


def install_kernel(root: Path, release: str, *, split: bool = False, modules: str = "lib/modules") -> None:
    """Lay a kernel out below ``root`` as packages do: before 7.x, or from then on (``split``)."""
    folder = root / modules / release
    (folder / "kernel/drivers").mkdir(parents=True)
    (folder / "kernel/drivers/null_blk.ko").write_bytes(module() + release.encode())
    (folder / "modules.builtin").write_text("kernel/block/mq-deadline.ko\n")
    (folder / "modules.order").write_text("kernel/drivers/null_blk.ko\n")
    (folder / "modules.builtin.modinfo").write_bytes(b"")
    (root / "boot").mkdir(exist_ok=True)
    image = folder / "vmlinuz" if split else root / f"boot/vmlinuz-{release}"
    config = folder / "config" if split else root / f"boot/config-{release}"
    image.write_bytes(bzimage(lzma.compress(elf()), release))
    config.write_text('CONFIG_BLOCK=y\nCONFIG_BLK_DEV_NULL_BLK=m\n# CONFIG_X is not set\nCONFIG_LOCALVERSION="-a"\n')


class Repository:
    """A signed archive below ``root``, with the keyring that verifies it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.uri = f"file:{root}"
        self.keyring = root.parent / f"{root.name}.gpg"
        self._home = home
        self._indexes = dict[str, list[str]]()

    def add(
        self,
        suite: str,
        package: str,
        version: str,
        tree: Path | None = None,
        depends: str = "",
        *,
        listed: bool = True,
    ) -> Path:
        """Build a package of ``tree`` and list it, or only put it into the pool; ``publish`` makes it visible."""
        build = self.root.parent / f"build-{package}-{version}"
        (build / "DEBIAN").mkdir(parents=True)
        control = f"Package: {package}\nVersion: {version}\nArchitecture: amd64\nMaintainer: T <t@example.org>\n"
        control += f"Depends: {depends}\n" if depends else ""
        control += "Description: sample\n"
        (build / "DEBIAN/control").write_text(control)
        if tree is not None:
            subprocess.run(["cp", "-a", f"{tree}/.", str(build)], check=True)
        pool = self.root / "pool"
        pool.mkdir(parents=True, exist_ok=True)
        deb = pool / f"{package}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--build", str(build), str(deb)], check=True, capture_output=True)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        entry = f"{control}Filename: pool/{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
        if listed:
            self._indexes.setdefault(suite, []).append(entry)
        return deb

    def record(self, suite: str, index: str) -> None:
        """List packages as a real index names them, without their files."""
        self._indexes.setdefault(suite, []).append(index)

    def drop(self, suite: str) -> None:
        """Forget all packages of the suite."""
        self._indexes[suite] = []

    def publish(self, *suites: str) -> None:
        for suite in suites:
            self._publish(suite, "\n".join(self._indexes.get(suite, [])))

    def _publish(self, suite: str, index: str) -> None:
        dist = self.root / "dists" / suite
        packages = dist / "main/binary-amd64/Packages"
        packages.parent.mkdir(parents=True, exist_ok=True)
        packages.write_text(index)
        digest = hashlib.sha256(index.encode()).hexdigest()
        release = f"Origin: Sample\nSuite: {suite}\nCodename: {suite}\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
        release += (
            f"Architectures: amd64\nComponents: main\nSHA256:\n {digest} {len(index)} main/binary-amd64/Packages\n"
        )
        (dist / "Release").write_text(release)
        self._gpg("--yes", "--clearsign", "-o", str(dist / "InRelease"), str(dist / "Release"))
        self._gpg("--yes", "--output", str(self.keyring), "--export")

    def make_key(self) -> None:
        self._home.mkdir(mode=0o700)
        self._gpg("--passphrase", "", "--quick-gen-key", "Sample <s@example.org>", "ed25519", "sign", "never")

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self._home), "--kill", "all"], check=False)

    def _gpg(self, *argv: str) -> None:
        environment = {**os.environ, "GNUPGHOME": str(self._home)}
        subprocess.run(["gpg", "--batch", "--quiet", *argv], check=True, env=environment, capture_output=True)
