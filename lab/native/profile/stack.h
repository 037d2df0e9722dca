/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's call stacks, followed from block to block: a frame for each call, and for each interrupt and exception
 * taken in the kernel. Every task has its own, told apart by the address of its kernel stack.
 */
#ifndef PROFILE_STACK_H
#define PROFILE_STACK_H

#include "functions.h"
#include "tree.h"

#include <stdbool.h>
#include <stdint.h>

/* How a block ends. */
enum ending { END_OTHER, END_CALL, END_RETURN, END_IRET, END_SYSRET };

/* A block of the kernel that has been executed, or is about to be. */
struct block {
	uint64_t address, end;
	const struct function *function;
	enum ending ending;
	bool user;
};

/*
 * BLOCK follows BEFORE, of which all instructions were executed if COMPLETE: the node that BLOCK counts for.
 * Its function is that of BLOCK, whatever the stack says.
 */
struct node *stack_follow(const struct block *before, bool complete, const struct block *block);

/* __switch_to_asm accesses the stack: its first write goes to that of the old task, its last read to the new one's. */
void stack_accessed(uint64_t address, bool write);

/* Returns and switches that no call or task explains, since the beginning. */
uint64_t stack_surprises(void);

#endif
