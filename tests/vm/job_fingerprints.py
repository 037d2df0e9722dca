# SPDX-License-Identifier: GPL-2.0-only
"""Print the fingerprints of every boot of scenarios, as JSON, without booting.

Arguments: the kernel and names of scenarios.
"""

import json
import sys

from harness.commands.boots import kernel_of, lab_of_host
from harness.run.plan import Request, plan_run
from harness.scenario.load import read_scenario


def main() -> None:
    lab, kernel = lab_of_host(), kernel_of(sys.argv[1])
    plans = {name: plan_run(lab, Request(read_scenario(name), kernel, 1)) for name in sys.argv[2:]}
    prints = {
        f"{name} {arm} {seed}": dict(job.fingerprint)
        for name, plan in plans.items()
        for (arm, seed), job in plan.jobs.items()
    }
    json.dump(prints, sys.stdout)


if __name__ == "__main__":
    main()
