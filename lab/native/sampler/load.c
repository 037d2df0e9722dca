// SPDX-License-Identifier: GPL-2.0-only
#include "load.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
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

#ifdef JOBS_ARE_PROCESSES
static bool is_child(const char *process, pid_t parent)
{
	char path[64], text[128];
	FILE *file;
	size_t got;
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
	file = fopen(path, "re");
	if (!file)
		return false;
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = 0;
	/* The name of a program may hold blanks and brackets. */
	return strrchr(text, ')') && sscanf(strrchr(text, ')'), ") %*c %d", &found) == 1 && found == parent;
}

/* Not every kernel has /proc/PID/task/PID/children (CONFIG_PROC_CHILDREN). */
static uint64_t jobs_of(pid_t process)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	uint64_t count = 0;

	while (folder && (entry = readdir(folder)))
		count += isdigit(entry->d_name[0]) && is_child(entry->d_name, process);
	if (folder)
		closedir(folder);
	return count + threads_of(process);
}
#else
#define jobs_of threads_of
#endif

uint64_t load_look(struct load *load, uint64_t now)
{
	uint64_t threads = jobs_of(load->process);

	if (threads != load->threads) {
		load->threads = threads;
		load->changed = now;
	}
	return threads >= FEWEST && now - load->changed >= SETTLED ? load->changed + RELEASE : 0;
}
