/* SPDX-License-Identifier: GPL-2.0-only */
/* Cache lines of the guest: who reads and writes each, and how often it moves between CPUs. */
#ifndef SHARING_LINES_H
#define SHARING_LINES_H

#include "cpus.h"

struct instruction {
	uint64_t address;
	bool locked;
	char kind;
	unsigned int index; /* in its block */
};

struct access {
	const struct instruction *by;
	struct cpu *cpu;
	uint64_t physical, virtual;
	uint64_t at; /* instructions that the CPU executed before */
	unsigned int size;
	bool write;
};

void lines_access(const struct access *access);
void lines_clear(void);

/* The lines that more than one CPU used and at least one wrote. */
void lines_write(FILE *file);

#endif
