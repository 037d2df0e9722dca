# SPDX-License-Identifier: GPL-2.0-only
"""make and the set-up scripts, up to the point where they would install something."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

STUB = """\
#!/bin/bash
printf '%s\\0' "$@" >>"$RECORD"
"""

TOOLS = ["bash", "cat", "cut", "dirname", "flock", "grep", "head", "paste", "sed", "sort", "tr"]


def _executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Desk:
    """A folder with the real Makefile, whose recipes reach a stub that writes down its arguments."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder = folder
        self.record = folder / "record"
        shutil.copy(checkout / "Makefile", folder)
        for name in ("run", "setup", "lock"):
            _executable(folder / "scripts" / name, STUB)

    def make(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        inherited = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        environment = {**inherited, "RECORD": str(self.record), **(environment or {})}
        return subprocess.run(
            ["make", *arguments], check=False, cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def arguments(self) -> list[str]:
        return self.record.read_text().split("\0")[:-1] if self.record.exists() else []


@pytest.fixture
def desk(tmp_path: Path, checkout: Path) -> Desk:
    return Desk(tmp_path, checkout)


def test_help_is_the_default_and_lists_every_target_the_ten_most_useful_first(desk: Desk) -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (desk.folder / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    shown = desk.make().stdout
    first, _, others = shown.partition("Others:")
    useful, further = (re.findall(r"^ +make (\S+) +\S", part, re.MULTILINE) for part in (first, others))
    assert ["help", *useful, *further] == phony[1].split()
    assert len(useful) == 10
    assert {"scenario", "test"} <= set(useful)
    assert desk.make("help").stdout == shown
    assert desk.arguments() == []


def test_scenario_passes_every_value(desk: Desk) -> None:
    given = ["NAME=a", "KERNEL=debian:6.1", "BASE=host", "SEEDS=2", "VERIFY=1", "RESULTS=/some/where"]
    assert desk.make("scenario", *given).returncode == 0
    options = ["--kernel=debian:6.1", "--base=host", "--seeds=2", "--verify", "--results=/some/where"]
    assert desk.arguments() == ["blklab", "run", *options, "--", "a"]


@pytest.mark.parametrize(
    "value",
    [
        "$(touch harm)",
        "$$(touch harm)",
        "$(shell touch harm)",
        "${shell touch harm}",
        "`touch harm`",
        "a; touch harm",
        "a' 'b\"; touch harm; \"",
        "two words",
        "a\ntouch harm",
        "#comment",
        "*",
        "--help",
    ],
)
@pytest.mark.parametrize("variable", ["NAME", "KERNEL"])
def test_a_value_with_any_content_is_read(desk: Desk, value: str, variable: str) -> None:
    given = {"NAME": "x", variable: value}
    desk.make("scenario", *(f"{key}={text}" for key, text in given.items()))
    assert not (desk.folder / "harm").exists()
    kernel = [f"--kernel={value}"] if variable == "KERNEL" else []
    assert desk.arguments() == ["blklab", "run", *kernel, "--", given["NAME"]]


def test_a_value_of_the_environment_is_a_value_too(desk: Desk) -> None:
    value = "$(shell touch harm)$(touch harm)"
    desk.make("scenario", "NAME=x", environment={"KERNEL": value})
    assert not (desk.folder / "harm").exists()
    assert desk.arguments() == ["blklab", "run", f"--kernel={value}", "--", "x"]


@pytest.mark.parametrize(
    ("target", "remedy"), [("scenario", "make scenario NAME="), ("show", "make show NAME="), ("judge", "RUN=")]
)
def test_a_missing_value_says_what_to_type(desk: Desk, target: str, remedy: str) -> None:
    done = desk.make(target)
    assert done.returncode == 2
    assert remedy in done.stderr
    assert desk.arguments() == []


class Bench:
    """The real scripts/run, over an environment that holds one program."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.run_script = folder / "scripts" / "run"
        self.program = folder / "venv" / "bin" / "blklab"
        self.run_script.parent.mkdir()
        shutil.copy(checkout / "scripts" / "run", self.run_script)
        _executable(folder / "scripts" / "setup", f"#!/bin/bash\necho '{folder}/venv'\n")

    def run(self, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        _executable(self.program, f"#!/bin/bash\n{body}\n")
        return subprocess.run(
            [self.run_script, "blklab", *arguments], check=False, capture_output=True, text=True, stdin=subprocess.PIPE
        )


@pytest.fixture
def bench(tmp_path: Path, checkout: Path) -> Bench:
    return Bench(tmp_path, checkout)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "failed"),
        (125, "cannot judge"),
        (128, "the lab is broken"),
        (129, "misuse"),
        (130, "interrupted"),
        (137, "the lab is broken"),
    ],
)
def test_a_status_is_kept_and_said_in_words(bench: Bench, status: int, words: str) -> None:
    done = bench.run(f"exit {status}")
    assert done.returncode == status
    assert done.stderr.splitlines()[-1] == f"blklab: exit {status} ({words})"


def test_success_says_nothing_and_arguments_arrive_whole(bench: Bench) -> None:
    done = bench.run("printf '%s\\n' \"$@\"", "two words", "$(x)", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "two words\n$(x)\n\n", "")


def test_a_tool_of_the_tests_is_found_with_dev(bench: Bench) -> None:
    done = subprocess.run([bench.run_script, "pytest"], check=False, capture_output=True, text=True)
    assert done.returncode == 128
    assert "pytest is not installed in" in done.stderr
    assert "remedy: scripts/run --dev pytest" in done.stderr


OBEDIENT = f"""\
#!{sys.executable} -IS
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("started", flush=True)
signal.sigwait([signal.SIGTERM])
print("told to stop")
"""


def test_the_program_does_not_outlive_a_killed_run(bench: Bench) -> None:
    _executable(bench.program, OBEDIENT)
    with subprocess.Popen([bench.run_script, "blklab"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "started\n"
        process.kill()
        # The program holds the other end of this pipe: reading ends when it does.
        assert process.stdout.read() == "told to stop\n"


class Host:
    """scripts/host-packages on a made-up host: its PATH holds only what is put there."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.script = checkout / "scripts" / "host-packages"
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", self.script, *options],
            check=False,
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            restore_signals=False,  # with SIGPIPE ignored, a write into a closed pipe is said aloud
        )

    def has(self, *commands: str) -> None:
        for command in commands:
            _executable(self.bin / command, "#!/bin/bash\nexit 0\n")


@pytest.fixture
def host(tmp_path: Path, checkout: Path) -> Host:
    return Host(tmp_path, checkout)


def test_a_host_without_apt_gets_the_names_of_debian_of_what_is_missing(host: Host) -> None:
    done = host.run()
    assert done.returncode == 128
    remedy = done.stderr.splitlines()[-1]
    assert "as root: install, under the names" in remedy
    assert "dpkg" in remedy.split()
    host.has("dpkg-deb")
    assert "shellcheck" not in host.run().stderr
    remedy = host.run("--dev").stderr.splitlines()[-1]
    assert "dpkg" not in remedy.split()
    assert {"shellcheck", "gcc"} <= set(remedy.split())
    done = host.run("--prod")
    assert done.returncode == 128
    assert "--prod" in done.stderr


def test_a_python_that_makes_no_environments_is_not_enough(host: Host) -> None:
    host.has("dpkg-deb")
    remedy = host.run("--python").stderr.splitlines()[-1]
    assert "python3.13" in remedy.split()


def test_several_pythons_are_looked_at_in_silence(host: Host) -> None:
    host.has("python3.13")
    _executable(host.bin / "python3.12", "#!/bin/bash\n/bin/sleep 0.3\n")  # answers after the best one was taken
    said = host.run("--python").stderr
    assert "missing" in said
    assert "Broken pipe" not in said
