# SPDX-License-Identifier: GPL-2.0-only
"""The guest's runner.sh and verbs, outside a guest: their folders moved, what touches a kernel replaced.

What replaces a program is a shell function, which every shell prefers to its builtins and applets.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.figures.read import refused
from lab.base.cache import Cache
from lab.guest import payload
from lab.guest.protocol import ResultReader
from lab.guest.steps import Step
from lab.guest.steps import job_files as files_of
from lab.guest.steps.device import Daemon, LinkStep, MakeFolder, Module, Mount, NameBlock, Network, TableStep, Write
from lab.guest.steps.load import Phase, RunLoad, Sampling
from lab.guest.steps.setting import Confirm, Try, Tune

GUEST = Path(payload.__file__).parent
NO_NAPS = "sleep() { :; }\n"
STUBS = """\
exec 3>"$DESK/sent"
reboot() { exit 9; }
mount() { echo "mount $*" >>"$DESK/did"; }
insmod() { for word; do printf '<%s>' "$word"; done >>"$DESK/did"; echo >>"$DESK/did"; }
dmesg() { echo 'blklab: ready'; }
dmsetup() {
echo "dmsetup $*" >>"$DESK/did"
[ "$1" = create ] && cat >>"$DESK/did" && return
printf 'all: 0 8 linear 8:0 0\\nall: 8 8 linear 8:16 0\\n'
}
ifconfig() { echo "ifconfig $*" >>"$DESK/did"; }
sleep() { :; }
fio() {
until [ ! -e "$DESK/bin/sampler" ] || [ -e "$DESK/tmp/sampled" ]; do :; done
cat "$DESK/says" >&2; printf '{}' >"$DESK/out/solo.json"; return "$FIO_STATUS"
}
"""
MOVED = re.compile(
    r"(?<![\w.])/(job|out|lab|modules|tmp|verbs|bin/diskd|bin/sampler|bin/tc|dev/ttyS\d|dev/kmsg|proc/irq"
    r"|proc/sysrq-trigger|sys/block|sys/module|sys/kernel/debug)\b"
)
HOSTILE = [
    "two\nlines\n\nand more",
    "BYE\nEND 0 1.0\nBYE\n",
    "$(touch PWNED) `touch PWNED` ; touch PWNED & | touch PWNED",
    "\"double\" 'single' \\backslash\\n %s %d",
    "a * in /* and ? and [a-z]",
    "-n -e -- --help",
    "tab\there, bell\a, escape \x1b[2J, return\rX",
    "wide ✓ and broken \udcff",
    "x" * 5000,
    "",
]
VALUES = ["$(touch PWNED)", "`touch PWNED`", "a b  c", "*", "\\n\\t%s", "'\"", "-n", "; touch PWNED", "ünï", "none"]


def _busybox() -> str | None:
    found = sorted(Cache.default().root.glob("payload/*/usr/bin/busybox"))
    return str(found[0]) if found else shutil.which("busybox")


def moved(script: Path) -> str:
    """A script whose guest is the folder of a desk."""
    return MOVED.sub(r"$DESK/\1", script.read_text())


@dataclass(frozen=True)
class Desk:
    """A guest's folders below ``folder``, the shell that runs in them, and more functions instead of programs."""

    folder: Path
    shell: tuple[str, ...]
    stubs: str = ""

    def run(self, steps: Sequence[Step], *, says: str = "", fio_status: int = 0, naps: bool = False) -> ResultReader:
        """What the host would read. The runner must have ended by itself or by asking for a reboot."""
        for name, data in files_of(steps, deadline=60).items():
            # Verbs that come with a job are here already, moved.
            if name[0] != "/":
                (self.folder / "job" / name).write_bytes(data)
        (self.folder / "says").write_bytes(says.encode(errors="surrogateescape"))
        program = self.folder / "runner.sh"
        stubs = STUBS.replace(NO_NAPS, "") if naps else STUBS
        program.write_text(stubs + self.stubs + moved(GUEST / "runner.sh"))
        done = subprocess.run(
            [*self.shell, str(program)],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "DESK": str(self.folder), "FIO_STATUS": str(fio_status)},
            check=False,
            timeout=60,
            capture_output=True,
        )
        reader = ResultReader()
        lines = (self.folder / "sent").read_bytes().decode(errors="replace").split("\n")
        assert lines[-1] == "", "the last line has its end"
        for line in ["BLKLAB 2", "READY 6.1 0.5", *lines[:-1]]:
            reader.feed(line)
        reader.finish()
        assert done.returncode == (9 if reader.unfit or reader.broken else 0), done.stderr
        assert not list(self.folder.rglob("PWNED"))
        return reader

    def did(self) -> list[str]:
        return (self.folder / "did").read_text().splitlines()


