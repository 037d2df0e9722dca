# SPDX-License-Identifier: GPL-2.0-only
"""Boot a kernel with a topology, run a job in the guest, and return the record of the boot."""

import functools
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab import kit
from lab.base import host
from lab.base.cache import Cache
from lab.base.contents import lasting_digest
from lab.base.digest import digest_bytes
from lab.base.errors import LabBroken
from lab.base.process import beside
from lab.base.record import BootRecord
from lab.base.units import Tell, silent
from lab.guest import image, payload
from lab.guest.payload import Payload
from lab.guest.steps import Step, job_files
from lab.guest.steps.device import HOST_NOISE, LOSE_DISK, Daemon, Inject, Lose, Module
from lab.guest.steps.load import LayFiles, Pause, Phase, RunLoad, Sampling, Timed, TraceOff, TraceOn, tracing
from lab.guest.steps.setting import Cgroup, Confirm, Read
from lab.kernels.model import Kernel
from lab.native import programs
from lab.native.programs import Plugin, Steady, steady
from lab.observe import Observer
from lab.packages import lock, tools
from lab.packages.store import read_pin
from lab.qemu import snapshot
from lab.qemu.argv import Clock, MachineSpec, VirtualClock, command_line, fingerprint_argv
from lab.qemu.machine import Ending, Limits, run
from lab.qemu.probe import Kvm, Qemu, accelerator, doubt_of, find_qemu, qemu_is_own
from lab.realise import recipe
from lab.realise.capability import has_word, missing
from lab.realise.hardware import BOARD, Hardware, hardware, lacking, memory_words
from lab.topology.model import Loss, Topology

NANOSECONDS = 10**9
_MARGIN = 120
# no_timer_check: on a busy host an emulated timer does not tick ten times within ten jiffies, and check_timer() panics.
# random.trust_cpu: the kernel patches its code when its random numbers are ready (static key crng_is_ready,
# f5bda35fba61, Linux 5.19). Without it that happens during a measured load, because disk I/O supplies the entropy.
# tsc=nowatchdog: an emulated processor answers 7.2's clocksource watchdog too late, whose message looks like a fault.
_WALL_WORDS = ("oops=panic", "no_timer_check", "random.trust_cpu=on", "tsc=nowatchdog")
_STARVED = 6
"""Factor on the guest's deadline under the wall clock, where other processes of the host take CPU time."""
_CONSOLE_LIMIT = 1 << 20
"""A normal boot writes a few KiB; this much takes 90 s at the speed of the serial port."""
_TRACE_TIME = 12 * 3600
"""Seconds of guest time that a trace may take to leave through the serial port; idle time costs nothing."""

_SAMPLE_PERIOD = 9_973_000
"""Nanoseconds between two samples of a queue: a prime number of microseconds, so that no load is in phase with it."""
_SAMPLE_COST = 5_000
_SAMPLE_SHARE = 100
"""A sample of one file takes up to ``_SAMPLE_COST`` ns; sampling may use one part in ``_SAMPLE_SHARE`` of a CPU."""

PhaseSeen = Callable[[str], None]


@dataclass(frozen=True)
class GuestLoad:
    """A named fio job file. ``time`` is its duration in nanoseconds of guest time, ``ramp`` included.

    ``processes``: its jobs, of which ``jobs`` begin at once, are processes instead of threads. ``lost`` are paths that
    fail meanwhile. ``prepare`` are steps before its files are laid out and the page cache is emptied (filesystems),
    ``warm`` those after it, and ``patience`` is the time that both take at most. ``trace`` are ftrace events of its
    figures, ``events`` timed steps.
    """

    name: str
    fio: str
    time: int
    ramp: int = 0
    jobs: int = 1
    processes: bool = False
    lost: tuple[Loss, ...] = ()
    prepare: tuple[Step, ...] = ()
    warm: tuple[Step, ...] = ()
    patience: int = 0
    trace: tuple[str, ...] = ()
    events: tuple[Timed, ...] = ()


