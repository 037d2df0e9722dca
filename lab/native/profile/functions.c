// SPDX-License-Identifier: GPL-2.0-only
#include "functions.h"
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct function *functions;
static size_t count;

static void add(uint64_t address, enum kind kind)
{
	if (!(count & (count + 1)))
		functions = grown(functions, (2 * count + 2) * sizeof(*functions));
	functions[count++] = (struct function){ .address = address, .kind = kind };
}

void functions_read(const char *path)
{
	FILE *file = fopen(path, "re");
	uint64_t address;
	char kind;

	if (!file)
		fail("%s: %s", path, strerror(errno));
	add(0, KIND_PLAIN);
	while (fscanf(file, "%" SCNx64 " %c", &address, &kind) == 2) {
		if (address <= functions[count - 1].address)
			fail("%s: %" PRIx64 " is out of order", path, address);
		add(address, (enum kind)kind);
	}
	if (!feof(file))
		fail("%s: the line after %" PRIx64 " is wrong", path, functions[count - 1].address);
	fclose(file);
}

const struct function *function_at(uint64_t address)
{
	size_t low = 0, high = count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (functions[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	return &functions[low];
}
