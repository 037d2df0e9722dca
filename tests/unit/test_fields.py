# SPDX-License-Identifier: GPL-2.0-only
"""Fields of instructions, from the debug information that the host's compiler makes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.kernels.fields import fields
from lab.kernels.objects import DEBUG

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
SOURCE = """\
typedef struct { int counter; } atomic_t;
struct stats { long reads, writes; };
struct queue { long id; atomic_t users; struct stats stats; struct stats of_cpu[4]; };
struct disk { long id; struct queue *queue; const struct queue *volatile twin; };
struct request { long tag; struct disk *disk; };
struct command { long result; struct disk *disk; };
struct mixed { long id; union { struct queue *queue; long raw; }; unsigned int first : 1, second : 1; };
struct node { long zones[8]; long stats[4]; };
static struct { atomic_t hot; int limit; } beside;
static atomic_t counter;
static long packed[8];
void call(void *);

static inline void inc(atomic_t *v) { asm volatile("lock incl %0" : "+m" (v->counter)); }

void member(struct queue *q) { q->stats.writes = 1; }
void inlined(struct queue *q) { inc(&q->users); }
void chased(struct request *rq) { inc(&rq->disk->queue->users); }
void qualified(struct disk *d) { d->id = d->twin->stats.reads; }
void element(struct queue *q, int cpu) { q->of_cpu[cpu].reads = 1; }
void elements(struct stats *all, int cpu) { all[cpu].writes = 1; }
void variable(void) { inc(&beside.hot); inc(&counter); }
void array(int cpu) { packed[cpu]++; }
void local(void) { static struct stats own; own.writes++; call(&own); }
void kept(struct disk *d) { struct queue *q = d->queue; call(d); inc(&q->users); call(q); inc(&q->users); }
void behind(struct request *rq)
{
	struct command *cmd = (void *)(rq + 1);

	call(cmd);
	inc(&cmd->disk->queue->users);
}
void spilled(struct disk *d)
{
	struct queue *q = d->queue;

	asm volatile("" : : : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13",
		"r14", "r15");
	inc(&q->users);
}
void either(int first, struct disk *d, struct queue *q) { if (first) q = d->queue; call(0); inc(&q->users); }
__attribute__((noinline)) static void part(struct queue *q, long unused) { call(q); q->stats.reads++; }
void whole(struct disk *d) { part(d->queue, 0); part(d->queue, 1); }
void member_of_union(struct mixed *m) { m->raw = 1; }
int bit(struct mixed *m) { return m->second; }
struct flags { long id; unsigned int a : 1, b : 1, c : 1, d : 1; };
int bits(struct flags *f) { return f->d; }
void item(struct node *n, long i) { n->stats[i]++; }
void item_behind(struct node *n, long i) { asm volatile("incq (%0,%1,8)" : : "r" (n), "r" (i) : "memory"); }
struct zone { long watermark[4]; long id; long stat[8]; };
static struct zone zones[4];
void nested(int zone, int item) { zones[zone].stat[item]++; }
void indexed(struct zone *all, int zone) { all[zone].id++; }
void nameless(void *p) { ((long *)p)[1]++; }
void alone(atomic_t *v) { inc(v); }
"""


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fields")
    (folder / "fields.c").write_text(SOURCE)
    words = "gcc -O2 -fcf-protection=none -fno-pie -falign-functions=1 -c fields.c"
    subprocess.run([*words.split(), *DEBUG.split()], cwd=folder, check=True)
    return folder / "fields.o"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("member", "queue.stats.writes"),
        ("inlined", "queue.users"),
        ("chased", "request.disk disk.queue queue.users"),
        ("qualified", "disk.twin queue.stats.reads disk.id"),
        ("element", "queue.of_cpu.reads"),
        ("elements", "stats.writes"),
        ("variable", "beside.hot counter"),
        ("array", "packed"),
        ("local", "own.writes"),
        ("kept", "disk.queue queue.users"),
        # lea makes the pointer to the command.
        ("behind", "command.result command.disk disk.queue queue.users"),
        ("spilled", "disk.queue queue.users"),
        ("either", "disk.queue queue.users"),
        ("part.constprop.0", "queue.stats.reads"),
        ("member_of_union", "mixed.queue|raw"),
        ("bit", "mixed.first|second"),
        ("bits", "flags.a|b|c|..."),
        ("item", "node.stats"),
        # The index may have a constant.
        ("item_behind", ""),
        # The index may be of either array.
        ("nested", ""),
        ("indexed", ""),
        ("nameless", ""),
        ("alone", ""),
        ("absent", ""),
    ],
)
def test_an_instruction_has_the_field_that_it_uses(unit: Path, function: str, expected: str) -> None:
    known = fields(unit, function, range(200))
    assert {field for field in known.values() if field} == set(expected.split())
