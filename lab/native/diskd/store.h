/* SPDX-License-Identifier: GPL-2.0-only */
/* The data written to a disk, in pages of 4 KiB. Pages of zeros are not kept; unwritten pages read as zeros. */
#ifndef DISKD_STORE_H
#define DISKD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_PAGE 4096u

struct store_slot {
	uint64_t page; /* its number and 1, 0 for an empty slot */
	uint8_t *data; /* NULL where zeros were written over it */
};

struct store {
	struct store_slot *slots;
	size_t capacity, used; /* capacity is a power of two, or 0 */
	size_t kept;           /* pages that take memory */
};

void store_read(const struct store *store, uint64_t offset, uint8_t *data, size_t length);

/* False without memory; part of the data may have been kept. */
bool store_write(struct store *store, uint64_t offset, const uint8_t *data, size_t length);

void store_drop(struct store *store);

#endif
