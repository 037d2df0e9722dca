// SPDX-License-Identifier: GPL-2.0-only
#include "store.h"

#include <stdlib.h>
#include <string.h>

#define PAGE STORE_PAGE
#define FIRST_CAPACITY 1024u

/*
 * Under the virtual clock a "rep movsb" costs one instruction per byte, and memcpy() of the C library uses it
 * for a page. These functions take one instruction per 32 bytes.
 */
typedef uint64_t lane __attribute__((vector_size(32), aligned(1), may_alias));
#define WIDE __attribute__((target_clones("avx2", "default")))
#define STRIDE (4 * sizeof(lane))

WIDE static void copy(uint8_t *to, const uint8_t *from, size_t length)
{
	for (; length >= STRIDE; length -= STRIDE, to += STRIDE, from += STRIDE) {
		const lane *in = (const lane *)from;
		lane *out = (lane *)to, one = in[0], two = in[1], three = in[2], four = in[3];

		out[0] = one;
		out[1] = two;
		out[2] = three;
		out[3] = four;
	}
	memcpy(to, from, length);
}

WIDE static void clear(uint8_t *to, size_t length)
{
	for (; length >= STRIDE; length -= STRIDE, to += STRIDE) {
		lane *out = (lane *)to;

		out[0] = out[1] = out[2] = out[3] = (lane){ 0 };
	}
	memset(to, 0, length);
}

static bool is_zero(const uint8_t *data, size_t length)
{
	return !length || (!*data && !memcmp(data, data + 1, length - 1));
}

/* Knuth's multiplicative hash: it spreads adjacent pages. */
static size_t slot_of(const struct store *store, uint64_t page)
{
	size_t mask = store->capacity - 1;
	size_t index = (size_t)(page * 0x9e3779b97f4a7c15u >> 20) & mask;

	while (store->slots[index].page && store->slots[index].page != page + 1)
		index = (index + 1) & mask;
	return index;
}

static bool grow(struct store *store)
{
	struct store larger = { .capacity = store->capacity ? 2 * store->capacity : FIRST_CAPACITY,
				.used = store->used,
				.kept = store->kept };

	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < store->capacity; i++)
		if (store->slots[i].page)
			larger.slots[slot_of(&larger, store->slots[i].page - 1)] = store->slots[i];
	free(store->slots);
	*store = larger;
	return true;
}

static uint8_t *kept_page(const struct store *store, uint64_t page)
{
	return store->capacity ? store->slots[slot_of(store, page)].data : NULL;
}

static uint8_t *page_to_write(struct store *store, uint64_t page)
{
	uint8_t *data = kept_page(store, page);
	struct store_slot *slot;

	if (data || (store->used * 4 >= store->capacity * 3 && !grow(store)))
		return data;
	data = calloc(1, PAGE);
	if (!data)
		return NULL;
	slot = &store->slots[slot_of(store, page)];
	store->used += !slot->page;
	store->kept++;
	*slot = (struct store_slot){ .page = page + 1, .data = data };
	return data;
}

static void forget_page(struct store *store, uint64_t page)
{
	struct store_slot *slot = &store->slots[slot_of(store, page)];

	free(slot->data);
	slot->data = NULL;
	store->kept--;
}

static bool write_in_page(struct store *store, uint64_t offset, const uint8_t *data, size_t length)
{
	bool zero = is_zero(data, length), kept = kept_page(store, offset / PAGE);
	uint8_t *page;

	if (zero && !kept)
		return true;
	if (zero && length == PAGE) {
		forget_page(store, offset / PAGE);
		return true;
	}
	page = page_to_write(store, offset / PAGE);
	if (page)
		copy(page + offset % PAGE, data, length);
	return page;
}

static size_t part_in_page(uint64_t offset, size_t length)
{
	size_t left = PAGE - offset % PAGE;

	return left < length ? left : length;
}

void store_read(const struct store *store, uint64_t offset, uint8_t *data, size_t length)
{
	if (!store->kept) {
		clear(data, length);
		return;
	}
	while (length) {
		size_t part = part_in_page(offset, length);
		const uint8_t *page = kept_page(store, offset / PAGE);

		if (page)
			copy(data, page + offset % PAGE, part);
		else
			clear(data, part);
		offset += part;
		data += part;
		length -= part;
	}
}

bool store_write(struct store *store, uint64_t offset, const uint8_t *data, size_t length)
{
	while (length) {
		size_t part = part_in_page(offset, length);

		if (!write_in_page(store, offset, data, part))
			return false;
		offset += part;
		data += part;
		length -= part;
	}
	return true;
}

void store_drop(struct store *store)
{
	for (size_t i = 0; i < store->capacity; i++)
		free(store->slots[i].data);
	free(store->slots);
	*store = (struct store){ 0 };
}
