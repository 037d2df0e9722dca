# SPDX-License-Identifier: GPL-2.0-only
"""The initramfs of one boot: a cached archive that all boots of a kernel share, followed by the job."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes, known_digest
from lab.base.errors import CannotJudge
from lab.guest import initramfs
from lab.guest.payload import Payload
from lab.guest.steps import Step
from lab.guest.steps.device import Module
from lab.kernels.model import Kernel
from lab.kernels.modules import Closure, module_closure, module_name, read_module, unsigned

KIND = "initramfs"
_FILE = "base.cpio"


@dataclass(frozen=True)
class BaseImage:
    """Archive with the payload and some modules of a kernel; ``digest`` is its sha256."""

    path: Path
    digest: str


def base_image(
    cache: Cache,
    kernel: Kernel,
    payload: Payload,
    modules: Sequence[str],
    programs: Mapping[str, bytes] = MappingProxyType({}),
) -> BaseImage:
    """The cached archive for these modules (their dependencies included) and ``programs`` by name."""
    closure = _complete(kernel, modules)
    built = {name: digest_bytes(program) for name, program in programs.items()}
    # Verifying signatures takes a tenth of the instructions of a boot; most kernels load modules without one as well.
    carried = bytes if kernel.config.get("CONFIG_MODULE_SIG_FORCE") == "y" else unsigned
    files = sorted(path.name for path in closure.load)
    key = digest_bytes(canonical([payload.digest, kernel.digest, files, carried.__name__, built]))

    def fill(into: Path) -> None:
        entries = dict(payload.entries)
        for path in closure.load:
            entries[f"modules/{module_name(path)}.ko"] = initramfs.regular(carried(read_module(demand_intact(path))))
        for name, program in programs.items():
            entries[f"bin/{name}"] = initramfs.regular(program, executable=True)
        (into / _FILE).write_bytes(initramfs.archive(entries))

    path = demand_intact(cache.entry(KIND, key, fill) / _FILE)
    return BaseImage(path, known_digest(path))


def job_archive(files: Mapping[str, bytes]) -> bytes:
    """Archive with the files of the guest's /job folder."""
    return initramfs.archive({f"job/{name}": initramfs.regular(data) for name, data in files.items()})


def with_dependencies(kernel: Kernel, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps with each module's dependencies before it, without modules that are built in or already loaded."""
    loaded: set[str] = set()
    complete: list[Step] = []
    for step in steps:
        if not isinstance(step, Module):
            complete.append(step)
            continue
        for path in _complete(kernel, [step.name]).load:
            name = module_name(path)
            if name not in loaded:
                loaded.add(name)
                own = name == module_name(step.name)
                complete.append(replace(step, name=name) if own else Module(name))
    return tuple(complete)


def _complete(kernel: Kernel, modules: Sequence[str]) -> Closure:
    closure = module_closure(kernel, modules)
    if closure.missing:
        raise CannotJudge(f"{kernel.release} has no module {', '.join(closure.missing)}")
    return closure
