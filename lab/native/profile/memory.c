// SPDX-License-Identifier: GPL-2.0-only
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("profile: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	fflush(stderr);
	_exit(1);
}

void *taken(size_t size)
{
	static char *chunk;
	static size_t left;

	size = (size + 15) & ~(size_t)15;
	if (size > left) {
		left = size > CHUNK ? size : CHUNK;
		chunk = calloc(1, left);
		if (!chunk)
			fail("no memory");
	}
	left -= size;
	chunk += size;
	return chunk - size;
}

void *grown(void *old, size_t size)
{
	void *new = realloc(old, size);

	if (!new)
		fail("no memory");
	return new;
}
