// SPDX-License-Identifier: GPL-2.0-only
#include "store.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define FIRST_CAPACITY 1024u

/* Knuth's multiplicative hash: neighbouring pages go to distant slots. */
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
	struct store larger = { .capacity = store->capacity ? 2 * store->capacity : FIRST_CAPACITY, .used = store->used };

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
	size_t index;

	if (data || (store->used * 4 >= store->capacity * 3 && !grow(store)))
		return data;
	data = calloc(1, PAGE);
	if (!data)
		return NULL;
	index = slot_of(store, page);
	store->slots[index] = (struct store_slot){ .page = page + 1, .data = data };
	store->used++;
	return data;
}

static size_t part_in_page(uint64_t offset, size_t length)
{
	size_t left = PAGE - offset % PAGE;

	return left < length ? left : length;
}

void store_read(const struct store *store, uint64_t offset, uint8_t *data, size_t length)
{
	if (!store->used) {
		memset(data, 0, length);
		return;
	}
	while (length) {
		size_t part = part_in_page(offset, length);
		const uint8_t *page = kept_page(store, offset / PAGE);

		if (page)
			memcpy(data, page + offset % PAGE, part);
		else
			memset(data, 0, part);
		offset += part;
		data += part;
		length -= part;
	}
}

bool store_write(struct store *store, uint64_t offset, const uint8_t *data, size_t length)
{
	while (length) {
		size_t part = part_in_page(offset, length);
		uint8_t *page = page_to_write(store, offset / PAGE);

		if (!page)
			return false;
		memcpy(page + offset % PAGE, data, part);
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
