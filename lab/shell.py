# SPDX-License-Identifier: GPL-2.0-only
"""A guest of virtme-ng with a topology's controllers: an interactive shell, or a command and its output."""

import os
import select
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, BlklabError, KernelFailed, LabBroken
from lab.base.process import attend, end, launch
from lab.base.units import Tell
from lab.guest import payload
from lab.guest.console import death
from lab.guest.steps import Step
from lab.guest.steps.device import Find, Module
from lab.kernels.binaries import module_closure, module_name
from lab.kernels.model import Kernel
from lab.qemu.argv import WallClock
from lab.qemu.machine import Limits
from lab.realise import recipe
from lab.realise.hardware import BOARD, Hardware, hardware
from lab.topology.model import Topology

PROGRAM = "virtme-run"
OUT, ERR, REPORT = "lab.out", "lab.err", "lab.report"
"""virtio-serial ports of the guest, and the files in the working directory that they write."""
_READY, _UNFIT = "ready", "unfit"
_CONSOLE = "console"
_POLL_SECONDS = 0.1
_LOOK = "look inside the guest: the same command line without --command"
_REMEDY = f"try again on a host that is less busy, or {_LOOK}"


@dataclass(frozen=True)
class ShellSpec:
    """``image`` is in the folder of ``lib/modules``; ``busybox`` is a static one; ``memory`` is in MiB.

    ``words`` are those of the kernel's command line. ``here`` is the working directory of an
    interactive shell. ``errand`` is a shell script to run instead of one; the kernel's console is the program's output.
    """

    program: Path
    qemu: Path
    image: Path
    busybox: Path
    memory: int
    clock: WallClock
    hardware: Hardware
    here: Path
    errand: Path | None = None
    words: tuple[str, ...] = ()


def shell_argv(spec: ShellSpec) -> tuple[str, ...]:
    """The command line of ``spec``; QEMU's options come last, so that they override virtme-ng's."""
    kernel = ("--kimg", str(spec.image), "--mods=auto", "--busybox", str(spec.busybox))
    # virtme-ng uses KVM if its device exists, which proves nothing (lab.qemu.probe).
    kvm = () if spec.clock.accelerator == "kvm" else ("--disable-kvm",)
    host = ("--qemu-bin", str(spec.qemu), "--force-9p", "--disable-microvm", *kvm)
    size = ("--memory", f"{spec.memory}M", "--cpus", str(spec.hardware.cpus))
    return (str(spec.program), *kernel, *host, *size, *_boot_words(spec), "--qemu-opts", *_machine_words(spec))


def _boot_words(spec: ShellSpec) -> Iterator[str]:
    # A busy host keeps an emulated timer from ticking ten times within ten jiffies, and check_timer() panics.
    options = ["no_timer_check", *spec.words]
    if spec.errand:
        # The kernel command line is limited to 2 KiB and contains the script, so the script is short.
        yield from ("--show-boot-console", "--script-sh", f"sh {shlex.quote(str(spec.errand))}")
        options.append("loglevel=7")
    else:
        yield from ("--cwd", str(spec.here))
    for option in options:
        yield from ("--kopt", option)


def _machine_words(spec: ShellSpec) -> Iterator[str]:
    cpus = spec.hardware.cpus
    yield from ("-M", BOARD)
    if spec.clock.accelerator != "kvm":
        yield from ("-accel", "tcg,thread=multi")
    yield from ("-smp", f"{cpus},sockets={cpus},cores=1,threads=1", *spec.hardware.words)
    if spec.errand:
        yield from _channels()


def _channels() -> Iterator[str]:
    """virtme-ng's own channels need udev in the guest; without it they end on a console that is not read."""
    yield from ("-device", "virtio-serial-pci,id=lab")
    for port in (OUT, ERR, REPORT):
        yield from ("-chardev", f"file,id={port},path={port}")
        yield from ("-device", f"virtserialport,bus=lab.0,name={port},chardev={port}")


