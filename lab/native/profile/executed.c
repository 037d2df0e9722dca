// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU: which code of the kernel is executed until the end of each window of a guest's program.
 *
 *   marker=ADDRESS  user address of a function, executed at the beginning and at the end of each window
 *   bytes=HEX       what its first instructions are, which tells it from other programs' code at the same address
 *   output=PREFIX   PREFIX.N is written at the end of window N, which counts from 0
 *
 * A file has the addresses of the blocks (translated until a jump) that were executed since the end of the window
 * before, or since QEMU's start: what a load executes comes with what sets it up. The guest is not changed.
 */
#include "marker.h"
#include "memory.h"
#include "qemu_api.h"

#include <inttypes.h>
#include <stdio.h>

#define FIRST_KERNEL ((uint64_t)1 << 63)

EXPORT int qemu_plugin_version = PLUGIN_API;

struct translated {
	uint64_t address;
	bool executed;
	struct translated *next; /* newest first */
};

static struct translated *newest;

static void write_window(void)
{
	FILE *file = window_open();

	for (struct translated *one = newest; one; one = one->next) {
		if (one->executed)
			fprintf(file, "%" PRIx64 "\n", one->address);
		one->executed = false;
	}
	window_close(file);
}

static void on_kernel(unsigned int vcpu, void *data)
{
	struct translated *now = data;

	(void)vcpu;
	now->executed = true;
}

static void on_marker(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (!window_begins())
		write_window();
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct translated *new;

	(void)id;
	if (address < FIRST_KERNEL) {
		if (is_marker(tb))
			qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, QEMU_PLUGIN_CB_NO_REGS, NULL);
		return;
	}
	new = taken(sizeof(*new));
	new->address = address;
	new->next = newest;
	newest = new;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_kernel, QEMU_PLUGIN_CB_NO_REGS, new);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!marker_argument(argv[i]))
			fail("unknown argument %s", argv[i]);
	}
	if (!marker_is_set())
		fail("marker, bytes and output are wanted");
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
