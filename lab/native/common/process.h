/* SPDX-License-Identifier: GPL-2.0-only */
/* What the lab's programs in the guest need as processes: an end with a message, a clock, whole files. */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include <stdint.h>
#include <stdio.h>

#define SECOND 1000000000u

/* Ends the process with status 3 and the message on standard error. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/* CLOCK_MONOTONIC in ns. */
uint64_t clock_now(void);

/* A descriptor that expires at times of that clock. */
int timer_open(void);
void timer_set(int timer, uint64_t when, uint64_t period);

/* A descriptor from which signal NUMBER is read, and which interrupts nothing any more. */
int signal_open(int number);

/* SCHED_FIFO with PRIORITY, and no waiting for memory. */
void become_prompt(int priority);

/* In one step, so that a file under that name is always complete. */
struct whole_file {
	FILE *file;
	char path[256], aside[264];
};

__attribute__((format(printf, 2, 3))) void whole_file_open(struct whole_file *whole, const char *format, ...);
void whole_file_close(struct whole_file *whole);

#endif
