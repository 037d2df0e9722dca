# SPDX-License-Identifier: GPL-2.0-only
"""action.yml and Containerfile as tests read them: steps, instructions, and the commands of blklab in their scripts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).parents[1]
ACTION, CONTAINERFILE = CHECKOUT / "action.yml", CHECKOUT / "Containerfile"
_INPUT = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return document


def filled(text: str, inputs: Mapping[str, str]) -> str:
    """``text`` with the inputs as a runner fills them in. Raises KeyError for one that the action does not declare."""
    values = {name: inputs.get(name, settings.get("default", "")) for name, settings in action()["inputs"].items()}
    return _INPUT.sub(lambda match: values[match[1]], text)


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile: a word, and the rest of its line."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    lines = (line.partition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return [(word, rest.strip()) for word, _, rest in lines]


def commands(script: str) -> Iterator[tuple[str, set[str]]]:
    """Each command of blklab in the shell ``script``, with the options that it gets."""
    for line in script.replace("\\\n", " ").splitlines():
        for match in re.finditer(r"(?<![/\w])blklab (\w+)((?:(?![|;&]{1,2} ).)*)", line):
            yield match[1], set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", match[2]))
