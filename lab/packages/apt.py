# SPDX-License-Identifier: GPL-2.0-only
"""Packages from a Debian or Ubuntu archive by a private apt: its own state, lists and sources.

The host's apt is read (mirrors, proxies and other ``Acquire`` options), never written, and nothing
is ever installed. apt itself verifies the archive's signature and each package's checksum.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.cache import Cache
from lab.base.digest import digest_bytes, digest_file
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import BOUND, progress, run, time_left
from lab.base.units import Tell, silent
from lab.packages.sources import Distribution, archive_variable, paragraphs, variable_of

_EVERY = 5.0  # seconds between two lines about a download: short ones print none
_PATIENCE, _SLOWEST = 60.0, 1000  # seconds in which bytes for each of them arrive, from the slowest mirror
_STALLED = f"less than {_SLOWEST / 1000:g} kB a second arrived for {_PATIENCE:.0f} s"
_FRESH = 3600.0  # seconds for which a suite's package lists are taken as current
_INSTALL_APT = "blklab fetches kernels with apt (Debian, Ubuntu); on other distributions use KERNEL=path:DIR"
_CARRIED = re.compile(r"Acquire::(?!IndexTargets|Allow|Languages|GzipIndexes|Changelogs|cdrom)[^ ]+ ")
_UNSIGNED = re.compile("NO_PUBKEY|EXPKEYSIG|BADSIG|REVKEYSIG|signatures were invalid|is no longer signed")
_UNREACHABLE = re.compile(
    "Temporary failure|Could not resolve|Could not connect|Unable to connect|Connection failed|^" + re.escape(_STALLED)
)
_DAMAGED = re.compile("Hash Sum mismatch|unexpected size|Error reading from server|Connection closed prematurely")
_REFUSED = re.compile(r"\b(?:40[0-35-9]|4[1-9][0-9]|5[0-9]{2})  [A-Z]")
_ABSENT = re.compile("404 |Failed to stat|does not have a Release file|File not found|is not signed")
_REPEATED = ("Some index files failed", "Failed to fetch some archives")  # said after each of those that failed


@dataclass(frozen=True)
class Package:
    """A package version, exactly. ``size`` is that of the .deb, in bytes.

    ``depends`` is the text of Pre-Depends and Depends. ``path`` is the .deb's, relative to the archive. A package that
    is not ``listed`` is in the pool, but no signed list has its checksum. One that was pinned has no size, no
    dependencies, and no path unless it was not listed; it equals the one that was offered.
    """

    suite: str
    name: str
    version: str
    sha256: str
    size: int = field(default=0, compare=False)
    depends: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    listed: bool = True


class Archive:
    """The packages of one distribution, for amd64. ``tell`` receives progress messages."""

    def __init__(self, cache: Cache, distribution: Distribution, tell: Tell = silent) -> None:
        self.distribution = distribution
        self._cache = cache
        self._tell = tell
        self._updated = set[str]()
        self._fresh_for = _FRESH

    def search(self, suite: str, pattern: str) -> tuple[Package, ...]:
        """All versions of all packages of ``suite`` whose whole name matches the regular expression ``pattern``."""
        with self._suite(suite) as apt:
            listed = apt("apt-cache", "pkgnames", re.split(r"[\\\[(.?*+^$|]", pattern)[0])
            names = sorted(name for name in listed.splitlines() if re.fullmatch(pattern, name))
            return self._show(apt, suite, names)

    def find(self, suite: str, package: str, version: str | None = None) -> Package:
        """The newest or the given version. Raises CannotJudge when the suite does not have it."""
        for candidate in self.search(suite, re.escape(package)):
            if version in (None, candidate.version):
                return candidate
        raise gone(suite, f"{package}{f' {version}' if version else ''}")

    def newest(self, suite: str, names: Sequence[str]) -> list[Package]:
        """The newest version of each package, in their order. Raises CannotJudge when the suite does not have one."""
        # From new to old, so the last that is set is the newest.
        offered = {package.name: package for package in reversed(self.versions(suite, names))}
        if missing := [name for name in names if name not in offered]:
            raise gone(suite, missing[0])
        return [offered[name] for name in names]

    def versions(self, suite: str, names: Sequence[str]) -> tuple[Package, ...]:
        """All versions of those of the packages that the suite has."""
        with self._suite(suite) as apt:
            known = set(apt("apt-cache", "pkgnames").splitlines())
            return self._show(apt, suite, [name for name in names if name in known])

    def unlisted(self, suite: str, name: str, version: str, path: str) -> Package:
        """The package at ``path`` of the archive that serves ``suite``, though the suite's lists do not name it.

        Its name, version and architecture are checked; its checksum is not signed. Raises CannotJudge when the
        archive does not have the file.
        """
        with self._suite(suite) as apt:
            deb = apt.pooled(path, self._tell)
            control = run(["dpkg-deb", "-f", str(deb), "Package", "Version", "Architecture"]).stdout.decode()
            wanted = {"package": name, "version": version, "architecture": "amd64"}
            if (fields := next(paragraphs(control), {})) != wanted:
                deb.unlink()
                raise LabBroken(f"{path} of {suite} is {dict(fields)}, expected {wanted}")
            return Package(suite, name, version, digest_file(deb), deb.stat().st_size, "", path, listed=False)

    def fetch(self, packages: Sequence[Package], into: Path) -> list[Path]:
        """Download packages into the new folder ``into``, in their order, their checksums verified."""
        into.mkdir(parents=True)
        for suite in dict.fromkeys(package.suite for package in packages):
            listed = [package for package in packages if package.listed and package.suite == suite]
            with self._suite(suite) as apt:
                if listed:
                    self._download(apt, suite, listed, into)
                for package in packages:
                    if package.suite == suite and not package.listed:
                        shutil.move(apt.pooled(package.path, self._tell), into)
        there = {digest_file(path): path for path in into.glob("*.deb")}
        for package in packages:
            if package.sha256 not in there:
                raise LabBroken(f"the archive sent another {package.name} {package.version} than {package.suite} lists")
        return [there[package.sha256] for package in packages]

    def _download(self, apt: "_Apt", suite: str, packages: Sequence[Package], into: Path) -> None:
        size = sum(package.size for package in packages)
        first = f"{packages[0].name} {packages[0].version}"
        what = first if len(packages) == 1 else f"{first} and {len(packages) - 1} more packages"
        self._tell(f"fetching {what} from {suite} ({size / 1e6:.1f} MB)")
        with following(self._tell, packages[0].name, size, (into, apt.partial)):
            apt("apt-get", "download", *(f"{package.name}={package.version}" for package in packages), cwd=into)

    def renew(self) -> None:
        """Update the lists of every suite before their next use, however new they are."""
        self._fresh_for = 0.0

    def _show(self, apt: "_Apt", suite: str, names: Sequence[str]) -> tuple[Package, ...]:
        """The versions of each package from new to old, as apt lists them."""
        if not names:
            return ()
        shown = paragraphs(apt("apt-cache", "show", *names))
        return tuple({(p.name, p.version): p for p in (_package(suite, fields) for fields in shown)}.values())

    @contextmanager
    def _suite(self, suite: str) -> Iterator["_Apt"]:
        """The suite's apt with current lists, locked for one process at a time."""
        source = f"{self.distribution.uri(suite)} {self.distribution.keyring}"
        key = f"{self.distribution.name}-{suite}-{digest_bytes(source.encode())[:12]}"
        with self._cache.workspace("apt", key) as root:
            apt = _Apt(root, self.distribution, suite)
            stamp = root / "updated"
            fresh = stamp.is_file() and 0 <= time.time() - stamp.stat().st_mtime < self._fresh_for
            if suite not in self._updated and not fresh:
                self._tell(f"updating the package lists of {suite}")
                with progress(self._tell, lambda seconds: f"package lists of {suite}: {seconds:.0f} s"):
                    apt.update()
                stamp.touch()
                self._updated.add(suite)
            try:
                yield apt
            except CannotJudge:
                # The lists may be older than the archive: the next run asks again.
                stamp.unlink(missing_ok=True)
                raise


