# SPDX-License-Identifier: GPL-2.0-only
"""Golden digests of every scenario and of the catalogue: a change of wording changes none of them.

Stored runs, the history and bisects compare runs by these digests. After a change on purpose write the file anew:
``.venv/bin/python -m tests.unit.test_scenario_digests``.
"""

import json
from pathlib import Path

from harness.base.plain import identity
from harness.scenario.load import read_scenario
from lab.topology.load import catalogue

_SCENARIOS = Path(__file__).parents[2] / "scenarios"
_GOLDEN = Path(__file__).parent / "fixtures/scenario-digests.json"
_ROWS = _SCENARIOS / "evidence"


def digests() -> dict[str, str]:
    """Digests by file below scenarios/, and of the topologies of the catalogue by ``catalogue/NAME``."""
    files = sorted(path for path in _SCENARIOS.rglob("*.yaml") if path.parent != _ROWS)
    loaded = {str(path.relative_to(_SCENARIOS)): read_scenario(str(path), search=_SCENARIOS) for path in files}
    scenarios = {name: scenario.digest for name, scenario in loaded.items()}
    return scenarios | {f"catalogue/{topology.name}": identity(topology) for topology in catalogue()}


def test_no_digest_changes_by_accident() -> None:
    assert digests() == json.loads(_GOLDEN.read_text())


if __name__ == "__main__":
    _GOLDEN.write_text(json.dumps(digests(), indent=1) + "\n")
