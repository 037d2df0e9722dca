# SPDX-License-Identifier: GPL-2.0-only
"""Measures commits: builds the kernel, runs the scenario on it and reads the claims."""

from dataclasses import dataclass
from pathlib import Path

from harness.bisect.notebook import ClaimSeen, Observation
from harness.judge.claims import ClaimVerdict
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.load import in_another_layout
from harness.scenario.model import Scenario, Status
from lab.base.digest import canonical, digest_bytes, digest_file
from lab.base.errors import CannotJudge, LabBroken
from lab.base.units import Tell
from lab.kernels import build, kconfig, tree
from lab.kernels.model import Kernel
from lab.session import Lab

_MAKES_BOOTS = Path(build.__file__).parents[1]
"""The package whose files may change what a guest does."""


@dataclass(frozen=True)
class CommitTrial:
    """What runs on each commit of the repository ``clone``, whose kernel specification is ``spec`` (``tree:PATH``).

    No ``arms``: all; ``seeds`` None: those of the scenario.
    """

    clone: Path
    spec: str
    scenario: Scenario
    seeds: int | None = None
    arms: tuple[str, ...] = ()


class KernelOracle:
    def __init__(self, bench: Bench, trial: CommitTrial, tell: Tell) -> None:
        self._bench, self._trial, self._tell = bench, trial, tell
        self.setting = _setting(bench.lab, trial)
        # A finished build does not wait for speculative ones.
        self._built: dict[str, Kernel | CannotJudge] = {}

    @property
    def scatters(self) -> bool:
        return not self._trial.scenario.timing.exact

    def kernel(self, commit: str) -> Kernel:
        """Raises CannotJudge if the commit does not build."""
        kernel = self._built.get(commit)
        if kernel is None:
            kernel = self._built[commit] = self._build(commit)
        if isinstance(kernel, CannotJudge):
            raise kernel
        return kernel

    def _build(self, commit: str) -> Kernel | CannotJudge:
        trial = self._trial
        source = tree.KernelSource(trial.clone, f"{trial.spec}@{commit}", self._title(commit), revision=commit)
        try:
            return tree.built(source, self._bench.lab.cache, tell=self._tell)
        except CannotJudge as error:
            return error

    def _title(self, commit: str) -> str:
        return f"{self._trial.spec} at {commit[:12]}"

    def prepare(self, commit: str) -> None:
        self.kernel(commit)

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        try:
            kernel = self.kernel(commit)
        except CannotJudge as error:
            said = error.message.removeprefix(f"{self._title(commit)} ")
            return Observation(commit, self.setting, untestable=said)
        scenario = in_another_layout(self._trial.scenario) if moved else self._trial.scenario
        request = Request(scenario, kernel, 1 if once else self._trial.seeds, self._trial.arms)
        run = self._bench.run(request)
        broken = [cell for cell in run.verdict.cells if cell.lab_broke]
        if broken:
            raise LabBroken("; ".join(broken[0].reasons) or "a boot broke", remedy=f"see {run.folder.path}")
        claims = tuple(claim_seen(claim) for claim in run.verdict.claims)
        reasons = {reason for cell in run.verdict.cells if cell.status is not Status.PASS for reason in cell.reasons}
        untestable = "" if any(claim.values for claim in claims) else "; ".join(sorted(reasons))
        return Observation(
            commit, self.setting, claims, untestable, f"{run.folder.path.parent.name}/{run.folder.path.name}"
        )

    def drift(self, good: str, bad: str) -> str:
        """The differing options of two commits, in words."""
        first, second = self.kernel(good), self.kernel(bad)
        drifted = kconfig.drift(first.config, second.config)
        return kconfig.describe_drift(drifted, good[:12], bad[:12]).rstrip()


def claim_seen(claim: ClaimVerdict) -> ClaimSeen:
    """The part of a claim's verdict that a bisection keeps."""
    ensemble = claim.judgement.ensemble
    values = () if ensemble is None else tuple(value for _, value in sorted(ensemble.values.items()))
    return ClaimSeen(claim.that, claim.ratio, str(claim.judgement.status), values)


def _setting(lab: Lab, trial: CommitTrial) -> str:
    files = sorted(path for path in _MAKES_BOOTS.rglob("*") if path.is_file() and path.suffix != ".pyc")
    made_by = [(path.name, digest_file(path)) for path in files]
    fragments = [path.read_text() for path in kconfig.fragments()]
    own = [trial.scenario.digest, trial.seeds, list(trial.arms)]
    qemu = [lab.qemu.version_text, lab.qemu.package, lab.qemu.digest, lab.steady.digest]
    return digest_bytes(canonical([own, qemu, made_by, lab.payload.digest, fragments, build.toolchain().identity]))
