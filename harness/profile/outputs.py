# SPDX-License-Identifier: GPL-2.0-only
"""The files of ``blklab profile --out``."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.base.files import write_atomic, writing
from harness.profile.differential import differential
from harness.profile.formats import callgrind, differential_stacks, folded_stacks, speedscope
from harness.profile.mail import differential_lines, profile_lines
from harness.profile.model import Profile
from harness.profile.page import differential_page, profile_page


def write_profiles(folder: Path, profiles: Sequence[Profile], *, by_line: Sequence[str] = ()) -> tuple[Path, ...]:
    """One profile, or two and their differential; ``by_line`` are the lines of lines.txt, if any.

    Raises LabBroken when the folder cannot be written.
    """
    if len(profiles) == 1:
        texts = {"profile.txt": _text(profile_lines(profiles[0])), "profile.html": profile_page(profiles[0])}
        prefixes: tuple[str, ...] = ("",)
    else:
        texts = {
            "differential.txt": _text(differential_lines(differential(*profiles))),
            "differential.html": differential_page(*profiles),
            "differential.folded": differential_stacks(*profiles),
        }
        prefixes = ("before.", "after.")
    for prefix, profile in zip(prefixes, profiles, strict=True):
        texts[f"{prefix}callgrind.out"] = callgrind(profile)
        texts[f"{prefix}speedscope.json"] = speedscope(profile)
        texts[f"{prefix}folded"] = folded_stacks(profile)
    texts |= {"lines.txt": _text(by_line)} if by_line else {}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomic(folder / name, text.encode())
    return tuple(folder / name for name in texts)


def _text(lines: Iterable[str]) -> str:
    return "\n".join((*lines, ""))
