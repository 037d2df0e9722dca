// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU for guests with several CPUs: it changes to the next CPU where a schedule says so.
 *
 *   functions=PATH  the kernel's functions; changes are made in those with the letter p (functions.h)
 *   number=OFFSET   where a per-CPU area has the number of its CPU
 *   start=ADDRESS   user address of the function from which on changes are made, and startbytes=HEX
 *   marker=ADDRESS  the same for the beginning and the end of each window, with bytes=HEX
 *   schedule=PATH   lines of
 *     turn COUNT                        instructions after which the next CPU executes (default: QEMU's own turns)
 *     turns SEED                        each turn has another length
 *     stalls SEED PERMILLE LONG         a change at so many of 1,000 blocks of those functions; LONG 1: 128 to 65,536
 *                                       ns, each power of two as often, 0: lengths of turns. A CPU that has stood
 *                                       executes as many instructions before it stands again: waits stay bounded
 *     uses ADDRESS LINE r|w             the instruction uses that line, a number; in the order of addresses
 *     values                            log what the blocks of changes in those functions read and write
 *     at CPU ADDRESS NTH LENGTH PASSES LEADER
 *                                       a change when CPU begins the block at ADDRESS for the NTH time
 *   output=PREFIX   PREFIX.N is written at the end of window N: how often each block began on each CPU, and for each
 *                   "pair A B" that a CPU began B, when the last block of another one that uses lines was A, both use
 *                   one line, and one of them writes it
 *
 * A change: the CPU executes the block and stands for LENGTH ns of virtual time, in which the others execute. With more
 * PASSES it executes one block, and stands again. The LEADER, unless it is -1, executes alone for LENGTH ns before that.
 * Without a change a CPU executes until it halts, pauses (waiting for a lock) or its turn ends. Where QEMU ends it
 * earlier, for a timer, the others execute one block each.
 *
 * Each change is written to the file schedule.log at once, for guests that never come to the end of the window:
 *   change CPU ADDRESS NTH LENGTH PASSES LEADER EXECUTED   instructions of all CPUs so far
 *   run CPU ADDRESS EXECUTED                               where another CPU goes on, and in which p functions
 *   back CPU ADDRESS EXECUTED                              the CPU itself
 *   value CPU PC r|w VALUE                                 behind the line of its block: at most 64 bits, VALUE in hex
 */
#include "cpus.h"
#include "profile/functions.h"
#include "profile/marker.h"
#include "profile/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLACE	'p'
#define BUCKETS (1u << 14)
#define MOST_PAIRED 4096u /* blocks of which orders are kept */
#define MOST_SHOWN 64 /* lines of one change, apart from the last */
#define MOST_VALUES 256u /* of one change */
#define MOST_ASIDE (4 * MOST_CPUS) /* blocks of others in a row: the CPU has halted in an unknown way */

EXPORT int qemu_plugin_version = PLUGIN_API;

#define NOBODY (-1)
#define VIRTUAL 1 /* QEMU_CLOCK_VIRTUAL */

/* Of QEMU, which exports them to its modules. */
extern void async_run_on_cpu(void *cpu, void (*work)(void *cpu, void *data), void *data);
extern void cpu_pause(void *cpu);
extern void cpu_resume(void *cpu);
extern void *qemu_get_cpu(int index);
extern void tb_flush(void *cpu);
extern int64_t qemu_clock_get_ns(int clock);
extern void timer_init_full(void *timer, void *group, int clock, int scale, int attributes, void (*ends)(void *),
			    void *data);
extern void timer_mod_ns(void *timer, int64_t when);

struct change {
	uint64_t nth, length, passes;
	unsigned int cpu;
	int leader;
	struct change *next;
};

struct place {
	uint64_t address, count[MOST_CPUS];
	uint64_t *before; /* a bit for each block that another CPU had begun last */
	unsigned int number;
	struct change *changes;
	struct place *next;
};

/* What an instruction does to a line that CPUs share. */
struct use {
	uint64_t address;
	unsigned int line;
	char how;
};

struct translated {
	struct place *place; /* of a block in one of the functions */
	const struct use *uses, *uses_end;
	uint64_t address;
	bool starts, marker, yields;
	unsigned int length;
};

/* A CPU that stands. */
static struct standing {
	uint64_t passes, length; /* of its change */
	uint64_t left; /* for how many ns it stands now */
	uint64_t executed, rested; /* instructions, and from how many on it may stand again in stalls */
	uint64_t timer[16]; /* a QEMUTimer, which has 6 words */
} standing[MOST_CPUS];

static struct place *buckets[BUCKETS];
static struct place *numbered[MOST_PAIRED];
static const struct translated *passed[MOST_CPUS]; /* the last block that uses lines */
static unsigned int number_count;
static struct use *uses, *uses_end;
static struct marker start;
static const void *clock_handle;
static FILE *log_file;
static uint64_t state, permille, base_turn, turn, turn_began, executed, hits, order, changes;
static uint64_t share; /* of a change: the turns of the other CPUs */
static bool active, random_turns, yielded, long_changes;
static bool values, ends_change;
static unsigned int standing_count, shown, valued, aside;
static struct cpu *last; /* whose turn it is */
static struct cpu *executing; /* whose block it is */

static uint64_t draw(uint64_t below)
{
	/* splitmix64 (Steele, Lea and Flood 2014) */
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % below;
}

/* Mostly short: 5 of 8 up to 60 instructions, 2 up to 1,000, 1 up to 20,000. */
static uint64_t draw_length(void)
{
	uint64_t kind = draw(8);

	return 1 + draw(kind < 5 ? 60 : kind < 7 ? 1000 : 20000);
}

/* Sorted: the order in which blocks are translated is not that of a guest that was restored. */
static struct place *place_at(uint64_t address)
{
	struct place **place = &buckets[(address * 0x9e3779b97f4a7c15u) >> 50], *new;

	while (*place && (*place)->address < address)
		place = &(*place)->next;
	if (*place && (*place)->address == address)
		return *place;
	new = taken(sizeof(*new));
	new->address = address;
	new->next = *place;
	*place = new;
	return new;
}

static void end_turn(void)
{
	qemu_plugin_update_ns(clock_handle, 0);
}

static void begin_turn(struct cpu *cpu)
{
	last = cpu;
	turn_began = executed;
	turn = standing_count ? share : random_turns ? draw_length() : base_turn;
}

static int by_address(const void *one, const void *other)
{
	const struct place *left = *(struct place *const *)one, *right = *(struct place *const *)other;

	return (left->address > right->address) - (left->address < right->address);
}

static void write_pairs(FILE *file, const struct place *place)
{
	struct place *before[MOST_PAIRED];
	unsigned int count = 0;

	for (unsigned int other = 0; place->before && other < number_count; other++)
		if (place->before[other / 64] >> other % 64 & 1)
			before[count++] = numbered[other];
	qsort(before, count, sizeof(*before), by_address);
	for (unsigned int other = 0; other < count; other++)
		fprintf(file, "pair %" PRIx64 " %" PRIx64 "\n", before[other]->address, place->address);
}

static void write_window(void)
{
	FILE *file = window_open();

	fprintf(file, "hits %" PRIu64 " order %" PRIx64 " changes %" PRIu64 "\n", hits, order, changes);
	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++)
		for (struct place *place = buckets[bucket]; place; place = place->next)
			for (unsigned int cpu = 0; cpu < MOST_CPUS; cpu++)
				if (place->count[cpu])
					fprintf(file, "place %u %" PRIx64 " %" PRIu64 "\n", cpu, place->address, place->count[cpu]);
	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++)
		for (struct place *place = buckets[bucket]; place; place = place->next)
			write_pairs(file, place);
	window_close(file);
}

