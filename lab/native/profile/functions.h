/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PROFILE_FUNCTIONS_H
#define PROFILE_FUNCTIONS_H

#include <stdint.h>

/* What is special about a function; the letters are those of the file that lab/profile.py writes. */
enum kind {
	KIND_PLAIN = '-',
	KIND_INTERRUPT = 'i', /* entered by an interrupt at its first instruction */
	KIND_STUBS = 's',     /* a table of such entries */
	KIND_EXCEPTION = 'e', /* entered by an exception */
	KIND_THUNK = 't',     /* jumps to where its caller wanted to go */
	KIND_FORK = 'f',      /* the first function of a new task */
	KIND_IDLE = 'd',      /* the idle task never leaves it */
	KIND_SWITCH = 'x',    /* __switch_to_asm changes the stack and jumps ... */
	KIND_SWITCHED = 'y',  /* ... to __switch_to */
};

struct function {
	uint64_t address;
	enum kind kind;
};

/* Read the lines "ADDRESS KIND" of a file, sorted by address; a function ends where the next one begins. */
void functions_read(const char *path);

/* The function that ADDRESS lies in; one at address 0 holds what lies before all others. */
const struct function *function_at(uint64_t address);

#endif
