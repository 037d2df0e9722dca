# SPDX-License-Identifier: GPL-2.0-only
"""The lab's only door: boot this kernel with this topology, run this job, hand back the evidence."""

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lab import kit
from lab.base import host
from lab.base.cache import Cache
from lab.base.digest import digest_bytes, known_digest
from lab.base.errors import LabBroken
from lab.base.record import BootRecord
from lab.guest import image, payload
from lab.guest.image import BaseImage
from lab.guest.job import job_files
from lab.guest.payload import Payload
from lab.guest.steps import Step
from lab.guest.steps.device import Daemon, MakeFolder, Module, Mount, Write
from lab.guest.steps.fault import HOST_NOISE, LOSE_DISK, Inject, Lose
from lab.guest.steps.load import TRACE_INSTANCE, TRACING, Pause, Phase, RunLoad, Sampling, TraceOff, TraceOn
from lab.kernels.model import Kernel
from lab.native import programs
from lab.native.steady import Steady, steady
from lab.observe import Observer
from lab.packages.apt import Tell, silent
from lab.qemu.accelerator import Accelerator, accelerator, doubt_of
from lab.qemu.argv import MachineSpec, command_line, fingerprint_argv
from lab.qemu.clock import Clock, VirtualClock
from lab.qemu.machine import Limits, run
from lab.qemu.probe import Qemu, find_qemu
from lab.realise import recipe
from lab.realise.in_qemu.hardware import Hardware, hardware
from lab.topology.model import Topology

NANOSECONDS = 10**9
_MARGIN = 120
# A busy host keeps an emulated timer from ticking ten times within ten jiffies, and check_timer() panics. The kernel
# patches its own code when its random numbers are ready (static key crng_is_ready, f5bda35fba61, Linux 5.19): at boot,
# where it trusts the processor, and else under a load that is measured, for busy disks are what it waits for. An
# emulated processor answers the clocksource watchdog of Linux 7.2 too late, which reads as if a device had timed out.
_WALL_WORDS = ("oops=panic", "no_timer_check", "random.trust_cpu=on", "tsc=nowatchdog")
_STARVED = 6
"""By how much longer a guest of the wall clock may take: its time is that of a host which has other work too."""
_CONSOLE_LIMIT = 1 << 20
"""A healthy boot writes a few KiB; at the speed of its serial port a guest needs 90 s for this much."""
_INITRD = "initrd"
_TRACE_BUFFER = 48 << 20
"""Bytes of a ring that overwrites its oldest events: a few hundred thousand of them."""
_TRACE_TIME = 12 * 3600
"""Seconds of guest time that a trace may take to leave through the serial port; idle time costs nothing."""

_SAMPLE_PERIOD = 9_973_000
"""Nanoseconds between two samples of a queue: a prime number of microseconds, so that no load keeps step with it."""
_SAMPLE_COST = 5_000
_SAMPLE_SHARE = 100
"""A sample of one file takes up to so many nanoseconds of the guest's CPU, which is given one part in so many."""

PhaseSeen = Callable[[str], None]


@dataclass(frozen=True)
class GuestLoad:
    """A fio job file under a name, and how long it takes in nanoseconds of guest time, ``ramp`` included."""

    name: str
    fio: str
    time: int
    ramp: int = 0


@dataclass(frozen=True)
class Job:
    """What a guest does once its devices are there.

    ``queue`` applies to every LUN. ``pause`` is the rest before each load and ``phase`` is added to
    it, both in nanoseconds. ``labels`` go into the fingerprint and nowhere else. ``inject`` names a
    fault of ``lab.guest.steps.fault.FAULTS`` that strikes in the middle of the first load.
    ``trace`` are the ftrace events that are recorded during each load; figures are then no evidence.
    """

    queue: Mapping[str, str]
    loads: tuple[GuestLoad, ...]
    pause: int
    phase: int
    labels: Mapping[str, str]
    inject: str = ""
    trace: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lab:
    """What every boot shares on this host."""

    cache: Cache
    qemu: Qemu
    steady: Steady
    payload: Payload


def open_lab(cache: Cache, tell: Tell = silent) -> Lab:
    """Raises LabBroken when QEMU is missing or too old, or the payload cannot be had."""
    return Lab(cache, find_qemu(), steady(cache), payload.fetch(cache, tell))