def sit_in(spec: ShellSpec, folder: Path) -> None:
    """Run an interactive guest on this terminal, with its disks as files in ``folder``, until it ends.

    Raises LabBroken when it did not start, or QEMU failed.
    """
    ended = folder / "ended"
    # virtme-ng exits with the raw status of waitpid(), cut to eight bits: 0 when QEMU exits with 1.
    qemu = folder / "qemu"
    qemu.write_text(f'#!/bin/sh\n{shlex.quote(str(spec.qemu))} "$@"\necho $? >{shlex.quote(str(ended))}\n')
    qemu.chmod(0o755)
    returned = attend(shell_argv(replace(spec, qemu=qemu)), cwd=folder)
    status = int(ended.read_text()) if ended.exists() else None
    if status is None:
        raise LabBroken(f"{PROGRAM} ended with {returned} and started no QEMU", remedy="see its output above")
    if status:
        raise LabBroken(f"QEMU ended with {status}", remedy="see its output above")


def script(set_up: Path, command: Path, here: Path) -> str:
    """The guest's script: it runs the shell file ``set_up``, then the bash file ``command`` in the folder ``here``."""
    # The kernel names ports in sysfs, so no links by udev are needed.
    return f"""\
port() {{
	until found=$(grep -lxF "$1" /sys/class/virtio-ports/*/name 2>/dev/null); do sleep 0.1; done
	found=${{found%/name}}
	echo "/dev/${{found##*/}}"
}}
exec </dev/null >"$(port {OUT})" 2>"$(port {ERR})" 3>"$(port {REPORT})"
echo {_READY} >&3
cd {shlex.quote(str(here))} && sh {shlex.quote(str(set_up))} 3>&- || {{ echo {_UNFIT} >&3; exit 1; }}
bash {shlex.quote(str(command))} 3>&-
echo $? >&3
"""


def run_errand(spec: ShellSpec, folder: Path, patience: float) -> int:
    """The exit status of the spec's script, run in a guest whose disks and channels are files in ``folder``.

    Raises LabBroken when the guest did not start it within ``patience`` seconds or was lost, KernelFailed when the
    kernel died while it ran.
    """
    deadline = time.monotonic() + patience
    for name in (OUT, ERR, REPORT):
        (folder / name).touch()
    # TMPDIR: the folder is removed, and what a killed virtme-ng leaves goes with it.
    env = {**os.environ, "TMPDIR": str(folder)}
    with ExitStack() as stack:
        out, err = (stack.enter_context((folder / name).open("rb")) for name in (OUT, ERR))
        process, pidfd = launch(shell_argv(spec), cwd=folder, env=env, log=folder / _CONSOLE)
        stack.callback(os.close, pidfd)
        stack.callback(end, process)
        ended = late = False
        while not (ended or late):
            ended = bool(select.select([pidfd], [], [], _POLL_SECONDS)[0])
            stages = (folder / REPORT).read_text().split("\n")[:-1]
            for source, stream in ((out, sys.stdout), (err, sys.stderr)):
                shutil.copyfileobj(source, stream.buffer)
                stream.buffer.flush()
            if len(stages) > 1 and stages[1].isdecimal():
                # All output has arrived: do not wait for the guest's shutdown.
                return int(stages[1])
            late = not stages and time.monotonic() > deadline
    raise _loss(stages, folder / _CONSOLE, f"not within {patience:.0f} s" if late else "it ended")


def _loss(stages: list[str], console: Path, how: str) -> BlklabError:
    lines = [line.strip() for line in console.read_text(errors="replace").splitlines() if line.strip()]
    died = death(lines)
    words = died or next(reversed(lines), "")
    last = f'last words on its console: "{words}"' if words else "nothing on its console"
    if not stages:
        return LabBroken(f"the guest did not start the command, {how}; {last}", remedy=_REMEDY)
    if _UNFIT in stages:
        return LabBroken("the set-up of the guest failed, see above", remedy=_LOOK)
    if died:
        return KernelFailed(f"the kernel died while the command ran: {died}")
    return LabBroken(f"the guest was lost while the command ran; {last}", remedy=_REMEDY)


