# SPDX-License-Identifier: GPL-2.0-only
"""The mirrors in this host's apt configuration (man 5 sources.list)."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lab.base.errors import LabBroken, Misuse

HOST_APT = Path("/etc/apt")
KEYRINGS = Path("/usr/share/keyrings")
_ONE_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s*(.*)")
_FIELD = re.compile(r"^([^\s:][^:\n]*):(.*(?:\n[ \t].*)*)", re.MULTILINE)
_SNAPSHOT = re.compile(r"/[0-9]{8}T[0-9]{6}Z$")
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[!-~]+")
_DEBIAN_SUITE = re.compile(
    r"(?:bullseye|bookworm|trixie|forky|duke|(?:old)*stable|testing|unstable|sid)"
    r"(?:-updates|-backports(?:-sloppy)?|-proposed-updates|-security|/updates)?"
)


@dataclass(frozen=True)
class Distribution:
    """The archives of a distribution. ``security`` is empty when there is none."""

    name: str
    main: str
    security: str
    keyring: Path

    def has(self, suite: str) -> bool:
        """Whether there is an archive that could serve ``suite``."""
        return bool(self._served_by(suite))

    def uri(self, suite: str) -> str:
        """The archive that serves ``suite``. Raises Misuse when the host's configuration names none, or no URI."""
        uri = self._served_by(suite)
        variable = variable_of(self.name, "SECURITY_MIRROR" if suite.endswith("-security") else "MIRROR")
        if uri and not _URI.fullmatch(uri):
            # It becomes a line of a sources file, where another line may switch off the check of signatures.
            variable = archive_variable(suite) if os.environ.get(archive_variable(suite)) else variable
            raise Misuse(
                f"{variable}: expected a URI, got {uri!r}", remedy=f"set {variable} to one address, or unset it"
            )
        if not uri:
            raise Misuse(
                f"this host's apt configuration names no {self.name} archive that serves {suite}",
                remedy=f"name a mirror, {variable}=URI, or one for this suite, {archive_variable(suite)}=URI",
            )
        return uri

    def _served_by(self, suite: str) -> str:
        override = os.environ.get(archive_variable(suite))
        return override or (self.security if suite.endswith("-security") else self.main)


def variable_of(distribution: str, kind: str) -> str:
    """The environment variable that overrides the MIRROR, SECURITY_MIRROR or KEYRING of a distribution."""
    return f"BLKLAB_{distribution.upper()}_{kind}"


def archive_variable(suite: str) -> str:
    """The environment variable that overrides the archive of one suite."""
    return "BLKLAB_ARCHIVE_" + re.sub(r"[^A-Za-z0-9]", "_", suite).upper()


def debian(apt: Path = HOST_APT, keyrings: Path = KEYRINGS, environ: Mapping[str, str] = os.environ) -> Distribution:
    """Debian as the host's apt configuration under ``apt`` and the environment name it."""
    sources = [(uri, suite) for uri, suite in host_sources(apt) if _DEBIAN_SUITE.fullmatch(suite)]
    main = [uri for uri, _ in sources if _path(uri) == "debian"]
    security = [uri for uri, suite in sources if _path(uri) == "debian-security" or suite.endswith("-security")]
    return _distribution("debian", main, security, keyrings, environ)


def ubuntu(apt: Path = HOST_APT, keyrings: Path = KEYRINGS, environ: Mapping[str, str] = os.environ) -> Distribution:
    """Ubuntu likewise; its security pocket is also in the main archive under ``-updates``."""
    sources = [(uri, suite) for uri, suite in host_sources(apt) if _path(uri) in ("ubuntu", "ubuntu-ports")]
    security = [uri for uri, suite in sources if suite.endswith("-security")]
    main = [uri for uri, suite in sources if not suite.endswith("-security")]
    return _distribution("ubuntu", main, security, keyrings, environ)


DISTRIBUTIONS: Mapping[str, Callable[[], Distribution]] = {"debian": debian, "ubuntu": ubuntu}


def host_sources(apt: Path) -> Iterator[tuple[str, str]]:
    """Yield archive and suite of each enabled source of binary packages with the component main, in apt's order."""
    parts = sorted((apt / "sources.list.d").glob("*")) if (apt / "sources.list.d").is_dir() else []
    for path in [apt / "sources.list", *parts]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except PermissionError:
            continue  # may hold credentials; apt itself would skip it for this user too
        yield from _deb822_sources(text) if path.suffix == ".sources" else _one_line_sources(text)


def paragraphs(text: str) -> Iterator[Mapping[str, str]]:
    """Yield each paragraph (man 5 deb822) as field name (lower case) to value; continued lines keep their breaks."""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)):
        rows = ((name.strip().lower(), map(str.strip, lines.split("\n"))) for name, lines in _FIELD.findall(paragraph))
        if fields := {name: "\n".join(lines) for name, lines in rows}:
            yield fields


def _one_line_sources(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        match = _ONE_LINE.fullmatch(line.partition("#")[0].strip())
        if match is not None and not match[1].startswith("cdrom:") and "main" in match[3].split():
            yield match[1].rstrip("/"), match[2]


def _deb822_sources(text: str) -> Iterator[tuple[str, str]]:
    for fields in paragraphs(text):
        types, components, uris, suites = (
            fields.get(name, "").split() for name in ("types", "components", "uris", "suites")
        )
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false", "0")
        if enabled and "deb" in types and "main" in components:
            yield from ((uri.rstrip("/"), suite) for uri in uris for suite in suites)


def _path(uri: str) -> str:
    """The last component of the archive's path; ``mirror+file:`` lists are named after what they list."""
    return _SNAPSHOT.sub("", urlsplit(uri).path.rstrip("/")).rpartition("/")[2].removesuffix(".list")


def _distribution(
    name: str, main: list[str], security: list[str], keyrings: Path, environ: Mapping[str, str]
) -> Distribution:
    return Distribution(
        name=name,
        main=environ.get(variable_of(name, "MIRROR")) or next(iter(main), ""),
        security=environ.get(variable_of(name, "SECURITY_MIRROR")) or next(iter(security), ""),
        keyring=_keyring(name, keyrings, environ),
    )


def _keyring(name: str, keyrings: Path, environ: Mapping[str, str]) -> Path:
    """The keys that sign the archive. Raises LabBroken when the host does not have them."""
    variable = variable_of(name, "KEYRING")
    named = environ.get(variable)
    if named:
        if not Path(named).is_file() or not named.isprintable():
            raise Misuse(f"{variable} names {named}, which is not a file", remedy="name a keyring file, or unset it")
        return Path(named).absolute()
    for suffix in ("gpg", "pgp"):
        path = keyrings / f"{name}-archive-keyring.{suffix}"
        if path.is_file():
            return path
    package = "debian-archive-keyring" if name == "debian" else "ubuntu-keyring"
    raise LabBroken(
        f"the keys that sign the {name} archive are not on this host ({keyrings}/{name}-archive-keyring.gpg)",
        remedy=f"apt install {package}, or name a keyring with {variable}=FILE",
    )
