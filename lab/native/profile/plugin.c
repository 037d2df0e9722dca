// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU: which function executes how many instructions between two points of a guest's program.
 *
 *   functions=PATH  the kernel's functions (functions.h)
 *   marker=ADDRESS  user address of a function, executed at the beginning and at the end of each window
 *   bytes=HEX       what its first instructions are, which tells it from other programs' code at the same address
 *   output=PREFIX   PREFIX.N is written at the end of window N, which counts from 0
 *
 * Every instruction adds one to a counter when it is executed, and at every block (translated until a jump) the
 * difference goes to the block before: a block that a fault cuts short counts what it executed, except that an
 * instruction that faults counts twice. The guest is not changed, and its virtual time neither.
 *
 * A file has the lines
 *   total INSTRUCTIONS SURPRISES
 *   node NUMBER PARENT ADDRESS CALLS INSTRUCTIONS    kernel; 0, 1 and 2 are process, interrupt and idle task
 *   code RUNS ADDRESS...                             kernel; instructions that were executed RUNS times each
 *   user ADDRESS BYTES RUNS INSTRUCTIONS             one block of a program
 */
#include "functions.h"
#include "marker.h"
#include "memory.h"
#include "qemu_api.h"
#include "stack.h"
#include "tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_KERNEL ((uint64_t)1 << 63)

EXPORT int qemu_plugin_version = PLUGIN_API;

struct instruction {
	uint64_t address;
	uint64_t last; /* runs of the block in the window in which it was the last that was executed */
};

struct translated {
	struct block block;
	unsigned int length; /* instructions */
	bool marker;
	struct translated *next;     /* newest first */
	struct instruction *code;    /* of the kernel */
	uint64_t runs, instructions; /* of user space, in the window */
	uint16_t size;
	uint8_t bytes[]; /* of user space */
};

static struct translated nothing = { .block.user = true }, *before = &nothing, *newest;
static struct node *node; /* that BEFORE counts for; NULL for user space */
static uint64_t counted, window_began, surprises_before;

#if PLUGIN_API >= 2
static qemu_plugin_u64 counter;

static uint64_t executed(void)
{
	return qemu_plugin_u64_get(counter, 0);
}

static void count_instruction(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, counter, 1);
}
#else
static uint64_t counter;

static uint64_t executed(void)
{
	return counter;
}

static void count_instruction(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &counter, 1);
}
#endif

static void write_user(FILE *file, const struct translated *user)
{
	if (!user->runs && !user->instructions)
		return;
	fprintf(file, "user %" PRIx64 " ", user->block.address);
	for (unsigned int i = 0; i < user->size; i++)
		fprintf(file, "%02x", user->bytes[i]);
	fprintf(file, " %" PRIu64 " %" PRIu64 "\n", user->runs, user->instructions);
}

/* An instruction was executed whenever it or a later one of its block was the last. */
static void write_code(FILE *file, const struct translated *kernel)
{
	uint64_t runs = 0;

	for (unsigned int i = kernel->length; i--;) {
		if (kernel->code[i].last) {
			fprintf(file, "%scode %" PRIu64, runs ? "\n" : "", runs + kernel->code[i].last);
			runs += kernel->code[i].last;
		}
		if (runs)
			fprintf(file, " %" PRIx64, kernel->code[i].address);
	}
	if (runs)
		fputc('\n', file);
}

static void write_window(void)
{
	FILE *file = window_open();

	fprintf(file, "total %" PRIu64 " %" PRIu64 "\n", counted - window_began, stack_surprises() - surprises_before);
	tree_write(file);
	for (const struct translated *one = newest; one; one = one->next) {
		if (one->block.user)
			write_user(file, one);
		else
			write_code(file, one);
	}
	window_close(file);
}

static void toggle_window(void)
{
	if (!window_begins()) {
		write_window();
		return;
	}
	window_began = counted;
	surprises_before = stack_surprises();
	tree_clear();
	for (struct translated *one = newest; one; one = one->next) {
		one->runs = one->instructions = 0;
		for (unsigned int i = 0; one->code && i < one->length; i++)
			one->code[i].last = 0;
	}
}

