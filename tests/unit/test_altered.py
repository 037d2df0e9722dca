# SPDX-License-Identifier: GPL-2.0-only
"""Runs whose files were changed after the boots, with checksums that fit where that is possible."""

import base64
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.commands import verdict
from harness.record.judging import Altered, rejudge
from harness.record.store import RunFacts, RunFolder, read_boot, save_boot, with_checksums
from harness.scenario.model import Claim, Control, Status
from lab.base.digest import digest_bytes, digest_results
from lab.base.errors import EXIT_CANNOT_JUDGE
from tests.unit.test_store import GREEN, alter, boot, finished


def swap_seeds(run: RunFolder) -> None:
    one, other, aside = boot(run, "none", 1), boot(run, "none", 2), run.path / "aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def copy_seed_1(run: RunFolder) -> None:
    for seed in (2, 3):
        shutil.rmtree(boot(run, "none", seed))
        shutil.copytree(boot(run, "none", 1), boot(run, "none", seed))


def replay_seed_1(run: RunFolder) -> None:
    """The boot of seed 1 counted for seed 2 as well, with a fingerprint and a checksum that fit."""
    record = read_boot(boot(run, "none", 1))
    shutil.rmtree(boot(run, "none", 2))
    for seed in (1, 2):
        fingerprint = {**record.fingerprint, "job": "of seed 1", "seed": str(seed)}
        save_boot(replace(record, folder=boot(run, "none", seed), fingerprint=fingerprint))


def cut_results(run: RunFolder) -> None:
    folder = boot(run, "none", 1)
    (folder / "results.txt").write_bytes(b"whole\n")
    (folder / "expected.sha256").write_text(f"{digest_bytes(b'whole' + bytes([10]))}  results.txt\n")
    (folder / "results.txt").write_bytes(b"whol")


def binary_digest(run: RunFolder) -> None:
    cut_results(run)
    (boot(run, "none", 1) / "expected.sha256").write_bytes(b"\xff" * 40)


def edit(name: str, change: Callable[[Any], None]) -> Callable[[RunFolder], None]:
    def edited(run: RunFolder) -> None:
        path = run.path / name
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document))

    return edited


def as_before_checksums(change: Callable[[RunFolder], None]) -> Callable[[RunFolder], None]:
    """The same change to a run of schema 1, whose run.json has no checksums."""

    def downgrade(plan: Any) -> None:
        del plan["checksums"]
        plan["schema"] = 1

    def edited(run: RunFolder) -> None:
        change(run)
        edit("run.json", downgrade)(run)

    return edited


def other_record(run: RunFolder, **changed: Any) -> None:
    """Another record of the first boot, with a checksum that fits."""
    save_boot(replace(read_boot(boot(run, "none", 1)), **changed))


def other_file(run: RunFolder, name: str, change: Callable[[bytes], bytes], **fingerprint: str) -> None:
    """Another file of the first boot, with a checksum and a digest that fit."""
    record = read_boot(boot(run, "none", 1))
    files = {**record.files, name: change(record.files[name])}
    other_record(run, files=files, digest=digest_results(files), fingerprint={**record.fingerprint, **fingerprint})


def other_facts(run: RunFolder, facts: RunFacts) -> None:
    """Other facts of the run, with checksums that fit."""
    plan = with_checksums(facts, (run.path / "scenario.json").read_bytes())
    (run.path / "run.json").write_text(json.dumps(plan))


def other_digest(run: RunFolder) -> None:
    """Another digest in the first boot's record, with a checksum that fits."""
    other_record(run, digest="0" * 64)


def of_today(run: RunFolder) -> None:
    record = read_boot(boot(run, "none", 1))
    other_record(run, fingerprint={**record.fingerprint, "argv": "QEMU -smp 1 -fw_cfg name=job,file=job.cpio"})


def more_ios(run: RunFolder) -> None:
    """fio's count of a load is larger by an amount that its latencies do not allow."""

    def more(data: bytes) -> bytes:
        solo = json.loads(data)
        solo["jobs"][0]["read"]["total_ios"] *= 1000
        return json.dumps(solo).encode()

    other_file(run, "solo.json", more)


