# SPDX-License-Identifier: GPL-2.0-only
"""Stand-ins for QEMU: small programs that write to the two channels and then misbehave."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.base.errors import BlklabError
from lab.qemu.argv import MachineSpec
from lab.qemu.machine import Channel, Note
from lab.qemu.probe import Qemu, find_qemu
from tests.process.fake_lab import FakeLab, standing

PREAMBLE = f"""\
#!{sys.executable} -IS
import os, signal, sys, time
console = open("console.txt", "wb", buffering=0)
results = open("results.txt", "wb", buffering=0)
def forever():
    while True:
        signal.pause()
"""

FakeQemu = Callable[[str], MachineSpec]


@dataclass
class Recorder:
    """A watcher that remembers every line and answers to some."""

    answers: dict[str, Note] = field(default_factory=dict)
    lines: list[tuple[Channel, str]] = field(default_factory=list)

    def line(self, channel: Channel, text: str) -> Note | None:
        self.lines.append((channel, text))
        return self.answers.get(text)

    def on(self, channel: Channel) -> list[str]:
        return [text for where, text in self.lines if where is channel]


@pytest.fixture
def qemu() -> Qemu:
    """A real one: the lab's own, unless BLKLAB_QEMU says otherwise."""
    try:
        return find_qemu()
    except BlklabError as error:
        pytest.skip(f"no QEMU here: {error.message}")


@pytest.fixture
def fake_qemu(tmp_path: Path) -> FakeQemu:
    """Make a machine whose QEMU is the given Python code, with ``console`` and ``results`` open."""

    def make(body: str) -> MachineSpec:
        program, kernel = tmp_path / "fake-qemu", tmp_path / "image"
        program.write_text(PREAMBLE + body)
        program.chmod(0o755)
        kernel.write_bytes(b"")
        return MachineSpec(program=program, version=(7, 2, 0), kernel=kernel)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "boot"
    path.mkdir()
    return path


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FakeLab]:
    """blklab on a made-up QEMU, kernel and payload."""
    yield from standing(tmp_path)
