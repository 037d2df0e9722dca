# SPDX-License-Identifier: GPL-2.0-only
"""A whole blklab on made-up parts: ``python -m harness`` with a QEMU, a kernel and a payload of nothing.

The console script, loader, cache, runner, machine, store and judgement are the real ones.
"""

import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.cache import Cache
from lab.guest import payload
from lab.packages import lock
from lab.packages.apt import Package
from lab.packages.store import Pin, write_pin
from tests.unit.kernel_samples import bzimage, elf, module
from tests.unit.payload_samples import CONFIG, lay_out
from tests.unit.scenario_text import GOOD

CHECKOUT = Path(__file__).parents[2]
FIXTURES = CHECKOUT / "tests" / "unit" / "fixtures"
RELEASE = "6.1.0-1-fake"
BUILTIN = ("configfs", "target_core_iblock", "sd_mod", "dm-mod", "mq-deadline", "bfq", "virtio_pci", "virtio_scsi")
LOADED = {"null_blk": ("nr_devices",), "tcm_loop": ("can_queue", "cmd_per_lun", "nr_hw_queues")}
"""Modules with the parameters that they are given."""
CELLS = 4
"""Boots of a run of the sample scenario: two arms, two seeds."""


def processes_below(folder: Path) -> set[int]:
    """Processes whose working directory is ``folder`` or below it.

    Not by a pattern of pathlib: that asks for each link's target and fails when the process has ended (ESRCH).
    """
    alive = set()
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and (process / "cwd").readlink().is_relative_to(folder):
                alive.add(int(process.name))
    return alive


@dataclass
class FakeLab:
    """Folders of one made-up host. ``variables`` are added to the environment of each blklab.

    ``patience`` in seconds: for a blklab to end, and for the next thing to happen in a boot.
    """

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "harness")
    patience: float = 120
    started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    @property
    def scenario(self) -> Path:
        return self.folder / "t.yaml"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def log(self) -> Path:
        return self.folder / "boots.log"

    def environment(self, **variables: str) -> dict[str, str]:
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "BLKLAB_CACHE": str(self.folder / "cache"),
            "BLKLAB_QEMU": str(self.folder / "fake-qemu"),
            "BLKLAB_TOOLS": "host",
            "BLKLAB_DEBIAN_MIRROR": "http://127.0.0.1:1/debian",
            "FAKE_LOG": str(self.log),
            "FAKE_FIO": str(FIXTURES / "fio-aio.json"),
        }
        return {**own, **self.variables, **variables}

    def plan(self, **plan: object) -> dict[str, str]:
        return {"FAKE_PLAN": json.dumps(plan)}

    def words(self, *options: str, scenario: str | Path | None = None) -> list[str]:
        """The command line of a run of the sample scenario; ``options`` replace the same defaults."""
        chosen = self.scenario if scenario is None else scenario
        defaults = {"--kernel": f"path:{self.folder / 'kernel'}", "--results": str(self.results)}
        kept = [word for name, value in defaults.items() if name not in options for word in (name, value)]
        return ["run", str(chosen), *kept, *options]

    def call(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """``blklab WORDS`` to its end."""
        process = self.start(*words, **variables)
        out, err = process.communicate(timeout=self.patience)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def run(self, *options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return self.call(*self.words(*options), **variables)

    def start(self, *words: str, **variables: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, *self.program, *words],
            cwd=CHECKOUT,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def hold(self, *words: str, boot: int, moment: str = "load") -> "subprocess.Popen[str]":
        """``blklab WORDS`` whose boot of that number waits at the moment, which it has reached."""
        process = self.start(*words, **self.plan(hold=[boot, moment]))
        self.await_boots(1, f"held-{moment}")
        return process

    def kill(self, *words: str, boot: int) -> None:
        """``blklab WORDS``, killed in the first load of that boot."""
        process = self.hold(*words, boot=boot)
        process.kill()
        process.communicate()

    def boots(self, what: str = "boot") -> list[str]:
        """Folders of the boots so far, or of those that reached a moment (``held-load``)."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        rows = (line.split(" ", 2) for line in lines)
        return [json.loads(folder) for _, happened, folder in rows if happened == what]

    def await_boots(self, count: int, what: str = "boot") -> None:
        """Waits for as long as something goes on to happen in the boots, be the host as slow as it may."""
        happened, deadline = -1, 0.0
        while len(self.boots(what)) < count:
            if (size := self.log.stat().st_size if self.log.exists() else 0) != happened:
                happened, deadline = size, time.monotonic() + self.patience
            assert time.monotonic() <= deadline, f"{count} {what} expected: {self.boots(what)}"
            assert any(process.poll() is None for process in self.started), "blklab ended before that"
            time.sleep(0.002)

    def machines(self) -> set[int]:
        """Processes of this lab's QEMU that are alive, with those that are about to execute it."""
        return processes_below(self.folder)

    def verdicts(self) -> list[Path]:
        return sorted(self.results.glob("t/[0-9]*/verdict.json"))

    def stop(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for left in self.machines():
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


def make(folder: Path) -> FakeLab:
    """Lay everything out below ``folder``."""
    program = folder / "fake-qemu"
    program.write_text(f"#!{sys.executable} -IS\n" + (Path(__file__).parent / "fake_qemu.py").read_text())
    program.chmod(0o755)
    _lay_out_kernel(folder / "kernel")
    cache = Cache(folder / "cache")
    pin = Pin(payload.PIN, (Package(lock.SUITE, "fio", "3.39-1", "0" * 64),))
    cache.entry("payload", pin.digest, lay_out)
    write_pin(cache, pin)
    (folder / "t.yaml").write_text(GOOD)
    return FakeLab(folder)


def _lay_out_kernel(root: Path) -> None:
    modules = root / "lib" / "modules" / RELEASE
    modules.mkdir(parents=True)
    (modules / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in BUILTIN))
    (modules / "kernel").mkdir()
    for name, parameters in LOADED.items():
        told = "".join(f"parmtype={parameter}:int\0" for parameter in parameters)
        (modules / "kernel" / f"{name}.ko").write_bytes(module() + told.encode())
    (modules / "modules.order").write_text("".join(f"kernel/{name}.ko\n" for name in LOADED))
    (root / "boot").mkdir()
    (root / f"boot/vmlinuz-{RELEASE}").write_bytes(bzimage(lzma.compress(elf()), RELEASE))
    (root / f"boot/config-{RELEASE}").write_text("".join(f"{name}={value}\n" for name, value in CONFIG.items()))


def standing(folder: Path) -> Iterator[FakeLab]:
    """For fixtures: nothing of it outlives the test."""
    lab = make(folder)
    yield lab
    lab.stop()