static void on_block(unsigned int vcpu, void *data)
{
	struct translated *now = data;
	uint64_t total = executed(), passed = total - counted;

	(void)vcpu;
	counted = total;
	if (passed > before->length)
		fail("%" PRIx64 " executed %" PRIu64 " instructions and has %u", before->block.address, passed,
		     before->length);
	if (!node) {
		before->instructions += passed;
	} else if (passed) {
		node->instructions += passed;
		before->code[passed - 1].last++;
	}
	if (now->marker)
		toggle_window();
	if (now->block.user) {
		now->runs++;
		node = NULL;
	} else {
		node = stack_follow(&before->block, passed == before->length, &now->block);
	}
	before = now;
}

static void on_stack_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	(void)vcpu;
	(void)data;
	stack_accessed(address, qemu_plugin_mem_is_store(info));
}

static bool is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0x2e || byte == 0x3e || byte == 0xf2 || byte == 0xf3 || (byte & 0xf0) == 0x40;
}

/* Intel's manual, volume 2, appendix A: call e8 and ff /2, ret c2 and c3, iret cf, sysret 0f 07. */
static enum ending ending_of(const struct qemu_plugin_insn *insn)
{
	uint8_t bytes[16] = { 0 };
	size_t size = copy_bytes(insn, bytes, sizeof(bytes) - 1), i = 0;

	while (i < size && is_prefix(bytes[i]))
		i++;
	switch (bytes[i]) {
	case 0xe8:
		return END_CALL;
	case 0xff:
		return (bytes[i + 1] >> 3 & 7) == 2 ? END_CALL : END_OTHER;
	case 0xc2:
	case 0xc3:
		return END_RETURN;
	case 0xcf:
		return END_IRET;
	case 0x0f:
		return bytes[i + 1] == 0x07 ? END_SYSRET : END_OTHER;
	default:
		return END_OTHER;
	}
}

static struct translated *new_block(const struct qemu_plugin_tb *tb, bool user)
{
	size_t length = qemu_plugin_tb_n_insns(tb), size = 0;
	const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, length - 1);
	struct translated *new;

	for (size_t i = 0; user && i < length; i++)
		size += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
	new = taken(sizeof(*new) + size);
	new->length = (unsigned int)length;
	new->block.address = qemu_plugin_tb_vaddr(tb);
	new->block.end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);
	new->block.user = user;
	new->next = newest;
	newest = new;
	if (!user) {
		new->block.function = function_at(new->block.address);
		new->block.ending = ending_of(last);
		new->code = taken(length * sizeof(*new->code));
		for (size_t i = 0; i < length; i++)
			new->code[i].address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i));
		return new;
	}
	for (size_t i = 0; i < length; i++)
		new->size += copy_bytes(qemu_plugin_tb_get_insn(tb, i), new->bytes + new->size, size - new->size);
	new->marker = is_marker(tb);
	return new;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct translated *new = new_block(tb, qemu_plugin_tb_vaddr(tb) < FIRST_KERNEL);
	bool switches = !new->block.user &&new->block.function->kind == KIND_SWITCH;

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, new);
	for (size_t i = 0; i < new->length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		count_instruction(insn);
		if (switches)
			qemu_plugin_register_vcpu_mem_cb(insn, on_stack_access, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, NULL);
	}
}

static bool read_argument(const char *argument)
{
	if (!strncmp(argument, "functions=", 10))
		functions_read(argument + 10);
	else
		return marker_argument(argument);
	return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!read_argument(argv[i]))
			fail("unknown argument %s", argv[i]);
	if (!marker_is_set())
		fail("functions, marker, bytes and output are wanted");
#if PLUGIN_API >= 2
	counter = (qemu_plugin_u64){ .score = qemu_plugin_scoreboard_new(sizeof(uint64_t)) };
#endif
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