static void note(const char *what, const struct cpu *cpu, uint64_t address)
{
	if (shown++ < MOST_SHOWN || *what == 'b')
		fprintf(log_file, "%s %u %" PRIx64 " %" PRIu64 "\n", what, cpu->number, address, executed);
}

/* A guest that was booted has translated code before the kernel patched it, one that was restored has not. */
static void translate_again(void *cpu, void *nothing)
{
	(void)nothing;
	tb_flush(cpu);
}

static void resume(void *cpu)
{
	cpu_resume(cpu);
}

/* Outside of the CPU's execution, where the clock can be read. */
static void pause_for(void *cpu, void *data)
{
	struct standing *own = data;

	if (!own->timer[1])
		timer_init_full(own->timer, NULL, VIRTUAL, 1, 0, resume, cpu);
	timer_mod_ns(own->timer, qemu_clock_get_ns(VIRTUAL) + (int64_t)own->left);
	cpu_pause(cpu);
}

static void stand(unsigned int number, uint64_t ns)
{
	void *cpu = qemu_get_cpu((int)number);

	standing[number].left = ns;
	async_run_on_cpu(cpu, pause_for, &standing[number]);
	yielded = true;
}

static void make_change(const struct cpu *cpu, const struct place *place, uint64_t length, uint64_t passes, int leader)
{
	unsigned int cpus;

	standing[cpu->number].passes = passes;
	standing[cpu->number].length = length;
	standing[cpu->number].rested = standing[cpu->number].executed + passes * length;
	standing_count++;
	changes++;
	shown = valued = 0;
	fprintf(log_file, "change %u %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64 "\n", cpu->number,
		place->address, place->count[cpu->number], length, passes, leader, executed);
	fflush(log_file);
	stand(cpu->number, leader == NOBODY ? length : 2 * length);
	for (cpus = 0; qemu_get_cpu((int)cpus); cpus++)
		if (leader != NOBODY && cpus != cpu->number && (int)cpus != leader && !standing[cpus].passes)
			stand(cpus, length);
	share = 1 + length / (cpus - 1);
}

