# SPDX-License-Identifier: GPL-2.0-only
"""The commands of docs/first-steps.md with their outputs: read, executed, compared, and written again.

    python -m tests.unit.tutorial_page [COMMAND...]

writes the outputs of all commands, or of those that contain a word, into the page.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "first-steps.md"
SLOW = ("run", "bisect", "patch", "head", "echo")
"""How commands begin, after blklab, that need a kernel that boots."""
_BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
_VARYING = (
    (re.compile(r"\b[0-9a-f]{7,40}\b"), "HASH"),
    (re.compile(r"\b[\d.,]+ (?:s|min)\b"), "TIME"),
    (re.compile(r"\d{8}T[\d.]+Z\S*"), "RUN"),
    (re.compile(r"(?<=[ =@:'(])/\S*?/(?=linux/|results/)"), ""),
)


@dataclass(frozen=True)
class Shown:
    """A command of the page, and the lines that the page shows below it."""

    command: str
    output: str

    @property
    def slow(self) -> bool:
        return self.command.removeprefix("blklab ").startswith(SLOW)


def shown(text: str) -> Iterator[Shown]:
    """The commands of the page in their order."""
    for block in _BLOCK.finditer(text):
        for part in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Shown(command, output)


def steady(text: str) -> str:
    """The text without what differs between two executions: times, hashes, the folder, and where its length breaks a
    line."""
    text = " ".join(text.split())
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


class Place:
    """A folder to execute commands in, as if it were the checkout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("docs", "harness", "kconfigs", "lab", "scenarios", "scripts"):
            (folder / name).symlink_to(CHECKOUT / name)
        self._last = 0

    def execute(self, command: str) -> str:
        """What the command prints. ``echo $?`` prints the exit status of the one before."""
        if command == "echo $?":
            return f"{self._last}\n"
        done = subprocess.run(
            ["bash", "-c", command], cwd=self._folder, env=self._environment(), check=False, stdout=subprocess.PIPE
        )
        self._last = done.returncode
        return done.stdout.decode()

    def _environment(self) -> Mapping[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        results = {"BLKLAB_RESULTS": str(self._folder / "results")}
        return {**os.environ, "PATH": path, **results, "COLUMNS": "100", "BLKLAB_JOBS": "1"}


def written(text: str, outputs: Mapping[str, str]) -> str:
    """The page with these outputs by command."""

    def block(match: re.Match[str]) -> str:
        parts = (f"$ {one.command}\n{outputs.get(one.command, one.output)}" for one in shown(match[0]))
        return "```\n" + "".join(parts) + "```"

    return _BLOCK.sub(block, text)


def main(words: Sequence[str]) -> None:
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        place = Place(Path(folder))
        wanted = [one for one in shown(text) if not words or any(word in one.command for word in words)]
        outputs = {one.command: place.execute(one.command).replace(f"{folder}/", "") for one in wanted}
    PAGE.write_text(written(text, outputs))


if __name__ == "__main__":
    main(sys.argv[1:])
