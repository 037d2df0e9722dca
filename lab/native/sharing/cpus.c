// SPDX-License-Identifier: GPL-2.0-only
/*
 * QEMU tells a callback the index of the CPU that translated the code, not of the one that executes it, when one
 * thread executes all CPUs (gen_cpu_index(), since QEMU 10.0; docs/upstream/qemu-vcpu-index.patch). The base of the
 * kernel's per-CPU area, in gs_base or, outside the kernel, in k_gs_base, does differ.
 */
#include "cpus.h"
#include "profile/memory.h"
#include "profile/qemu_api.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_KERNEL ((uint64_t)1 << 63)

static struct cpu cpus[MOST_CPUS];
static unsigned int count;
static uint64_t number_at;
static const struct qemu_plugin_register *gs_base, *k_gs_base;
static GByteArray *bytes;

bool cpus_argument(const char *argument)
{
	if (strncmp(argument, "number=", 7))
		return false;
	number_at = strtoull(argument + 7, NULL, 16);
	return true;
}

void cpus_prepare(void)
{
	GArray *registers;

	if (gs_base)
		return;
	registers = qemu_plugin_get_registers();
	for (unsigned int i = 0; i < registers->len; i++) {
		const qemu_plugin_reg_descriptor *found = &((qemu_plugin_reg_descriptor *)registers->data)[i];

		if (!strcmp(found->name, "gs_base"))
			gs_base = found->handle;
		if (!strcmp(found->name, "k_gs_base"))
			k_gs_base = found->handle;
	}
	if (!gs_base || !k_gs_base)
		fail("this QEMU has no registers gs_base and k_gs_base");
	bytes = g_byte_array_new();
}

static uint64_t read_register(const struct qemu_plugin_register *handle)
{
	uint64_t value;

	g_byte_array_set_size(bytes, 0);
	if (qemu_plugin_read_register(handle, bytes) != sizeof(value))
		fail("a segment base has no 8 bytes");
	memcpy(&value, bytes->data, sizeof(value));
	return value;
}

static unsigned int number_of(uint64_t base)
{
	uint32_t number;

	if (!qemu_plugin_read_memory_vaddr(base + number_at, bytes, sizeof(number)))
		fail("no CPU number at %" PRIx64, base + number_at);
	memcpy(&number, bytes->data, sizeof(number));
	if (number >= MOST_CPUS)
		fail("CPU %" PRIu32 " at %" PRIx64, number, base);
	return number;
}

struct cpu *cpu_now(void)
{
	static struct cpu *last = cpus;
	uint64_t base = read_register(gs_base);

	if (base < FIRST_KERNEL)
		base = read_register(k_gs_base);
	if (last->base == base)
		return last;
	for (last = cpus; last < cpus + count; last++)
		if (last->base == base)
			return last;
	if (count == MOST_CPUS)
		fail("more than %d CPUs", MOST_CPUS);
	last->base = base;
	last->number = number_of(base);
	count++;
	return last;
}

void cpus_clear(void)
{
	for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++)
		*cpu = (struct cpu){ .base = cpu->base, .number = cpu->number };
}

void cpus_write(FILE *file)
{
	for (unsigned int number = 0; number < MOST_CPUS; number++)
		for (const struct cpu *cpu = cpus; cpu < cpus + count; cpu++)
			if (cpu->number == number)
				fprintf(file,
					"cpu %u %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
					" %" PRIu64 " %" PRIu64 "\n",
					number, cpu->base, cpu->instructions, cpu->user_instructions, cpu->ios - cpu->syncs, cpu->bios, cpu->atomics,
					cpu->taken, cpu->held_instructions, cpu->syncs);
}