def meant(run: RunFolder) -> None:
    """What the scenario is about, in scenario.json alone, with checksums that fit."""
    entries: list[Claim | Control] = [*run.scenario.claims, *run.scenario.controls]
    rows = [{"ratio": entry.ratio.text, "expect": entry.expect.text} for entry in entries]
    (run.path / "scenario.yaml").write_text(json.dumps({"claims": rows}))
    edit("scenario.json", lambda model: model.update(meant=["busy-cpu"]))(run)
    other_facts(run, run.facts)


def without_seeds(plan: Any) -> None:
    plan.update(seeds=[1], cells=[cell for cell in plan["cells"] if cell["seed"] == 1])


def send(run: RunFolder, *, cut: int = 0, console: str = "") -> None:
    """The channels of the first boot as a guest sends them, ``cut`` bytes less of the results."""
    folder = boot(run, "none", 1)
    record = read_boot(folder)
    lines = ["BLKLAB 1", "READY 6.1.0-18-amd64 1.5"]
    for name, data in record.files.items():
        lines += [f"FILE {name} {len(data)} {digest_bytes(data)}", base64.b64encode(data).decode()]
    text = "\n".join([*lines, f"END {len(record.files)} 9.5", "BYE", ""])
    (folder / "results.txt").write_text(text[: len(text) - cut])
    (folder / "console.txt").write_text(f"[    1.000000] x\n{console}")


def without_results(run: RunFolder) -> None:
    """What the guest sent is gone, and what names its checksum is not."""
    cut_results(run)
    (boot(run, "none", 1) / "results.txt").unlink()


def other_file_sent(run: RunFolder) -> None:
    send(run)
    other_file(run, "solo.json", lambda data: data + b" ")


def as_one_seed(run: RunFolder) -> None:
    """Seeds left out of the plan, their boots' folders removed, with checksums that fit and a command that does not."""
    for cell in run.facts.cells:
        if cell.seed > 1:
            shutil.rmtree(run.boot_folder(cell))
    cells = tuple(cell for cell in run.facts.cells if cell.seed == 1)
    command = ("blklab", "run", "sample", "--seeds", "3")
    other_facts(run, replace(run.facts, seeds=(1,), cells=cells, command=command))


def other_bounds(run: RunFolder) -> None:
    """The file beside a widened scenario.json whose checksums fit."""
    entry = {"ratio": run.scenario.claims[0].ratio.text, "expect": ">= 0.95"}
    (run.path / "scenario.yaml").write_text(json.dumps({"claims": [entry]}))


OOPS = "[    5.000000] Kernel panic - not syncing: Fatal exception\n"


def recomputed(run: RunFolder, **kernel: str) -> None:
    other_facts(run, replace(run.facts, kernel=replace(run.facts.kernel, **kernel)))


def log(line: str, **fingerprint: str) -> Callable[[RunFolder], None]:
    """The kernel's log of the first boot with a further line, and with checksums and digests that fit."""
    row = f"[    1.000000] {line}\n".encode()
    return lambda run: other_file(run, "kmsg", lambda data: data + row, **fingerprint)


def other_job(run: RunFolder) -> None:
    (boot(run, "none", 1) / "job.cpio").write_bytes(b"another job")


LOCKUP = "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:99]"
LOOSEN = edit("scenario.json", lambda model: model["claims"][0]["expect"].update(text=">= 0.1", low=0.1))
ONE_SEED = edit("run.json", lambda plan: plan.update(seeds=[1]))
FEWER = edit("run.json", without_seeds)
RELEASE = edit("run.json", lambda plan: plan["kernel"].update(release="6.12.1"))


