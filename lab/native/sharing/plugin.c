// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU for guests with several CPUs: it ends the turn of each CPU after so many instructions, and counts
 * which cache lines the kernel moves between CPUs and which locks it takes, between two points of a guest's program.
 *
 *   functions=PATH  the kernel's functions, with letters of their own (locks.h)
 *   number=OFFSET   where a per-CPU area has the number of its CPU
 *   turn=COUNT      instructions after which the next CPU executes; without it there is one CPU, which shares nothing
 *   start=ADDRESS   user address of the function from which on turns end, and startbytes=HEX its first instructions
 *   marker=ADDRESS  the same for the beginning and the end of each window, with bytes=HEX
 *   io=ADDRESS      the same for the function that ends an I/O, with iobytes=HEX; its program lies at any page
 *   sync=ADDRESS    the same for the function of that program that ends an fsync besides, with syncbytes=HEX
 *   output=PREFIX   PREFIX.N is written at the end of window N, which counts from 0
 *   programs=yes    what programs access is counted too, and their functions may have letters: tests know it beforehand
 *
 * Instructions are counted by blocks (translated until a jump), the whole of each that is begun. Inline operations of
 * the interface cannot count them: with several CPUs in one thread they write to wrong addresses in QEMU 10.0
 * (accel/tcg/plugin-gen.c, gen_plugin_u64_ptr() multiplies the constant that holds the CPU's index).
 *
 * QEMU executes one CPU until the next timer, which is some hundred thousand instructions away. What CPUs share would
 * move once in that time, so turns are part of the guest's result; counting changes nothing in it.
 *
 * A file has the lines
 *   turns COUNT                       changes to another CPU
 *   cpu NUMBER BASE INSTRUCTIONS USER IOS BIOS ATOMICS TAKEN HELD SYNCS     base of its per-CPU area; locks of all; fsyncs
 *   lock ADDRESS CPUS TAKEN CONTENDED HELD LONGEST
 *   line PHYSICAL VIRTUAL             and for it
 *   user CPU READS WRITES MOVED-BY-READS MOVED-BY-WRITES BYTES-READ BYTES-WRITTEN     reads and writes in steps
 *   by ADDRESS CPU READS WRITES MOVED-BY-READS MOVED-BY-WRITES BYTES
 */
#include "cpus.h"
#include "lines.h"
#include "locks.h"
#include "profile/functions.h"
#include "profile/marker.h"
#include "profile/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_KERNEL ((uint64_t)1 << 63)
#define PAGE	     4096

EXPORT int qemu_plugin_version = PLUGIN_API;

struct translated {
	bool user, starts, marker, ends_io, ends_sync;
	char kind; /* of the function that begins here */
	unsigned int length;
};

static struct marker start, io, sync_end;
static const void *clock_handle;
static uint64_t turn, turn_began, executed, switches;
static bool taking_turns, counting, with_programs;
static struct cpu *cpu;
static unsigned int length; /* of the block that is executed */

static struct {
	struct access access;
	uint64_t value;
	bool waits;
} read; /* the last one: an instruction that writes there too does both at once */

static void finish_read(void)
{
	if (read.waits && turn)
		lines_access(&read.access);
	read.waits = false;
}

static void write_window(void)
{
	FILE *file = window_open();

	finish_read();
	fprintf(file, "turns %" PRIu64 "\n", switches);
	cpus_write(file);
	locks_write(file);
	lines_write(file);
	window_close(file);
}

static void toggle_window(void)
{
	counting = window_begins();
	if (!counting) {
		write_window();
		taking_turns = false;
		return;
	}
	switches = 0;
	cpus_clear();
	locks_clear();
	lines_clear();
}

/* Asked for when QEMU is complete: it forbids snapshots, and the list of what does so has to exist. */
static void begin_turns(void)
{
	if (turn && !clock_handle)
		clock_handle = qemu_plugin_request_time_control();
	if (turn && !clock_handle)
		fail("another plugin controls the time");
	taking_turns = true;
	turn_began = executed;
}

static void end_turn(void)
{
	/* No time passes: QEMU finishes what was asked for outside of the CPU's code, and goes on to the next CPU. */
	qemu_plugin_update_ns(clock_handle, 0);
	turn_began = executed;
}

static void on_block(unsigned int index, void *data)
{
	const struct translated *now = data;
	struct cpu *before = cpu;

	(void)index;
	if (now->starts)
		begin_turns();
	if (!taking_turns)
		return;
	/* Before the CPU or its step changes. */
	finish_read();
	if (turn || !cpu)
		cpu = cpu_now();
	if (cpu != before) {
		switches++;
		turn_began = executed;
	} else if (turn && executed - turn_began >= turn) {
		end_turn();
	}
	if (now->marker)
		toggle_window();
	length = now->length;
	executed += length;
	cpu->instructions += length;
	cpu->user_instructions += now->user ? length : 0;
	cpu->ios += now->ends_io;
	cpu->syncs += now->ends_sync;
	if (now->kind == SUBMIT)
		cpu->bios++;
	if (now->kind == SUBMIT || (now->kind == SWITCH && !cpu->bios))
		cpu->step++;
}

static uint64_t value_of(qemu_plugin_meminfo_t info)
{
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);

	switch (value.type) {
	case QEMU_PLUGIN_MEM_VALUE_U8:
		return value.data.u8;
	case QEMU_PLUGIN_MEM_VALUE_U16:
		return value.data.u16;
	case QEMU_PLUGIN_MEM_VALUE_U32:
		return value.data.u32;
	default:
		return value.data.u64;
	}
}

