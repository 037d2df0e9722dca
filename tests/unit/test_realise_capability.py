# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.contents import note
from lab.kernels.model import Kernel
from lab.realise.capability import REQUIRED_OPTIONS, missing
from lab.topology.load import load_topology
from lab.topology.model import Topology
from lab.topology.parameters import apply_setting
from tests.unit.payload_samples import kernel

PARAMETERS = {
    "null_blk": ("nr_devices", "shared_tags", "hw_queue_depth", "submit_queues"),
    "tcm_loop": ("can_queue", "cmd_per_lun", "nr_hw_queues"),
}
MODULES = dict.fromkeys(("null_blk", "target_core_iblock", "sd_mod", "tcm_loop", "dm-mod", "bfq"), "")
BUILTIN = ("configfs", "mq-deadline")


def able(folder: Path, **changes: object) -> Kernel:
    made = kernel(folder, MODULES, builtin=BUILTIN, parameters=PARAMETERS)
    return replace(made, **changes)  # type: ignore[arg-type]


def topology(name: str) -> Topology:
    return load_topology(name, near=Path())


def test_a_kernel_has_it_all_or_lacks_target_core_user(tmp_path: Path) -> None:
    for name in ("neighbours", "neighbours-one-queue", "null-shared-tags"):
        assert missing(able(tmp_path), topology(name), {"scheduler": "bfq"}) == ()
    polled = apply_setting(topology("null-shared-tags"), "hba.poll_queues", 1)
    assert missing(able(tmp_path), polled, {}) == ("null_blk of 6.1.0-50-amd64 has no parameter poll_queues",)
    (reason,) = missing(able(tmp_path), topology("calibration-tcmu"), {})
    assert reason == "6.1.0-50-amd64 has no module target_core_user"


def test_all_reasons_at_once(tmp_path: Path) -> None:
    poor = kernel(tmp_path, {"null_blk": "", "tcm_loop": ""}, parameters={"null_blk": ("nr_devices",)}, config={})
    reasons = missing(
        poor, topology("neighbours"), {"scheduler": "bfq"}, options=("BLK_WBT",), modules=("nosuch", "null_blk")
    )
    release = "6.1.0-50-amd64"
    assert reasons == (
        *(f"CONFIG_{option} is not set: {why}" for option, why in REQUIRED_OPTIONS.items()),
        "CONFIG_BLK_WBT is not set",
        f"{release} has no module nosuch",
        f"{release} has no module configfs",
        f"{release} has no module target_core_iblock",
        f"{release} has no module sd_mod",
        f"tcm_loop of {release} has no parameter can_queue, cmd_per_lun, nr_hw_queues"
        " (fixed at 1024 for drivers tcm_loop and tcmu: write that, or use Linux 6.1 on)",
        f"{release} has no module bfq",
    )


def test_an_iopolicy_is_a_word_of_nvme_core(tmp_path: Path) -> None:
    modules = ("null_blk", "nvmet-tcp", "nvme-tcp", "nvme-core", "sch_prio", "sch_tbf", "cls_u32")
    config = dict.fromkeys((f"CONFIG_{option}" for option in (*REQUIRED_OPTIONS, "NVME_MULTIPATH")), "y")
    made = kernel(tmp_path, dict.fromkeys(modules, ""), builtin=BUILTIN, parameters=PARAMETERS, config=config)
    core = next(tmp_path.rglob("nvme-core.ko*"))
    core.write_bytes(core.read_bytes() + b"\0numa\0round-robin\0")
    note(made.image.parent)
    adaptive = apply_setting(topology("nvme-two-paths"), "stack.two.iopolicy", "queue-depth")
    assert missing(made, topology("nvme-two-paths"), {}) == ()
    assert missing(made, adaptive, {}) == (
        "nvme-core of 6.1.0-50-amd64 has no iopolicy queue-depth, which came with Linux 6.11",
    )
    assert missing(replace(made, config=dict.fromkeys(list(config)[:-1], "y")), adaptive, {}) == (
        "CONFIG_NVME_MULTIPATH is not set: each path of a namespace would be a device",
    )


def test_an_attribute_of_md_is_a_word_of_its_module(tmp_path: Path) -> None:
    modules = ("target_core_user", "sd_mod", "tcm_loop", "raid456", "md-mod")
    made = kernel(tmp_path, dict.fromkeys(modules, ""), builtin=BUILTIN, parameters=PARAMETERS)
    deep = apply_setting(topology("sun-x4540-raid6"), "stack.md5.md.sync_io_depth", 64)
    assert missing(made, topology("sun-x4540-raid6"), {}) == ()
    assert missing(made, deep, {}) == ("md-mod of 6.1.0-50-amd64 has no sync_io_depth, which came with Linux 6.16",)
    module = next(tmp_path.rglob("md-mod.ko*"))
    module.write_bytes(module.read_bytes() + b"\0sync_io_depth\0")
    note(made.image.parent)
    assert missing(made, deep, {}) == ()