ORIGIN = "Debian bookworm, linux-image-6.1.0-18-amd64 6.1.76-1"
BANNER = b"[    0.000000] Linux version 6.1.0-18-amd64 (gcc-12 (Debian 12.2.0-14)) #1 SMP Debian 6.1.76-1 (x)\n"


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (swap_seeds, r"boots/000/boot.json: fingerprint has seed 2, the cell has 1"),
        (copy_seed_1, r"boots/002/boot.json: fingerprint has seed 1, the cell has 2"),
        (LOOSEN, r"scenario.json: checksum is \w{12}, run.json names \w{12}"),
        (as_before_checksums(LOOSEN), r"scenario.json: digest of the scenario is \w{12}, run.json names \w{12}"),
        (FEWER, r"run.json: checksum is \w{12}, run.json names \w{12}"),
        (as_before_checksums(FEWER), r"run.json: its seeds are 1, its command and scenario ask for 3"),
        (RELEASE, r"run.json: checksum is \w{12}, run.json names \w{12}"),
        (as_before_checksums(RELEASE), r"run.json: kernel release is 6.12.1, the guest booted 6.1.0-18-amd64"),
        (as_before_checksums(ONE_SEED), r"run.json: its cells are not its arms by its seeds: arm \w+, seed [23]"),
        (replay_seed_1, r"boots/002/boot.json: seeds 1 and 2 of arm none booted one job, which names its seed"),
        (
            other_digest,
            r"boots/000/boot.json: the results have \w{12}, the file names 000000000000",
        ),
        (binary_digest, r"boots/000/expected.sha256: the results have \w{12}, the file names "),
        (cut_results, r"boots/000/expected.sha256: the results have \w{12}, the file names \w{12}"),
        (lambda run: send(run, cut=5), r"boots/000/results.txt: does not end as boot.json says: there is no BYE"),
        (lambda run: send(run, console=OOPS), r"boots/000/console.txt: shows '\[    5.000000\] Kernel panic"),
        (without_results, r"boots/000/results.txt: is missing"),
        (other_file_sent, r"boots/000/results.txt: has another solo.json than out/"),
        (as_one_seed, r"run.json: its seeds are 1, its command and scenario ask for 3"),
        (other_bounds, r"scenario.yaml: has no none\.\S+ / none\.\S+ >= 0.9, which scenario.json has"),
        (edit("run.json", lambda plan: plan.pop("checksums")), r"run.json: has no checksums"),
        (
            as_before_checksums(of_today),
            r"run.json: is of schema 1, without checksums; boots/000 is of a later",
        ),
        (
            more_ios,
            r"boots/000/out/solo.json: fio counted \d+ I/Os of fast, \d+ ns each: more than 64 at a time are in",
        ),
        (log(LOCKUP), r"boot.json: has no warning, the guest's log has \[    1.000000\] watchdog: BUG: soft lockup"),
        (
            log("Command line: quiet", cmdline="console=ttyS0"),
            r"boot.json: command line is console=ttyS0, the guest had quiet",
        ),
        (
            lambda run: recomputed(run, spec="debian:6.12"),
            r"run.json: kernel spec is debian:6.12, the guest booted 6.1.0-18",
        ),
        (
            lambda run: recomputed(run, origin="Debian bookworm, linux-image-6.1.0-18-amd64 6.1.99-9"),
            r"run.json: kernel origin is .* 6.1.99-9, the guest booted 6.1.76-1",
        ),
        (other_job, r"job.cpio: sha256 is \w{12}, boot.json names"),
        (meant, r"scenario.yaml: has another meant than scenario.json"),
        (lambda run: shutil.rmtree(boot(run, "red", 1)), r"boots/001/boot.json: is missing, and the run has a verdict"),
        (lambda run: (boot(run, "none", 1) / "out" / "solo.json").unlink(), r"boots/000/out/solo.json: is missing"),
        (
            lambda run: alter("out/solo.json", lambda data: data + b" ")(boot(run, "none", 1)),
            r"boots/000/out/solo.json: checksum is \w{12}, boot.json names \w{12}",
        ),
    ],
)
def test_a_tampered_run_is_not_judged(tmp_path: Path, tamper: Callable[[RunFolder], None], says: str) -> None:
    run = finished(tmp_path, GREEN, {"kmsg": BANNER})
    tamper(run)
    with pytest.raises(Altered, match=says) as raised:
        rejudge(run.path)
    assert raised.value.exit_code == EXIT_CANNOT_JUDGE