/* A CPU has stood, this one or another. */
static void go_on(struct cpu *cpu, const struct translated *now, bool other_cpu)
{
	struct standing *own = &standing[cpu->number];

	if (own->passes && --own->passes) {
		fprintf(log_file, "stop %u %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", cpu->number, now->address, executed,
			now->place ? now->place->count[cpu->number] + 1 : 0);
		stand(cpu->number, own->length);
	} else if (own->length) {
		own->length = 0;
		standing_count--;
		begin_turn(cpu);
		ends_change = true;
		note("back", cpu, now->address);
		fflush(log_file);
	} else if (other_cpu || now->place) {
		note("run", cpu, now->address);
	}
}

static bool conflict(const struct translated *one, const struct translated *other)
{
	for (const struct use *own = one->uses; own < one->uses_end; own++)
		for (const struct use *its = other->uses; its < other->uses_end; its++)
			if (own->line == its->line && (own->how == 'w' || its->how == 'w'))
				return true;
	return false;
}

/* Blocks get numbers as they are first begun: they are translated in another order in a guest that was restored. */
static void note_pairs(const struct cpu *cpu, const struct translated *now)
{
	struct place *place = now->place;

	if (now->uses == now->uses_end)
		return;
	if (!place->before && number_count < MOST_PAIRED) {
		place->before = taken(MOST_PAIRED / 8);
		place->number = number_count;
		numbered[number_count++] = place;
	}
	for (unsigned int other = 0; place->before && other < MOST_CPUS; other++)
		if (other != cpu->number && passed[other] && passed[other]->place->before) {
			unsigned int number = passed[other]->place->number;
			uint64_t *word = &place->before[number / 64], bit = 1ull << number % 64;

			if (!(*word & bit) && conflict(passed[other], now))
				*word |= bit;
		}
	passed[cpu->number] = now;
}

static void visit(const struct cpu *cpu, struct place *place)
{
	uint64_t nth = ++place->count[cpu->number];

	hits++;
	order = (order ^ place->address ^ cpu->number) * 0x100000001b3u;
	if (standing[cpu->number].passes || cpu != last)
		return;
	for (const struct change *change = place->changes; change; change = change->next)
		if (change->cpu == cpu->number && change->nth == nth) {
			make_change(cpu, place, change->length, change->passes, change->leader);
			return;
		}
	if (permille && standing[cpu->number].executed >= standing[cpu->number].rested && draw(1000) < permille)
		make_change(cpu, place, long_changes ? 1u << (7 + draw(10)) : draw_length(), 1 + draw(4), NOBODY);
}

/* Without a change. Whether the CPU goes on behind this block. */
static bool take_turn(struct cpu *cpu, const struct translated *now)
{
	if (cpu != last && last && !yielded && aside++ < MOST_ASIDE)
		return false;
	/* It is the same one's again where no other CPU has anything to do. */
	if (cpu != last || yielded)
		begin_turn(cpu);
	aside = 0;
	yielded = now->yields || (turn && executed - turn_began >= turn);
	return now->yields || !yielded;
}

static void on_block(unsigned int index, void *data)
{
	const struct translated *now = data;
	struct cpu *cpu;
	bool other_cpu;

	(void)index;
	if (now->starts && !clock_handle) {
		/* Asked for when QEMU is complete: it forbids snapshots, and the list of what does so has to exist. */
		clock_handle = qemu_plugin_request_time_control();
		if (!clock_handle)
			fail("another plugin controls the time");
		async_run_on_cpu(qemu_get_cpu(0), translate_again, NULL);
	}
	active |= now->starts;
	if (!active)
		return;
	if (now->marker && !window_begins())
		write_window();
	cpu = executing = cpu_now();
	ends_change = false;
	other_cpu = cpu != last;
	yielded |= standing[cpu->number].length > 0;
	if (!take_turn(cpu, now))
		end_turn();
	if (standing_count)
		go_on(cpu, now, other_cpu);
	if (now->place) {
		note_pairs(cpu, now);
		visit(cpu, now->place);
	}
	executed += now->length;
	standing[cpu->number].executed += now->length;
}

