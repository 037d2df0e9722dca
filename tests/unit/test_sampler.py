# SPDX-License-Identifier: GPL-2.0-only
"""What the sampler makes of the numbers that it reads, on the host."""

import ctypes
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.figures.samples import LIMIT, read_samples
from lab.native.programs import DIALECT, PROCESS_SAMPLER, PROGRAMS, ROOT, SAMPLER, WARNINGS

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
SOURCES = ROOT / "sampler"
SHOW = """
#include "series.h"
int main(void)
{
	static struct series series;
	unsigned long value, tick, ticks;

	while (scanf("%lu %lu %lu", &value, &tick, &ticks) == 3)
		series_add(&series, value, tick, ticks);
	series_write(&series, stdout);
	return 0;
}
"""

IDLE = """
#include <stdio.h>
static FILE *open_here(const char *path, const char *mode);
#define fopen open_here
#define main sampler
#include "sampler/main.c"
#undef fopen
#undef main
static FILE *open_here(const char *path, const char *mode)
{
	return fopen(strrchr(path, '/') + 1, mode);
}
int main(void)
{
	long long idle = read_idle();

	printf("%lld %lld", idle, (long long)cpu.resolution);
	return 0;
}
"""
STAT = "cpu  28 1 102 19596 5 0 4 0 0 0\ncpu0 28 1 102 19596 5 0 4 0 0 0\n"
SLEEPS = "cpu: 0\n  .idle_entrytime : 7 nsecs\n  .idle_sleeptime : {} nsecs\n  .iowait_sleeptime: {} nsecs\n"


@pytest.fixture(scope="session")
def parse(tmp_path_factory: pytest.TempPathFactory) -> "ctypes._NamedFuncPointer":
    path = tmp_path_factory.mktemp("sampler") / "libseries.so"
    command = ["gcc", *DIALECT, *WARNINGS, "-shared", "-fPIC", "-o", str(path), str(SOURCES / "series.c")]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(path)).series_parse
    function.restype = ctypes.c_int64
    return function