_MIB = 1 << 20
_NAMES = "/run/lab"
_SET_UP, _COMMAND, _ERRAND = "disks.sh", "command", "errand.sh"
_NAME_DISK = """\
waited=0
missing=0
links=
# NAME ATTRIBUTE-PATTERN VALUE BLOCK-PATTERN: name a disk, for which others may still be probed; when for three minutes
# none came any more, it is missing. An emulated processor needs 0.3 s to start a program of the host, so one makes all
# links.
name_disk() {
	while :; do
		for attribute in $2; do
			read -r value 2>/dev/null <"$attribute" && [ "$value" = "$3" ] || continue
			for found in "${attribute%/*}"/$4; do
				[ -e "$found/size" ] || continue
				device=$(cd -P "$found" && echo "${PWD##*/}")
				links="$links
ln -sfn $found NAMES/$1.sys
ln -sfn /dev/$device NAMES/$1"
				return
			done
		done
		[ $waited -lt 1800 ] || break
		before=$there
		there=$(echo /sys/block/*)
		[ "$there" = "$before" ] || waited=0
		waited=$((waited + 1))
		sleep 0.1
	done
	echo "disk $1 is missing: nothing that matches $2 reads $3" >&2
	missing=1
}""".replace("NAMES", _NAMES)


def enter(
    kernel: Kernel,
    topology: Topology,
    command: str,
    *,
    program: Path,
    cache: Cache,
    qemu: Path,
    clock: WallClock,
    tell: Tell,
) -> int:
    """The exit status of ``command``, or of an interactive shell, in a guest with the emulated ``topology``."""
    own = hardware(topology)
    # Below the cache: the guest has its own /tmp.
    with tempfile.TemporaryDirectory(prefix=".shell-", dir=cache.root) as name:
        folder = Path(name)
        busybox = payload.busybox(cache, tell)
        set_up = _write(folder, own, naming_lines(kernel, recipe.devices(topology), busybox))
        spec = ShellSpec(
            program=program,
            qemu=qemu,
            image=kernel.image,
            busybox=busybox,
            memory=topology.memory // _MIB,
            clock=clock,
            hardware=own,
            here=Path.cwd(),
            words=topology.kernel_words,
        )
        if command:
            line, errand = folder / _COMMAND, folder / _ERRAND
            line.write_text(f"{command}\n")
            errand.write_text(script(set_up, line, spec.here))
            return run_errand(replace(spec, errand=errand), folder, host.crowding() * Limits.ready_seconds)
        tell(f"in the guest, sh {set_up} loads the drivers and names the disks in {_NAMES}")
        sit_in(spec, folder)
        return EXIT_PASS


def virtme() -> Path:
    """The program of virtme-ng. Raises LabBroken when it is not installed."""
    beside = Path(sys.executable).parent / PROGRAM
    path = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if path is None:
        raise LabBroken(
            f"{PROGRAM} of virtme-ng is not installed",
            remedy="in the virtual environment: pip install --require-hashes -r requirements/shell.txt",
        )
    return Path(path)


def naming_lines(kernel: Kernel, steps: Iterable[Step], busybox: Path) -> Iterator[str]:
    """The script that loads the drivers and links every LUN's device in ``/run/lab``; ``busybox`` is a static one."""
    yield f"mkdir -p {_NAMES}"
    yield _NAME_DISK
    listed = tuple(steps)
    # Each once: an emulated processor needs seconds to unpack a module.
    yield from dict.fromkeys(_loading(kernel, (step for step in listed if isinstance(step, Module))))
    for step in listed:
        if isinstance(step, Find):
            yield shlex.join(("name_disk", step.lun, step.attribute, step.value, step.block))
    yield f'echo "$links" | {shlex.quote(str(busybox))} sh'
    yield "exit $missing"


def _loading(kernel: Kernel, modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        for path in module_closure(kernel, [module.name]).load:
            own = module.parameters if module_name(path) == module_name(module.name) else ""
            # virtme-ng has loaded some of them already.
            yield f"insmod {path} {own}".rstrip() + " 2>/dev/null"


def _write(folder: Path, own: Hardware, lines: Iterable[str]) -> Path:
    own.make_files(folder)
    folder.chmod(0o755)
    set_up = folder / _SET_UP
    set_up.write_text("".join(f"{line}\n" for line in lines))
    return set_up