@dataclass(frozen=True)
class Job:
    """What a guest does after set-up.

    ``queue`` applies to every LUN. ``pause`` is the rest before each load and ``phase`` is added to it, both in
    nanoseconds. ``labels`` go into the fingerprint and nowhere else. ``inject`` names a fault of
    ``lab.guest.steps.device.FAULTS`` in the middle of the first load. ``trace`` are ftrace events to record during each
    load; the figures of a traced boot are not valid. ``cgroups`` are those of roles. ``before`` are steps before the
    first load, ``after`` those behind the last one. ``single`` is that of ``VirtualClock``.
    """

    queue: Mapping[str, str]
    loads: tuple[GuestLoad, ...]
    pause: int
    phase: int
    labels: Mapping[str, str]
    inject: str = ""
    trace: tuple[str, ...] = ()
    cgroups: tuple[Cgroup, ...] = ()
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    single: bool = False


@dataclass(frozen=True)
class Lab:
    """What all boots on this host share. With ``cold`` every guest boots; none is restored from a snapshot."""

    cache: Cache
    qemu: Qemu
    steady: Steady
    payload: Payload
    cold: bool = False

    def describe(self, accelerator: str = "") -> str:
        """QEMU, how it executes guests, and where the programs come from, for the record."""
        package = f" ({self.qemu.package})" if self.qemu.package else ""
        compiler_of = "" if tools.wanted() else ", compiler of the host"
        return f"QEMU {self.qemu.version_text}{package}{accelerator}, {lock.state(self.cache)}{compiler_of}"


def ready_qemu(cache: Cache, tell: Tell = silent) -> Qemu:
    """QEMU, downloaded if necessary, after ``announce``. Raises what ``find_qemu`` raises."""
    announce(cache, tell)
    return find_qemu(tell)


def announce(cache: Cache, tell: Tell) -> None:
    """Say once how much of the lab's own programs is to be downloaded, after a look at a QEMU of the host."""
    if not qemu_is_own():
        find_qemu()
    toolsets = [programs.COMPILER] if tools.wanted() else []
    toolsets += [tools.HOST_TOOLS] if tools.wanted() or qemu_is_own() else []
    own = [(payload.PIN, payload.PACKAGES), *((each.pin, each.packages) for each in toolsets)]
    names = [name for pin, packages in own if read_pin(cache, pin) is None for name in packages]
    if names:
        size = sum(lock.packages()[name].size for name in names) / 1e6
        what = f"QEMU, a compiler and the guest's programs take {size:.0f} MB ({size / 5:.0f} s at 5 MB/s)"
        _tell_once(tell, f"first use: {what}; the kernel comes with them; all is kept in {cache.root}")


_tell_once: Callable[[Tell, str], None] = functools.cache(lambda tell, text: tell(text))


def open_lab(cache: Cache, tell: Tell = silent, *, cold: bool = False) -> Lab:
    """The lab of this host. Raises LabBroken when QEMU is missing or too old, or the payload cannot be fetched."""
    announce(cache, tell)
    compiler = beside(lambda: programs.compiler_identity(cache, tell))
    of_guest = beside(lambda: payload.fetch(cache, tell))
    qemu = find_qemu(tell)
    compiler()
    return Lab(cache, qemu, steady(cache), of_guest(), cold)


def guest_steps(topology: Topology, job: Job) -> tuple[Step, ...]:
    """All steps of the guest, in order."""
    steps = [*recipe.devices(topology), *recipe.queue_settings(topology, job.queue), *job.cgroups]
    if job.inject and job.inject != LOSE_DISK:
        steps.append(Module("dm-mod"))
    if job.trace or any(load.trace for load in job.loads):
        steps += tracing()
    steps += job.before
    for number, load in enumerate(job.loads):
        steps += load.prepare
        if any(map(topology.is_filesystem, topology.stacks)):
            steps.append(LayFiles(load.name, load.fio))
        steps += load.warm
        # The scan of a LUN is I/O too, so the first load also has a rest before it.
        steps += [Phase("rest"), Pause(job.pause + job.phase)]
        if job.inject and number == 0:
            first, after = next(iter(topology.luns)), load.time // 2
            steps.append(Lose(first, after) if job.inject == LOSE_DISK else Inject(job.inject, after))
        run_load = RunLoad(load.name, load.fio, watch_of(topology, load), load.processes)
        events = (*job.trace, *load.trace)
        whole: list[Step] = [TraceOn(events), run_load, TraceOff(load.name)] if events else [run_load]
        timed = [*recipe.losses(topology, load.lost), *load.events]
        steps += recipe.meanwhile(load.name, load.jobs, timed, whole) if timed else whole
    return (*steps, *job.after)


