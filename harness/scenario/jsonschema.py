# SPDX-License-Identifier: GPL-2.0-only
"""The JSON schema of a scenario file, for editors, generated from the tables of the loader.

The loader alone checks what a JSON schema cannot express: names that must exist, limits that depend on each other,
quotes around a kernel version.
"""

from harness.scenario.schema import SCENARIO
from lab.yaml.fields import Json


def json_schema() -> Json:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "blklab scenario",
        **SCENARIO.json(),
    }
