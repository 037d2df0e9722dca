# SPDX-License-Identifier: GPL-2.0-only
"""Words for the kernel command line as a setting of an arm, and what only some kernels have."""

import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from lab.guest.image import with_dependencies
from lab.guest.steps.device import Module
from lab.guest.steps.setting import Confirm
from lab.kernels.model import Kernel
from lab.realise import recipe
from lab.realise.capability import has_word, missing
from lab.topology.load import load_topology
from lab.topology.model import Driver, Topology
from tests.unit.kernel_samples import bzimage, elf
from tests.unit.payload_samples import CONFIG, kernel
from tests.unit.scenario_text import GOOD, RIG, load, mistakes

WORD = "scsi_mod.use_blk_mq=N"
LOADED = {"null_blk": "", "target_core_iblock": "", "tcm_loop": "scsi_mod", "sd_mod": "scsi_mod", "scsi_mod": ""}
PARAMETERS = {"null_blk": ("nr_devices",), "tcm_loop": ("can_queue", "cmd_per_lun", "nr_hw_queues")}
STRINGS = b"\0scsi_mod.use_blk_mq\0preempt=\0threadirqs\0"


def able(folder: Path, *, loadable: bool, strings: bytes = b"", config: dict[str, str] = CONFIG) -> Kernel:
    """A kernel with scsi_mod as a module that has the parameter, or with everything but ``strings`` as a module."""
    modules = LOADED if loadable else {name: "" for name in LOADED if name != "scsi_mod"}
    parameters = {**PARAMETERS, "scsi_mod": ("use_blk_mq",)}
    made = kernel(folder, modules, builtin=("configfs",), parameters=parameters, config=config)
    image = folder / "bzimage"
    image.write_bytes(bzimage(lzma.compress(elf() + strings)))
    return replace(made, image=image)


def wanted(words: str) -> Topology:
    return replace(load_topology("neighbours", near=Path()), kernel_words=tuple(words.split()))


def test_arms_and_topologies_have_them_and_digests_cover_them(tmp_path: Path) -> None:
    plain = load(GOOD, tmp_path)
    worded = load(GOOD.replace("cmd_per_lun: 16}", f"cmd_per_lun: 16, kernel_words: {WORD} threadirqs}}"), tmp_path)
    assert worded.arms["limited"].topology.kernel_words == (WORD, "threadirqs")
    assert worded.arms["limited"].settings["kernel_words"] == f"{WORD} threadirqs"
    assert worded.arms["shared"].topology.kernel_words == ()
    assert worded.digest != plain.digest
    (tmp_path / "rig.yaml").write_text(RIG.replace("memory", f"kernel_words: {WORD}\nmemory"))
    assert load_topology("./rig.yaml", near=tmp_path).kernel_words == (WORD,)


@pytest.mark.parametrize("word", ["a b='x'", "a  b", "a=$(x)", "=N"])
def test_what_is_no_word(word: str, tmp_path: Path) -> None:
    found = mistakes(GOOD.replace("cmd_per_lun: 16}", f'cmd_per_lun: 16, kernel_words: "{word}"}}'), tmp_path)
    assert "kernel_words: expected words with blanks between them" in found


def test_a_parameter_is_read_back_where_the_kernel_shows_it() -> None:
    (confirmed,) = (step for step in recipe.devices(wanted(f"{WORD} threadirqs"))[-1:] if isinstance(step, Confirm))
    assert confirmed.fields()[2:] == ("/sys/module/scsi_mod/parameters/use_blk_mq", "N")


def test_a_loadable_module_gets_its_parameter(tmp_path: Path) -> None:
    made = able(tmp_path, loadable=True)
    steps = with_dependencies(
        made, [Module("tcm_loop", "can_queue=4")], (WORD, "threadirqs", "tcm_loop.nr_hw_queues=1")
    )
    assert steps == (Module("scsi_mod", "use_blk_mq=N"), Module("tcm_loop", "can_queue=4 nr_hw_queues=1"))


def test_a_parameter_that_the_kernel_lacks_is_named(tmp_path: Path) -> None:
    words = f"{WORD} preempt=full threadirqs"
    assert missing(able(tmp_path / "a", loadable=True, strings=STRINGS), wanted(words), {}) == ()
    assert missing(able(tmp_path / "b", loadable=False, strings=STRINGS), wanted(words), {}) == ()
    assert missing(able(tmp_path / "c", loadable=False), wanted(words), {}) == (
        "6.1.0-50-amd64 has no parameter scsi_mod.use_blk_mq, as Linux 5.0 removed the legacy request path"
        " (f664a3cc17b7)",
        "6.1.0-50-amd64 has no parameter preempt",
        "6.1.0-50-amd64 has no parameter threadirqs",
    )


def test_a_value_that_later_kernels_always_have(tmp_path: Path) -> None:
    made = able(tmp_path, loadable=False)
    assert missing(made, wanted("scsi_mod.use_blk_mq=Y"), {}) == ()
    assert not has_word(made, "scsi_mod.use_blk_mq")


def test_elevators_of_the_legacy_path(tmp_path: Path) -> None:
    modern = able(tmp_path / "a", loadable=True)
    assert missing(modern, wanted(""), {"scheduler": "noop"}) == (
        "6.1.0-50-amd64 has no elevator noop, which Linux 5.0 removed (f382fb0bcef4)",
    )
    assert missing(modern, wanted(""), {"scheduler": "cfq"}) == ("6.1.0-50-amd64 has no module cfq-iosched",)
    old = able(tmp_path / "b", loadable=True, config={**CONFIG, "CONFIG_IOSCHED_NOOP": "y"})
    assert missing(old, wanted(""), {"scheduler": "noop"}) == ()
    blk_mq = able(
        tmp_path / "c", loadable=True, config={**CONFIG, "CONFIG_IOSCHED_NOOP": "y", "CONFIG_SCSI_MQ_DEFAULT": "y"}
    )
    needed = "elevator noop belongs to the legacy request path: write kernel_words: scsi_mod.use_blk_mq=N"
    assert missing(blk_mq, wanted(""), {"scheduler": "noop"}) == (needed,)
    assert missing(old, wanted("scsi_mod.use_blk_mq=Y"), {"scheduler": "noop"}) == (needed,)
    assert missing(blk_mq, wanted(WORD), {"scheduler": "noop"}) == ()
    for driver in (Driver.NULL_BLK, Driver.VIRTIO_SCSI):
        hba = replace(wanted(WORD).hbas["twa0"], driver=driver)
        says = f"elevator noop belongs to the legacy request path, and {driver} has none"
        assert says in missing(old, replace(wanted(WORD), hbas={"twa0": hba}), {"scheduler": "noop"})


def test_a_parameter_that_older_kernels_do_without(tmp_path: Path) -> None:
    step = Module("scsi_debug", "max_queue=4 host_max_queue=4", ("host_max_queue",))
    for name, parameters in (("old", ("max_queue",)), ("new", ("max_queue", "host_max_queue"))):
        made = kernel(tmp_path / name, {"scsi_debug": ""}, parameters={"scsi_debug": parameters})
        words = " ".join(f"{one}=4" for one in parameters)
        assert with_dependencies(made, [step]) == (Module("scsi_debug", words),)