@pytest.fixture(params=["dash", "busybox"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    program = shutil.which("dash") if request.param == "dash" else _busybox()
    if program is None:
        pytest.skip(f"no {request.param} on this host or in the cache")
    for name in ("job", "out", "lab", "modules", "dev", "sys", "tmp", "bin", "verbs"):
        (tmp_path / name).mkdir()
    for script in (GUEST / "verbs").iterdir():
        (tmp_path / "verbs" / script.name).write_text(moved(script))
    return Desk(tmp_path, (program,) if request.param == "dash" else (program, "sh"))


def test_a_network_is_made_by_one_batch_of_tc(desk: Desk) -> None:
    program = desk.folder / "bin" / "tc"
    program.write_text('#!/bin/sh\necho "tc $1" >>"$DESK/did"; cat "$2" >>"$DESK/did"; [ -z "$(cat "$DESK/says")" ]\n')
    program.chmod(0o755)
    commands = ("qdisc add dev lo root handle 1: prio", "class show dev lo")
    assert desk.run([Network(commands)]).bye
    assert desk.did() == ["ifconfig lo up", "tc -batch", *commands]
    assert desk.run([Network(commands)], says="no").unfit == ("failed", "tc", "")


def readback(reader: ResultReader) -> list[list[str]]:
    return [row.split("\t") for row in reader.files["readback"].decode(errors="replace").splitlines()]


def test_a_whole_job(desk: Desk) -> None:
    knob = desk.folder / "sys" / "knob"
    block = desk.folder / "sys" / "host7" / "block" / "sda"
    block.mkdir(parents=True)
    knob.write_text("64\n")
    for number, name in enumerate(("other", "all")):
        mapped = desk.folder / "sys" / "block" / f"dm-{number}" / "dm"
        mapped.mkdir(parents=True)
        (mapped / "name").write_text(f"{name}\n")
    reader = desk.run(
        [
            Module("null_blk", "nr_devices=0 bs=512"),
            Module("sd_mod"),
            Mount("configfs", "/sys/kernel/config"),
            MakeFolder(str(desk.folder / "sys" / "made")),
            Write(str(knob), "32"),
            Confirm("hba.can_queue[p0]", str(knob), "32"),
            Tune("queue.nomerges[p0]", str(knob), "2"),
            NameBlock("p0", f"{desk.folder}/sys/host*/block/*"),
            LinkStep(str(knob), str(desk.folder / "sys" / "link")),
            TableStep("all", ("0 8 linear /dev/a 0", "8 8 linear /dev/b 0")),
            Phase("rest"),
            RunLoad("solo", "[global]\n"),
        ]
    )
    assert (reader.bye, reader.fault) == (True, "")
    assert desk.did() == [
        f"<{desk.folder}/modules/null_blk.ko><nr_devices=0><bs=512>",
        f"<{desk.folder}/modules/sd_mod.ko>",
        "mount -t configfs configfs /sys/kernel/config",
        "dmsetup create all --noudevrules --noudevsync",
        "0 8 linear /dev/a 0",
        "8 8 linear /dev/b 0",
        "dmsetup table",
    ]
    assert reader.files["all.table"] == b"0 8 linear 8:0 0\n8 8 linear 8:16 0\n"
    assert readback(reader) == [
        ["hba.can_queue[p0]", str(knob), "32"],
        ["queue.nomerges[p0]", str(knob), "2"],
        ["device", f"{desk.folder}/lab/p0", "sda"],
        ["device", f"{desk.folder}/lab/all", "dm-1"],
    ]
    assert (desk.folder / "lab" / "p0.sys").resolve() == block
    assert (desk.folder / "lab" / "p0").readlink() == Path("/dev/sda")
    assert (desk.folder / "sys" / "made").is_dir()
    assert (desk.folder / "sys" / "link").readlink() == knob
    assert sorted(reader.files) == ["all.table", "kmsg", "readback", "solo.after", "solo.before", "solo.json"]
    assert reader.files["solo.before"].startswith(b"== /proc/stat\ncpu ")
    assert [mark.name for mark in reader.phases] == ["set-up", "rest", "load solo", "send", "end"]


@pytest.mark.parametrize("says", HOSTILE, ids=range(len(HOSTILE)))
def test_output_of_a_program_stays_one_message(desk: Desk, says: str) -> None:
    reader = desk.run([RunLoad("solo", "")], says=says, fio_status=1)
    last_lines = says.encode(errors="surrogateescape").decode(errors="replace").split("\n")
    wanted = " ".join(" ".join([line for line in last_lines if line][-3:]).split()) if len(last_lines) < 4 else ""
    assert reader.unfit[:4] == ("ended", "fio", "solo", "1")
    assert wanted in " ".join(reader.unfit[4].split())
    assert (reader.bye, reader.fault, reader.ended) == (False, "", True)
    assert "kmsg" in reader.files


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_written_as_it_is(desk: Desk, value: str) -> None:
    knob = desk.folder / "sys" / "knob"
    knob.touch()
    reader = desk.run([Tune(f"queue.{value}[p0]", str(knob), value)])
    assert knob.read_text() == value
    assert (reader.unfit, reader.fault) == ((), "")
    assert readback(reader) == [[f"queue.{value}[p0]", str(knob), value]]


@pytest.mark.parametrize("value", VALUES)
def test_paths_and_names_are_not_evaluated(desk: Desk, value: str) -> None:
    for step in (
        Write(f"{desk.folder}/sys/{value}", "1"),
        NameBlock("p0", f"{desk.folder}/sys/none/{value}"),
        LinkStep(value, f"{desk.folder}/sys/absent/{value}"),
    ):
        assert desk.run([step]).unfit
    assert desk.run([Phase(value)]).phases[1].name == value


@pytest.mark.parametrize(
    "content, effective",
    [
        ("64\n", "64"),
        ("64", "64"),
        ("none [mq-deadline] kyber\n", "mq-deadline"),
        ("[none] mq-deadline kyber bfq \n", "none"),
        ("[none]", "none"),
        ("  7  \n", "7"),
        ("write back\n", "write back"),
        ("1000 (local)\n", "1000"),
        ("200000 (system)\n", "200000"),
        ("one\ntwo\n", "one"),
        ("back\\slash\n", "back\\slash"),
        ("-n\n", "-n"),
    ],
)
def test_the_effective_value_is_read_back(desk: Desk, content: str, effective: str) -> None:
    knob = desk.folder / "sys" / "knob"
    knob.write_text(content)
    assert readback(desk.run([Confirm("k", str(knob), effective)])) == [["k", str(knob), effective]]
    reader = desk.run([Confirm("k", str(knob), "other")])
    assert reader.unfit == ("differs", "k", "other", str(knob), " ".join(effective.split()))


def test_a_knob_that_may_be_refused(desk: Desk) -> None:
    knob = desk.folder / "sys" / "knob"
    knob.write_text("7\n")
    reader = desk.run([Try("a", str(knob), "64"), Try("b", "/proc/sys/kernel/ostype", "1")])
    assert reader.files["tried"].decode() == f"a\t{knob}\t1\t64\nb\t/proc/sys/kernel/ostype\t0\tLinux\n"
    gone = f"{desk.folder}/sys/absent"
    assert desk.run([Try("a", gone, "1")]).unfit == ("absent", "a", gone)


def test_a_knob_that_refuses_or_keeps_its_own_mind_is_named(desk: Desk) -> None:
    reader = desk.run([Tune("queue.nr_requests[p0]", "/dev/full", "1")])
    assert reader.unfit == ("refused", "queue.nr_requests[p0]", "1", "/dev/full")
    assert desk.run([Write("/dev/full", "1")]).unfit == ("refused", "write", "1", "/dev/full")
    reader = desk.run([Phase("x"), Tune("queue.nr_requests[p0]", "/dev/null", "1")])
    assert (reader.unfit, reader.unfit_step) == (("differs", "queue.nr_requests[p0]", "1", "/dev/null", ""), 2)


def test_a_missing_attribute_is_recognised(desk: Desk) -> None:
    there, gone = desk.folder / "sys" / "knob", f"{desk.folder}/sys/gone"
    there.write_text("7\n")

    def said(step: Step) -> str:
        return refused(desk.run([step]).unfit, "bfq", "6.1.2")

    assert said(Tune("queue.iosched/aging[p0]", gone, "1")) == "bfq of 6.1.2 has no attribute aging"
    assert said(Tune("queue.iosched/aging[p0]", "/dev/full", "1")) == ""
    assert said(Confirm("queue.iosched/aging[p0]", str(there), "1")) == ""
    assert said(Tune("queue.async_depth[p0]", gone, "1")) == "a queue of 6.1.2 has no attribute async_depth"
    assert said(Tune("queue.scheduler[p0]", gone, "1")) == ""


def test_an_empty_value_can_be_written_and_nothing_behind_an_unfit_step_is_done(desk: Desk) -> None:
    knob = desk.folder / "sys" / "knob"
    knob.write_text("full")
    assert desk.run([Write(str(knob), "")]).bye
    assert knob.read_text() == ""
    reader = desk.run([MakeFolder(str(desk.folder / "absent" / "x")), MakeFolder(str(desk.folder / "later"))])
    assert reader.unfit[:2] == ("failed", f"mkdir {desk.folder}/absent/x")
    assert not (desk.folder / "later").exists()


class _Unknown(Phase):
    def fields(self) -> tuple[str, ...]:
        return (self.name,)


@pytest.mark.parametrize("verb", ["frobnicate", "nosuch/verb", "dm/nosuch"])
def test_an_unknown_step_is_unfit(desk: Desk, verb: str) -> None:
    assert desk.run([_Unknown(verb)]).unfit == ("unknown", verb)


HANDLER = """\
#!/bin/sh
echo "$0 $*" >>"$DESK/did"
echo $$ >"$DESK/tmp/diskd.ready.part"
mv "$DESK/tmp/diskd.ready.part" "$DESK/tmp/diskd.ready"
"""
SAMPLER = """\
#!/bin/sh
echo "$0 $1 $2" >>"$DESK/did"
trap '' TERM
[ -d "/proc/$3" ] && [ "$#" -le 4 ] || exit 4
for reading in 0 1; do
	[ -z "$4" ] || echo "{\\"reading\\": $reading}" >"$DESK/tmp/diskd.json.$reading"
done
echo '{}' >"$2"
: >"$DESK/tmp/sampled"
"""
UNTIL_SENT = """\
until grep -q PHASE.*send "$DESK/sent"; do :; done
"""


def handled(desk: Desk, rest: str) -> Desk:
    """The desk with a stand-in for the disk handler, which goes on to do ``rest``."""
    program = desk.folder / "bin" / "diskd"
    program.write_text(HANDLER + rest)
    program.chmod(0o755)
    return desk


def sampled(desk: Desk, program: str = SAMPLER) -> Desk:
    """The desk with a stand-in for the sampler."""
    path = desk.folder / "bin" / "sampler"
    path.write_text(program)
    path.chmod(0o755)
    return desk


WATCHED = RunLoad("solo", "[global]\n", Sampling(1000, 0, 10**6, {"inflight[p0]": "/lab/p0.sys/inflight"}))


def test_what_is_sampled_is_sent(desk: Desk) -> None:
    reader = sampled(desk).run([WATCHED])
    assert (reader.bye, reader.fault) == (True, "")
    assert reader.files["solo.samples.json"] == b"{}\n"
    assert desk.did() == [
        " ".join(f"{desk.folder}/{word}" for word in ("bin/sampler", "job/solo.watch", "out/solo.samples.json"))
    ]
    watch = (desk.folder / "job" / "solo.watch").read_text()
    assert watch == "period 1000\nstart 0\nlength 1000000\nwatch inflight[p0] /lab/p0.sys/inflight\n"


def test_a_failed_sampler_is_reported_with_its_last_output(desk: Desk) -> None:
    reader = sampled(desk, "#!/bin/sh\ntrap '' TERM\n: >\"$DESK/tmp/sampled\"\necho 'no memory' >&2\nexit 3\n").run(
        [WATCHED]
    )
    assert reader.unfit == ("ended", "sampler", "solo", "3", "no memory")


def test_the_disk_handler_serves_and_counts(desk: Desk) -> None:
    steps: list[Step] = [Daemon(("disk a 512 1 0",)), WATCHED]
    reader = handled(sampled(desk), UNTIL_SENT).run(steps, naps=True)
    assert (reader.bye, reader.fault, reader.broken) == (True, "", "")
    assert reader.files["solo.before.disks.json"] == b'{"reading": 0}\n'
    assert reader.files["solo.after.disks.json"] == b'{"reading": 1}\n'
    assert (desk.folder / "job" / "diskd.conf").read_text() == "disk a 512 1 0\n"
    words = ("bin/diskd", "job/diskd.conf", "tmp/diskd.ready", "tmp/diskd.json")
    assert desk.did()[0] == " ".join(f"{desk.folder}/{word}" for word in words)


def test_a_dead_disk_handler_is_reported_with_its_last_output(desk: Desk) -> None:
    hang = Write(f"{desk.folder}/sys/never", "1")
    reader = handled(desk, "echo 'no memory' >&2\nexit 3\n").run([Daemon(("disk a 512 1 0",)), hang], naps=True)
    assert reader.broken == "diskd ended with 3: no memory"
