// SPDX-License-Identifier: GPL-2.0-only
#include "device.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_UIO 1024
#define MIB 20

struct request {
	struct model_job job; /* first: the model hands it back */
	struct device *device;
	uint16_t id;
};

static struct model_job *spare; /* requests that are not in use */
static uint64_t kept;           /* bytes that take memory */

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
	static int expected; /* backstores are mostly configured in the order of their making */
	char path[64], text[256], wanted[64];

	snprintf(wanted, sizeof(wanted), "/lab/%s\n", backstore);
	for (int i = 0; i < MOST_UIO; i++) {
		int number = (expected + i) % MOST_UIO;
		size_t length;

		snprintf(path, sizeof(path), "/sys/class/uio/uio%d/name", number);
		if (!read_file(path, text, sizeof(text)) || strncmp(text, "tcm-user/", 9))
			continue;
		length = strlen(text);
		if (length > strlen(wanted) && !strcmp(text + length - strlen(wanted), wanted)) {
			expected = number + 1;
			return number;
		}
	}
	die("no uio device for backstore %s", backstore);
}

void device_open(struct device *device, struct config *config, struct model *model, unsigned int number)
{
	struct backstore *backstore = &config->backstores[number];
	char path[64], text[64];
	int uio;
	size_t size;
	void *map;

	*device = (struct device){ .backstore = backstore, .config = config, .model = model };
	uio = uio_of(backstore->name);
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
		die("backstore %s: %s", backstore->name, device->ring.fault);
}

static struct named_disk *disk_of(const struct device *device)
{
	return &device->config->disks[device->backstore->disk];
}

static size_t least(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

static void give_reply(struct device *device, const struct ring_command *to, const uint8_t *reply, uint64_t length)
{
	for (uint32_t i = 0; i < to->part_count; i++) {
		uint8_t *data = device->ring.map + to->parts[i].offset;
		size_t part = least(to->parts[i].length, length);

		memcpy(data, reply, part);
		memset(data + part, 0, to->parts[i].length - part);
		reply += part;
		length -= part;
	}
}

static void give(struct device *device, const struct ring_command *to, uint64_t offset, uint64_t length)
{
	for (uint32_t i = 0; i < to->part_count && length; i++) {
		size_t part = least(to->parts[i].length, length);

		store_read(&disk_of(device)->store, offset, device->ring.map + to->parts[i].offset, part);
		offset += part;
		length -= part;
	}
}

static void check_memory(const struct device *device)
{
	const struct config *config = device->config;

	if (config->memory && kept > config->memory)
		die("more than %" PRIu64 " MiB written to the disks: disk %s holds %" PRIu64 " MiB of it",
		    config->memory >> MIB, disk_of(device)->name, (uint64_t)disk_of(device)->store.kept * STORE_PAGE >> MIB);
}

static void keep(struct device *device, const struct ring_command *from, uint64_t offset, uint64_t length)
{
	struct store *store = &disk_of(device)->store;

	kept -= (uint64_t)store->kept * STORE_PAGE;
	for (uint32_t i = 0; i < from->part_count && length; i++) {
		size_t part = least(from->parts[i].length, length);

		if (!store_write(store, offset, device->ring.map + from->parts[i].offset, part))
			die("no memory for what is written to the disks: disk %s holds %" PRIu64 " MiB",
			    disk_of(device)->name, (uint64_t)store->kept * STORE_PAGE >> MIB);
		offset += part;
		length -= part;
	}
	kept += (uint64_t)store->kept * STORE_PAGE;
	check_memory(device);
}

static void complete(struct device *device, uint16_t id, const uint8_t *sense)
{
	if (!ring_complete(&device->ring, id, sense, SCSI_SENSE_LENGTH))
		die("backstore %s: %s", device->backstore->name, device->ring.fault);
}

static void queue(struct device *device, uint16_t id, const struct scsi_command *command, uint64_t now)
{
	struct backstore *path = device->backstore;
	struct request *request = (struct request *)spare;

	if (request)
		spare = spare->next;
	else if (!(request = malloc(sizeof(*request))))
		die("no memory for a request");
	*request = (struct request){ .device = device, .id = id };
	request->job = (struct model_job){
		.at = command->offset, .bytes = command->length, .write = command->kind == SCSI_WRITE
	};
	memcpy(request->job.links, path->links, sizeof(request->job.links));
	level_add(&path->held, 1, now);
	model_submit(device->model, &device->config->models[path->disk], &request->job, now);
}

/*
 * Data move when a command arrives, its status follows when it is due: commands that are queued together
 * may be served in any order, so this is what a disk could read and write, and the copying costs none
 * of the disk's time.
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
		give_reply(device, from, command.reply, command.reply_length);
		complete(device, from->id, NULL);
		return;
	case SCSI_READ:
		give(device, from, command.offset, command.length);
		break;
	case SCSI_WRITE:
		keep(device, from, command.offset, command.length);
		break;
	case SCSI_FLUSH:
		break;
	}
	queue(device, from->id, &command, now);
}

void device_take(struct device *device, uint64_t now)
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

void devices_finish(struct model *model, uint64_t now)
{
	struct model_job *job;

	while ((job = model_finished(model, now))) {
		struct request *request = (struct request *)job;
		struct backstore *path = request->device->backstore;

		path->requests++;
		path->bytes += job->bytes;
		level_add(&path->held, -1, now);
		complete(request->device, request->id, NULL);
		job->next = spare;
		spare = job;
	}
}

void device_tell(struct device *device)
{
	static const uint32_t any = 1;

	if (!device->ring.completed)
		return;
	device->ring.completed = false;
	if (write(device->fd, &any, sizeof(any)) < 0)
		die("backstore %s: write: %s", device->backstore->name, strerror(errno));
}
