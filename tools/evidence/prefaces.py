# SPDX-License-Identifier: GPL-2.0-only
"""Title and first paragraphs of each page of evidence."""

from collections.abc import Mapping

from tools.evidence.rows import Topic

PREFACES: Mapping[Topic, tuple[str, str]] = {
    Topic.CONTROLS: (
        "Claims and what makes them fail",
        """\
Each claim of each scenario, its figure on the kernel without a mutant, and what makes it fail: a mutant, another arm,
load or role, or kernels, with the figure there, in the unit of the claim. Arms, loads and roles are measured in the run
of the claim itself. A kernel is named where it is not the source's own build: claims for other kernels are measured
there. Where no figure is measured, an entry of the file declares what makes the claim fail. A claim that nothing makes
fail is unproven. Scenarios on the wall clock need a host of their own: [clocks.md](clocks.md) has some figures.
""",
    ),
    Topic.ZOO: (
        "Detection of published regressions",
        """\
Each row is a published regression of the block layer: the ratio of the scenario that shows it, and whether it is good
or bad, on distribution kernels and on a build of one source with the mutant. Bold: not the side that was expected. `?`:
not measured, or the seeds disagree; the reason is below. A null pair is a kernel compared with itself under other
seeds: any difference is a false alarm. Its figures are judged by the rule of `blklab compare` for one configuration:
other seeds read other offsets, so a figure is marked where it differs by more than any two boots of one code
([thresholds.md](thresholds.md), measured on another kernel). A report that was declined ("Do not alarm") is good on
every kernel.
""",
    ),
    Topic.CLOCKS: (
        "The same ratios on both clocks",
        """\
Under the virtual clock devices are in the guest, figures repeat exactly, and the range is over seeds. On the wall
clock real drivers run on QEMU's controllers, figures scatter, and the interval over boots has at least 95 %. Both
agree where range and interval overlap, to half a per cent; otherwise the scenario gives the reason.
""",
    ),
    Topic.SENSITIVITY: (
        "Reproduced ratios with fitted parameters changed",
        """\
Each ratio of a field report with a parameter that was fitted to it, at 0.8 and at 1.25 times its value.
""",
    ),
    Topic.REPORTS: (
        "Field reports reproduced",
        """\
Each row compares a ratio of a field report with the same ratio under the virtual clock: median over the seeds, and
the range where they differ. Absolute rates are scaled down and not comparable. `-`: not measured, see below the
table. Bold: more than a fifth off.
""",
    ),
}