def guest_steps(topology: Topology, job: Job) -> tuple[Step, ...]:
    """Everything that the guest will do, in order."""
    steps = [*recipe.devices(topology), *recipe.queue_settings(topology, job.queue)]
    if job.inject and job.inject != LOSE_DISK:
        steps.append(Module("dm-mod"))
    if job.trace:
        steps += [Mount("tracefs", TRACING), MakeFolder(TRACE_INSTANCE)]
        steps.append(Write(f"{TRACE_INSTANCE}/buffer_size_kb", str(_TRACE_BUFFER >> 10)))
    for number, load in enumerate(job.loads):
        # Scanning a LUN is I/O too: the first load rests like the others.
        steps += [Phase("rest"), Pause(job.pause + job.phase)]
        if job.inject and number == 0:
            steps.append(_fault(topology, job.inject, load.time // 2))
        run_load = RunLoad(load.name, load.fio, watch_of(topology, load))
        steps += [TraceOn(job.trace), run_load, TraceOff(load.name)] if job.trace else [run_load]
    return tuple(steps)


def _fault(topology: Topology, fault: str, after: int) -> Step:
    return Lose(next(iter(topology.luns)), after) if fault == LOSE_DISK else Inject(fault, after)


def watch_of(topology: Topology, load: GuestLoad) -> Sampling | None:
    """What is sampled while ``load`` is measured; None when its window is shorter than two periods."""
    files = recipe.watches(topology)
    period = max(_SAMPLE_PERIOD, len(files) * _SAMPLE_COST * _SAMPLE_SHARE)
    length = load.time - load.ramp
    return Sampling(period, load.ramp, length, files) if length >= 2 * period else None


_COUNTED = VirtualClock()


@dataclass(frozen=True)
class PreparedJob:
    """A job that could start now. Two boots with the same ``fingerprint`` must leave the same digest.

    ``plugin`` observes the guest from within QEMU and is no part of the fingerprint.
    """

    kernel: Kernel
    memory: int
    base: BaseImage
    job_archive: bytes
    steps: tuple[Step, ...]
    wall_limit: float
    fingerprint: Mapping[str, str]
    clock: Clock = _COUNTED
    hardware: Hardware | None = None
    plugin: tuple[str, ...] = ()


def prepare_job(lab: Lab, kernel: Kernel, topology: Topology, job: Job) -> PreparedJob:
    """Everything short of booting. Raises CannotJudge when the kernel lacks a module,
    LabBroken when the disk handler is needed and cannot be built.
    """
    work = guest_steps(topology, job)
    modules = [step.name for step in work if isinstance(step, Module)]
    own_devices = hardware(topology) if topology.emulated else None
    clock = accelerator_for(lab, kernel).clock if own_devices else VirtualClock()
    carried = payload.with_further_steps(lab.payload) if own_devices else lab.payload
    base = image.base_image(lab.cache, kernel, carried, modules, _programs(lab.cache, work))
    deadline = _deadline(job) * (_STARVED if own_devices else 1)
    own = image.job_archive(job_files(image.with_dependencies(kernel, work), deadline=deadline))
    prepared = PreparedJob(kernel, topology.memory, base, own, work, _wall_limit(job), job.labels, clock, own_devices)
    spec = _machine(lab, prepared, Path(_INITRD))
    fingerprint = {
        "kernel": kernel.digest,
        "base": base.digest,
        "job": digest_bytes(own),
        # The job without what it takes to load its modules, which is each kernel's own.
        "work": digest_bytes(image.job_archive(job_files(work, deadline=deadline))),
        "qemu": f"{lab.qemu.version_text} {lab.qemu.package} {lab.qemu.digest}",
        "steady": lab.steady.digest,
        "argv": " ".join(fingerprint_argv(spec)),
        "cmdline": command_line(spec),
        **job.labels,
    }
    return replace(prepared, fingerprint=fingerprint)


def accelerator_for(lab: Lab, kernel: Kernel) -> Accelerator:
    """What runs the guests of the wall clock with this kernel: proved in seconds, once for each boot of the host."""
    return accelerator(lab.cache, lab.qemu, kernel.image, kernel.digest)


def _programs(cache: Cache, steps: tuple[Step, ...]) -> Mapping[str, bytes]:
    """Programs of the lab's own that these steps run in the guest."""
    wanted = {programs.DISKD for step in steps if isinstance(step, Daemon)}
    wanted |= {programs.SAMPLER for step in steps if isinstance(step, RunLoad) and step.watch}
    return {name: programs.build(cache, name) for name in sorted(wanted)}


def run_job(
    lab: Lab,
    prepared: PreparedJob,
    folder: Path,
    *,
    phase_seen: PhaseSeen = silent,
    abort: threading.Event | None = None,
) -> BootRecord:
    """Boot once in ``folder``, which must exist and be empty; the raw artefacts stay there.

    Blocks the calling thread until the machine is gone. Raises LabBroken when QEMU cannot be
    started or the folder cannot be written.
    """
    initrd = folder / _INITRD
    try:
        (folder / kit.JOB).write_bytes(prepared.job_archive)
        note_repeat(lab, prepared, folder)
        _make_files(prepared, folder)
        initrd.write_bytes(prepared.base.path.read_bytes() + prepared.job_archive + _host_noise(prepared.steps))
    except OSError as error:
        raise LabBroken(
            f"{folder}: {error.strerror}", remedy="free some space, or use another results folder"
        ) from error
    observer = Observer(phase_seen, doubt_of(prepared.clock, lab.qemu))
    try:
        spec = replace(_machine(lab, prepared, initrd), plugin=prepared.plugin)
        ending = run(spec, folder, observer, _limits(prepared), abort)
    finally:
        initrd.unlink(missing_ok=True)
        for name in _disk_files(prepared):
            (folder / name).unlink(missing_ok=True)
    if isinstance(prepared.clock, VirtualClock):
        kit.write_expected(folder)
    return observer.record(folder, ending, prepared.fingerprint)


def _limits(prepared: PreparedJob) -> Limits:
    """Patience for a guest that shares its host with many: a kernel that is slow for their sake did not hang."""
    crowding = host.crowding()
    return Limits(
        ready_seconds=crowding * Limits.ready_seconds,
        total_seconds=crowding * prepared.wall_limit,
        console_bytes=_CONSOLE_LIMIT,
    )


def _host_noise(steps: Iterable[Step]) -> bytes:
    """Nothing, save for the selftest in which two boots of one fingerprint must be found to differ."""
    if not any(isinstance(step, Inject) and step.fault == HOST_NOISE for step in steps):
        return b""
    return image.job_archive({"noise": secrets.token_bytes(16)})


def note_repeat(lab: Lab, prepared: PreparedJob, folder: Path) -> None:
    """Write what repeats this boot without blklab; under the wall clock no repetition is the same. Raises OSError."""
    if not isinstance(prepared.clock, VirtualClock):
        kit.write_by_hand(folder, prepared.steps)
        return
    spec = _machine(lab, prepared, Path(_INITRD))
    inputs = boot_inputs(lab, prepared)
    kit.write_repeat(folder, kit.repeat_script(spec, inputs, prepared.wall_limit), inputs, prepared.steps)


def boot_inputs(lab: Lab, prepared: PreparedJob) -> kit.Inputs:
    """The files that a boot of this job starts from. Raises OSError."""
    boots = prepared.kernel.vmlinux or prepared.kernel.image
    return kit.Inputs(
        kernel=boots,
        kernel_digest=known_digest(boots),
        base=prepared.base.path,
        base_digest=prepared.base.digest,
        job_digest=prepared.fingerprint["job"],
        steady=lab.steady.path,
        qemu=f"{lab.qemu.version_text} {lab.qemu.package}".rstrip(),
    )


def _disk_files(prepared: PreparedJob) -> Mapping[str, int]:
    return prepared.hardware.files if prepared.hardware else {}


def _make_files(prepared: PreparedJob, folder: Path) -> None:
    """Raises OSError."""
    for name, size in _disk_files(prepared).items():
        with (folder / name).open("wb") as file:
            file.truncate(size)


def _machine(lab: Lab, prepared: PreparedJob, initrd: Path) -> MachineSpec:
    kernel = prepared.kernel
    spec = MachineSpec(
        program=lab.qemu.path,
        version=lab.qemu.version,
        kernel=kernel.vmlinux or kernel.image,
        initrd=initrd,
        firmware=lab.qemu.firmware,
        memory=prepared.memory >> 20,
        append=("oops=panic", "tsc=reliable"),
        preload=lab.steady.path,
    )
    own = prepared.hardware
    if own is None:
        return spec
    # Bridges and root buses are set up by a full firmware alone; nothing is steady under the wall clock.
    plain = replace(spec, clock=prepared.clock, firmware=None, preload=None, append=_WALL_WORDS)
    return replace(plain, board=own.board, cpus=own.cpus, hardware=own.words)


def _deadline(job: Job) -> int:
    """Seconds of guest time within which a healthy guest has finished."""
    loads = sum(load.time + job.pause + job.phase for load in job.loads)
    return 2 * loads // NANOSECONDS + _MARGIN + (_TRACE_TIME if job.trace else 0)


def _wall_limit(job: Job) -> float:
    """Seconds of host time; a guest that is busy throughout runs some twenty times slower than its clock."""
    return 600 + 40 * sum(load.time for load in job.loads) / NANOSECONDS
