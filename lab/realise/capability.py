# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel lacks for a topology: all reasons, from its files, before a boot."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from lab.guest.steps import Step
from lab.guest.steps.device import LocklessArray, Module, Write
from lab.guest.steps.setting import Cgroup
from lab.kernels.binaries import has_parameter, module_closure, module_name, no_modules, read_module, uncompressed
from lab.kernels.model import Kernel
from lab.realise import drivers, recipe
from lab.topology.model import SCSI, Driver, StackKind, Topology

REQUIRED_OPTIONS = {
    "BLK_DEV_INITRD": "the guest lives in an initramfs",
    "DEVTMPFS": "device nodes come from the kernel",
    "CONFIGFS_FS": "null_blk and LIO are configured through configfs",
    "SERIAL_8250_CONSOLE": "console and results leave through serial ports",
    "TMPFS": "results are kept in a tmpfs until they are sent",
    "HPET_TIMER": "the virtual clock boots without the APIC timer",
}

POLICY_SINCE = {"queue-depth": "Linux 6.11"}
ATTRIBUTE_SINCE = {
    "md/sync_io_depth": ("md-mod", "Linux 6.16"),
    "no_read_workqueue": ("dm-crypt", "Linux 5.9"),
    "no_write_workqueue": ("dm-crypt", "Linux 5.9"),
}
"""Attributes and flags of stacks that not all kernels have: the module with the string, and the first release."""
UNUSABLE = {
    "target_core_user": {
        "out of cmd's iov[]": "writes two lines to the console for each command, as Linux 4.15",
        "completions handled from timeout": "takes completions in order only, as Linux 4.4",
    }
}
"""Modules that some kernels have in a form that no scenario can use: strings in it, and why."""
_OF_LEGACY_PATH = ("noop", "deadline", "cfq")
REMOVED_WORDS = {"scsi_mod.use_blk_mq": ("Y", "as Linux 5.0 removed the legacy request path (f664a3cc17b7)")}
"""Parameters that kernels no longer have: the value that they behave as, and why."""


def missing(
    kernel: Kernel,
    topology: Topology,
    queue: Mapping[str, str],
    *,
    options: Iterable[str] = (),
    modules: Iterable[str] = (),
) -> tuple[str, ...]:
    """One sentence for each thing that ``kernel`` lacks; empty when it can realise the topology.

    ``options`` (without CONFIG_) and ``modules`` are required in addition.
    """
    reasons = [
        f"CONFIG_{option} is not set: {why}" for option, why in REQUIRED_OPTIONS.items() if not kernel.has(option)
    ]
    reasons += [f"CONFIG_{option} is not set" for option in options if not kernel.has(option)]
    reasons += [no_modules(kernel, [name]) for name in module_closure(kernel, modules).missing]
    steps = [*recipe.devices(topology), *recipe.queue_settings(topology, queue)]
    for step in dict.fromkeys(step for step in steps if isinstance(step, Module)):
        reasons.extend(_module_reasons(kernel, step))
    # Other elevators are modules, which a Module step asks for.
    if queue.get("scheduler") == "noop" and not kernel.has("IOSCHED_NOOP"):
        reasons.append(f"{kernel.release} has no elevator noop, which Linux 5.0 removed (f382fb0bcef4)")
    if (scheduler := queue.get("scheduler", "")) in _OF_LEGACY_PATH:
        reasons += _path_reasons(kernel, topology, scheduler)
    if any(isinstance(step, Cgroup) for step in steps) and not kernel.has("BLK_CGROUP_IOCOST"):
        reasons.append("CONFIG_BLK_CGROUP_IOCOST is not set")
    if any(disk.zone_size for disk in topology.disks.values()):
        reasons += _zone_reasons(kernel, steps, scheduler)
    if any(isinstance(step, LocklessArray) for step in steps) and not kernel.has("MD_LLBITMAP"):
        reasons.append("CONFIG_MD_LLBITMAP is not set: lockless bitmaps came with Linux 6.18, as an option")
    reasons += _word_reasons(kernel, topology.kernel_words)
    return tuple(dict.fromkeys((*reasons, *_policy_reasons(kernel, topology), *_attribute_reasons(kernel, topology))))


def _path_reasons(kernel: Kernel, topology: Topology, scheduler: str) -> Iterable[str]:
    words = dict(word.partition("=")[::2] for word in topology.kernel_words)
    usual = "Y" if kernel.has("SCSI_MQ_DEFAULT") else "N"
    # drivers/scsi/virtio_scsi.c: force_blk_mq.
    if others := {hba.driver for hba in topology.hbas.values()} - (SCSI - {Driver.VIRTIO_SCSI}):
        yield f"elevator {scheduler} belongs to the legacy request path, and {', '.join(sorted(others))} has none"
    elif words.get("scsi_mod.use_blk_mq", usual) not in ("N", "n", "0"):
        yield f"elevator {scheduler} belongs to the legacy request path: write kernel_words: scsi_mod.use_blk_mq=N"