class _Apt:
    """apt's tools, confined to ``root``."""

    def __init__(self, root: Path, distribution: Distribution, suite: str) -> None:
        self._suite, self._distribution, self._root = suite, distribution, root
        self.partial = root / "cache/archives/partial"
        """Where apt may collect a file until it is complete."""
        for folder in ("state/lists/partial", "cache/archives/partial", "empty.d"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        (root / "blklab.sources").write_text(
            f"Types: deb\nURIs: {distribution.uri(suite)}\nSuites: {suite}\nComponents: main\n"
            f"Architectures: amd64\nTargets: Packages\nSigned-By: {distribution.keyring}\n"
        )
        (root / "apt.conf").write_text(_configuration(root))
        self._environment = {**os.environ, "LC_ALL": "C", "APT_CONFIG": str(root / "apt.conf")}

    def __call__(self, *argv: str, cwd: Path | None = None) -> str:
        try:
            look, words = self._stall(), [*BOUND, *argv]
            return run(words, cwd=cwd, env=self._environment, look=look, hint=_INSTALL_APT).stdout.decode()
        except LabBroken as error:
            raise self._explain(error, " ".join(argv[:2])) from error

    def _stall(self) -> Callable[[int], str]:
        """To look at a download: why it ends when too little of it arrived since the last look but one."""
        arrived, until = _bytes_in((self._root,)), time.monotonic() + _PATIENCE

        def look(_: int) -> str:
            nonlocal arrived, until
            if time.monotonic() < until:
                return ""
            before, until = arrived, time.monotonic() + _PATIENCE
            arrived = _bytes_in((self._root,))
            return "" if abs(arrived - before) >= _PATIENCE * _SLOWEST else _STALLED

        return look

    def pooled(self, path: str, tell: Tell) -> Path:
        """The file at ``path`` of the archive, downloaded if it is not there from an earlier call."""
        target = self._root / "pool" / Path(path).name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            tell(f"fetching {target.name} from the pool of {self._suite}: the suite does not list it any more")
            # apt's "file" method would leave a file of this host where it is.
            uri = re.sub(r"^file:", "copy:", f"{self._distribution.uri(self._suite)}/{path}")
            partial = target.with_suffix(".partial")
            self("/usr/lib/apt/apt-helper", "download-file", uri, str(partial))
            partial.rename(target)
        return target

    def update(self) -> None:
        self("apt-get", "update", "-q")
        # Before apt 2.1.9 a failed download is a mere warning.
        if not any((self._root / "state/lists").glob("*Release")):
            raise self._no_network("no package list arrived")

    def _explain(self, error: LabBroken, command: str) -> LabBroken | CannotJudge:
        distribution, suite, said = self._distribution, self._suite, _complaints(error.message)
        uri, mirror = distribution.uri(suite), f"name another mirror: {variable_of(distribution.name, 'MIRROR')}=URI"
        keyring = f"update the keyring package, or name a keyring: {variable_of(distribution.name, 'KEYRING')}=FILE"
        moved = f"name the archive that it moved to: {archive_variable(suite)}=URI"
        cases = (
            (_UNSIGNED, f"{distribution.keyring} does not verify the signature of {suite} at {uri}", keyring),
            (_UNREACHABLE, "", ""),
            (_DAMAGED, f"a download of {suite} from {uri} is damaged", f"run the same command again; then {mirror}"),
            (
                _REFUSED,
                f"{uri} refuses to send a file of {suite}",
                f"check the proxies, or {mirror}",
            ),
            (_ABSENT, f"{uri} does not have a file of {suite} (any more)", moved),
            (re.compile(""), f"{command} fails for {suite} of {uri}", f"check apt, or {mirror}"),
        )
        signs, what, remedy = next(case for case in cases if case[0].search(error.message))
        if signs is _UNREACHABLE:
            return self._no_network(said or error.message.partition(":")[0])
        if not said:
            return error
        return (CannotJudge if signs is _ABSENT else LabBroken)(f"{what}: {said}", remedy=remedy)

    def _no_network(self, said: str) -> LabBroken:
        uri, mirror = self._distribution.uri(self._suite), variable_of(self._distribution.name, "MIRROR")
        return LabBroken(
            f"{self._suite} cannot be fetched from {uri}, and the cache does not have it: {said}",
            remedy=f"check the network and proxies, or name another mirror: {mirror}=URI",
        )


def gone(suite: str, what: str) -> CannotJudge:
    return CannotJudge(
        f"{suite} has no {what} (any more)",
        remedy=f"name an archive that still has it: {archive_variable(suite)}=URI",
    )


@contextmanager
def following(tell: Tell, name: str, size: int, folders: tuple[Path, ...], every: float = _EVERY) -> Iterator[None]:
    """Tell ``NAME: X of Y MB`` at intervals while the block downloads ``size`` bytes into one of ``folders``."""
    before = _bytes_in(folders)

    def line(seconds: float) -> str:
        there = min(size, max(0, _bytes_in(folders) - before))
        return f"{name}: {there / 1e6:.1f} of {size / 1e6:.1f} MB{time_left(there, size, seconds)}"

    with progress(tell, line, every):
        yield


def _bytes_in(folders: tuple[Path, ...]) -> int:
    total = 0
    for path in (path for folder in folders if folder.is_dir() for path in folder.rglob("*")):
        # A finished download is moved between the listing and the look.
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _complaints(words: str) -> str:
    """What apt complains about, in one line; empty without a complaint."""
    lines = [line.partition(":")[2].strip() for line in words.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    own = [line for line in dict.fromkeys(lines) if not line.startswith(_REPEATED)]
    return "; ".join(" ".join(line.split()) for line in own[-3:])


def _package(suite: str, fields: Mapping[str, str]) -> Package:
    return Package(
        suite=suite,
        name=fields["package"],
        version=fields["version"],
        sha256=fields["sha256"],
        size=int(fields["size"]),
        depends=", ".join(filter(None, (fields.get("pre-depends"), fields.get("depends")))),
        path=fields["filename"],
    )


def _configuration(root: Path) -> str:
    """apt.conf: the host's ``Acquire`` options, everything else private.

    apt reads the host's own apt.conf.d only if ``Dir::Etc::parts`` still points there when it has
    read this file, so none of the host's hooks (``APT::Update::Post-Invoke``) runs.
    """
    dumped = run(["apt-config", "dump"], env={**os.environ, "LC_ALL": "C"}, hint=_INSTALL_APT).stdout.decode()
    carried = [line for line in dumped.splitlines() if _CARRIED.match(line)]
    private = {
        "Dir::State": root / "state",
        "Dir::State::lists": "lists",
        "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache",
        "Dir::Cache::archives": "archives",
        "Dir::Cache::pkgcache": "pkgcache.bin",
        "Dir::Cache::srcpkgcache": "",
        "Dir::Log": root,
        "Dir::Etc::sourcelist": root / "blklab.sources",
        "Dir::Etc::sourceparts": root / "empty.d",
        "Dir::Etc::main": root / "empty.conf",
        "Dir::Etc::parts": root / "empty.d",
        "Dir::Etc::preferences": root / "empty.conf",
        "Dir::Etc::preferencesparts": root / "empty.d",
        "Dir::Etc::trusted": root / "empty.gpg",
        "Dir::Etc::trustedparts": root / "empty.d",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Sandbox::User": "root",
        "APT::Update::Error-Mode": "any",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::AllowWeakRepositories": "false",
        "Acquire::AllowDowngradeToInsecureRepositories": "false",
        "Acquire::GzipIndexes": "true",
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
    }
    return "\n".join([*carried, *(f"{name} {json.dumps(str(value))};" for name, value in private.items())]) + "\n"
