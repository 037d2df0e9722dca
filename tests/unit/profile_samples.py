# SPDX-License-Identifier: GPL-2.0-only
"""Made-up profiles, written as call paths."""

from fractions import Fraction

from harness.profile.model import Context, Function, Head, PathNode, Profile

HEAD = Head("made-up", "arm", "load", 1, "6.12", "nowhere", "0" * 64, 1000.0)


def function(name: str, context: str = "kernel") -> Function:
    """``name`` is that of a function of the kernel's image, or OWNER`NAME."""
    owner, _, own = name.rpartition("`")
    return Function(Context(context), owner or "vmlinux", own)


def profile(text: str, *, ios: int = 100, lost: int = 0, release: str = "6.12", surprises: int = 0) -> Profile:
    """Lines ``CONTEXT;FUNCTION;... CALLS INSTRUCTIONS`` where callers come before callees; ``lost`` instructions more
    belong to no function.
    """
    nodes: list[PathNode] = []
    numbers: dict[tuple[str, ...], int] = {}
    for line in text.strip().splitlines():
        path, calls, instructions = line.split()
        context, *names = path.split(";")
        numbers[(context, *names)] = len(nodes)
        parent = numbers[(context, *names[:-1])] if names[1:] else None
        nodes.append(PathNode(parent, function(names[-1], context), int(calls), int(instructions)))
    total = sum(node.instructions for node in nodes) + lost
    head = Head(**{**vars(HEAD), "release": release})
    return Profile(head, Fraction(ios), total, surprises, tuple(nodes))


BEFORE = """
user;fio`get_io_u 100 5000
user;sampler`take 2 300
kernel;entry 100 1000
kernel;entry;submit 100 4000
kernel;entry;submit;null_blk`queue_rq 100 900
kernel;entry;submit;plug 100 200
kernel;entry;submit;plug;run_queue 100 3000
interrupt;irq 50 700
idle;do_idle 0 10
"""
AFTER = """
user;fio`get_io_u 100 5000
user;sampler`take 2 300
kernel;entry 100 1000
kernel;entry;submit 100 4100
kernel;entry;submit;null_blk`queue_rq 100 900
kernel;entry;submit;defer 100 2500
kernel;worker 0 500
kernel;worker;run_queue 100 3000
kernel;worker;schedule 100 6000
interrupt;irq 50 700
idle;do_idle 0 10
"""