def test_an_attribute_of_a_built_in_md_is_a_word_of_the_kernel(tmp_path: Path) -> None:
    modules = ("target_core_user", "sd_mod", "tcm_loop", "raid456")
    made = kernel(tmp_path, dict.fromkeys(modules, ""), builtin=(*BUILTIN, "md-mod"), parameters=PARAMETERS)
    made.image.write_bytes(b"a kernel")
    deep = apply_setting(topology("sun-x4540-raid6"), "stack.md5.md.sync_io_depth", 64)
    assert missing(made, deep, {}) == ("md-mod of 6.1.0-50-amd64 has no sync_io_depth, which came with Linux 6.16",)
    newer = replace(made, image=tmp_path / "newer")
    newer.image.write_bytes(b"a kernel\0sync_io_depth\0")
    assert missing(newer, deep, {}) == ()


def test_options_of_a_scenario(tmp_path: Path) -> None:
    config = dict.fromkeys((f"CONFIG_{option}" for option in REQUIRED_OPTIONS), "y")
    made = able(tmp_path, config={**config, "CONFIG_A": "m", "CONFIG_B": "n", "CONFIG_C": "1000"})
    reasons = missing(made, topology("null-shared-tags"), {}, options=("A", "B", "C", "D"))
    assert reasons == tuple(f"CONFIG_{option} is not set" for option in "BCD")


def test_parameters_of_a_fixed_tcm_loop_are_not_asked_for(tmp_path: Path) -> None:
    old = kernel(tmp_path, MODULES, builtin=BUILTIN, parameters={"null_blk": PARAMETERS["null_blk"]})
    assert missing(old, topology("neighbours-one-queue"), {"scheduler": "none"}) == ()
    (reason,) = missing(old, topology("neighbours"), {"scheduler": "none"})
    assert "fixed at 1024" in reason


def test_a_parameter_whose_name_is_only_part_of_another_does_not_count(tmp_path: Path) -> None:
    parameters = {**PARAMETERS, "null_blk": ("nr_devices", "g_shared_tags_x", "hw_queue_depth", "submit_queues")}
    made = kernel(tmp_path, MODULES, builtin=BUILTIN, parameters=parameters)
    (reason,) = missing(made, topology("null-shared-tags"), {})
    assert reason.endswith("has no parameter shared_tags")
    parameters["null_blk"] = ("nr_devices", "no_shared_tags", "hw_queue_depth", "submit_queues")
    made = kernel(tmp_path / "other", MODULES, builtin=BUILTIN, parameters=parameters)
    (reason,) = missing(made, topology("null-shared-tags"), {})
    assert reason.endswith("has no parameter shared_tags")


def test_a_built_in_module_needs_a_file_only_for_parameters(tmp_path: Path) -> None:
    without = {name: path for name, path in MODULES.items() if name in PARAMETERS}
    rest = tuple(name for name in MODULES if name not in PARAMETERS)
    made = kernel(tmp_path / "some", without, builtin=(*BUILTIN, *rest), parameters=PARAMETERS)
    assert missing(made, topology("neighbours"), {"scheduler": "mq-deadline"}) == ()
    made = kernel(tmp_path / "all", {}, builtin=(*BUILTIN, *MODULES))
    assert missing(made, topology("null-shared-tags"), {"scheduler": "mq-deadline"}) == (
        f"null_blk is built into {made.release}, but its parameters are set as a module's: build it as =m",
    )


@pytest.mark.parametrize(
    ("sign", "why"),
    [
        (b"Block(%d) out of cmd's iov[] has", "writes two lines to the console for each command, as Linux 4.15"),
        (b"%d completions handled from timeout", "takes completions in order only, as Linux 4.4"),
    ],
)
def test_a_module_that_no_scenario_can_use(tmp_path: Path, sign: bytes, why: str) -> None:
    made = kernel(tmp_path, {**MODULES, "target_core_user": ""}, builtin=BUILTIN, parameters=PARAMETERS)
    assert missing(made, topology("calibration-tcmu"), {}) == ()
    module = tmp_path / "target_core_user.ko"
    module.write_bytes(module.read_bytes() + sign)
    note(tmp_path)
    assert missing(made, topology("calibration-tcmu"), {}) == (f"target_core_user of 6.1.0-50-amd64 {why}",)
