/* SPDX-License-Identifier: GPL-2.0-only */
/* The tree of calling contexts: a node for each function by the path of calls that led to it. */
#ifndef PROFILE_TREE_H
#define PROFILE_TREE_H

#include "functions.h"

#include <stdio.h>

enum root { ROOT_KERNEL, ROOT_INTERRUPT, ROOT_IDLE, ROOTS };

struct node {
	struct node *parent;             /* NULL for a root */
	const struct function *function; /* NULL for a root */
	uint64_t instructions, calls;    /* of the window; calls into the function */
	struct node *hashed;             /* next of its bucket */
	struct node *next;               /* all nodes, newest first */
	uint64_t number;                 /* in the order of making */
};

struct node *root(enum root root);

/* The node of FUNCTION below PARENT, made at its first use. */
struct node *node_below(struct node *parent, const struct function *function);

/* Forget the counts, not the tree. */
void tree_clear(void);

/* Write "node NUMBER PARENT ADDRESS CALLS INSTRUCTIONS" for each node with counts, and its ancestors. */
void tree_write(FILE *file);

#endif
