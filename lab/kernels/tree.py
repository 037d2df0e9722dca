# SPDX-License-Identifier: GPL-2.0-only
"""Kernels built from source: ``tree:PATH@REV`` of a git repository, ``tree:PATH`` of a folder's content as it is.

``source:6.12`` is Debian's linux-source-6.12. ``+MUTANT`` behind any of them applies a patch of scenarios/mutants/
first; ``mutant:NAME`` does so to Debian's source, or to the tree that $BLKLAB_TREE names. ``+debug`` at the end of any
of them adds the kernel's own checks (kconfigs/debug). What is built is kept under
the id of the (patched) git tree, the configuration asked for and the compiler, so commits with the same content
are one kernel. Each source has a lasting workspace in the cache, repositories that borrow one another's
objects (git clone --shared) the same one:

<cache>/trees/<key>/git  src/  objects-<family>/  logs/
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken, Misuse, no_such_folder
from lab.base.reading import real
from lab.base.units import Tell, silent
from lab.kernels import build, debian, git, kconfig, local, mutants, store
from lab.kernels.build import Builder, Output, Recipe, Toolchain
from lab.kernels.git import Checkout
from lab.kernels.model import Kernel, Release
from lab.kernels.mutants import Mutation, demand_known
from lab.native import elf
from lab.packages.apt import Archive, Package
from lab.packages.store import Finish, Pin, read_pin, unpacked

KIND = "trees"
_OBJECTS, _KEPT = "objects-", 3
"""Folders of objects in a workspace: one for each compiler and configuration, of which the last three are kept."""
_CONFIGURES = re.compile(r"(^|/)Kconfig|^scripts/|^(arch/x86/)?Makefile$")
"""Files that decide what the kernel makes of a configuration."""
_DEBUG = "+debug"
_MUTANT_SUFFIX = re.compile(rf"(.*)\+({mutants.NAME_FORM})")
_MAKEFILE = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(.*?)\s*$", re.MULTILINE)


_T = TypeVar("_T")


@dataclass(frozen=True)
class KernelSource:
    """A kernel's source. ``revision`` is empty for the content of the folder as it is now.

    ``git_tree`` names a git tree in the repository ``path`` directly (a packaged source); ``mutant``
    is empty for the source as it is, else a patch in the folder ``mutants``. ``spec`` and ``title`` are what people
    call it. ``debug``: built with the kernel's own checks.
    """

    path: Path
    spec: str
    title: str
    revision: str = ""
    git_tree: str = ""
    mutant: str = ""
    mutants: Path = mutants.MUTANTS
    debug: bool = False

    @property
    def name(self) -> str:
        return " with ".join(filter(None, (self.title, self.mutant, self.debug * "debugging")))


def read_source(wanted: str, folder: Path = mutants.MUTANTS) -> KernelSource:
    """``PATH``, ``PATH@REV``, either with ``+MUTANT`` or ``+debug`` or both. Raises Misuse for a path or mutant that is
    not there."""
    spec, mutant = f"tree:{wanted}", ""
    debug = wanted.endswith(_DEBUG) and not Path(wanted).expanduser().is_dir()
    wanted = wanted.removesuffix(_DEBUG * debug)
    suffixed = _MUTANT_SUFFIX.fullmatch(wanted)
    # A path or a revision may hold a plus sign too: then what follows it is no mutant's name.
    if suffixed and not Path(wanted).expanduser().is_dir() and suffixed[2] in mutants.catalogue(folder):
        wanted, mutant = suffixed[1], suffixed[2]
    path, revision = _path_and_revision(wanted)
    if revision and not git.is_repository(path):
        raise Misuse(
            f"{path} is not the top of a git repository, so it has no revision {revision}",
            remedy=f"tree:{path} builds what the folder holds",
        )
    if revision:
        git.commit_of(path, revision)
    elif not (path / "Makefile").is_file():
        raise Misuse(f"{path} is not a kernel's source: it has no Makefile", remedy="name the top of a tree")
    title = f"{path} at {revision}" if revision else f"the content of {path}"
    return KernelSource(path, spec, title, revision, mutant=mutant, mutants=folder, debug=debug)


def built(source: KernelSource, cache: Cache, *, tell: Tell = silent) -> Kernel:
    """The kernel of ``source``, from the cache or built now.

    Raises Misuse when the source or mutant does not exist, CannotJudge when it cannot be built or
    configured as the lab needs it, LabBroken when this host lacks a tool or room.
    """
    if kernel := _workshop(source, Path(), cache, tell).kept():
        return kernel
    with cache.workspace(KIND, _workspace_key(source), tell) as workspace:
        return _workshop(source, workspace, cache, tell).kernel()


def in_objects(
    kernel: Kernel,
    source: KernelSource,
    cache: Cache,
    look: Callable[[Path, Path], _T],
    *,
    tell: Tell = silent,
) -> _T:
    """What ``look`` returns for the folders of the objects and of the source of ``kernel``, which is built again there.

    That takes seconds where no other kernel of the source was built since. Raises what ``built`` raises, LabBroken when
    what is built now is not that kernel.
    """
    with cache.workspace(KIND, _workspace_key(source), tell) as workspace:
        objects = _workshop(source, workspace, cache, tell).objects()
        if kernel.vmlinux is None or elf.code(kernel.vmlinux.read_bytes()) != elf.code(
            (objects / "vmlinux").read_bytes()
        ):
            raise LabBroken(f"{source.title} is not built as {kernel.release} was", remedy="run the scenario again")
        return look(objects, workspace / "src")


def _workshop(source: KernelSource, workspace: Path, cache: Cache, tell: Tell) -> "_Workshop":
    commit = git.commit_of(source.path, source.revision) if source.revision else ""
    return _Workshop(source, commit, build.toolchain(), workspace, cache, tell)


@dataclass(frozen=True)
class _Workshop:
    """One source in its workspace, which no other process uses meanwhile; ``kept`` needs none. ``commit`` is a hash,
    empty for a folder.
    """

    source: KernelSource
    commit: str
    tools: Toolchain
    workspace: Path
    cache: Cache
    tell: Tell

    def kept(self) -> Kernel | None:
        """The kernel of a commit or a package if the cache has it. In the workspace another process may build."""
        source, commit = self.source, self.commit
        if source.mutant or not (source.git_tree or commit):
            return None
        tree, makefile = git.tree_and_makefile(source.path, source.git_tree or commit)
        if not makefile:
            return None
        recipe = self._recipe(_version(source, makefile))
        entry = self.cache.find(store.KIND, _key(tree, recipe))
        return None if entry is None else self._loaded(entry, tree, None, recipe)

    def kernel(self) -> Kernel:
        checkout, tree, mutation, patched, recipe = self._content()
        made: list[Output] = []
        entry = self.cache.entry(
            store.KIND, _key(patched, recipe), lambda into: made.append(self._build(checkout, patched, recipe, into))
        )
        return self._loaded(entry, tree, mutation, recipe, fresh=bool(made))

    def _loaded(
        self, entry: Path, tree: str, mutation: Mutation | None, recipe: Recipe, *, fresh: bool = False
    ) -> Kernel:
        kernel = store.load(entry, self.source.spec, self._origin(tree, mutation))
        return replace(kernel, mutant=self.source.mutant, build=recipe.digest, fresh=fresh)

    def objects(self) -> Path:
        checkout, _, _, patched, recipe = self._content()
        return self._make(checkout, patched, recipe).objects

    def _content(self) -> tuple[git.Checkout, str, Mutation | None, str, Recipe]:
        """The source's git tree, the mutation, and the git tree to build with its recipe."""
        path = self.source.path
        checkout = git.Checkout(self.workspace, (git.objects_of(path),) if git.is_repository(path) else ())
        tree = self._tree(checkout)
        release = _version(self.source, checkout.file(tree, "Makefile"))
        mutant, known = self.source.mutant, self.source.mutants
        mutation = mutants.mutation(mutant, release, mutants.catalogue(known)) if mutant else None
        patched = checkout.patched(tree, mutation.patch) if mutation else tree
        return checkout, tree, mutation, patched, self._recipe(release, mutation.options if mutation else ())

    def _recipe(self, release: Release, further: Sequence[str] = ()) -> Recipe:
        return build.recipe(release, self.tools, further, kconfig.own_configuration(), debug=self.source.debug)

    def _tree(self, checkout: git.Checkout) -> str:
        if self.source.git_tree:
            return self.source.git_tree
        if self.commit:
            return checkout.tree_of_commit(self.commit)
        self.tell(f"reading {self.source.path}")
        return checkout.tree_of_folder(self.source.path)

    def _make(self, checkout: git.Checkout, tree: str, recipe: Recipe) -> Output:
        checkout.check_out(tree)
        log = self.workspace / "logs" / f"{tree[:12]}.log"
        objects = self.workspace / f"{_OBJECTS}{recipe.family[:12]}"
        note = objects / "configured"
        digest, _, last = note.read_text().partition(" ") if note.exists() else ("", "", "")
        note.unlink(missing_ok=True)
        configured = digest == recipe.digest and self._configures_alike(checkout, last, tree)
        how = Builder(checkout.source, objects, log, recipe, self.tell)
        output = how.build(self.source.name, configured=configured)
        note.write_text(f"{recipe.digest} {tree}")
        for old in _by_use(self.workspace)[:-_KEPT]:
            shutil.rmtree(old)
        return output

    def _configures_alike(self, checkout: git.Checkout, last: str, tree: str) -> bool:
        try:
            return not any(map(_CONFIGURES.search, checkout.differing(last, tree)))
        except LabBroken:  # What was built last may have been of a clone that is gone.
            return False

    def _build(self, checkout: git.Checkout, tree: str, recipe: Recipe, into: Path) -> Output:
        output = self._make(checkout, tree, recipe)
        kernel = local.built_tree(output.objects, output.image)
        store.keep(kernel, into)
        facts = {
            "source": self.source.title,
            "commit": self.commit,
            "tree": tree,
            "mutant": self.source.mutant,
            "debug": self.source.debug,
            "compiler": recipe.toolchain.identity,
            "configuration": digest_bytes(kernel.config.read_bytes()),
            "fixups": [fixup.because for fixup in recipe.fixups],
            "seconds": round(output.seconds, 1),
            "compiled": output.compiled,
        }
        (into / build.FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        self.tell(f"built {kernel.release} in {output.seconds:.0f} s")
        return output

    def _origin(self, tree: str, mutation: Mutation | None) -> str:
        parts = [self.source.title]
        if self.commit and not self.commit.startswith(self.source.revision):
            parts.append(f"commit {self.commit[:12]}")
        if not self.source.revision:
            parts.append(f"git tree {tree[:12]}")
        if mutation is not None:
            parts.append(f"mutant {mutation.name}")
        if self.source.debug:
            parts.append("debugging")
        return ", ".join([*parts, self.tools.name])


def _key(tree: str, recipe: Recipe) -> str:
    return digest_bytes(canonical([tree, recipe.digest]))


def has_objects(source: KernelSource, cache: Cache) -> bool:
    """Whether the next build of the source uses the objects of an earlier one."""
    return bool(_by_use(cache.root / KIND / _workspace_key(source)))


def _by_use(workspace: Path) -> list[Path]:
    """The folders of objects in which a kernel was built, that of the last build last."""
    built = {path.parent: path.stat().st_mtime for path in workspace.glob(f"{_OBJECTS}*/vmlinux")}
    return sorted(built, key=lambda folder: built[folder])


def _path_and_revision(wanted: str) -> tuple[Path, str]:
    """Path and revision: the shortest path before an ``@`` that is a folder."""
    whole = Path(wanted).expanduser()
    if whole.is_dir():
        return real(whole), ""
    parts = wanted.split("@")
    for count in range(1, len(parts)):
        path, revision = Path("@".join(parts[:count])).expanduser(), "@".join(parts[count:])
        if path.is_dir() and revision:
            return real(path), revision
    named = Path(parts[0]).expanduser()
    raise no_such_folder((whole if named.is_dir() else named).absolute(), "the kernel source")


def _workspace_key(source: KernelSource) -> str:
    path = source.path
    origin = git.lender_of(git.objects_of(path)) if git.is_repository(path) else path
    return digest_bytes(str(origin).encode())[:16]


def _version(source: KernelSource, makefile: str | None) -> Release:
    numbers = dict(_MAKEFILE.findall(makefile or ""))
    try:
        text = f"{numbers['VERSION']}.{numbers['PATCHLEVEL']}.{numbers['SUBLEVEL'] or 0}{numbers['EXTRAVERSION']}"
        return Release.parse(text)
    except (KeyError, ValueError) as error:
        raise Misuse(
            f"{source.title} is not a kernel's source: its Makefile names no version", remedy="name the top of a tree"
        ) from error


DEFAULT = "source:6.12"
TREE_VARIABLE = "BLKLAB_TREE"
_KIND = "sources"
_ID = "tree-id"
_FORM = re.compile(rf"([0-9]+\.[0-9]+)(?:\+({mutants.NAME_FORM}))?")


def source_of(wanted: str, cache: Cache, *, refresh: bool = False, tell: Tell) -> KernelSource:
    """``wanted`` is what follows ``source:``. Raises CannotJudge when Debian has no such source."""
    series, mutant = series_and_mutant(wanted)
    made = unpacked(
        cache,
        _pin_name(series),
        lambda archive: [_package(archive, series)],
        tell,
        kind=_KIND,
        finish=_import(tell),
        refresh=refresh,
    )
    package = made.pin.packages[0]
    return KernelSource(
        path=made.folder / "git",
        spec=f"source:{wanted}",
        title=f"Debian's {package.name} {package.version}",
        git_tree=(made.folder / _ID).read_text().strip(),
        mutant=mutant,
        debug=wanted.endswith(_DEBUG),
    )


def series_and_mutant(wanted: str) -> tuple[str, str]:
    match = _FORM.fullmatch(wanted.removesuffix(_DEBUG))
    if match is None:
        remedy = "give a series, source:6.12, source:6.12+MUTANT, or either with +debug"
        raise Misuse(f'"source:{wanted}" is not a source', remedy=remedy)
    if match[2]:
        demand_known(match[2])
    return match[1], match[2] or ""


def _pin_name(series: str) -> str:
    return f"source-debian-{series}"


def _package(archive: Archive, series: str) -> Package:
    name = f"linux-source-{series}"
    try:
        return debian.newest(archive, debian.suites_of(series), f"package {name}", re.escape(name))
    except CannotJudge as error:
        raise CannotJudge(
            error.message,
            remedy=f"tree:DIR@v{series} of a git clone that has this tag, or tree:DIR of a folder whose Makefile says "
            f"VERSION and PATCHLEVEL, such as the unpacked linux-{series}.tar.xz of kernel.org",
        ) from error


def kept_source(spec: str, cache: Cache) -> KernelSource | None:
    """What ``named_source`` returns if that needs no download, else None."""
    kind, wanted = _kind_and_words(spec)
    if kind == "source":
        pin = read_pin(cache, _pin_name(series_and_mutant(wanted)[0]))
        if pin is None or cache.find(_KIND, pin.digest) is None:
            return None
    return named_source(spec, cache, silent)


def base_spec() -> str:
    """The spec of the source that mutants are made of: ``$BLKLAB_TREE`` (PATH or PATH@REV), else Debian's."""
    named = os.environ.get(TREE_VARIABLE, "")
    return f"tree:{named}" if named else DEFAULT


def resolve(form: str, wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``form`` is ``tree:``, ``source:`` or ``mutant:``, and ``wanted`` what follows it.

    Raises what ``built`` raises, CannotJudge when Debian has no such source.
    """
    return built(_source(*_kind_and_words(form + wanted), cache, tell, refresh=refresh), cache, tell=tell)


def demand(form: str, wanted: str) -> None:
    """Raises Misuse for a source or mutant that cannot be; nothing is fetched."""
    kind, wanted = _kind_and_words(form + wanted)
    (series_and_mutant if kind == "source" else read_source)(wanted)


def named_source(spec: str, cache: Cache, tell: Tell) -> KernelSource | None:
    """The source of a kernel that is built here, by the kernel's spec; None for any other kernel."""
    kind, wanted = _kind_and_words(spec)
    return _source(kind, wanted, cache, tell) if kind in ("source", "tree") else None


def _source(kind: str, wanted: str, cache: Cache, tell: Tell, *, refresh: bool = False) -> KernelSource:
    return source_of(wanted, cache, refresh=refresh, tell=tell) if kind == "source" else read_source(wanted)


def _kind_and_words(spec: str) -> tuple[str, str]:
    """What precedes and what follows the colon of a spec, where a mutant is one of its source.

    Raises Misuse for a name that is no mutant's.
    """
    kind, _, wanted = spec.partition(":")
    if kind == "mutant":
        demand_known(wanted.removesuffix(_DEBUG))
        kind, _, wanted = f"{base_spec()}+{wanted}".partition(":")
    return kind, wanted


def _import(tell: Tell) -> Finish:
    def finish(unpacked_tree: Path, into: Path, pin: Pin) -> None:
        """Keep the source as a git tree: what is built of it is checked out, patched or not."""
        archives = sorted(unpacked_tree.glob("usr/src/linux-source-*.tar.*"))
        if len(archives) != 1:
            raise LabBroken(f"{len(archives)} source archives in {pin.packages[0].name}, 1 expected")
        tell(f"reading {archives[0].name}")
        (into / _ID).write_text(Checkout(into).tree_of_archive(archives[0], tell) + "\n")

    return finish
