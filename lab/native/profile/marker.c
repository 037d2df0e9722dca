// SPDX-License-Identifier: GPL-2.0-only
#include "marker.h"
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MARKER_MAX 32

static uint64_t marker;
static uint8_t marker_bytes[MARKER_MAX];
static size_t marker_size;
static const char *output;
static unsigned int windows;
static bool in_window;

size_t copy_bytes(const struct qemu_plugin_insn *insn, uint8_t *to, size_t room)
{
	size_t size = qemu_plugin_insn_size(insn);

	if (size > room)
		size = room;
#if PLUGIN_API >= 3
	return qemu_plugin_insn_data(insn, to, size);
#else
	memcpy(to, qemu_plugin_insn_data(insn), size);
	return size;
#endif
}

static void read_bytes(const char *text)
{
	unsigned int byte;

	for (; sscanf(text, "%2x", &byte) == 1 && marker_size < MARKER_MAX; text += 2)
		marker_bytes[marker_size++] = (uint8_t)byte;
}

bool marker_argument(const char *argument)
{
	if (!strncmp(argument, "marker=", 7))
		marker = strtoull(argument + 7, NULL, 16);
	else if (!strncmp(argument, "bytes=", 6))
		read_bytes(argument + 6);
	else if (!strncmp(argument, "output=", 7))
		output = strdup(argument + 7);
	else
		return false;
	return true;
}

bool marker_is_set(void)
{
	return marker && marker_size && output;
}

bool is_marker(const struct qemu_plugin_tb *tb)
{
	uint8_t bytes[MARKER_MAX];
	size_t size = 0;

	if (qemu_plugin_tb_vaddr(tb) != marker)
		return false;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb) && size < marker_size; i++)
		size += copy_bytes(qemu_plugin_tb_get_insn(tb, i), bytes + size, marker_size - size);
	return size == marker_size && !memcmp(bytes, marker_bytes, marker_size);
}

bool window_begins(void)
{
	in_window = !in_window;
	return in_window;
}

FILE *window_open(void)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s.%u", output, windows++);
	file = fopen(path, "we");
	if (!file)
		fail("%s: %s", path, strerror(errno));
	return file;
}

void window_close(FILE *file)
{
	if (fclose(file))
		fail("%s.%u: %s", output, windows - 1, strerror(errno));
}
