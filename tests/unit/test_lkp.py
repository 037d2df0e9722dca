# SPDX-License-Identifier: GPL-2.0-only
"""``blklab draft --lkp``: parameters of a 0-day report as roles, what is left out, and mails that have none."""

import base64
import quopri
from pathlib import Path

import pytest

from harness.cli import main
from harness.limits.entries import load_scenario
from harness.scenario.model import Role, Scenario
from lab.base.errors import EXIT_MISUSE

TABLE = """\
Hello,

a robot noticed a -10.0% regression of fio.read_iops on:

=========================================================================================
bs/compiler/cpufreq_governor/direct/disk/fs/ioengine/nr_task/runtime/rw/tbox_group/test_size/testcase:
  64k/cc-1/performance/direct/1HDD/ext4/libaio/4/30s/randread/box-1/1G/fio-basic

commit:
"""
LIST = """\
> in testcase: fio-basic
> on test machine: 8 threads
> with following parameters:
>
> \tdisk: 2pmem
> \tnr_task: 50%
> \trw: randwrite
> \tbs: 8k
> \tioengine: sync
> \ttest_size: 8G
>
> test-description: a program
"""


def _draft(mail: bytes, folder: Path, *more: str) -> tuple[Scenario, str]:
    path, output = folder / "mail.eml", folder / "mail.yaml"
    path.write_bytes(mail)
    assert main(["draft", "--lkp", str(path), "--output", str(output), *more]) == 0
    comment = " ".join(output.read_text().replace("\n#", "").split())
    return load_scenario(str(output), search=folder), comment


def _roles(scenario: Scenario) -> list[Role]:
    (load,) = scenario.loads.values()
    return [*load.roles.values()]


def test_a_table_becomes_roles_and_names_what_they_lack(tmp_path: Path) -> None:
    scenario, comment = _draft(TABLE.encode(), tmp_path)
    roles = _roles(scenario)
    # lkp-tests: test_size / nr_task for each task, iodepth 32 unless given.
    assert [(role.rw, role.bs, role.iodepth, role.ioengine, role.direct) for role in roles] == [
        ("randread", 65536, 32, "libaio", True)
    ] * 4
    assert {role.options["size"] for role in roles} == {str((1 << 30) // 4)}
    assert scenario.claims and all(claim.draft for claim in scenario.claims)
    for name in ("compiler=cc-1", "cpufreq_governor=performance", "fs=ext4", "tbox_group=box-1"):
        assert f"mail.eml:7: {name} is left out" in comment
    assert "disk=" not in comment and "testcase=" not in comment


def test_a_list_becomes_a_role_and_a_share_of_cpus_is_left_out(tmp_path: Path) -> None:
    scenario, comment = _draft(LIST.encode(), tmp_path)
    (role,) = _roles(scenario)
    assert (role.rw, role.bs, role.iodepth, role.ioengine, role.direct) == ("randwrite", 8192, 1, "sync", False)
    assert "size" not in role.options
    assert "mail.eml:6: nr_task=50% is left out" in comment and "mail.eml:10: test_size=8G is left out" in comment
    assert not scenario.claims


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64", "quoted"])
def test_a_mail_is_decoded_and_its_quotes_are_removed(encoding: str, tmp_path: Path) -> None:
    text = TABLE.replace("/4/", "/2t/").encode()
    head = f"From: a@example.org\nContent-Type: text/plain\nContent-Transfer-Encoding: {encoding}\n\n".encode()
    mails = {
        "quoted-printable": head + quopri.encodestring(text),
        "base64": head + base64.encodebytes(text),
        "quoted": b"".join(b">> > " + line for line in text.splitlines(keepends=True)),
    }
    assert len(_roles(_draft(mails[encoding], tmp_path)[0])) == 2


@pytest.mark.parametrize(
    ("mail", "says"),
    [
        (b"Hello\n", "is no report of fio-basic: it has no table of parameters"),
        (TABLE.replace("fio-basic", "will-it").encode(), "is no report of fio-basic: its tests are will-it"),
        (TABLE.replace("/libaio", "").encode(), "mail.eml:7: 12 values for 13 parameters"),
        (TABLE.replace("libaio", "mmap").encode(), "mail.eml:7:1: ioengine: mmap is not among libaio"),
        (TABLE.replace("/1G/", "/all/").encode(), 'mail.eml:7: test_size: "all" is not a size'),
        (TABLE.replace("64k", "6\x1b[2J\0").encode(), r'bs: "6\x1b[2J\x00" is not a size'),
        (TABLE.replace("/4/", "/99/").encode(), "numjobs: a load has at most 32 roles"),
        (b"x" * (9 << 20), "larger than 8 MiB"),
        (b"Content-Type: message/rfc822\n\n" * 5000 + TABLE.encode(), "its parts are nested too deeply"),
        (b"\0\xff\x1b" * 999, "is no report of fio-basic"),
    ],
)
def test_mails_that_are_no_report(mail: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mail.eml").write_bytes(mail)
    assert main(["draft", "--lkp", str(tmp_path / "mail.eml")]) == EXIT_MISUSE
    said = capsys.readouterr().err
    assert says in said and "\x1b" not in said and "\0" not in said