def watch_of(topology: Topology, load: GuestLoad) -> Sampling | None:
    """The sampling during ``load``; None when its window is shorter than two periods."""
    files = recipe.watches(topology)
    period = max(_SAMPLE_PERIOD, len(files) * _SAMPLE_COST * _SAMPLE_SHARE)
    length = load.time - load.ramp
    return Sampling(period, load.ramp, length, files) if length >= 2 * period else None


@dataclass(frozen=True)
class PreparedJob:
    """A job that is ready to boot. Two boots with the same ``fingerprint`` must have the same digest.

    ``plugin`` observes the guest from within QEMU (``lab.observers``) and is not in the fingerprint.
    """

    kernel: Kernel
    topology: Topology
    base: Path
    job_archive: bytes
    steps: tuple[Step, ...]
    wall_limit: float
    fingerprint: Mapping[str, str]
    clock: Clock = field(default_factory=VirtualClock)
    plugin: Plugin = field(default_factory=Plugin)

    @functools.cached_property
    def hardware(self) -> Hardware | None:
        """QEMU's controllers and their disks; None for devices in the guest."""
        return hardware(self.topology) if self.topology.emulated else None


def unmet(
    lab: Lab,
    kernel: Kernel,
    topology: Topology,
    queue: Mapping[str, str] | None = None,
    *,
    options: Iterable[str] = (),
    modules: Iterable[str] = (),
) -> tuple[str, ...]:
    """Sentences: what this QEMU and ``kernel`` lack for the topology, its queue settings and further requirements."""
    devices = lacking(topology, lab.qemu.devices)
    if topology.processors.observed and programs.interface(lab.qemu.version) < programs.TURNS_INTERFACE:
        what = "end the turns of CPUs" if topology.processors.several else "count locks"
        devices = (*devices, f"QEMU {lab.qemu.version_text} cannot {what}, which needs QEMU 9.2 or later")
    needed = (*options, *(("NUMA",) if topology.processors.of_node else ()))
    return (*devices, *missing(kernel, topology, queue or {}, options=needed, modules=modules))


def prepare_job(lab: Lab, kernel: Kernel, topology: Topology, job: Job) -> PreparedJob:
    """A job with everything built that its boot needs.

    Raises CannotJudge when the kernel lacks a module, LabBroken when a program of the guest cannot be built.
    """
    work, words = guest_steps(topology, job), topology.kernel_words
    clock = accelerator_for(lab, kernel).clock if topology.emulated else VirtualClock(single=job.single)
    modules = [step.name for step in work if isinstance(step, Module)]
    base = image.base_image(lab.cache, kernel, guest_payload(lab, topology), modules, _programs(lab.cache, work))
    loads = sum(load.time + load.patience for load in job.loads)
    # Seconds of host time; a guest that is always busy runs about twenty times slower than its clock.
    limit = 600 + 40 * loads / NANOSECONDS
    processors = topology.processors
    prepared = PreparedJob(kernel, topology, base, b"", work, limit, job.labels, clock)
    spec = _machine(lab, prepared)
    if words:
        work = (Confirm("kernel command line", "/proc/cmdline", command_line(spec)), *work)
    # Seconds of guest time in which a working guest finishes.
    deadline = 2 * (loads + len(job.loads) * (job.pause + job.phase)) // NANOSECONDS + _MARGIN
    traced = _TRACE_TIME if any(isinstance(step, TraceOn) for step in work) else 0
    deadline = (deadline + traced) * (_STARVED if topology.emulated else 1)
    complete = _complete(kernel, work, words)
    if processors.observed:
        complete = (*complete, *_sections(complete))
    counter = programs.source_digest(programs.SHARING)
    archive, alike = (image.job_archive(job_files(steps, deadline=deadline)) for steps in (complete, work))
    fingerprint = {
        "kernel": kernel.digest,
        "base": lasting_digest(base),
        "job": digest_bytes(archive),
        # The job without the dependencies of modules, which differ between kernels.
        "work": digest_bytes(alike),
        "qemu": f"{lab.qemu.version_text} {lab.qemu.package} {lab.qemu.digest}",
        "steady": lab.steady.digest,
        "argv": " ".join(fingerprint_argv(spec)),
        "cmdline": command_line(spec),
        **({"turns": f"{processors.turn} {counter}"} if processors.several else {}),
        **({"counted": counter} if processors.counted and not processors.several else {}),
        **job.labels,
    }
    return replace(prepared, job_archive=archive, steps=work, fingerprint=fingerprint)


