/* SPDX-License-Identifier: GPL-2.0-only */
/* The virtual CPUs of the guest, told apart by their per-CPU areas, and what each has done in the window. */
#ifndef SHARING_CPUS_H
#define SHARING_CPUS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MOST_CPUS 8
#define MOST_HELD 16

struct held {
	struct lock *lock;
	uint64_t since; /* instructions of this CPU */
};

struct cpu {
	uint64_t base; /* of its per-CPU area */
	unsigned int number;
	unsigned int step; /* counts the I/Os that it submits; without any, its switches between tasks */
	uint64_t instructions, user_instructions, bios, atomics, taken, held_instructions;
	uint64_t ios, syncs; /* what ended: I/Os with fsyncs, and these */
	struct held held[MOST_HELD];
	unsigned int held_count;
	uint64_t waits_for; /* address of a lock, 0 for none */
};

/* Read "number=OFFSET:SIZE", where a per-CPU area has the CPU's number; false for another argument. */
bool cpus_argument(const char *argument);

/* The registers can be found once a CPU exists. */
void cpus_prepare(void);

/* The CPU that executes now. */
struct cpu *cpu_now(void);

void cpus_clear(void);
void cpus_write(FILE *file);

#endif
