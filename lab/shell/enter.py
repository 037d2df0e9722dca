# SPDX-License-Identifier: GPL-2.0-only
"""A guest of virtme-ng with a topology's controllers: an interactive shell, or one command."""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, LabBroken
from lab.base.units import Tell
from lab.guest import payload
from lab.guest.steps import Step
from lab.guest.steps.device import Find, Module
from lab.kernels.model import Kernel
from lab.kernels.modules import module_closure, module_name
from lab.qemu.clock import WallClock
from lab.qemu.machine import Limits
from lab.realise import recipe
from lab.realise.in_qemu.hardware import Hardware, hardware
from lab.shell.argv import PROGRAM, ShellSpec
from lab.shell.errand import run_errand, script, sit_in
from lab.topology.model import Topology

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
