// SPDX-License-Identifier: GPL-2.0-only
/*
 * diskd CONFIG READY COUNTERS: disks for LIO's target_core_user.
 *
 * It writes its process id to READY when the rings of all backstores are mapped. SIGUSR1 writes the file
 * COUNTERS.N, where N is the value sent by sigqueue(3), or 0 for kill(1). It ends only on an error, with a
 * message on standard error.
 */
#include "config.h"
#include "counters.h"
#include "device.h"
#include "common/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define EVENTS 64
#define PRIORITY 2

enum { TIMER = CONFIG_MOST, SIGNAL };

static struct config config;
static struct device devices[CONFIG_MOST];
static struct model model;
static int poller, timer, signals;

static void watch(int fd, uint32_t number)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };

	if (fd < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
}

static void read_config(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned int line;

	if (!file)
		die("%s: %s", path, strerror(errno));
	if (!config_read(&config, file, &line))
		die("%s: line %u is wrong", path, line);
	fclose(file);
	model = (struct model){ .disks = config.models, .disk_count = config.model_count };
}

static void set_up(void)
{
	become_prompt(PRIORITY);
	poller = epoll_create1(EPOLL_CLOEXEC);
	timer = timer_open();
	watch(timer, TIMER);
	watch(signals, SIGNAL);
	for (uint32_t i = 0; i < config.backstore_count; i++) {
		device_open(&devices[i], &config, &model, i);
		watch(devices[i].fd, i);
	}
}

static void say_ready(const char *path)
{
	struct whole_file whole;

	whole_file_open(&whole, "%s", path);
	fprintf(whole.file, "%d\n", (int)getpid());
	whole_file_close(&whole);
}

static void answer_signal(const char *counters, uint64_t now)
{
	struct signalfd_siginfo info;
	struct whole_file whole;

	if (read(signals, &info, sizeof(info)) < 0)
		die("signalfd: %s", strerror(errno));
	whole_file_open(&whole, "%s.%d", counters, info.ssi_code == SI_QUEUE ? info.ssi_int : 0);
	counters_write(&config, &model, whole.file, now);
	whole_file_close(&whole);
}

static void set_timer(void)
{
	uint64_t when;

	timer_set(timer, model_next(&model, &when) ? when : 0, 0);
}

static void work(const char *counters)
{
	struct epoll_event events[EVENTS];
	int count = epoll_wait(poller, events, EVENTS, -1);
	uint64_t now = clock_now(), expired;

	if (count < 0 && errno != EINTR)
		die("epoll: %s", strerror(errno));
	devices_finish(&model, now);
	for (int i = 0; i < count; i++) {
		uint32_t source = events[i].data.u32;

		if (source == SIGNAL)
			answer_signal(counters, now);
		else if (source != TIMER)
			device_take(&devices[source], now);
		else if (read(timer, &expired, sizeof(expired)) < 0 && errno != EAGAIN)
			die("timerfd: %s", strerror(errno));
	}
	for (unsigned int i = 0; i < config.backstore_count; i++)
		device_tell(&devices[i]);
	set_timer();
}

int main(int argc, char **argv)
{
	if (argc != 4)
		die("usage: diskd CONFIG READY COUNTERS");
	signals = signal_open(SIGUSR1);
	read_config(argv[1]);
	set_up();
	say_ready(argv[2]);
	for (;;)
		work(argv[3]);
}
