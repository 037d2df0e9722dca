# SPDX-License-Identifier: GPL-2.0-only
"""The result channel: the lines that a guest may send.

::

    BLKLAB 2                        version of this format
    READY <release> <uptime>        the kernel is up and the runner is about to start
    PHASE <uptime> <name>           any number of times
    UNFIT <step> <code> ...         a step failed, with the fields of the code; results follow nevertheless
    FILE <name> <bytes> <sha256>    followed by base64 lines
    END <files> <uptime>
    BYE                             only after a complete run
    DEADLINE                        the guest's own deadline passed; nothing follows
    BROKEN <program> <status> ...   a program of the lab in the guest died, with its last output; nothing follows

The fields of UNFIT and BROKEN are separated by tabs. ``ResultReader`` takes lines as they arrive and never raises: the
first violation of the format is kept in ``fault`` and all later lines are ignored.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.base.digest import digest_bytes
from lab.base.record import ABSENT, NO_EVENT, ROUTED
from lab.base.units import printable

VERSION = 2
_READABLE = (1, VERSION)
"""Stored channels of boots that ended well are the same in both."""
MAX_FILE, _MAX_FILES = 16 << 20, 128 << 20
"""Bytes of one file, and of all."""
_MAX_PHASES = 10_000
_UPTIME = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_LINES = {
    "READY": re.compile(rf"READY (\S+) {_UPTIME}"),
    "PHASE": re.compile(rf"PHASE {_UPTIME} (.+)"),
    "UNFIT": re.compile(r"UNFIT ([0-9]{1,9}) ([a-z]+)((?:\t[^\t]*)*)"),
    "FILE": re.compile(r"FILE ([A-Za-z0-9][A-Za-z0-9._-]{0,99}) ([0-9]{1,9}) ([0-9a-f]{64})"),
    "END": re.compile(rf"END ([0-9]{{1,9}}) {_UPTIME}"),
    "BYE": re.compile("BYE"),
    "DEADLINE": re.compile("DEADLINE.*"),
    "BROKEN": re.compile(r"BROKEN (\S+)\t([0-9]{1,3})(?:\t(.*))?"),
}
SENTENCES: Mapping[str, str] = {
    ABSENT: "{}: nothing matches {}",
    "unread": "{}: nothing that matches {} reads {}",
    "refused": "{}: the kernel refused {} in {}",
    "differs": "{}: asked for {}, {} reads {}",
    ROUTED: "{}: the kernel routes interrupt {} itself",
    NO_EVENT: "no trace event {}",
    "failed": "{}: {}",
    "ended": "{} of load {} ended with {}: {}",
    "unknown": "unknown step {}",
}
"""What each code of UNFIT says, with a place for each of its fields."""


@dataclass(frozen=True)
class PhaseMark:
    """``uptime`` in seconds of guest time at which the guest entered the phase ``name``."""

    name: str
    uptime: float

    def __post_init__(self) -> None:
        # A phase is shown while the guest runs, before there is a record of it.
        object.__setattr__(self, "name", printable(self.name))


@dataclass
class _Incoming:
    name: str
    size: int
    digest: str
    encoded: list[str] = field(default_factory=list)
    received: int = 0


@dataclass
class ResultReader:
    """State of one result channel. ``files`` has only files with correct size and sha256."""

    release: str = ""
    phases: list[PhaseMark] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    unfit: tuple[str, ...] = ()
    unfit_step: int = 0
    fault: str = ""
    ended: bool = False
    bye: bool = False
    deadline_passed: bool = False
    broken: str = ""
    _greeted: bool = False
    _incoming: _Incoming | None = None
    _received: int = 0

    @property
    def ready(self) -> bool:
        return bool(self.release)

    @property
    def _closed(self) -> bool:
        return bool(self.fault or self.bye or self.deadline_passed or self.broken)

    @property
    def unfit_sentence(self) -> str:
        code, *fields = self.unfit
        if code == "ended" and not fields[-1]:
            # fio writes what failed in a job into the file for its results.
            said = self.files.get(f"{fields[1]}.json", b"").decode(errors="replace").splitlines()
            fields[-1] = next((line for line in reversed(said) if line.startswith("fio: ")), "")
        return f"step {self.unfit_step}: {SENTENCES[code].format(*fields)}"

    def feed(self, line: str) -> PhaseMark | None:
        """Take one line without its newline; return the phase if the line starts one."""
        if self._closed:
            return None
        if not self._greeted:
            self._greeted = line in (f"BLKLAB {version}" for version in _READABLE)
            if line and not self._greeted:
                self.fault = f"expected BLKLAB {VERSION}, got {line[:80]!r}"
            return None
        verb = line.split(" ", 1)[0]
        # A line "FILE" may be base64: it is the only keyword of four letters that is valid without arguments.
        if verb not in _LINES or (line == "FILE" and self._incoming is not None):
            self._take_data(line)
            return None
        if verb in ("FILE", "END") and not self._close_file():
            return None
        fields = _LINES[verb].fullmatch(line)
        due = {"READY": not self.ready, "BYE": self.ended and not self.unfit, "DEADLINE": True, "BROKEN": True}
        if fields is None or not due.get(verb, self.ready and not self.ended and self._incoming is None):
            self._break(line)
            return None
        return self._take(verb, fields)

    def _take(self, verb: str, fields: re.Match[str]) -> PhaseMark | None:
        match verb:
            case "READY":
                self.release = fields[1]
                return self._mark("set-up", fields[2])
            case "PHASE":
                return self._mark(fields[2], fields[1])
            case "UNFIT" if SENTENCES.get(fields[2], "").count("{}") != fields[3].count("\t"):
                self._break(fields[0])
            case "UNFIT" if not self.unfit:
                self.unfit, self.unfit_step = (fields[2], *fields[3].split("\t")[1:]), int(fields[1])
            case "UNFIT":
                pass  # of a step in the background, or of the sending of what the first left
            case "FILE" if int(fields[2]) > MAX_FILE or fields[1] in self.files:
                self._break(fields[0])
            case "FILE":
                self._incoming = _Incoming(fields[1], int(fields[2]), fields[3])
            case "END" if int(fields[1]) != len(self.files):
                self.fault = f"the guest sent {fields[1]} files, {len(self.files)} arrived"
            case "END":
                self.ended = True
                return self._mark("end", fields[2])
            case "BYE":
                self.bye = True
            case "DEADLINE":
                self._incoming, self.deadline_passed = None, True
            case _:
                self._incoming = None
                self.broken = f"{fields[1]} ended with {fields[2]}" + (f": {fields[3]}" if fields[3] else "")
        return None

    def finish(self) -> None:
        """The channel has ended."""
        if self._closed:
            return
        if self._incoming is not None:
            self.fault = f"the channel ended inside file {self._incoming.name}"
        elif self.ready and not (self.ended and self.unfit):
            self.fault = "the channel ended before BYE"

    def _take_data(self, line: str) -> None:
        incoming = self._incoming
        if incoming is None or self.ended or not line:
            self._break(line)
            return
        incoming.received += len(line) * 3 // 4
        if incoming.received > incoming.size + 3:
            self.fault = f"file {incoming.name}: more data than its {incoming.size} bytes"
            return
        incoming.encoded.append(line)

    def _close_file(self) -> bool:
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            return True
        try:
            data = base64.b64decode("".join(incoming.encoded), validate=True)
        except ValueError as error:
            # binascii.Error for invalid base64, plain ValueError for bytes that are not ASCII.
            self.fault = f"file {incoming.name}: {error}"
            return False
        if len(data) != incoming.size:
            self.fault = f"file {incoming.name}: {len(data)} of {incoming.size} bytes arrived"
        elif digest_bytes(data) != incoming.digest:
            self.fault = f"file {incoming.name}: its sha256 differs from the announced one"
        else:
            self.files[incoming.name] = data
            self._received += incoming.size
            if self._received > _MAX_FILES:
                self.fault = f"the guest sent more than {_MAX_FILES >> 20} MiB of files"
        return not self.fault

    def _mark(self, name: str, uptime: str) -> PhaseMark:
        mark = PhaseMark(name, float(uptime))
        self.phases.append(mark)
        if len(self.phases) > _MAX_PHASES:
            self.fault = f"the guest named more than {_MAX_PHASES:,} phases"
        return mark

    def _break(self, line: str) -> None:
        self.fault = f"unexpected line {line[:80]!r}"
