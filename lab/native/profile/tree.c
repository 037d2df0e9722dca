// SPDX-License-Identifier: GPL-2.0-only
#include "tree.h"
#include "memory.h"

#include <inttypes.h>
#include <stdbool.h>

#define FIRST_BUCKETS ((size_t)1 << 14)

static struct node roots[ROOTS] = {
	[ROOT_KERNEL] = { .number = ROOT_KERNEL },
	[ROOT_INTERRUPT] = { .number = ROOT_INTERRUPT },
	[ROOT_IDLE] = { .number = ROOT_IDLE },
};
static struct node *newest, **buckets;
static size_t bucket_count, count = ROOTS;

struct node *root(enum root root)
{
	return &roots[root];
}

static struct node **bucket_of(const struct node *parent, const struct function *function)
{
	uint64_t mixed = parent->number * 0x9e3779b97f4a7c15u + function->address * 0xff51afd7ed558ccdu;

	return &buckets[(mixed ^ mixed >> 29) & (bucket_count - 1)];
}

static void more_buckets(void)
{
	bucket_count = bucket_count ? 4 * bucket_count : FIRST_BUCKETS;
	buckets = taken(bucket_count * sizeof(struct node *));
	for (struct node *node = newest; node; node = node->next) {
		struct node **bucket = bucket_of(node->parent, node->function);

		node->hashed = *bucket;
		*bucket = node;
	}
}

struct node *node_below(struct node *parent, const struct function *function)
{
	struct node **bucket, *node;

	if (count >= bucket_count)
		more_buckets();
	bucket = bucket_of(parent, function);
	for (node = *bucket; node; node = node->hashed)
		if (node->parent == parent && node->function == function)
			return node;
	node = taken(sizeof(*node));
	*node = (struct node){
		.parent = parent, .function = function, .hashed = *bucket, .next = newest, .number = count++
	};
	*bucket = newest = node;
	return node;
}

void tree_clear(void)
{
	for (struct node *node = newest; node; node = node->next)
		node->instructions = node->calls = 0;
}

void tree_write(FILE *file)
{
	bool *wanted = taken(count * sizeof(*wanted));

	for (struct node *node = newest; node; node = node->next) {
		/* A parent is older than its children, so that it comes after them here. */
		if (!node->instructions && !node->calls && !wanted[node->number])
			continue;
		wanted[node->parent->number] = true;
		fprintf(file, "node %" PRIu64 " %" PRIu64 " %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", node->number,
			node->parent->number, node->function->address, node->calls, node->instructions);
	}
}
