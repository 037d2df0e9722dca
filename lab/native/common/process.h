/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the guest's programs: exit with a message, clock, timers, signals, atomic files. */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include <stdint.h>
#include <stdio.h>

#define SECOND 1000000000u

/* Exit with status 3 and the message on standard error. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/* CLOCK_MONOTONIC in ns. */
uint64_t clock_now(void);

/* A timer descriptor on that clock. */
int timer_open(void);
void timer_set(int timer, uint64_t when, uint64_t period);

/* A descriptor from which signal NUMBER is read; the signal is blocked. */
int signal_open(int number);

/* SCHED_FIFO with PRIORITY, and locked memory. */
void become_prompt(int priority);

/* Written aside and renamed, so that a file of that name is always complete. */
struct whole_file {
	FILE *file;
	char path[256], aside[264];
};

__attribute__((format(printf, 2, 3))) void whole_file_open(struct whole_file *whole, const char *format, ...);
void whole_file_close(struct whole_file *whole);

#endif
