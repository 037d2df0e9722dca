# SPDX-License-Identifier: GPL-2.0-only
"""A QEMU with a guest in it, both made up: it carries out the job of its initramfs in milliseconds.

Copied behind a "#!" line by ``fake_lab``; imports nothing of blklab. Every boot is a line in the
file ``FAKE_LOG``. ``FAKE_PLAN`` is JSON: ``iops`` by role or load.role, ``hold`` [boot, moment] to stop
there for ever, ``garble`` [boot, moment] to end there, ``fill`` [boot, moment] to fill the disk,
``noise`` for the deviation of the logarithm of each figure, ``mutant`` [text, plan] for guests with that text in a
module. ``FAKE_DEVICES`` are the devices that it offers: with
ib700 it saves its guest, and restores it unless ``FAKE_REFUSES`` is set; "save" and "restore" are lines of the log.
"""

import base64
import copy
import fcntl
import hashlib
import json
import math
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VERSION = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
IOPS = {"hog": 10.0, "victim": 1000.0}
SECTORS = 8
"""Of an I/O of 4 KiB: every LUN counts those of all roles."""
DISKSTATS = " 252 {number} {name} {reads} 0 {sectors} 0 0 0 0 0 0 0 0\n"


def main(argv: list[str]) -> int:
    if "--version" in argv:
        print(os.environ.get("FAKE_VERSION", VERSION))
        return 0
    if "help" in argv:
        print("".join(f'name "{name}"\n' for name in os.environ.get("FAKE_DEVICES", "").split()))
        return 0
    if "watchdog=pause" in argv:
        return save()
    if "-incoming" in argv:
        note("restore")
        if os.environ.get("FAKE_REFUSES"):
            print("load of migration failed: Invalid argument", file=sys.stderr)
            return 1
    initrd = Path(argv[argv.index("-initrd") + 1])
    job = Path(argv[argv.index("-fw_cfg") + 1].rpartition("file=")[2])
    guest = Guest(members(initrd.read_bytes()) | members(job.read_bytes()))
    guest.run()
    return 0


def note(what: str) -> None:
    with Path(os.environ["FAKE_LOG"]).open("a") as log:
        log.write(f"0 {what} {json.dumps(str(Path.cwd()))}\n")


def save() -> int:
    """The monitor of a machine that stops while it answers: the event comes before an answer that lacks it."""
    note("save")
    control, files, status = socket.socket(fileno=0), list[int](), "running"
    control.sendall(b'{"QMP": {}}\n')
    while True:
        data, passed, _, _ = socket.recv_fds(control, 1 << 16, 1)
        files += passed
        if not data:
            return 0
        command = json.loads(data)["execute"]
        if command == "query-status" and status == "running":
            control.sendall(b'{"event": "STOP"}\n')
        if command == "migrate":
            os.write(files[0], b"\0\0\0\x09watchdog\0")
            control.sendall(b'{"event": "MIGRATION", "data": {"status": "completed"}}\n')
        answer = {"return": {"running": status == "running", "status": status}}
        control.sendall(json.dumps(answer).encode() + b"\n")
        if command == "query-status":
            status = "watchdog"


def members(archive: bytes) -> dict[str, bytes]:
    """Files of concatenated "newc" archives."""
    found, at = {}, 0
    while archive[at : at + 6] == b"070701":
        size, length = (int(archive[at + 6 + 8 * field : at + 14 + 8 * field], 16) for field in (6, 11))
        name = archive[at + 110 : at + 109 + length].decode()
        start = at + (110 + length + 3) // 4 * 4
        found[name] = archive[start : start + size]
        at = start + (size + 3) // 4 * 4
    return found


