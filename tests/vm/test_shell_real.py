# SPDX-License-Identifier: GPL-2.0-only
"""A command in a real guest of virtme-ng: what it writes and its exit status, from a host without udev too."""

import pytest

from harness.cli import main
from tests.vm.host import kernel_or_skip

KERNEL = "debian:6.1"
COMMAND = """\
cd /run/lab && echo * && head -c 4096 fast | tr '\\0' x
uname -r >&2
read -r line && echo there is input
exit 7
"""


@pytest.mark.slow
def test_a_command_in_a_guest(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("virtme", reason="needs requirements/shell.txt")
    kernel = kernel_or_skip(KERNEL)
    assert main(["shell", "megasas-neighbours", "--kernel", KERNEL, "--command", COMMAND]) == 7
    said = capfd.readouterr()
    assert said.out == "fast fast.sys slow slow.sys\n" + "x" * 4096
    assert said.err.endswith(f"{kernel.release}\n")