def _sections(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps that record where code and data of the loaded modules are."""
    for step in steps:
        if isinstance(step, Module):
            for section in (".text", ".data", ".bss"):
                yield Read(f"{step.name}{section}", f"/sys/module/{step.name}/sections/{section}")


def guest_payload(lab: Lab, topology: Topology) -> Payload:
    """The payload with the programs that the topology needs besides."""
    own = payload.with_whole_calibration(lab.payload) if topology.emulated else lab.payload
    layers = {stack.type or str(stack.kind) for stack in topology.stacks.values()} & payload.MAKERS.keys()
    return payload.with_makers(lab.cache, own, layers)


def _complete(kernel: Kernel, work: Iterable[Step], words: Sequence[str]) -> tuple[Step, ...]:
    """The steps with the dependencies of modules, which get their parameters among the kernel ``words``.

    A parameter that the kernel no longer has cannot be read back: ``unmet`` made sure that it behaves as asked.
    """
    there = [word for word in words if has_word(kernel, word.partition("=")[0])]
    moot = {recipe.word_knob(word.partition("=")[0]) for word in words if word not in there}
    return image.with_dependencies(
        kernel, (step for step in work if not (isinstance(step, Confirm) and step.knob in moot)), there
    )


def accelerator_for(lab: Lab, kernel: Kernel) -> Kvm:
    """The accelerator for this kernel under the wall clock, proved once per boot of the host (seconds)."""
    return accelerator(lab.cache, lab.qemu, kernel.image, kernel.digest)


def _programs(cache: Cache, steps: tuple[Step, ...]) -> Mapping[str, bytes]:
    """The C programs that these steps run in the guest."""
    wanted = {programs.RECEIVE}
    wanted |= {programs.DISKD for step in steps if isinstance(step, Daemon)}
    built = {name: programs.build(cache, name) for name in sorted(wanted)}
    watched = any(isinstance(step, RunLoad) and step.watch for step in steps)
    return built | ({programs.SAMPLER: programs.build(cache, sampler_of(steps))} if watched else {})


def sampler_of(steps: Iterable[Step]) -> str:
    """The program that is the guest's sampler."""
    processes = any(isinstance(step, RunLoad) and step.processes for step in steps)
    return programs.PROCESS_SAMPLER if processes else programs.SAMPLER


def run_job(
    lab: Lab,
    prepared: PreparedJob,
    folder: Path,
    *,
    phase_seen: PhaseSeen = silent,
    abort: threading.Event | None = None,
) -> BootRecord:
    """Boot once in ``folder``, which must exist and be empty; it keeps the raw artefacts.

    Blocks the thread until the machine is gone. Raises LabBroken when QEMU cannot start or the folder be written.
    """
    with writing(folder):
        (folder / kit.JOB).write_bytes(prepared.job_archive + _host_noise(prepared.steps))
        prepared.plugin.install(folder)
        note_repeat(lab, prepared, folder)
        if prepared.hardware:
            prepared.hardware.make_files(folder)
    try:
        observer, ending = _run_machine(lab, prepared, folder, phase_seen, abort)
    finally:
        for name in prepared.hardware.files if prepared.hardware else ():
            (folder / name).unlink(missing_ok=True)
    if prepared.clock.exact:
        with writing(folder):
            kit.write_expected(folder)
    return prepared.plugin.completed(observer.record(folder, ending, prepared.fingerprint))


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LabBroken(
            f"{folder}: {error.strerror}", remedy="free some space, or use another results folder"
        ) from error


def _run_machine(
    lab: Lab, prepared: PreparedJob, folder: Path, phase_seen: PhaseSeen, abort: threading.Event | None
) -> tuple[Observer, Ending]:
    """From a snapshot where one can be had and QEMU takes it, else by booting."""
    spec, limits, doubt = _machine(lab, prepared), _limits(prepared), doubt_of(prepared.clock, lab.qemu)
    observed, plugin = replace(spec, plugin=prepared.plugin.argv), prepared.plugin
    saved = None
    if prepared.clock.exact and not (lab.cold or plugin.from_start) and snapshot.DEVICE in lab.qemu.devices:
        saved = snapshot.prepared_guest(lab.cache, prepared.fingerprint, spec, limits, abort)
    if saved is not None:
        observer = Observer(phase_seen, doubt)
        try:
            with (saved / snapshot.STATE_FILE).open("rb") as state:
                ending = run(snapshot.restored(observed), folder, observer, limits, abort, stdin=state.fileno())
            snapshot.complete_console(saved, folder)
        except (LabBroken, OSError):
            snapshot.refuse(lab.cache, saved)
        else:
            return observer, ending
    observer = Observer(phase_seen, doubt)
    return observer, run(snapshot.booted(observed, lab.qemu.devices), folder, observer, limits, abort)


def _limits(prepared: PreparedJob) -> Limits:
    """Deadlines, extended on a busy host: a kernel that is slow because of the host did not hang."""
    crowding = host.crowding()
    return Limits(
        ready_seconds=crowding * Limits.ready_seconds,
        total_seconds=crowding * prepared.wall_limit,
        done_seconds=crowding * Limits.done_seconds,
        console_bytes=_CONSOLE_LIMIT,
    )


def _host_noise(steps: Iterable[Step]) -> bytes:
    """Empty, except for the selftest in which two boots of one fingerprint must differ."""
    noisy = any(isinstance(step, Inject) and step.fault == HOST_NOISE for step in steps)
    return secrets.token_bytes(16) if noisy else b""


def note_repeat(lab: Lab, prepared: PreparedJob, folder: Path) -> None:
    """Write the files that repeat this boot without blklab (virtual clock only). Raises OSError."""
    if prepared.clock.exact:
        inputs, spec = boot_inputs(lab, prepared), snapshot.booted(_machine(lab, prepared), lab.qemu.devices)
        if prepared.plugin.window_file:
            spec = replace(spec, plugin=prepared.plugin.argv)
        kit.write_repeat(folder, kit.repeat_script(spec, inputs, prepared.wall_limit), inputs)


def boot_inputs(lab: Lab, prepared: PreparedJob) -> kit.Inputs:
    """The input files of this job's boot. Raises OSError."""
    boots = prepared.kernel.vmlinux or prepared.kernel.image
    return kit.Inputs(
        kernel=boots,
        kernel_digest=lasting_digest(boots),
        base=prepared.base,
        base_digest=prepared.fingerprint["base"],
        job_digest=prepared.fingerprint["job"],
        steady=lab.steady.path,
        qemu=f"{lab.qemu.version_text} {lab.qemu.package}".rstrip(),
    )


def _machine(lab: Lab, prepared: PreparedJob) -> MachineSpec:
    topology, own = prepared.topology, prepared.hardware
    spec = MachineSpec(
        program=lab.qemu.path,
        version=lab.qemu.version,
        kernel=prepared.kernel.vmlinux or prepared.kernel.image,
        initrd=prepared.base,
        job=kit.JOB,
        firmware=lab.qemu.firmware,
        memory=topology.memory >> 20,
        append=("oops=panic", "tsc=reliable", *topology.kernel_words),
        preload=lab.steady.path,
    )
    if own is None:
        processors = topology.processors
        nodes = memory_words(topology.memory, processors.nodes, processors.of_node)
        return replace(spec, cpus=processors.cpus, clock=prepared.clock, hardware=tuple(nodes))
    # Only a full firmware sets up bridges and root buses; steady.so serves the virtual clock alone.
    append = (*_WALL_WORDS, *topology.kernel_words)
    plain = replace(spec, clock=prepared.clock, firmware=None, preload=None, append=append)
    return replace(plain, board=BOARD, cpus=own.cpus, hardware=own.words)
