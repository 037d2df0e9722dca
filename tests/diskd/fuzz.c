// SPDX-License-Identifier: GPL-2.0-only
/*
 * fuzz SEED ROUNDS: the handler's parts on rings, command blocks and models that nobody would write.
 * Built with sanitizers; it proves nothing but that nothing is touched that is not theirs.
 */
#include "config.h"
#include "ring.h"

#include <linux/target_core_user.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t any(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void scribble(void *at, size_t length, size_t times)
{
	while (times--)
		((uint8_t *)at)[any(length)] = (uint8_t)any(256);
}

/* Entries as the kernel lays them out, so that a few wrong bytes reach deep. */
static void lay_out(uint8_t *map, size_t size, uint32_t offset, uint32_t ring_size)
{
	uint32_t at = 0;

	while (ring_size - at >= 256) {
		struct tcmu_cmd_entry *entry = (void *)(map + offset + at);
		uint32_t length = 176 + 8 * (uint32_t)any(10);

		entry->hdr.len_op = length | (any(8) ? TCMU_OP_CMD : (uint32_t)any(8));
		entry->hdr.cmd_id = (uint16_t)any(64);
		entry->req.iov_cnt = (uint32_t)any(4);
		for (uint32_t i = 0; i < entry->req.iov_cnt; i++) {
			uint64_t part[2] = { any(size), any(64) };

			memcpy((uint8_t *)entry + 48 + i * sizeof(part), part, sizeof(part));
		}
		entry->req.cdb_off = offset + at + 160;
		at += length;
	}
	if (at < ring_size) {
		uint32_t pad = TCMU_OP_PAD | (ring_size - at);

		memcpy(map + offset + at, &pad, sizeof(pad));
	}
}

static void serve_all(struct ring *ring, struct store *store)
{
	const struct scsi_identity identity = { .blocks = 128, .wwn = 1, .serial = "fuzz" };
	struct scsi_command command;
	struct ring_command from;
	bool found = true;

	for (int i = 0; i < 64 && ring_next(ring, &from, &found) && found; i++) {
		uint16_t id = from.id;

		scsi_parse(from.cdb, from.cdb_room, &identity, &command);
		for (uint32_t part = 0; part < from.part_count; part++)
			store_write(store, any(1 << 20), ring->map + from.parts[part].offset, from.parts[part].length);
		if (any(2) && !ring_complete(ring, id, any(2) ? command.sense : NULL, SCSI_SENSE_LENGTH))
			break;
	}
}

static void fuzz_ring(void)
{
	size_t size = 4096 + 8 * any(512);
	uint8_t *map = calloc(1, size);
	struct tcmu_mailbox *box = (void *)map;
	struct store store = { 0 };
	struct ring ring;

	box->version = TCMU_MAILBOX_VERSION;
	box->flags = TCMU_MAILBOX_FLAG_CAP_OOOC;
	box->cmdr_off = sizeof(*box);
	box->cmdr_size = (uint32_t)(size - sizeof(*box)) / 16 * 8;
	lay_out(map, size, box->cmdr_off, box->cmdr_size);
	box->cmd_head = 8 * (uint32_t)any(box->cmdr_size / 8);
	scribble(map, any(4) ? size : sizeof(*box), any(20));
	if (ring_open(&ring, map, size))
		serve_all(&ring, &store);
	store_drop(&store);
	free(map);
}

static void fuzz_cdb(void)
{
	size_t length = any(20);
	uint8_t *cdb = malloc(length ? length : 1);
	const struct scsi_identity identity = { .blocks = 1 + any(1ull << 40),
						.wwn = 5,
						.serial = "12345678901234567890" };
	struct scsi_command command;

	scribble(cdb, length ? length : 1, 4 * length + 1);
	scsi_parse(cdb, length, &identity, &command);
	if (command.reply_length > SCSI_REPLY_MAX || command.offset + command.length > identity.blocks * SCSI_BLOCK)
		abort();
	free(cdb);
}

/* What arrives comes back, once each, whatever the disks and their paths. */
static void fuzz_model(void)
{
	struct model_disk disks[5];
	struct model_link links[3] = { 0 };
	struct model_job jobs[64], *job;
	struct model model = { .disks = disks, .disk_count = 5 };
	uint64_t now = any(1ull << 40), count = any(65), done = 0;

	for (int i = 0; i < 5; i++) {
		model_disk_init(&disks[i], 1 + any(1ull << any(45)), any(1ull << any(30)));
		disks[i].rotation = any(2) ? 1 + any(1u << any(25)) : 0;
		disks[i].ncq = 1 + any(40);
		disks[i].look_ahead = any(2) ? any(1ull << any(30)) : 0;
		while (any(3))
			model_disk_zone(&disks[i], any(1ull << any(45)), 1 + any(1ull << any(40)));
	}
	for (int i = 0; i < 3; i++)
		links[i] = (struct model_link){ .rate = 1 + any(1ull << any(45)), .cost = any(1ull << any(30)) };
	for (uint64_t i = 0; i < count; i++) {
		now += any(1ull << any(34));
		while (model_finished(&model, now))
			done++;
		jobs[i] = (struct model_job){ .at = any(1ull << any(50)),
					      .bytes = any(4) ? any(1ull << any(32)) : 0,
					      .write = (uint32_t)any(2) };
		for (uint64_t l = any(4); l; l--)
			jobs[i].links[l - 1] = &links[any(3)];
		model_submit(&model, &disks[any(5)], &jobs[i], now);
	}
	while (model_next(&model, &now))
		while ((job = model_finished(&model, now)))
			done++;
	if (done != count)
		abort();
}

static void fuzz_config(void)
{
	static const char *const words[] = { "link",
					     "disk",
					     "backstore",
					     "more",
					     "a",
					     "b",
					     "1",
					     "4096",
					     "99999999999999999999",
					     "-1",
					     "ff",
					     "memory",
					     "rotation=5",
					     "ncq=3",
					     "look_ahead=512",
					     "zone=9:7",
					     "zone=",
					     "=",
					     ":",
					     "\n",
					     "\n",
					     "a-name-that-is-longer-than-forty-letters-as-it-is" };
	static struct config config;
	char text[2048] = "";
	unsigned int line;
	FILE *file;

	for (uint64_t left = any(60); left; left--) {
		strcat(text, words[any(sizeof(words) / sizeof(*words))]);
		strcat(text, " ");
	}
	file = fmemopen(text, strlen(text) + 1, "r");
	config_read(&config, file, &line);
	fclose(file);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
	for (long rounds = strtol(argv[2], NULL, 10); rounds; rounds--) {
		fuzz_ring();
		fuzz_cdb();
		fuzz_config();
		fuzz_model();
	}
	return 0;
}