@pytest.fixture(scope="session")
def show(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("series")
    (folder / "show.c").write_text(SHOW)
    files = [str(folder / "show.c"), str(SOURCES / "series.c")]
    subprocess.run(["gcc", *DIALECT, *WARNINGS, f"-I{SOURCES}", "-o", str(folder / "show"), *files], check=True)
    return folder / "show"


@pytest.fixture(scope="session")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints the idle time and its resolution in ns, from copies of the kernel's files where it is."""
    folder = tmp_path_factory.mktemp("idle")
    (folder / "idle.c").write_text(IDLE)
    program = folder / "idle"
    parts = [str(ROOT / path) for path in PROGRAMS[SAMPLER].sources() if path.suffix == ".c" and path.name != "main.c"]
    command = ["gcc", *DIALECT, *WARNINGS, "-Wno-unused", "-o", str(program), f"{program}.c", *parts]
    subprocess.run(command, check=True, cwd=ROOT)
    return program


@pytest.mark.parametrize(
    ("timers", "said"),
    [
        (SLEEPS.format(195_565_683_177, 0), "195565683177 1"),
        (SLEEPS.format(195_565_683_177, 41), "195565683218 1"),
        (SLEEPS.format(0, 0), "196010000000 10000000"),
        (SLEEPS.format(5, 5) * 2, "196010000000 10000000"),
        ("cpu: 0\n  .idle_entrytime : 7 nsecs\n", "196010000000 10000000"),
        (None, "196010000000 10000000"),
    ],
    ids=["sleep", "with iowait", "tick never stops", "two CPUs", "7.2", "no file"],
)
def test_idle_time_is_in_ns_where_the_kernel_has_it_and_right(
    idle: Path, tmp_path: Path, timers: str | None, said: str
) -> None:
    (tmp_path / "stat").write_text(STAT)
    if timers is not None:
        (tmp_path / "timer_list").write_text(f"Timer List Version: v0.10\nnow at 196780849149 nsecs\n\n{timers}")
    assert subprocess.run([idle], cwd=tmp_path, capture_output=True, text=True, check=True).stdout == said


class Looked(ctypes.Structure):
    """struct load"""

    _fields_ = (("process", ctypes.c_int), ("threads", ctypes.c_uint64), ("changed", ctypes.c_uint64))


@pytest.mark.parametrize(("program", "begins"), [(SAMPLER, 0), (PROCESS_SAMPLER, 1_100_000_000)])
def test_jobs_that_are_processes_begin_after_the_last_of_them(program: str, begins: int, tmp_path: Path) -> None:
    library = tmp_path / "libload.so"
    words = [*DIALECT, *WARNINGS, *PROGRAMS[program].flags, "-shared", "-fPIC", "-o", str(library)]
    subprocess.run(["gcc", *words, str(SOURCES / "load.c")], check=True)
    look = ctypes.CDLL(str(library)).load_look
    look.restype = ctypes.c_uint64
    # Both children end with the end of their input.
    words = ["sh", "-c", "exec 3<&0; cat <&3 & cat <&3 & echo; wait"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as fio:
        assert fio.stdout is not None
        fio.stdout.readline()
        load = Looked(process=fio.pid)
        looks = [
            look(ctypes.byref(load), ctypes.c_uint64(now)) for now in (1_000_000_000, 1_049_999_999, 1_050_000_000)
        ]
        fio.communicate()
    assert looks == [0, 0, begins]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"12\n", 12),
        (b"       3        4\n", 7),
        (b"0", 0),
        (b"", -1),
        (b"\n", -1),
        (b"-3\n", -1),
        (b"3 of 4\n", -1),
        (b"99999999999999999999\n", -1),
    ],
)
def test_a_file_holds_numbers_that_add_up(parse: "ctypes._NamedFuncPointer", text: bytes, value: int) -> None:
    assert parse(text) == value


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=300))
def test_every_sample_is_counted_in_its_place(show: Path, values: list[int]) -> None:
    ticks = len(values)
    said = "".join(f"{value} {tick} {ticks}\n" for tick, value in enumerate(values))
    done = subprocess.run([show], input=said, capture_output=True, text=True, check=True)
    head: dict[str, object] = {
        "period": 1,
        "began": 0,
        "ended": ticks,
        "epoch": 0,
        "missed": 0,
        "spent": 0,
        "ended_early": {},
    }
    head["cpu"] = {"elapsed": 4, "idle": 3, "resolution": 1}
    document = json.dumps(head | {"series": {"x": json.loads(done.stdout)}}).encode()
    series = read_samples(document, "x.json").series["x"]
    assert (series.count, series.total, series.max) == (ticks, sum(values), max(values))
    assert series.larger == sum(value > LIMIT for value in values)
    assert series.values == Counter(value for value in values if value <= LIMIT)
    parts = [[value for tick, value in enumerate(values) if tick * 100 // ticks == part] for part in range(100)]
    means = [sum(part) / len(part) if part else None for part in parts]
    assert series.parts == tuple(mean if mean is None else pytest.approx(mean, abs=1e-3) for mean in means)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("period 5\nlength x\n", "line 2 is wrong"),
        ("watch inflight\n", "line 1 is wrong"),
        ("period 5\nlength 4\n", "has no sample"),
        ("length 4\n", "has no sample"),
        (f"watch {'n' * 81} /x\n", "line 1 is wrong"),
    ],
)
def test_a_wrong_configuration_ends_the_program(tmp_path: Path, text: str, says: str) -> None:
    program, config = tmp_path / "sampler", tmp_path / "watch"
    sources = [str(path) for path in PROGRAMS[SAMPLER].sources() if path.suffix == ".c"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *DIALECT, *WARNINGS, *sanitizers, "-o", str(program), *sources], check=True, cwd=ROOT)
    config.write_text(text)
    done = subprocess.run([program, config, tmp_path / "out", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert says in done.stderr
