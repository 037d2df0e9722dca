# SPDX-License-Identifier: GPL-2.0-only
"""The guest's steps for a topology, with devices in the guest or of QEMU."""

from collections.abc import Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import sysfs
from lab.guest.steps.setting import Confirm, Tune
from lab.kernels.modules import module_name
from lab.realise.in_guest import devices as in_guest
from lab.realise.in_qemu import guest
from lab.topology.model import SCSI, Topology


def devices(topology: Topology) -> tuple[Step, ...]:
    """Steps that create every LUN and stack of the topology under its name."""
    own = guest.steps(topology) if topology.emulated else in_guest.steps(topology)
    page_cache = (Tune(f"vm.{name}", f"/proc/sys/vm/{name}", value) for name, value in topology.vm.items())
    return (*own, *page_cache, *_parameters(topology))


def _parameters(topology: Topology) -> Iterator[Step]:
    """Read back the module parameters among the kernel words; the command line is confirmed as a whole."""
    for word in topology.kernel_words:
        name, _, value = word.partition("=")
        module, dot, parameter = name.partition(".")
        if dot:
            path = f"/sys/module/{module_name(module)}/parameters/{parameter}"
            yield Confirm(word_knob(name), path, value)


def word_knob(name: str) -> str:
    """The knob under which the value of a module parameter on the command line is confirmed."""
    return f"kernel_words[{name}]"


queue_settings, losses = in_guest.queue_settings, in_guest.losses


def watches(topology: Topology) -> dict[str, str]:
    """Files of the guest with the number of queued requests, by name: ``inflight[LUN]``, ``device_busy[LUN]``,
    ``host_busy[HBA]``. A file with several numbers counts as their sum.
    """
    files = {f"inflight[{name}]": f"{sysfs(name)}/inflight" for name in (*topology.luns, *topology.stacks)}
    scsi = [lun for lun in topology.luns.values() if topology.hbas[lun.hba].driver in SCSI]
    files |= {f"device_busy[{lun.name}]": f"{sysfs(lun.name)}/device/device_busy" for lun in scsi}
    # The parent folder of a LUN's target belongs to the host.
    hosts = {lun.hba: f"{sysfs(lun.name)}/device/../.." for lun in scsi}
    if topology.emulated:
        hosts = {hba: guest.scsi_host(topology, hba) for hba in topology.hbas if hba in hosts}
    return files | {f"host_busy[{hba}]": f"{host}/scsi_host/host*/host_busy" for hba, host in hosts.items()}
