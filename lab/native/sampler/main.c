// SPDX-License-Identifier: GPL-2.0-only
/*
 * sampler CONFIG OUT LOAD [HANDLER]: read small kernel files periodically within a window.
 *
 *   period NS        between two samples
 *   start NS         from the start of the load (fio, process id LOAD) to the window
 *   length NS        of the window
 *   watch NAME PATH  sum of the numbers in the first file that matches PATH (a glob)
 *
 * It ends with the window or at SIGTERM, and only then writes OUT. At both ends of the window it requests the
 * counters of the disk handler, process HANDLER (0 and 1), and reads the CPU's times. Its priority is above that of
 * ordinary processes, so that it samples while they run, and below that of the disk handler.
 */
#include "common/process.h"
#include "load.h"
#include "series.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_WATCHES 1024
#define NAME_MAX_LENGTH 80
#define LINE_MAX_LENGTH 512
#define PRIORITY 1
#define TICK 10000000 /* ns: USER_HZ is 100 on every machine but Alpha and IA-64 */

struct watch {
	char name[NAME_MAX_LENGTH + 1];
	int fd;
	const char *ended; /* why sampling of this file ended, or NULL */
	struct series *series;
};

static struct watch watches[MOST_WATCHES];
static unsigned int watch_count;
static uint64_t period, start, length;
static uint64_t began, ended, spent, missed;
static struct {
	int64_t elapsed, idle; /* of all CPUs together, in ns */
	int64_t resolution;    /* of the idle time, in ns */
} cpu;                         /* of the window */

static void open_watch(struct watch *watch, const char *pattern)
{
	glob_t found;

	watch->series = calloc(1, sizeof(*watch->series));
	if (!watch->series)
		die("no memory for the samples of %s", watch->name);
	watch->fd = -1;
	if (!glob(pattern, 0, NULL, &found))
		watch->fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	if (watch->fd < 0)
		watch->ended = "there is no such file";
	globfree(&found);
}

static bool read_line(char *text)
{
	char name[LINE_MAX_LENGTH], value[LINE_MAX_LENGTH];

	if (sscanf(text, "period %" SCNu64, &period) == 1 || sscanf(text, "start %" SCNu64, &start) == 1 ||
	    sscanf(text, "length %" SCNu64, &length) == 1)
		return true;
	if (sscanf(text, "watch %s %s", name, value) != 2 || watch_count == MOST_WATCHES ||
	    strlen(name) > NAME_MAX_LENGTH)
		return false;
	strcpy(watches[watch_count].name, name);
	open_watch(&watches[watch_count++], value);
	return true;
}

static void read_config(const char *path)
{
	FILE *file = fopen(path, "re");
	char text[LINE_MAX_LENGTH];

	if (!file)
		die("%s: %s", path, strerror(errno));
	for (unsigned int line = 1; fgets(text, sizeof(text), file); line++)
		if (!read_line(text))
			die("%s: line %u is wrong", path, line);
	fclose(file);
	if (!period || length < period)
		die("%s: a window of %" PRIu64 " ns has no sample every %" PRIu64 " ns", path, length, period);
}

static void take(struct watch *watch, uint64_t tick)
{
	char text[64];
	ssize_t got = pread(watch->fd, text, sizeof(text) - 1, 0);
	int64_t value;

	if (got < 0) {
		watch->ended = strerror(errno);
		return;
	}
	text[got] = 0;
	value = series_parse(text);
	if (value < 0)
		watch->ended = "it holds no number";
	else
		series_add(watch->series, (uint64_t)value, tick, length / period);
}

static void take_all(uint64_t tick)
{
	uint64_t before = clock_now();

	for (unsigned int i = 0; i < watch_count; i++)
		if (!watches[i].ended)
			take(&watches[i], tick);
	spent += clock_now() - before;
}

/*
 * Idle time in ns since the guest started, or -1 where the kernel does not print it: 7.2 does not, and before it
 * /proc/stat has the same sum in ticks. A sleep is added when it ends, so this is right for one CPU only, which is
 * awake.
 */
static int64_t read_sleep(void)
{
	FILE *file = fopen("/proc/timer_list", "re");
	char text[LINE_MAX_LENGTH];
	int64_t time, idle = 0;
	unsigned int cpus = 0;

	while (file && fgets(text, sizeof(text), file)) {
		bool sleep;

		if (strncmp(text, "  .i", 4))
			continue; /* A hundred lines would cost a tenth of a millisecond. */
		sleep = sscanf(text, " .idle_sleeptime : %" SCNi64, &time) == 1;

		cpus += sleep;
		if (sleep || sscanf(text, " .iowait_sleeptime : %" SCNi64, &time) == 1)
			idle += time;
	}
	if (file)
		fclose(file);
	/* A kernel that never stops the tick counts no sleep. */
	return cpus == 1 && idle ? idle : -1;
}

/* The same as /proc/stat has it, of all CPUs. */
static int64_t read_ticks(void)
{
	FILE *file = fopen("/proc/stat", "re");
	int64_t idle, iowait;

	/* user nice system idle iowait */
	if (!file || fscanf(file, "cpu %*d %*d %*d %" SCNi64 " %" SCNi64, &idle, &iowait) != 2)
		die("/proc/stat does not have the times of the CPU");
	fclose(file);
	return (idle + iowait) * TICK;
}

