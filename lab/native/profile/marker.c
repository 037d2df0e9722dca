// SPDX-License-Identifier: GPL-2.0-only
#include "marker.h"
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct marker window;
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

static void read_bytes(struct marker *marker, const char *text)
{
	unsigned int byte;

	for (; sscanf(text, "%2x", &byte) == 1 && marker->size < MARKER_MAX; text += 2)
		marker->bytes[marker->size++] = (uint8_t)byte;
}

bool marker_read(struct marker *marker, const char *argument, const char *address, const char *bytes)
{
	if (!strncmp(argument, address, strlen(address)))
		marker->address = strtoull(argument + strlen(address), NULL, 16);
	else if (!strncmp(argument, bytes, strlen(bytes)))
		read_bytes(marker, argument + strlen(bytes));
	else
		return false;
	return true;
}

bool marker_argument(const char *argument)
{
	if (strncmp(argument, "output=", 7))
		return marker_read(&window, argument, "marker=", "bytes=");
	output = strdup(argument + 7);
	return true;
}

bool marker_is_set(void)
{
	return window.address && window.size && output;
}

/* Before a timer QEMU ends blocks early: one that begins with the marker may have fewer bytes. Returns how many. */
static size_t bytes_after(const struct marker *marker, uint8_t *to)
{
#if PLUGIN_API >= 4
	static GByteArray *bytes;

	bytes = bytes ? bytes : g_byte_array_new();
	if (qemu_plugin_read_memory_vaddr(marker->address, bytes, marker->size) && bytes->len == marker->size) {
		memcpy(to, bytes->data, marker->size);
		return marker->size;
	}
#else
	(void)marker;
	(void)to;
#endif
	return 0;
}

bool marker_begins(const struct marker *marker, const struct qemu_plugin_tb *tb)
{
	uint8_t bytes[MARKER_MAX];
	size_t size = 0;

	if (qemu_plugin_tb_vaddr(tb) != marker->address)
		return false;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb) && size < marker->size; i++)
		size += copy_bytes(qemu_plugin_tb_get_insn(tb, i), bytes + size, marker->size - size);
	if (size < marker->size)
		size = bytes_after(marker, bytes);
	return size && size == marker->size && !memcmp(bytes, marker->bytes, size);
}

bool is_marker(const struct qemu_plugin_tb *tb)
{
	return marker_begins(&window, tb);
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
