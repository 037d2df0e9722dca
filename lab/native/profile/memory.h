/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PROFILE_MEMORY_H
#define PROFILE_MEMORY_H

#include <stddef.h>

/* End QEMU with a message: a profile that lacks something is worthless. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory that is never freed. */
void *taken(size_t size);

/* realloc() that does not fail. */
void *grown(void *old, size_t size);

#endif