@pytest.mark.parametrize("console", ["", OOPS.replace("5.0", "9.6")])
def test_a_run_as_it_was_sent_is_judged(tmp_path: Path, console: str) -> None:
    """A kernel may hang after its last word, when it powers off."""
    run = finished(tmp_path, GREEN, {"kmsg": b"[    0.000000] Linux version 6.1.0-18-amd64 (gcc) #1\n"})
    send(run, console=console)
    assert rejudge(run.path).differences == ()


def test_other_bounds_than_those_of_the_checkout_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of an older file, or one whose bounds were rewritten with everything that depends on them."""
    run = finished(tmp_path, GREEN, {"kmsg": BANNER})
    claim = run.scenario.claims[0]
    other = replace(run.scenario, claims=(replace(claim, expect=replace(claim.expect, text=">= 0.99", low=0.99)),))
    monkeypatch.setattr(verdict, "is_shipped", lambda name: name == "sample")
    for shipped, expected in ((other, 1), (run.scenario, 0)):
        monkeypatch.setattr(verdict, "load_scenario", lambda name, shipped=shipped: shipped)
        main(["judge", str(run.path)])
        says = f"{claim.ratio.text}: this run asks for {claim.expect.text}, scenarios/sample.yaml for >= 0.99"
        assert capsys.readouterr().err.count(says) == expected


@pytest.mark.parametrize(
    ("changed", "shipped", "says"),
    [
        ({}, True, "kernel digest {digest}"),
        ({"digest": "0" * 64}, True, "kernel digest 000000000000"),
        ({}, False, "kernel digest {digest}; bounds, as scenarios/ has no sample"),
        ({"spec": "path:/x"}, True, "kernel digest {digest}; kernel spec path:/x"),
        ({"origin": "built from /x"}, True, "kernel digest {digest}; kernel origin built from /x"),
    ],
)
def test_what_a_rewrite_of_every_file_changes_unseen_is_told(
    changed: dict[str, str],
    *,
    shipped: bool,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The guest's log has the release, the package and its version; no file of a guest has the digest of its kernel."""
    run = finished(tmp_path, GREEN, {"kmsg": BANNER})
    recomputed(run, **{"spec": "debian:6.1", "origin": ORIGIN, **changed})
    for folder in (run.path / "boots").iterdir() if "digest" in changed else ():
        record = read_boot(folder)
        save_boot(replace(record, fingerprint={**record.fingerprint, "kernel": changed["digest"]}))
    monkeypatch.setattr(verdict, "is_shipped", lambda _: shipped)
    monkeypatch.setattr(verdict, "load_scenario", lambda name: run.scenario)
    assert main(["judge", str(run.path)]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "only another run can confirm" in line)
    assert line.partition("confirm: ")[2] == says.format(digest=run.facts.kernel.digest[:12])


def test_more_idle_time_than_passed_cannot_be_judged(tmp_path: Path) -> None:
    """The kernel's own rounding aside; checksums fit, and the stored verdict passed."""
    run, name = finished(tmp_path, GREEN, {}), "solo.samples.json"

    def idler(data: bytes) -> bytes:
        samples = json.loads(data)
        samples["cpu"]["idle"] = 2 * samples["cpu"]["ticks"]
        return json.dumps(samples).encode()

    other_file(run, name, idler)
    again = rejudge(run.path)
    (wrong,) = {reason for cell in again.verdict.cells for reason in cell.reasons}
    assert wrong == f'{name}: field "cpu.idle" is 20000000000 ns of 10000000000 ns'
    assert (again.exit_code, again.verdict.status) == (EXIT_CANNOT_JUDGE, Status.ERROR)
    assert again.differences
