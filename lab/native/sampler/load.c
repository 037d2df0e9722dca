// SPDX-License-Identifier: GPL-2.0-only
#include "load.h"

#include <stdio.h>
#include <sys/stat.h>

#define SETTLED 50000000u
#define RELEASE 100000000u
#define FEWEST 3 /* fio itself, its helper, a job */

static uint64_t threads_of(pid_t process)
{
	char path[64];
	struct stat found;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
	/* A folder has two links and one for each folder in it. */
	return stat(path, &found) ? 0 : found.st_nlink - 2;
}

uint64_t load_look(struct load *load, uint64_t now)
{
	uint64_t threads = threads_of(load->process);

	if (threads != load->threads) {
		load->threads = threads;
		load->changed = now;
	}
	return threads >= FEWEST && now - load->changed >= SETTLED ? load->changed + RELEASE : 0;
}