/* Idle time of all CPUs in ns; sets cpu.resolution. */
static int64_t read_idle(void)
{
	uint64_t before = clock_now();
	int64_t idle = read_sleep();

	cpu.resolution = idle < 0 ? TICK : 1;
	if (idle < 0)
		idle = read_ticks();
	spent += clock_now() - before;
	return idle;
}

/* Add the CPUs' time up to now (SIGN 1), or subtract it (-1). Plugins of QEMU recognise the window by this function. */
__attribute__((noinline)) static void count_cpu(int64_t sign)
{
	cpu.elapsed += sign * (int64_t)clock_now() * sysconf(_SC_NPROCESSORS_ONLN);
}

static void ask_handler(pid_t handler, int reading)
{
	const union sigval value = { .sival_int = reading };

	if (handler && sigqueue(handler, SIGUSR1, value))
		die("the disk handler: %s", strerror(errno));
}

/* Sample until the window is over; false when SIGTERM came first. */
static bool sample_window(int timer, int signals)
{
	struct pollfd sources[] = { { .fd = timer, .events = POLLIN }, { .fd = signals, .events = POLLIN } };

	for (uint64_t tick = 0, expired; tick < length / period; tick += expired) {
		if (poll(sources, 2, -1) < 0)
			die("poll: %s", strerror(errno));
		if (sources[1].revents)
			return false;
		if (read(timer, &expired, sizeof(expired)) < 0)
			die("timerfd: %s", strerror(errno));
		missed += expired - 1;
		if (tick + expired <= length / period)
			take_all(tick + expired - 1);
	}
	return true;
}

/* Wait until WHEN; false when SIGTERM came first. */
static bool wait_until(uint64_t when, int timer, int signals)
{
	struct pollfd sources[] = { { .fd = timer, .events = POLLIN }, { .fd = signals, .events = POLLIN } };

	timer_set(timer, when, 0);
	if (poll(sources, 2, -1) < 0)
		die("poll: %s", strerror(errno));
	return !sources[1].revents;
}

/* Wait for the window, and set BEGAN; false when SIGTERM came first. */
static bool wait_for_window(struct load *load, int timer, int signals)
{
	uint64_t loaded;

	while (!(loaded = load_look(load, clock_now())))
		if (!wait_until(clock_now() + LOAD_POLL, timer, signals))
			return false;
	began = loaded + start;
	return wait_until(began, timer, signals);
}

/* CLOCK_REALTIME at TIME. */
static uint64_t epoch_at(uint64_t time)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec - (clock_now() - time);
}

static void write_samples(const char *path)
{
	struct whole_file whole;

	whole_file_open(&whole, "%s", path);
	fprintf(whole.file,
		"{\"epoch\": %" PRIu64 ", \"period\": %" PRIu64 ", \"began\": %" PRIu64 ", \"ended\": %" PRIu64
		", \"spent\": %" PRIu64 ", \"missed\": %" PRIu64 ", \"cpu\": {\"elapsed\": %" PRIi64
		", \"idle\": %" PRIi64 ", \"resolution\": %" PRIi64 "}, \"series\": {",
		epoch_at(began), period, began, ended, spent, missed, cpu.elapsed, cpu.idle > 0 ? cpu.idle : 0,
		cpu.resolution);
	for (unsigned int i = 0; i < watch_count; i++) {
		fprintf(whole.file, "%s\n\"%s\": ", i ? "," : "", watches[i].name);
		series_write(watches[i].series, whole.file);
	}
	fputs("},\n\"ended_early\": {", whole.file);
	for (unsigned int i = 0, told = 0; i < watch_count; i++)
		if (watches[i].ended)
			fprintf(whole.file, "%s\"%s\": \"%s\"", told++ ? ", " : "", watches[i].name, watches[i].ended);
	fputs("}}\n", whole.file);
	whole_file_close(&whole);
}

int main(int argc, char **argv)
{
	struct load load = { 0 };
	pid_t handler;
	int signals, timer;
	int64_t idle;
	bool on_time;

	if (argc != 4 && argc != 5)
		die("usage: sampler CONFIG OUT LOAD [HANDLER]");
	load.process = (pid_t)atoi(argv[3]);
	handler = argc == 5 ? (pid_t)atoi(argv[4]) : 0;
	signals = signal_open(SIGTERM);
	timer = timer_open();
	read_config(argv[1]);
	become_prompt(PRIORITY);
	on_time = wait_for_window(&load, timer, signals);
	if (!on_time)
		began = clock_now();
	/* The CPU does not sleep while this process reads, so what readings cost is outside their window. */
	idle = read_idle();
	ask_handler(handler, 0);
	count_cpu(-1);
	/* Samples are taken in the middle of their periods. */
	timer_set(timer, began + period / 2, period);
	/* The load began up to a look earlier than seen. Window and last reading end before it does, which idles the CPU. */
	if (on_time && sample_window(timer, signals))
		wait_until(began + length - 2 * LOAD_POLL, timer, signals);
	ask_handler(handler, 1);
	count_cpu(1);
	ended = clock_now();
	cpu.idle = read_idle() - idle;
	if (!on_time)
		cpu.elapsed = 0;
	write_samples(argv[2]);
	return 0;
}