class Guest:
    """Speaks the result protocol; ``moment`` is where plans strike."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.job = {name.removeprefix("job/"): data.decode() for name, data in files.items() if name.startswith("job/")}
        self.plan = json.loads(os.environ.get("FAKE_PLAN", "{}"))
        text, changes = self.plan.get("mutant", ("", {}))
        if text and any(text.encode() in data for name, data in files.items() if name.endswith(".ko")):
            self.plan |= changes
        self.results = Path("results.txt").open("ab", buffering=0)  # noqa: SIM115
        self.console = Path("console.txt").open("ab", buffering=0)  # noqa: SIM115
        self.out = {"kmsg": "[    0.9] blklab: ready\n", "readback": ""}
        self.luns: list[str] = []
        self.boot = self.log("boot")

    def log(self, what: str) -> int:
        """Append a line with the number of this boot, which is returned."""
        with Path(os.environ["FAKE_LOG"]).open("a+") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.seek(0)
            number = self.boot if what != "boot" else 1 + sum(" boot " in line for line in log)
            log.write(f"{number} {what} {json.dumps(str(Path.cwd()))}\n")
        return number

    def say(self, *lines: str) -> None:
        self.results.write("".join(f"{line}\n" for line in lines).encode())

    def moment(self, name: str) -> None:
        if self.plan.get("garble") == [self.boot, name]:
            sys.exit(0)
        if self.plan.get("fill") == [self.boot, name]:
            with suppress(OSError), Path("filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(1 << 16))
        if self.plan.get("hold") == [self.boot, name]:
            self.log(f"held-{name}")
            while True:
                signal.pause()
        time.sleep(self.plan.get("linger", 0))

    def run(self) -> None:
        self.moment("start")
        self.console.write(b"Linux version 6.1.0\r\n")
        self.results.write(b"BLKLAB 2\nREA")
        self.moment("greeting")
        self.say("DY 6.1.0-1-fake 0.50")
        self.moment("ready")
        for line in self.job["script"].splitlines():
            self.step(*line.split("\t"))
        self.say("PHASE 70.0 send")
        for name, data in self.out.items():
            self.send(name, data.encode())
        self.say(f"END {len(self.out)} 71.0")
        self.moment("end")
        self.say("BYE")
        self.moment("bye")

    def step(self, verb: str, *fields: str) -> None:
        if verb in ("tune", "confirm"):
            self.out["readback"] += "\t".join(fields) + "\n"
        elif verb == "block":
            self.out["readback"] += f"device\t/lab/{fields[0]}\tsd{fields[0]}\n"
            self.luns.append(fields[0])
        elif verb == "phase":
            self.say(f"PHASE 1.0 {fields[0]}")
        elif verb == "load":
            self.say(f"PHASE 2.0 load {fields[0]}")
            self.moment("load")
            self.load(fields[0])

    def load(self, name: str) -> None:
        sections = dict(jobs(self.job[f"{name}.fio"]))
        options = sections.pop("global")
        recorded = json.loads(Path(os.environ["FAKE_FIO"]).read_bytes())
        runtime = int(options["runtime"].removesuffix("us")) // 1000
        document = {**recorded, "jobs": [self.figures(recorded, name, role, runtime) for role in sections]}
        document["global options"] = options
        self.out[f"{name}.json"] = json.dumps(document)
        clock = {"epoch": 0, "period": 10**7, "began": 0, "ended": runtime * 10**6, "spent": 0, "missed": 0}
        sampled = {**clock, "cpu": {"ticks": 100, "idle": 90}, "series": {}, "ended_early": {}}
        self.out[f"{name}.samples.json"] = json.dumps(sampled)
        sectors = sum(job["read"]["total_ios"] * SECTORS for job in document["jobs"])
        sectors -= SECTORS * (self.plan.get("uncounted") == self.boot)
        for when, busy, idle, reads, moved in (("before", 0, 0, 0, 0), ("after", 10, 90, 1000, sectors)):
            names = ((n, f"sd{lun}") for n, lun in enumerate(self.luns))
            rows = [DISKSTATS.format(number=n, name=name, reads=reads, sectors=moved) for n, name in names]
            stat = f"== /proc/stat\ncpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n"
            self.out[f"{name}.{when}"] = f"{stat}== /proc/diskstats\n{''.join(rows)}"

    def figures(self, recorded: dict, load: str, role: str, runtime: int) -> dict:  # type: ignore[type-arg]
        planned = {**IOPS, **self.plan.get("iops", {})}
        rate = planned.get(f"{load.split('.', maxsplit=1)[0]}.{role}", planned.get(role, 500.0))
        dice = random.Random(f"{self.boot} {load} {role}")  # noqa: S311
        rate *= math.exp(dice.gauss(0, self.plan.get("noise", 0.0)))
        job = copy.deepcopy(recorded["jobs"][0])
        job["jobname"] = role
        job["read"].update(total_ios=round(rate * runtime / 1000), runtime=runtime)
        latency = job["read"]["lat_ns"]
        latency["mean"] = min(latency["mean"], 1e9 / rate)  # One after another, as a queue of depth 1 serves them.
        return dict(job)

    def send(self, name: str, data: bytes) -> None:
        encoded = base64.b64encode(data).decode()
        lines = [encoded[at : at + 76] for at in range(0, len(encoded), 76)]
        self.say(f"FILE {name} {len(data)} {hashlib.sha256(data).hexdigest()}", *lines[:1])
        if name.endswith(".json"):
            self.moment("file")
        self.say(*lines[1:])


def jobs(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for section in text.split("[")[1:]:
        name, _, rows = section.partition("]\n")
        yield name, dict(row.split("=", 1) for row in rows.splitlines() if row)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
