# SPDX-License-Identifier: GPL-2.0-only
"""Rules of the house that no other tool holds."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement

LICENCE = "SPDX-License-Identifier: GPL-2.0-only"
SOURCE_SUFFIXES = {".py", ".sh", ".yaml", ".toml", ".config", ".c", ".in"}
SOURCE_NAMES = {"Makefile", "init", ".gitignore"}
MODULE_LINES = 450
FUNCTION_LINES = 60
PRODUCT_LINES, PRODUCT_MODULES = 44_704, 210
"""Of lab and harness together."""
TOOL_LINES = 3_362

# Written in pieces, so that this file does not hold what it looks for.
FOREIGN = re.compile(
    "|".join(
        [
            r"\bdeb\." + r"debian\.org",
            r"\b(archive|ports|security)\." + r"(ubuntu\.com|debian\.org)",
            r"\bsnapshot\." + r"debian\.org",
            r"\bpypi\." + r"org",
            r"\bfiles\.python" + r"hosted\.org",
            r"--(extra-)?index" + r"-url",
            r"(?<![\w.$}])/" + r"work/",
            r"(?<![\w.$}])/" + r"home/\w",
            r"(?<![\w.$}])/" + r"root/\w",
        ]
    )
)


@pytest.fixture(scope="module")
def files(checkout: Path) -> tuple[Path, ...]:
    """Every file that belongs to the project: tracked, or about to be."""
    command = ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = (checkout / name for name in sorted(set(listing.split("\0"))) if name)
    return tuple(path for path in found if path.is_file())


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _is_source(path: Path) -> bool:
    return path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES or _is_script(path)


def test_every_source_file_names_its_licence_in_its_first_lines(files: tuple[Path, ...], checkout: Path) -> None:
    def unlicensed(path: Path) -> bool:
        return LICENCE not in "\n".join(path.read_text(encoding="utf-8").splitlines()[:2])

    sources = [path for path in files if _is_source(path) and "fixtures" not in path.parts]
    assert checkout / "Makefile" in sources
    assert [str(path.relative_to(checkout)) for path in sources if unlicensed(path)] == []


def test_no_module_outgrows_its_subject(files: tuple[Path, ...], checkout: Path) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in files if path.suffix == ".py"}
    assert {str(p.relative_to(checkout)): n for p, n in lengths.items() if n > MODULE_LINES} == {}


def test_the_limits_are_those_that_contributors_read(checkout: Path) -> None:
    house = f"{PRODUCT_LINES:,} in {PRODUCT_MODULES} modules of lab and harness, {TOOL_LINES:,} in tools"
    limits = f"At most {MODULE_LINES} lines a module, {FUNCTION_LINES} a function, {house}"
    assert limits in (checkout / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize(
    ("folders", "most_lines", "most_modules"),
    [(("lab", "harness"), PRODUCT_LINES, PRODUCT_MODULES), (("tools",), TOOL_LINES, PRODUCT_MODULES)],
    ids=["product", "tools"],
)
def test_the_house_does_not_grow(
    files: tuple[Path, ...], checkout: Path, folders: tuple[str, ...], most_lines: int, most_modules: int
) -> None:
    modules = [path for path in files if path.suffix == ".py" and path.relative_to(checkout).parts[0] in folders]
    lines = sum(len(path.read_text().splitlines()) for path in modules)
    assert lines <= most_lines, f"{' and '.join(folders)}: {lines} lines, {lines - most_lines} too many"
    assert 0 < len(modules) <= most_modules, f"{' and '.join(folders)}: {len(modules)} modules"


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield f"{path.name}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_no_function_assembles_everything(files: tuple[Path, ...]) -> None:
    functions = [entry for path in files if path.suffix == ".py" for entry in _functions(path)]
    assert [(name, length) for name, length in functions if length > FUNCTION_LINES] == []


def _classes_of_one_name(files: Iterable[Path]) -> dict[str, list[str]]:
    """Classes of one name within a folder: a module is enough to tell those of two packages apart."""
    modules: dict[tuple[Path, str], list[str]] = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                modules.setdefault((path.parent, node.name), []).append(path.name)
    return {name: names for (_, name), names in modules.items() if len(names) > 1}


def test_no_module_binds_a_name_twice(files: tuple[Path, ...]) -> None:
    """Linters do not see a constant that a second one of the same name replaces."""
    for path in (path for path in files if path.suffix == ".py"):
        rows = (row.targets[0] for row in ast.parse(path.read_text()).body if isinstance(row, ast.Assign))
        names = [target.id for target in rows if isinstance(target, ast.Name)]
        assert len(names) == len(set(names)), path


def test_what_judges_computes_with_values(checkout: Path) -> None:
    """Nothing changes a result after it was made."""
    rooms = [checkout / "harness" / name for name in ("figures", "judge", "limits", "profile", "noise.py")]
    sources = [path for room in rooms for path in (room.glob("*.py") if room.is_dir() else [room])]
    classes = [
        node for path in sources for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    ]
    made = [ast.unparse(decorator) for each in classes for decorator in each.decorator_list]
    assert [each for each in made if each.startswith("dataclass") and "frozen=True" not in each] == []
    assert len(made) > 50


def test_each_fitted_constant_says_what_renews_it_and_what_its_errors_cost(checkout: Path) -> None:
    body = ast.parse((checkout / "harness/fitted.py").read_text()).body
    texts = {
        ast.unparse(node.targets[0]): ast.unparse(after).casefold()
        for node, after in pairwise([*body, ast.Pass()])
        if isinstance(node, ast.Assign)
    }
    parts = ("renewed by: ", "miss", "false alarm: ")
    assert texts and [name for name, text in texts.items() if not all(part in text for part in parts)] == []


ASKS_FOR_A_CLOCK = re.compile(r"\bClock\.[A-Z]|\.clock (?:is|==|!=|in)\b|\.timing (?:is|==|!=|in)\b")


def test_what_differs_between_the_clocks_is_read_from_the_timing(checkout: Path) -> None:
    modules = {path: path.read_text() for path in (checkout / "harness").rglob("*.py")}
    asking = {path.name for path, text in modules.items() if ASKS_FOR_A_CLOCK.search(text)}
    assert asking == {"timing.py", "schema.py"}, "schema.py has the default, timing.py the facts"


def test_no_two_classes_of_a_package_have_one_name(files: tuple[Path, ...], checkout: Path) -> None:
    product = (checkout / "lab", checkout / "harness")
    sources = [path for path in files if path.suffix == ".py" and any(map(path.is_relative_to, product))]
    assert len(sources) > 100
    assert _classes_of_one_name(sources) == {}


def test_two_classes_of_one_name_are_found(tmp_path: Path) -> None:
    modules = [tmp_path / name for name in ("one.py", "two.py", "package/three.py")]
    for module in modules:
        module.parent.mkdir(exist_ok=True)
        module.write_text("class Row:\n    pass\n")
    assert _classes_of_one_name(modules) == {"Row": ["one.py", "two.py"]}


VAGUE = {"found", "measured", "one"}


def _names_bound(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name, ctx=ast.Store(), lineno=line) | ast.arg(arg=name, lineno=line):
                yield name, line
            case ast.FunctionDef(name=name, lineno=line) | ast.ClassDef(name=name, lineno=line):
                yield name, line


def test_names_say_what_things_are(checkout: Path) -> None:
    paths = [path for folder in ("lab", "harness", "tools") for path in (checkout / folder).rglob("*.py")]
    names = [(path.name, line, name) for path in paths for name, line in _names_bound(path)]
    assert len(names) > 10_000
    assert [entry for entry in names if entry[2] in VAGUE] == []


def test_no_file_knows_a_machine_or_a_mirror(files: tuple[Path, ...], checkout: Path) -> None:
    found = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if FOREIGN.search(line):
                found.append(f"{path.relative_to(checkout)}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "deb http://deb." + "debian.org/debian trixie main",
        "see https://pypi." + "org/project/x",
        "cache = Path('/" + "work/cache')",
        "cd /" + "home/jane/blklab",
    ],
)
def test_the_search_for_machines_and_mirrors_finds(line: str) -> None:
    assert FOREIGN.search(line)


@pytest.mark.parametrize("kind", ["run", "dev", "cluster"])
def test_every_requirement_is_pinned_by_version_and_hash(checkout: Path, kind: str) -> None:
    text = (checkout / "requirements" / f"{kind}.txt").read_text()
    code = [line for line in text.splitlines() if line and not line.startswith("#")]
    entries = "\n".join(code).replace("\\\n", " ").splitlines()
    assert len(entries) >= 3
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", entry.strip()), entry
    assert "://" not in text


def test_what_runs_is_pinned_alike_for_development(checkout: Path) -> None:
    def pins(kind: str) -> set[str]:
        text = (checkout / "requirements" / f"{kind}.txt").read_text()
        return set(re.findall(r"^([a-z0-9-]+==\S+)", text, re.MULTILINE))

    assert pins("run") <= pins("dev")


def test_dependencies_of_the_package_are_those_that_are_pinned(checkout: Path) -> None:
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    lines = (checkout / "requirements" / "run.in").read_text().splitlines()
    names = {named.partition(">=")[0]: named for named in project["dependencies"]}
    assert set(names) == {line for line in lines if line and not line.startswith("#")}
    pins = re.findall(r"^([a-z0-9-]+)==([^ \\]+)", (checkout / "requirements/run.txt").read_text(), re.MULTILINE)
    for name, version in pins:
        if name in names:
            assert Requirement(names[name]).specifier.contains(version), f"{name} {version} is beyond {names[name]}"
    for extra, named in project["optional-dependencies"].items():
        pinned = (checkout / "requirements" / f"{extra}.txt").read_text()
        assert all(re.search(rf"^{name}==", pinned, re.MULTILINE) for name in named), extra


def _directions(checkout: Path) -> list[str]:
    """The layers of the contract of import-linter, the highest first."""
    contracts = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return list(contracts[0]["layers"])


def _packages(checkout: Path) -> set[str]:
    """Packages and modules directly in lab and harness, by their dotted names."""
    return {
        f"{package}.{path.stem}"
        for package in ("lab", "harness")
        for path in (checkout / package).iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }


def test_every_package_has_its_place_in_the_directions(checkout: Path) -> None:
    assert _packages(checkout) - set(re.findall(r"[\w.]+", " ".join(_directions(checkout)))) == set()


def test_the_page_shows_every_package_in_the_order_of_the_directions(checkout: Path) -> None:
    """The table of layers in docs/architecture.md."""
    page = (checkout / "docs" / "architecture.md").read_text()
    table = page.partition("## Layers")[2].partition("\n## ")[0]
    rows = [re.findall("`([^`]+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    places = {
        name: number for number, layer in enumerate(_directions(checkout)) for name in re.findall(r"[\w.]+", layer)
    }
    named = [[path.removesuffix(".py").replace("/", ".") for path in paths] for paths in rows]
    assert [path for paths in rows for path in paths if not (checkout / path).exists()] == []
    assert _packages(checkout) - {"harness.__main__"} - {name for names in named for name in names} == set()
    for upper, lower in pairwise([[places[name] for name in names] for names in named]):
        assert max(upper) <= min(lower), named
