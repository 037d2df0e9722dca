# SPDX-License-Identifier: GPL-2.0-only
"""The handler's C parts as a shared library of the host's, and the structures of their headers."""

import ctypes
import subprocess
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_int,
    c_size_t,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path

from lab.diskd.build import DIALECT, SOURCES, WARNINGS

PARTS = ("config.c", "model.c", "ring.c", "scsi.c", "store.c")
SENSE_LENGTH = 18
LINKS = 4


class Link(Structure):
    _fields_ = [(name, c_uint64) for name in ("rate", "cost", "free_at", "busy", "jobs", "bytes")]


class Job(Structure):
    pass


Job._fields_ = [("next", POINTER(Job)), ("links", POINTER(Link) * LINKS), ("at", c_uint64), ("bytes", c_uint64)]


class Disk(Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("rate", "seek", "head")),
        ("first", POINTER(Job)),
        ("last", c_void_p),
        ("phase", c_int),
        *((name, c_uint64) for name in ("started", "event", "busy", "jobs", "bytes", "seeks")),
    ]


class Model(Structure):
    _fields_ = [("disks", POINTER(Disk)), ("disk_count", c_uint)]


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
    _fields_ = [("slots", c_void_p), ("capacity", c_size_t), ("used", c_size_t)]


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


@cache
def library(folder: Path) -> ctypes.CDLL:
    """Built in ``folder``, once for each."""
    path = folder / "libdiskd.so"
    sources = [str(SOURCES / name) for name in PARTS]
    subprocess.run(["gcc", *DIALECT, *WARNINGS, "-O1", "-shared", "-fPIC", "-o", str(path), *sources], check=True)
    loaded = ctypes.CDLL(str(path))
    for name in ("model_next", "ring_open", "ring_next", "ring_complete", "store_write"):
        getattr(loaded, name).restype = c_bool
    loaded.model_finished.restype = POINTER(Job)
    loaded.model_disk_busy.restype = loaded.model_link_busy.restype = c_uint64
    return loaded
