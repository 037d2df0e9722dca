# SPDX-License-Identifier: GPL-2.0-only
"""The files of ``blklab profile --out``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.base.files import write_atomic, writing
from harness.profile.differential import differential
from harness.profile.formats import callgrind, differential_folded, folded, speedscope
from harness.profile.mail import differential_lines, profile_lines
from harness.profile.model import Profile
from harness.profile.page import differential_page, profile_page


def write_profile(folder: Path, profile: Profile, *, by_line: Sequence[str] = ()) -> tuple[Path, ...]:
    """``by_line`` are the lines of lines.txt, if any. Raises LabBroken when the folder cannot be written."""
    texts = {"profile.txt": _text(profile_lines(profile)), "profile.html": profile_page(profile)}
    return _write(folder, texts | _tools("", profile) | _by_line(by_line))


def write_differential(
    folder: Path, before: Profile, after: Profile, *, by_line: Sequence[str] = ()
) -> tuple[Path, ...]:
    """As ``write_profile``."""
    texts = {
        "differential.txt": _text(differential_lines(differential(before, after))),
        "differential.html": differential_page(before, after),
        "differential.folded": differential_folded(before, after),
    }
    return _write(folder, texts | _tools("before.", before) | _tools("after.", after) | _by_line(by_line))


def _tools(prefix: str, profile: Profile) -> dict[str, str]:
    return {
        f"{prefix}callgrind.out": callgrind(profile),
        f"{prefix}speedscope.json": speedscope(profile),
        f"{prefix}folded": folded(profile),
    }


def _by_line(lines: Sequence[str]) -> dict[str, str]:
    return {"lines.txt": _text(lines)} if lines else {}


def _text(lines: Sequence[str]) -> str:
    return "\n".join((*lines, ""))


def _write(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / name for name in texts)
    for path in paths:
        write_atomic(path, texts[path.name].encode())
    return paths
