// SPDX-License-Identifier: GPL-2.0-only
/*
 * diskd CONFIG READY COUNTERS: the disks behind LIO's target_core_user.
 *
 * READY appears, with the process id in it, when the rings of all backstores are mapped; SIGUSR1
 * writes COUNTERS anew. It ends only when something is wrong, saying what on standard error.
 */
#include "config.h"
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MOST_UIO 1024
#define EVENTS 64
#define SECOND 1000000000u

enum { TIMER = CONFIG_MOST, SIGNAL };

struct device {
	struct backstore *backstore;
	struct ring ring;
	int fd;
};

struct request {
	struct model_job job; /* first: the model hands it back */
	struct device *device;
	uint16_t id;
};

static struct config config;
static struct device devices[CONFIG_MOST];
static struct model model;
static struct model_job *spare; /* requests that are not in use */
static int poller, timer;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
	exit(3);
}

static uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static bool read_file(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "re");
	bool found = file && fgets(text, (int)room, file);

	if (file)
		fclose(file);
	return found;
}

/* target_core_user names its devices tcm-user/HBA/BACKSTORE/CONFIG, and our CONFIG is lab/BACKSTORE. */
static int uio_of(const char *backstore)
{
	char path[64], text[256], wanted[64];

	snprintf(wanted, sizeof(wanted), "/lab/%s\n", backstore);
	for (int number = 0; number < MOST_UIO; number++) {
		size_t length;

		snprintf(path, sizeof(path), "/sys/class/uio/uio%d/name", number);
		if (!read_file(path, text, sizeof(text)) || strncmp(text, "tcm-user/", 9))
			continue;
		length = strlen(text);
		if (length > strlen(wanted) && !strcmp(text + length - strlen(wanted), wanted))
			return number;
	}
	die("no uio device for backstore %s", backstore);
}

static void watch(int fd, uint32_t number)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };

	if (fd < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
}

static void open_device(uint32_t number)
{
	struct device *device = &devices[number];
	char path[64], text[64];
	int uio;
	size_t size;
	void *map;

	device->backstore = &config.backstores[number];
	uio = uio_of(device->backstore->name);
	snprintf(path, sizeof(path), "/sys/class/uio/uio%d/maps/map0/size", uio);
	if (!read_file(path, text, sizeof(text)))
		die("%s: %s", path, strerror(errno));
	size = strtoull(text, NULL, 0);
	snprintf(path, sizeof(path), "/dev/uio%d", uio);
	device->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (device->fd < 0)
		die("%s: %s", path, strerror(errno));
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, device->fd, 0);
	if (map == MAP_FAILED)
		die("%s: mmap: %s", path, strerror(errno));
	if (!ring_open(&device->ring, map, size))
		die("backstore %s: %s", device->backstore->name, device->ring.fault);
	watch(device->fd, number);
}

/* Between the guest's buffers and BUFFER or, where that is NULL, the disk's store at OFFSET. */
static void give(struct device *device, const struct ring_command *from, const uint8_t *buffer, uint64_t length,
		 uint64_t offset)
{
	const struct store *store = &config.disks[device->backstore->disk].store;

	for (uint32_t i = 0; i < from->part_count; i++) {
		uint8_t *to = device->ring.map + from->parts[i].offset;
		size_t part = from->parts[i].length < length ? from->parts[i].length : (size_t)length;

		if (buffer) {
			memcpy(to, buffer, part);
			memset(to + part, 0, from->parts[i].length - part);
			buffer += part;
		} else {
			store_read(store, offset, to, part);
			offset += part;
		}
		length -= part;
	}
}

static void keep(struct device *device, const struct ring_command *from, uint64_t length, uint64_t offset)
{
	struct store *store = &config.disks[device->backstore->disk].store;

	for (uint32_t i = 0; i < from->part_count && length; i++) {
		const uint8_t *data = device->ring.map + from->parts[i].offset;
		size_t part = from->parts[i].length < length ? from->parts[i].length : (size_t)length;

		if (!store_write(store, offset, data, part))
			die("no memory for what is written to disk %s", config.disks[device->backstore->disk].name);
		offset += part;
		length -= part;
	}
}

static void complete(struct device *device, uint16_t id, const uint8_t *sense)
{
	if (!ring_complete(&device->ring, id, sense, SCSI_SENSE_LENGTH))
		die("backstore %s: %s", device->backstore->name, device->ring.fault);
}

static void queue(struct device *device, uint16_t id, uint64_t offset, uint64_t length, uint64_t now)
{
	struct request *request = (struct request *)spare;

	if (request)
		spare = spare->next;
	else if (!(request = malloc(sizeof(*request))))
		die("no memory for a request");
	*request = (struct request){ .device = device, .id = id, .job = { .at = offset, .bytes = length } };
	memcpy(request->job.links, device->backstore->links, sizeof(request->job.links));
	model_submit(&config.models[device->backstore->disk], &request->job, now);
}

/*
 * Data move when a command arrives, its status follows when it is due: a disk serves in the order of
 * arrival, so this is what it would read and write, and the copying costs none of the disk's time.
 */
static void serve(struct device *device, const struct ring_command *from, uint64_t now)
{
	struct scsi_command command;

	scsi_parse(from->cdb, from->cdb_room, &device->backstore->identity, &command);
	if ((command.kind == SCSI_READ || command.kind == SCSI_WRITE) && command.length > from->length)
		scsi_refuse_transfer(&command);
	switch (command.kind) {
	case SCSI_CHECK:
		complete(device, from->id, command.sense);
		return;
	case SCSI_REPLY:
		give(device, from, command.reply, command.reply_length, 0);
		complete(device, from->id, NULL);
		return;
	case SCSI_READ:
		give(device, from, NULL, command.length, command.offset);
		break;
	case SCSI_WRITE:
		keep(device, from, command.length, command.offset);
		break;
	case SCSI_FLUSH:
		break;
	}
	queue(device, from->id, command.offset, command.length, now);
}

