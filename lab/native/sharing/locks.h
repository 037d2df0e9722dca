/* SPDX-License-Identifier: GPL-2.0-only */
/* Spinlocks, rwlocks and mutexes: how often each is taken, and for how many instructions it is held. */
#ifndef SHARING_LOCKS_H
#define SHARING_LOCKS_H

#include "lines.h"

/* What is special about a function; the letters are those of the file that lab/sharing.py writes. */
enum {
	LOCK = 'l',	/* returns with the lock held */
	READ_LOCK = 'k', /* the same, with other readers */
	TRY_LOCK = 't',	/* may fail */
	LOCK_SLOWLY = 'w', /* waits for a lock */
	UNLOCK = 'u',
	SUBMIT = 'b',
	SWITCH = 'x',
};

/* A write by a function of these kinds, or by any while the CPU holds a lock. READ is what the instruction read there
 * before, VALUE what it writes.
 */
void locks_write_seen(const struct access *access, uint64_t read, uint64_t value);
void locks_clear(void);
void locks_write(FILE *file);

#endif