static void on_write(struct access *access, qemu_plugin_meminfo_t info)
{
	bool both = read.waits && read.access.by == access->by && read.access.cpu == cpu &&
		    read.access.physical == access->physical;

	if (both)
		read.waits = false;
	else
		finish_read();
	cpu->atomics += access->by->locked;
	if (access->by->kind || cpu->held_count) {
		access->at = cpu->instructions - length + access->by->index;
		locks_write_seen(access, both ? read.value : ~(uint64_t)0, value_of(info));
	}
	if (turn)
		lines_access(access);
}

static void on_memory(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct access access = { .by = data, .cpu = cpu, .virtual = address };
	const struct qemu_plugin_hwaddr *place;

	(void)index;
	if (!counting || (!turn && !access.by->kind && !access.by->locked && !cpu->held_count))
		return;
	place = qemu_plugin_get_hwaddr(info, address);
	if (!place || qemu_plugin_hwaddr_is_io(place))
		return;
	access.physical = qemu_plugin_hwaddr_phys_addr(place);
	access.size = 1u << qemu_plugin_mem_size_shift(info);
	access.write = qemu_plugin_mem_is_store(info);
	if (access.write) {
		on_write(&access, info);
		return;
	}
	finish_read();
	read.access = access;
	read.waits = true;
	if (access.by->kind || cpu->held_count)
		read.value = value_of(info);
}

/* Which opcodes that write to memory take the prefix lock (Intel's manual, volume 2, at LOCK). */
static bool takes_lock(const uint8_t *code)
{
	if (code[0] == 0x0f)
		return memchr("\xab\xb0\xb1\xb3\xba\xbb\xc0\xc1\xc7", code[1], 9);
	if (code[0] == 0xff)
		return (code[1] >> 3 & 7) < 2;
	return (code[0] < 0x38 && (code[0] & 6) == 0) || memchr("\x80\x81\x83\xf6\xf7\xfe", code[0], 6);
}

/*
 * The prefix lock, and xchg with memory, are atomic. On one CPU the kernel replaces lock by the prefix ds
 * (alternatives_smp_lock()). It pads other instructions with ds too: since 7.3 the mov that releases a spinlock.
 */
static bool is_locked(const struct qemu_plugin_insn *insn)
{
	uint8_t code[16] = { 0 };
	size_t size = copy_bytes(insn, code, sizeof(code) - 1), i = 0;
	bool lock = false, data_segment = false;

	for (; i < size; i++) {
		lock |= code[i] == 0xf0;
		data_segment |= code[i] == 0x3e;
		if (!memchr("\xf0\x3e\x66\x65\x64\x2e\xf2\xf3", code[i], 8) && (code[i] & 0xf0) != 0x40)
			break;
	}
	if ((code[i] == 0x86 || code[i] == 0x87) && code[i + 1] < 0xc0)
		return true;
	return lock || (data_segment && takes_lock(code + i));
}

/* A function of a program that lies at any page. */
static bool begins_anywhere(const struct marker *marker, const struct qemu_plugin_tb *tb)
{
	struct marker here = *marker;

	here.address = qemu_plugin_tb_vaddr(tb);
	return marker->size && (here.address ^ marker->address) % PAGE == 0 && marker_begins(&here, tb);
}

static char kind_at(uint64_t address, bool beginning)
{
	const struct function *function = function_at(address);
	char kind = (char)function->kind;
	bool of_entry = kind == SUBMIT || kind == SWITCH;

	if (kind == KIND_PLAIN || of_entry != beginning || (beginning && function->address != address))
		return 0;
	return kind;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct translated *new = taken(sizeof(*new));
	bool counted;

	(void)id;
	new->user = address < FIRST_KERNEL;
	if (new->user) {
		new->starts = marker_begins(&start, tb);
		new->marker = is_marker(tb);
		new->ends_io = begins_anywhere(&io, tb);
		new->ends_sync = begins_anywhere(&sync_end, tb);
	}
	counted = with_programs || !new->user;
	new->kind = counted ? kind_at(address, true) : 0;
	new->length = (unsigned int)qemu_plugin_tb_n_insns(tb);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_R_REGS, new);
	for (unsigned int i = 0; counted && i < new->length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct instruction *code;

		code = taken(sizeof(*code));
		code->address = qemu_plugin_insn_vaddr(insn);
		code->locked = is_locked(insn);
		code->kind = kind_at(code->address, false);
		code->index = i;
		qemu_plugin_register_vcpu_mem_cb(insn, on_memory, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, code);
	}
}

static void on_cpu(qemu_plugin_id_t id, unsigned int index)
{
	(void)id;
	(void)index;
	cpus_prepare();
}

static bool read_argument(const char *argument)
{
	if (!strncmp(argument, "functions=", 10))
		functions_read(argument + 10);
	else if (!strncmp(argument, "turn=", 5))
		turn = strtoull(argument + 5, NULL, 10);
	else if (!strcmp(argument, "programs=yes"))
		with_programs = true;
	else if (!strncmp(argument, "start", 5))
		return marker_read(&start, argument + 5, "=", "bytes=");
	else if (!strncmp(argument, "sync", 4))
		return marker_read(&sync_end, argument + 4, "=", "bytes=");
	else
		return marker_read(&io, argument, "io=", "iobytes=") || marker_argument(argument) || cpus_argument(argument);
	return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!read_argument(argv[i]))
			fail("unknown argument %s", argv[i]);
	if (!marker_is_set() || !start.size)
		fail("functions, number, start, startbytes, marker, bytes and output are wanted");
	qemu_plugin_register_vcpu_init_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
