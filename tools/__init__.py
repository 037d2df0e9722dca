# SPDX-License-Identifier: GPL-2.0-only
"""What maintainers run to measure blklab itself. No part of the product: lab and harness import nothing from here.

evidence    what makes each claim fail, published regressions, both clocks, field reports
mutation    generated mutants of the block layer, and which of them are detected
thresholds  how far layout alone moves each kind of figure: harness/judge/thresholds.json
costs       what an I/O costs the CPU of a guest, by driver: CPU_COSTS in harness/limits/cost.py
coverage    which load executes which functions: scenarios/executed.json
speed       warm runs, cold ones, and those of another checkout
noise       error rates of the stopping rule of the wall clock, simulated

``scripts/run --dev python -m tools.NAME --help`` lists the options.
"""
