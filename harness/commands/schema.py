# SPDX-License-Identifier: GPL-2.0-only
"""``blklab schema``."""

import argparse
import json

from harness.scenario.jsonschema import json_schema
from lab.base.errors import EXIT_PASS

NAME = "schema"
HELP = "the JSON schema of scenario files, for editors"


def configure(parser: argparse.ArgumentParser) -> None:
    """It takes no options."""


def execute(options: argparse.Namespace) -> int:
    print(json.dumps(json_schema(), indent=2))
    return EXIT_PASS