static void take_commands(struct device *device, uint64_t now)
{
	struct ring_command command;
	bool found;
	uint32_t signalled;

	if (read(device->fd, &signalled, sizeof(signalled)) < 0 && errno != EAGAIN)
		die("backstore %s: read: %s", device->backstore->name, strerror(errno));
	for (;;) {
		if (!ring_next(&device->ring, &command, &found))
			die("backstore %s: %s", device->backstore->name, device->ring.fault);
		if (!found)
			return;
		serve(device, &command, now);
	}
}

static void finish_requests(uint64_t now)
{
	struct model_job *job;

	while ((job = model_finished(&model, now))) {
		struct request *request = (struct request *)job;

		complete(request->device, request->id, NULL);
		job->next = spare;
		spare = job;
	}
}

static void tell_kernel(void)
{
	static const uint32_t any = 1;

	for (unsigned int i = 0; i < config.backstore_count; i++) {
		if (!devices[i].ring.completed)
			continue;
		devices[i].ring.completed = false;
		if (write(devices[i].fd, &any, sizeof(any)) < 0)
			die("backstore %s: write: %s", devices[i].backstore->name, strerror(errno));
	}
}

static void set_timer(void)
{
	struct itimerspec at = { 0 };
	uint64_t when;

	if (model_next(&model, &when)) {
		at.it_value.tv_sec = (time_t)(when / SECOND);
		at.it_value.tv_nsec = (long)(when % SECOND);
	}
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL))
		die("timerfd: %s", strerror(errno));
}

static void write_counters(FILE *file, uint64_t now)
{
	fprintf(file, "{\"time\": %" PRIu64 ", \"disks\": {", now);
	for (unsigned int i = 0; i < config.disk_count; i++) {
		const struct model_disk *disk = &config.models[i];

		fprintf(file,
			"%s\"%s\": {\"busy\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"bytes\": %" PRIu64
			", \"seeks\": %" PRIu64 "}",
			i ? ", " : "", config.disks[i].name, model_disk_busy(disk, now), disk->jobs, disk->bytes,
			disk->seeks);
	}
	fprintf(file, "}, \"links\": {");
	for (unsigned int i = 0; i < config.link_count; i++) {
		const struct model_link *link = &config.links[i].link;

		fprintf(file, "%s\"%s\": {\"busy\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
			i ? ", " : "", config.links[i].name, model_link_busy(link, now), link->jobs, link->bytes);
	}
	fprintf(file, "}}\n");
}

/* In one step, so that a file under that name is always complete. */
static FILE *open_aside(const char *path, char *aside, size_t room)
{
	FILE *file;

	snprintf(aside, room, "%s.part", path);
	file = fopen(aside, "we");
	if (!file)
		die("%s: %s", aside, strerror(errno));
	return file;
}

static void close_aside(FILE *file, const char *aside, const char *path)
{
	if (fclose(file) || rename(aside, path))
		die("%s: %s", path, strerror(errno));
}

static void answer_signal(int signals, const char *counters, uint64_t now)
{
	struct signalfd_siginfo info;
	char aside[256];
	FILE *file;

	if (read(signals, &info, sizeof(info)) < 0)
		die("signalfd: %s", strerror(errno));
	file = open_aside(counters, aside, sizeof(aside));
	write_counters(file, now);
	close_aside(file, aside, counters);
}

static int block_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void become_prompt(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("SCHED_FIFO: %s", strerror(errno));
	/* On fault: most of a ring's map has no memory behind it until the kernel uses it. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		die("mlockall: %s", strerror(errno));
}

static void set_up(const char *path, int signals)
{
	FILE *file = fopen(path, "re");
	unsigned int line;

	if (!file)
		die("%s: %s", path, strerror(errno));
	if (!config_read(&config, file, &line))
		die("%s: line %u is wrong", path, line);
	fclose(file);
	model = (struct model){ .disks = config.models, .disk_count = config.disk_count };
	become_prompt();
	poller = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	watch(timer, TIMER);
	watch(signals, SIGNAL);
	for (uint32_t i = 0; i < config.backstore_count; i++)
		open_device(i);
}

static void say_ready(const char *path)
{
	char aside[256];
	FILE *file = open_aside(path, aside, sizeof(aside));

	fprintf(file, "%d\n", (int)getpid());
	close_aside(file, aside, path);
}

static void work(int signals, const char *counters)
{
	struct epoll_event events[EVENTS];
	int count = epoll_wait(poller, events, EVENTS, -1);
	uint64_t now = clock_now(), expired;

	if (count < 0 && errno != EINTR)
		die("epoll: %s", strerror(errno));
	finish_requests(now);
	for (int i = 0; i < count; i++) {
		uint32_t source = events[i].data.u32;

		if (source == SIGNAL)
			answer_signal(signals, counters, now);
		else if (source != TIMER)
			take_commands(&devices[source], now);
		else if (read(timer, &expired, sizeof(expired)) < 0 && errno != EAGAIN)
			die("timerfd: %s", strerror(errno));
	}
	tell_kernel();
	set_timer();
}

int main(int argc, char **argv)
{
	int signals;

	if (argc != 4)
		die("usage: diskd CONFIG READY COUNTERS");
	signals = block_signal();
	set_up(argv[1], signals);
	say_ready(argv[2]);
	for (;;)
		work(signals, argv[3]);
}
