// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin that counts, by vcpu_index, how often blocks of the page at 0x8000 are executed: once with a callback
 * and once with an inline operation on a scoreboard. It prints "INDEX CALLBACKS INLINE" for each vCPU.
 */
#include <inttypes.h>
#include <stdio.h>

#include <qemu-plugin.h>

#define VCPUS 4

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static uint64_t calls[VCPUS];
static qemu_plugin_u64 inlined;

static void count(unsigned int vcpu_index, void *data)
{
	(void)data;
	calls[vcpu_index]++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	(void)id;
	if (qemu_plugin_tb_vaddr(block) >> 12 != 8)
		return;
	qemu_plugin_register_vcpu_tb_exec_cb(block, count, QEMU_PLUGIN_CB_NO_REGS, NULL);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, QEMU_PLUGIN_INLINE_ADD_U64, inlined, 1);
}

static void finish(qemu_plugin_id_t id, void *data)
{
	char line[80];

	(void)id;
	(void)data;
	for (unsigned int vcpu = 0; vcpu < VCPUS; vcpu++) {
		snprintf(line, sizeof(line), "%u %" PRIu64 " %" PRIu64 "\n", vcpu, calls[vcpu],
			 qemu_plugin_u64_get(inlined, vcpu));
		qemu_plugin_outs(line);
	}
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	(void)argc;
	(void)argv;
	inlined = qemu_plugin_scoreboard_u64(qemu_plugin_scoreboard_new(sizeof(uint64_t)));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
