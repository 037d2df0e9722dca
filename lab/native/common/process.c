// SPDX-License-Identifier: GPL-2.0-only
#include "process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>

void die(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
	exit(3);
}

uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

int timer_open(void)
{
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (timer < 0)
		die("timerfd: %s", strerror(errno));
	return timer;
}

static struct timespec split(uint64_t time)
{
	return (struct timespec){ .tv_sec = (time_t)(time / SECOND), .tv_nsec = (long)(time % SECOND) };
}

void timer_set(int timer, uint64_t when, uint64_t period)
{
	struct itimerspec at = { .it_value = split(when), .it_interval = split(period) };

	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL))
		die("timerfd: %s", strerror(errno));
}

int signal_open(int number)
{
	sigset_t set;
	int signals;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		die("signalfd: %s", strerror(errno));
	return signals;
}

void become_prompt(int priority)
{
	const struct sched_param first = { .sched_priority = priority };

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("SCHED_FIFO: %s", strerror(errno));
	/* On fault: most pages of a ring's map are not allocated until the kernel uses them. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		die("mlockall: %s", strerror(errno));
}

void whole_file_open(struct whole_file *whole, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(whole->path, sizeof(whole->path), format, values);
	va_end(values);
	snprintf(whole->aside, sizeof(whole->aside), "%s.part", whole->path);
	whole->file = fopen(whole->aside, "we");
	if (!whole->file)
		die("%s: %s", whole->aside, strerror(errno));
}

void whole_file_close(struct whole_file *whole)
{
	if (fclose(whole->file) || rename(whole->aside, whole->path))
		die("%s: %s", whole->path, strerror(errno));
}