static void on_access(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *pc)
{
	qemu_plugin_mem_value value;

	(void)index;
	(void)address;
	if (!(standing_count || ends_change) || valued++ >= MOST_VALUES)
		return;
	/* The union begins with the lowest byte, whatever the size. */
	value = qemu_plugin_mem_get_value(info);
	if (value.type < QEMU_PLUGIN_MEM_VALUE_U64)
		value.data.u64 &= (1ull << (8u << value.type)) - 1;
	fprintf(log_file, "value %u %" PRIxPTR " %c %" PRIx64 "\n", executing->number, (uintptr_t)pc,
		qemu_plugin_mem_is_store(info) ? 'w' : 'r', value.data.u64);
}

/* hlt, pause and mwait, which end a block */
static bool does_yield(const struct qemu_plugin_insn *insn)
{
	uint8_t code[4] = { 0 };
	size_t size = copy_bytes(insn, code, 3);

	return (size == 1 && code[0] == 0xf4) || (size == 2 && code[0] == 0xf3 && code[1] == 0x90) ||
	       (size == 3 && !memcmp(code, "\x0f\x01\xc9", 3));
}

static const struct use *uses_from(uint64_t address)
{
	const struct use *low = uses, *high = uses_end;

	while (low < high) {
		const struct use *middle = low + (high - low) / 2;

		if (middle->address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct translated *new = taken(sizeof(*new));

	(void)id;
	new->address = qemu_plugin_tb_vaddr(tb);
	new->starts = marker_begins(&start, tb);
	new->marker = is_marker(tb);
	new->length = (unsigned int)qemu_plugin_tb_n_insns(tb);
	new->yields = does_yield(qemu_plugin_tb_get_insn(tb, new->length - 1));
	if (function_at(new->address)->kind == (enum kind)PLACE)
		new->place = place_at(new->address);
	new->uses = uses_from(new->address);
	new->uses_end = uses_from(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, new->length - 1)) + 1);
	for (unsigned int i = 0; values && new->place && i < new->length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		// NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the guest
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_R_REGS, new);
}

static void on_cpu(qemu_plugin_id_t id, unsigned int index)
{
	(void)id;
	(void)index;
	cpus_prepare();
}

static void add_use(struct use use)
{
	size_t count = (size_t)(uses_end - uses);

	/* Doubled at powers of two. */
	if (!(count & (count - 1)))
		uses = realloc(uses, sizeof(use) * (count ? 2 * count : 1));
	if (!uses)
		fail("no memory");
	uses[count] = use;
	uses_end = uses + count + 1;
}

static void read_line(const char *line)
{
	struct change change = { 0 };
	struct use use = { 0 };
	struct place *place;
	uint64_t address, wide;

	if (sscanf(line, "turn %" SCNu64, &base_turn) == 1)
		return;
	if (!strcmp(line, "values\n")) {
		values = true;
	} else if (sscanf(line, "uses %" SCNx64 " %u %c", &use.address, &use.line, &use.how) == 3) {
		add_use(use);
	} else if (sscanf(line, "turns %" SCNu64, &state) == 1) {
		random_turns = true;
	} else if (sscanf(line, "at %u %" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %d", &change.cpu, &address,
			  &change.nth, &change.length, &change.passes, &change.leader) == 6 && change.passes) {
		place = place_at(address);
		change.next = place->changes;
		place->changes = taken(sizeof(change));
		*place->changes = change;
	} else if (sscanf(line, "stalls %" SCNu64 " %" SCNu64 " %" SCNu64, &state, &permille, &wide) == 3) {
		long_changes = wide;
	} else {
		fail("schedule: %s", line);
	}
}

static void read_schedule(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[256];

	if (!file)
		fail("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file))
		read_line(line);
	fclose(file);
	log_file = fopen("schedule.log", "we");
	if (!log_file)
		fail("schedule.log: %s", strerror(errno));
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "functions=", 10))
			functions_read(argv[i] + 10);
		else if (!strncmp(argv[i], "schedule=", 9))
			read_schedule(argv[i] + 9);
		else if (!strncmp(argv[i], "start", 5))
			marker_read(&start, argv[i] + 5, "=", "bytes=");
		else if (!marker_argument(argv[i]) && !cpus_argument(argv[i]))
			fail("unknown argument %s", argv[i]);
	if (!marker_is_set() || !start.size || !log_file)
		fail("functions, number, start, startbytes, marker, bytes, output and schedule are wanted");
	qemu_plugin_register_vcpu_init_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
