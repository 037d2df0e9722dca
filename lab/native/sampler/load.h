/* SPDX-License-Identifier: GPL-2.0-only */
/* When fio lets its jobs go, seen from outside. */
#ifndef SAMPLER_LOAD_H
#define SAMPLER_LOAD_H

#include <stdint.h>
#include <sys/types.h>

#define LOAD_POLL 1000000u /* ns between two looks at its threads */

/*
 * fio makes a thread for each job, sleeps for 100 ms, and lets all of them go at once when all are ready (3.39,
 * backend.c: run_threads). So the load begins so long after its last thread came to be. A job in a cgroup of its own
 * is a process instead: a sampler of loads without other jobs is built with JOBS_ARE_PROCESSES.
 */
struct load {
	pid_t process;
	uint64_t threads, changed;
};

/* Look at the threads at NOW: when the load will begin, or 0 while that is not known. */
uint64_t load_look(struct load *load, uint64_t now);

#endif
