// SPDX-License-Identifier: GPL-2.0-only
#include "device.h"
#include "common/process.h"

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
	struct model_job job; /* first member: the model returns it */
	struct device *device;
	struct request *whole; /* the request that counts all pieces of a command */
	uint32_t missing;      /* of WHOLE: pieces that are not done */
	uint16_t id;
};

static struct model_job *spare; /* unused requests */
static uint64_t kept;           /* bytes of data in memory */

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
	static int expected; /* backstores are usually configured in the order of their creation */
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

static struct named_disk *disk_of(const struct device *device, const struct piece *piece)
{
	return &device->config->disks[piece->on->disk];
}

static struct piece piece_at(const struct device *device, uint64_t offset, uint64_t length)
{
	return config_piece(device->config, device->backstore, offset, length);
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
		uint8_t *data = device->ring.map + to->parts[i].offset;
		uint64_t part = least(to->parts[i].length, length);

		length -= part;
		while (part) {
			struct piece piece = piece_at(device, offset, part);

			store_read(&disk_of(device, &piece)->store, piece.at, data, piece.bytes);
			offset += piece.bytes;
			data += piece.bytes;
			part -= piece.bytes;
		}
	}
}

static void check_memory(const struct config *config, const struct named_disk *disk)
{
	if (config->memory && kept > config->memory)
		die("more than %" PRIu64 " MiB written to the disks: disk %s holds %" PRIu64 " MiB of it",
		    config->memory >> MIB, disk->name, (uint64_t)disk->store.kept * STORE_PAGE >> MIB);
}

static void keep_piece(struct named_disk *disk, const struct piece *piece, const uint8_t *data)
{
	kept -= (uint64_t)disk->store.kept * STORE_PAGE;
	if (!store_write(&disk->store, piece->at, data, piece->bytes))
		die("no memory for what is written to the disks: disk %s holds %" PRIu64 " MiB", disk->name,
		    (uint64_t)disk->store.kept * STORE_PAGE >> MIB);
	kept += (uint64_t)disk->store.kept * STORE_PAGE;
}

static void keep(struct device *device, const struct ring_command *from, uint64_t offset, uint64_t length)
{
	for (uint32_t i = 0; i < from->part_count && length; i++) {
		const uint8_t *data = device->ring.map + from->parts[i].offset;
		uint64_t part = least(from->parts[i].length, length);

		length -= part;
		while (part) {
			struct piece piece = piece_at(device, offset, part);

			keep_piece(disk_of(device, &piece), &piece, data);
			check_memory(device->config, disk_of(device, &piece));
			offset += piece.bytes;
			data += piece.bytes;
			part -= piece.bytes;
		}
	}
}

static void complete(struct device *device, uint16_t id, const uint8_t *sense)
{
	if (!ring_complete(&device->ring, id, sense, SCSI_SENSE_LENGTH))
		die("backstore %s: %s", device->backstore->name, device->ring.fault);
}

static struct request *new_request(struct device *device, uint16_t id)
{
	struct request *request = (struct request *)spare;

	if (request)
		spare = spare->next;
	else if (!(request = malloc(sizeof(*request))))
		die("no memory for a request");
	*request = (struct request){ .device = device, .id = id };
	return request;
}

static void recycle(struct request *request)
{
	request->job.next = spare;
	spare = &request->job;
}

static void submit(struct request *whole, const struct piece *piece, bool write, uint64_t now)
{
	struct device *device = whole->device;
	struct request *request = whole->missing++ ? new_request(device, whole->id) : whole;

	request->whole = whole;
	request->job = (struct model_job){ .at = piece->at, .bytes = piece->bytes, .write = write };
	memcpy(request->job.links, piece->on->links, sizeof(piece->on->links));
	model_submit(device->model, &device->config->models[piece->on->disk], &request->job, now);
}

/* The caller has taken everything due by NOW from the model, so no piece is done before the last is submitted. */
static void queue(struct device *device, uint16_t id, const struct scsi_command *command, uint64_t now)
{
	struct backstore *path = device->backstore;
	struct request *whole = new_request(device, id);
	uint64_t offset = command->offset, left = command->length;

	level_add(&path->held, 1, now);
	if (command->kind == SCSI_FLUSH) {
		for (unsigned int i = 0; i < path->extent_count; i++)
			submit(whole, &(struct piece){ .on = &path->extents[i] }, false, now);
		return;
	}
	do {
		struct piece piece = piece_at(device, offset, left);

		submit(whole, &piece, command->kind == SCSI_WRITE, now);
		offset += piece.bytes;
		left -= piece.bytes;
	} while (left);
}

/*
 * Data move when a command arrives; the status follows when it is due. Queued commands may be served in any
 * order, so a real disk could have read and written the same. Copying takes none of the disk's time.
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
		struct request *request = (struct request *)job, *whole = request->whole;
		struct backstore *path = whole->device->backstore;

		path->bytes += job->bytes;
		if (request != whole)
			recycle(request);
		if (--whole->missing)
			continue;
		path->requests++;
		level_add(&path->held, -1, now);
		complete(whole->device, whole->id, NULL);
		recycle(whole);
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
