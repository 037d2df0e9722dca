# SPDX-License-Identifier: GPL-2.0-only
"""The initramfs of one boot: a cached archive that all boots of a kernel share, followed by the job."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge
from lab.guest.payload import Payload, archive, regular
from lab.guest.steps import Step
from lab.guest.steps.device import Module
from lab.kernels.binaries import Closure, has_parameter, module_closure, module_name, no_modules, read_module, unsigned
from lab.kernels.model import Kernel

KIND = "initramfs"
_FILE = "base.cpio"


def base_image(
    cache: Cache,
    kernel: Kernel,
    payload: Payload,
    modules: Sequence[str],
    programs: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """The cached archive with the payload, these modules and what they depend on, and ``programs`` by name."""
    closure = _complete(kernel, modules)
    built = {name: digest_bytes(program) for name, program in programs.items()}
    # Verifying signatures takes a tenth of the instructions of a boot; most kernels load modules without one as well.
    carried = bytes if kernel.config.get("CONFIG_MODULE_SIG_FORCE") == "y" else unsigned
    files = sorted(path.name for path in closure.load)
    key = digest_bytes(canonical([payload.digest, kernel.digest, files, carried.__name__, built]))

    def fill(into: Path) -> None:
        entries = dict(payload.entries)
        for path in closure.load:
            entries[f"modules/{module_name(path)}.ko"] = regular(carried(read_module(path)))
        for name, program in programs.items():
            entries[f"bin/{name}"] = regular(program, executable=True)
        (into / _FILE).write_bytes(archive(entries))

    return cache.entry(KIND, key, fill) / _FILE


def job_archive(files: Mapping[str, bytes]) -> bytes:
    """Archive with files of the guest's /job folder, and of others by their whole path."""
    return archive({name.lstrip("/") if name[0] == "/" else f"job/{name}": regular(files[name]) for name in files})


def with_dependencies(kernel: Kernel, steps: Iterable[Step], words: Iterable[str] = ()) -> tuple[Step, ...]:
    """The steps with each module's dependencies before it, without modules that are built in or already loaded.

    As modprobe does, modules get the parameters that ``words`` of the command line have for them. Parameters that
    this kernel may lack are left out where it does.
    """
    given = _parameters(words)
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
                own = step if name == module_name(step.name) else Module(name)
                wanted = _accept(own, path)
                complete.append(Module(name, " ".join((*wanted, *given.get(name, ())))))
    return tuple(complete)


def _parameters(words: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    parameters: dict[str, tuple[str, ...]] = {}
    for word in words:
        module, dot, parameter = word.partition(".")
        if dot:
            name = module_name(module)
            parameters[name] = (*parameters.get(name, ()), parameter)
    return parameters


def _accept(step: Module, path: Path) -> Iterable[str]:
    wanted = step.parameters.split()
    if not step.optional:
        return wanted
    image = read_module(path)
    return [
        word for word in wanted if (name := word.partition("=")[0]) not in step.optional or has_parameter(image, name)
    ]


def _complete(kernel: Kernel, modules: Sequence[str]) -> Closure:
    closure = module_closure(kernel, modules)
    if closure.missing:
        raise CannotJudge(no_modules(kernel, closure.missing))
    return closure