def _zone_reasons(kernel: Kernel, steps: Iterable[Step], scheduler: str) -> Iterable[str]:
    if not kernel.has("BLK_DEV_ZONED"):
        yield "CONFIG_BLK_DEV_ZONED is not set"
        return
    names = {step.path.rpartition("/")[2] for step in steps if isinstance(step, Write) and "/nullb/" in step.path}
    for name in sorted(names):
        if (module := _code(kernel, "null_blk")) and f"{name}\0".encode() not in module:
            yield f"null_blk of {kernel.release} has no {name}"
    # A file of debugfs, and a field in the kernel's BTF.
    if scheduler != "mq-deadline" and b"zone_wplugs\0" not in _strings(kernel.vmlinux or kernel.image):
        yield f"{kernel.release} keeps writes to a zone in order by mq-deadline alone, as all before Linux 6.10"


def _word_reasons(kernel: Kernel, words: Iterable[str]) -> Iterable[str]:
    for word in words:
        name, _, value = word.partition("=")
        settled, why = REMOVED_WORDS.get(name, ("", ""))
        if not has_word(kernel, name) and (not why or value != settled):
            yield f"{kernel.release} has no parameter {name}{', ' if why else ''}{why}"


def has_word(kernel: Kernel, name: str) -> bool:
    """Whether the command line of ``kernel`` has a parameter of that name: MODULE.PARAMETER, or one of the kernel."""
    module, dot, parameter = name.partition(".")
    closure = module_closure(kernel, [module] if dot else [])
    if closure.load:
        return has_parameter(read_module(closure.load[-1]), parameter)
    strings = _strings(kernel.vmlinux or kernel.image)
    if dot:
        return f"{module_name(module)}.{parameter}\0".encode() in strings
    return any(f"\0{name}{end}\0".encode() in strings for end in ("", "="))


@lru_cache(maxsize=1)
def _strings(kernel: Path) -> bytes:
    """The kernel without its modules, in which the names of all its parameters are strings."""
    stored = kernel.read_bytes()
    return uncompressed(stored) or stored


def _policy_reasons(kernel: Kernel, topology: Topology) -> Iterable[str]:
    """What NVMe multipath lacks; its iopolicies are strings in nvme-core."""
    wanted = {stack.iopolicy for stack in topology.stacks.values() if stack.kind is StackKind.NVME}
    if not wanted:
        return
    if not kernel.has("NVME_MULTIPATH"):
        yield "CONFIG_NVME_MULTIPATH is not set: each path of a namespace would be a device"
        return
    image = _code(kernel, drivers.MULTIPATH)
    for policy in sorted(wanted):
        if image and f"{policy}\0".encode() not in image:
            since = f", which came with {POLICY_SINCE[policy]}" if policy in POLICY_SINCE else ""
            yield f"nvme-core of {kernel.release} has no iopolicy {policy}{since}"


def _attribute_reasons(kernel: Kernel, topology: Topology) -> Iterable[str]:
    stacks = topology.stacks.values()
    wanted = {key for key in ATTRIBUTE_SINCE for stack in stacks if key in stack.settings or getattr(stack, key, False)}
    for attribute in sorted(wanted):
        module, since = ATTRIBUTE_SINCE[attribute]
        name = attribute.rpartition("/")[2]
        image = _code(kernel, module)
        if image and f"{name}\0".encode() not in image:
            yield f"{module} of {kernel.release} has no {name}, which came with {since}"


def _code(kernel: Kernel, module: str) -> bytes:
    """The module, or the kernel where it is built in; empty for one that the kernel does not have."""
    closure = module_closure(kernel, [module])
    if closure.load:
        return read_module(closure.load[-1])
    return b"" if closure.missing else _strings(kernel.vmlinux or kernel.image)


def _module_reasons(kernel: Kernel, step: Module) -> Iterable[str]:
    closure = module_closure(kernel, [step.name])
    if closure.missing:
        yield no_modules(kernel, closure.missing)
        return
    names = [assignment.split("=", 1)[0] for assignment in step.parameters.split()]
    wanted = [name for name in names if name not in step.optional]
    for sign, why in UNUSABLE.get(step.name, {}).items():
        if sign.encode() in _code(kernel, step.name):
            yield f"{step.name} of {kernel.release} {why}"
    if not wanted:
        return
    if not closure.load:
        yield f"{step.name} is built into {kernel.release}, but its parameters are set as a module's: build it as =m"
        return
    image = read_module(closure.load[-1])
    absent = [name for name in wanted if not has_parameter(image, name)]
    if absent:
        fixed = f" (fixed at {drivers.FIXED_QUEUE} for drivers tcm_loop and tcmu: write that, or use Linux 6.1 on)"
        hint = fixed if step.name == "tcm_loop" else ""
        yield f"{step.name} of {kernel.release} has no parameter {', '.join(absent)}{hint}"
