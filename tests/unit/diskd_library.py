# SPDX-License-Identifier: GPL-2.0-only
"""The handler's C parts as a shared library of the host's, and the structures of their headers."""

import ctypes
import subprocess
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    pointer,
)
from pathlib import Path

from lab.native.programs import DIALECT, ROOT, WARNINGS

SOURCES = ROOT / "diskd"
PARTS = ("ahead.c", "config.c", "level.c", "model.c", "ring.c", "scsi.c", "share.c", "store.c")
ALONE = 1 << 32
SENSE_LENGTH = 18
LINKS = 5


ZONES = 16


class Link(Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("rate", "cost", "demand", "busy", "jobs", "bytes")),
        ("room", c_double),
        ("load", c_double),
    ]


class Job(Structure):
    pass


Job._fields_ = [
    ("next", POINTER(Job)),
    ("links", POINTER(Link) * LINKS),
    ("at", c_uint64),
    ("bytes", c_uint64),
    ("write", c_uint32),
    ("passed", c_uint32),
]


class Zone(Structure):
    _fields_ = [("start", c_uint64), ("rate", c_uint64)]


class Flow(Structure):
    _fields_ = [
        ("own", c_uint64),
        ("least", c_uint64),
        ("links", c_uint64 * LINKS),
        *((name, c_uint64) for name in ("began", "since", "left", "speed", "settled")),
    ]


class Run(Structure):
    _fields_ = [*((name, c_uint64) for name in ("kept", "start", "since", "end")), ("going", c_bool)]


class Level(Structure):
    _fields_ = [(name, c_uint64) for name in ("held", "most", "sum", "since")]


class Disk(Structure):
    _fields_ = [
        ("zones", Zone * ZONES),
        *((name, c_uint64) for name in ("zone_count", "seek", "rotation", "ncq", "head", "look_ahead")),
        ("run", Run),
        ("first", POINTER(Job)),
        ("last", c_void_p),
        ("phase", c_int),
        ("started", c_uint64),
        ("event", c_uint64),
        ("flow", Flow),
        *((name, c_uint64) for name in ("busy", "waited", "jobs", "writes", "bytes", "seeks")),
        ("queue", Level),
        ("coalesce", c_uint64),
        ("done", POINTER(Job)),
        ("done_last", c_void_p),
        ("done_count", c_uint64),
        ("lanes", c_void_p),
        ("lane_count", c_uint64),
        ("medium", Link),
    ]


class Model(Structure):
    _fields_ = [
        ("disks", POINTER(Disk)),
        ("disk_count", c_uint),
        ("ready", POINTER(Job)),
        ("changed", c_bool),
        ("changed_at", c_uint64),
    ]


class Identity(Structure):
    _fields_ = [("blocks", c_uint64), ("wwn", c_uint64), ("serial", c_char * 21)]


class Command(Structure):
    _fields_ = [
        ("kind", c_int),
        ("offset", c_uint64),
        ("length", c_uint64),
        ("reply_length", c_uint32),
        ("reply", c_uint8 * 64),
        ("sense", c_uint8 * SENSE_LENGTH),
    ]


class Store(Structure):
    _fields_ = [(name, c_void_p if name == "slots" else c_size_t) for name in ("slots", "capacity", "used", "kept")]


class Ring(Structure):
    _fields_ = [
        ("map", c_void_p),
        ("map_size", c_size_t),
        ("commands", c_void_p),
        ("size", c_uint32),
        ("read", c_uint32),
        ("tail", c_uint32),
        ("completed", c_bool),
        ("fault", c_char_p),
    ]


class RingCommand(Structure):
    _fields_ = [
        ("id", c_uint16),
        ("cdb", POINTER(c_uint8)),
        ("cdb_room", c_size_t),
        ("parts", c_void_p),
        ("part_count", c_uint32),
        ("length", c_uint64),
    ]


def library(folder: Path) -> ctypes.CDLL:
    """Built in ``folder``."""
    path = folder / "libdiskd.so"
    sources = [str(SOURCES / name) for name in PARTS]
    subprocess.run(["gcc", *DIALECT, *WARNINGS, "-O1", "-shared", "-fPIC", "-o", str(path), *sources], check=True)
    loaded = ctypes.CDLL(str(path))
    for name in ("model_disk_zone", "model_next", "ring_open", "ring_next", "ring_complete", "store_write"):
        getattr(loaded, name).restype = c_bool
    loaded.model_finished.restype = POINTER(Job)
    for name in ("model_disk_busy", "model_disk_waited", "model_link_busy", "level_sum"):
        getattr(loaded, name).restype = c_uint64
    return loaded


class Rig:
    """Disks and links of the C model, driven by arrivals at given times."""

    def __init__(
        self,
        lib: ctypes.CDLL,
        *disks: tuple[int, int],
        rotation: int = 0,
        ncq: int = 1,
        look_ahead: int = 0,
        coalesce: int = 1,
    ) -> None:
        self.lib = lib
        self.disks = (Disk * len(disks))()
        for disk, (rate, seek) in zip(self.disks, disks, strict=True):
            lib.model_disk_init(byref(disk), c_uint64(rate), c_uint64(seek))
            disk.rotation, disk.ncq, disk.look_ahead, disk.coalesce = rotation, ncq, look_ahead, coalesce
        self.model = Model(self.disks, len(disks))
        self.jobs: list[Job] = []

    def submit(self, disk: int, now: int, at: int, size: int, *links: Link, write: int = 0) -> None:
        job = Job(at=at, bytes=size, write=write)
        for number, link in enumerate(links):
            job.links[number] = pointer(link)
        self.jobs.append(job)
        self.lib.model_submit(byref(self.model), byref(self.disks[disk]), byref(job), c_uint64(now))

    def next(self) -> int | None:
        when = c_uint64()
        return when.value if self.lib.model_next(byref(self.model), byref(when)) else None

    def drain(self) -> list[tuple[int, int]]:
        """(when, offset) of every job, taken exactly when it is due."""
        done = []
        while (when := self.next()) is not None:
            while job := self.lib.model_finished(byref(self.model), c_uint64(when)):
                done.append((when, job.contents.at))
        return done
