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
  64k/cc-1/performance/direct/1HDD/-/libaio/4/30s/randread/box-1/1G/fio-basic

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
    ]
    assert roles[0].numjobs == 4
    assert {role.options["size"] for role in roles} == {str((1 << 30) // 4)}
    assert scenario.claims and all(claim.draft for claim in scenario.claims)
    for name in ("compiler=cc-1", "cpufreq_governor=performance", "tbox_group=box-1"):
        assert f"mail.eml:7: {name} is left out" in comment
    assert all(f"{name}=" not in comment for name in ("disk", "testcase", "test_size"))


def test_the_filesystem_of_a_mail_is_that_of_the_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of four tasks has its own file; a guest keeps 256 MiB of files, 64 MiB each."""
    scenario, comment = _draft(TABLE.replace("/-/", "/xfs/").replace("/1G/", "/128G/").encode(), tmp_path)
    topology, (role,) = scenario.arms["base"].topology, _roles(scenario)
    assert (topology.stacks[role.disk].type, role.numjobs, role.options["size"]) == ("xfs", 4, str(64 << 20))
    assert "files" not in role.options
    assert "mail.eml:7: test_size=128G is left out: a guest keeps 256 MiB of files in its memory" in comment
    assert " fs=" not in comment
    (small,) = _roles(_draft(TABLE.replace("/-/", "/btrfs/").replace("/1G/", "/64M/").encode(), tmp_path)[0])
    assert small.options["size"] == str(16 << 20)
    _, comment = _draft(TABLE.replace("/-/", "/f2fs/").encode(), tmp_path)
    assert "mail.eml:7: fs=f2fs is left out" in comment
    mail = TABLE.replace("/-/", "/ext4/").replace("64k/", "4k/").encode()
    _, comment = _draft(mail, tmp_path, "--topology", "neighbours")
    assert "files in /fs/1HDD are places on p0 itself, which has no filesystem" in comment


OTHER = """\
kernel test robot noticed a 12.3% regression of fsmark.files_per_sec on:

commit: 9b8b84879d4adc506b0d3944e20b28d9f3f6994b ("block: Increase BLK_DEF_MAX_SECTORS_CAP")
https://git.example.org/cgit/linux/kernel/git/next/linux-next.git master

testcase: {}
"""


def test_a_mail_about_another_test_is_refused_and_its_commit_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mail.eml"
    path.write_text(OTHER.format("fsmark") + TABLE)
    assert main(["draft", "--lkp", str(path)]) == EXIT_MISUSE
    assert "mail.eml is a report of fsmark: its fio-basic at line 13 is of another table" in capsys.readouterr().err
    path.write_text(TABLE.replace("-/libaio", "ext4/libaio").replace("fio-basic\n", "fsmark\n") + TABLE)
    assert main(["draft", "--lkp", str(path)]) == EXIT_MISUSE
    assert "mail.eml is a report of fsmark: its fio-basic at line 16 is" in capsys.readouterr().err
    _, comment = _draft((OTHER.format("fio-basic") + TABLE).encode(), tmp_path)
    sha = "9b8b84879d4adc506b0d3944e20b28d9f3f6994b"
    assert f"the commit is of linux-next: --kernel tree:CLONE@{sha} --base tree:CLONE@{sha}~1" in comment


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
    assert _roles(_draft(mails[encoding], tmp_path)[0])[0].numjobs == 2


@pytest.mark.parametrize(
    ("mail", "says"),
    [
        (b"Hello\n", "is no report of fio-basic: it has no table of parameters"),
        (TABLE.replace("fio-basic", "will-it").encode(), "is no report of fio-basic: its tests are will-it"),
        (TABLE.replace("/libaio", "").encode(), "mail.eml:7: 12 values for 13 parameters"),
        (TABLE.replace("libaio", "mmap").encode(), "mail.eml:7:1: ioengine: mmap does its I/O by page faults"),
        (TABLE.replace("/1G/", "/all/").encode(), 'mail.eml:7: test_size: "all" is not a size'),
        (TABLE.replace("64k", "6\x1b[2J\0").encode(), r'bs: "6\x1b[2J\x00" is not a size'),
        (TABLE.replace("/4/", "/999/").encode(), "mail.eml:7:1: numjobs: expected an integer from 1 to 256"),
        (b"x" * (9 << 20), "larger than 8 MiB"),
        (b"Content-Type: message/rfc822\n\n" * 5000 + TABLE.encode(), "its parts are nested too deeply"),
        (b"\0\xff\x1b" * 999, "is no report of fio-basic"),
        (b"From: ((((\n\nHello\n", "is no report of fio-basic"),
        (
            b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(2000)),
            "its parts are nested too deeply",
        ),
    ],
)
def test_mails_that_are_no_report(mail: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mail.eml").write_bytes(mail)
    assert main(["draft", "--lkp", str(tmp_path / "mail.eml")]) == EXIT_MISUSE
    said = capsys.readouterr().err
    assert says in said and "\x1b" not in said and "\0" not in said
