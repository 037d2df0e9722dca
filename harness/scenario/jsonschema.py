# SPDX-License-Identifier: GPL-2.0-only
"""The JSON schema of a scenario file, for editors: generated from the tables that the loader reads.

What no JSON schema can say (names that must exist, limits that belong together, quotes around a
kernel version) is left to the loader.
"""

from harness.scenario.schema import SCENARIO
from lab.yaml.fields import Json


def json_schema() -> Json:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "blklab scenario",
        **SCENARIO.json(),
    }
