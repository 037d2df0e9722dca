# SPDX-License-Identifier: GPL-2.0-only
"""Constants that were fitted to measurements of the shipped scenarios.

Each says what was measured, then what renews it, what a miss costs (the constant lets something pass) and what a false
alarm costs. Limits of the kernel, of devices and of programs are no such constants: they have a source instead.
"""

# Figures that cannot be true

ABOVE_BOUND = 1.03
"""From which multiple of its own bound a figure shows that the bound is wrong. The precision of the device models; the
largest of 746 verdicts of this collection was 1.0158 (a buffered writer of lvm-two-places).
Renewed by: python -m tools.fitted, from stored runs.
Miss: a claim is judged by a bound that is too low. False alarm: a sound claim is ERROR."""
TAKEN_BACK = 1.3
"""In ticks the kernel may take iowait back (kernel/sched/cputime.c), and then more is idle than passed: up to 15.6 % in
223 windows on 7.2 (nvme-multipath-iopolicy). Twice that is the bound. In ns it cannot be.
Renewed by: python -m tools.fitted, from stored runs.
Miss: a sampler that reads wrong times sets the idle share. False alarm: a sound boot is ERROR."""
MEAN_ROUNDING = 1.001
"""fio prints means with few digits; the fullest of 268 queues of 26 scenarios was at 0.9989 of its room.
Renewed by: python -m tools.fitted, from stored runs.
Miss: an edited count of I/Os is judged. False alarm: a sound run is refused as altered."""
KNOWN_IDLE = 0.05
"""Idle share of a window up to which ticks tell how long the CPU was busy. Since 7.2 a CPU that idles between ticks is
idle for all of a tick that finds it so ("tick/sched: Refactor idle cputime accounting"): null-shared-tags has 3 to 15 %
of the window more than on 7.1, which gives ns, and in two loads more than the window.
Renewed by: make timeline NAME=null-shared-tags.
Miss: the CPU's time for an I/O is too small. False alarm: that figure is missing where it is known."""
LEAST_IDLE = 0.2
"""Idle share of a window from which the device, and not the guest's CPU, set the figure.
Renewed by: make calibrate, whose closed forms hold from there on.
Miss: the CPU's speed is judged as the device's. False alarm: a claim about the device is inconclusive."""

# Kinds of figures that layout and seeds move alike

FEW = 1000
"""Counters below it are a kind of their own: one event more is a large share of them.
Renewed by: python -m tools.thresholds.
Miss: all counters get the threshold of small ones, and changes are not marked. False alarm: a kind has few pairs."""
FEW_MOVED = (0.5, 3)
"""Transfers of all CPUs for each I/O below which they are kinds of their own. Below the first no line moves with each
I/O. Tags move more, and by chance: each CPU begins at a random tag, so one to four CPUs share a word of them.
Renewed by: python -m tools.thresholds.
Miss, false alarm: as FEW."""
SLOW = 1000
"""IOPS below which a role among several is a kind of its own: few decisions of the scheduler make its share.
Renewed by: python -m tools.thresholds.
Miss, false alarm: as FEW."""
BUSY = 0.95
"""Share of the CPU from which its time is exact: some kernels count an idle CPU only in ticks of 10 ms.
Renewed by: python -m tools.thresholds.
Miss, false alarm: as FEW."""
SHORT = 75_000_000
"""ns that fio ran, below which its rates and latencies on several CPUs are kinds of their own: it ends up to 3 ms early
or 2 late.
Renewed by: python -m tools.thresholds.
Miss, false alarm: as FEW."""

# Differences

MODELS = 0.05
"""Share to which device models are checked against their closed forms, and below which no difference is marked.
Renewed by: make calibrate.
Miss: a smaller change of the code is not marked. False alarm: what a device model gets wrong is marked."""
OF_FUNCTION = 0.007
"""Share by which layout moves the instructions of a function for each I/O. A read of elevator-submit executes one
instruction or more of 180 functions. Of the 176 that did not change between two builds of linux-source-6.12 one of 2
instructions moved by 1.2 %, all others by 0.62 % at most.
Renewed by: blklab profile BASE NEW none.read, of elevator-submit on two layouts of one code.
Miss: a smaller cost in a function is not seen. False alarm: a harmless commit is searched in vain."""
SINGLE = 2.0
"""Factor from which two single values differ: seeds of one kernel were up to 1.5 apart (shared-queue, 6.1, victim of
one-queue-mq-deadline: 0.94 and 1.39 IOPS).
Renewed by: python -m tools.thresholds.
Miss: a smaller change is not marked with one seed a side. False alarm: other seeds are marked as a change."""
LEAST_ARMS = 3
"""Arms in which figures of a kind must differ between null pairs, before the largest difference is a threshold below
the general ones: figures that are equal because fio's bins are wide, or in one arm, say nothing of another arm.
Renewed by: python -m tools.thresholds.
Miss: equal builds are marked. False alarm: kinds keep the general threshold, and small changes are not marked."""
TWINS = 2
"""Times what one other layout moved a claim is what layouts may move it. Fixed before the first such boot.
Renewed by: python -m tools.thresholds.
Miss: a claim that layout decides is judged. False alarm: a sound claim is said to be within layout."""

# What limits a load: of each, a miss names something else or nothing, a false alarm names what does not limit it

SATURATED = 0.95
"""A disk, a link or the CPU that is busy for so much of the window has no room; the start takes some per cent.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: a full device is not named. False alarm: a device with room is."""
FULL = 0.8
"""A queue that others wait for holds so much of its depth at least: sbitmap wakes waiters by batches of up to an
eighth of the tags (sbq_calc_wake_batch in lib/sbitmap.c), and two LUNs' turns at one set need not fit.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: a full queue is not named. False alarm: a queue with free tags is."""
DELIVERED = 0.9
"""So much of what the load has in flight is at the devices when nothing before them holds it up.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: iodepth is not named. False alarm: iodepth is named where something before the devices holds I/Os up."""
SERVED = 0.5
"""A load whose depth limits it does so much of its bound, by Little's law; the rest is time on the way (LIO). Writeback
throttling of a null_blk below tcm_loop left 0.23 of it with 16 of 16 requests in the queues (6.1).
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: iodepth is named where something behind the queue limits. False alarm: a depth that limits is called not known."""
THINKING = 0.5
"""A role that pauses for so much of the window would be faster without its thinktime than without its I/O.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: the role's pace is not named. False alarm: its pace is named where its I/O takes longer."""
PEER = 0.8
"""Equals of what has no room belong to it when they are so busy: members of an array differ in each window.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: members of one array are told apart. False alarm: a member with room is named."""
SLICES = 0.5
"""From so much of its limit on blk-throttle may hold back more than it should: it may lose slices (low-iops-limit).
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: something behind the limit is named. False alarm: the limit is called not modelled."""
ROOM = 0.9
"""Below this use a link can take over part of what another one carries.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: the path selector is not named. False alarm: it is named where no other link has room."""
ALIKE = 0.9
"""Roles that reach so much of the best one's share of their own bounds, or more, are one load.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: roles that nothing tells apart get limits of their own. False alarm: a slow role's own limit is not named."""
LEAST_GAIN = 0.02
"""With a quarter more, what limits a load gains more than this share, and anything else less.
Renewed by: make selftest, and blklab explain RUN --prove.
Miss: a wrong name is proven. False alarm: a right name is refuted."""
