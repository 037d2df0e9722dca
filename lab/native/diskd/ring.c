// SPDX-License-Identifier: GPL-2.0-only
#include "ring.h"

#include <linux/target_core_user.h>
#include <string.h>

#define CHECK_CONDITION 0x02
#define CDB_MAX 260

_Static_assert(sizeof(struct ring_part) == sizeof(struct iovec), "a part is an iovec");

static bool fail(struct ring *ring, const char *fault)
{
	ring->fault = fault;
	return false;
}

static volatile struct tcmu_mailbox *mailbox(const struct ring *ring)
{
	return (volatile struct tcmu_mailbox *)(void *)ring->map;
}

static struct tcmu_cmd_entry *entry_at(const struct ring *ring, uint32_t at)
{
	return (struct tcmu_cmd_entry *)(void *)(ring->commands + at);
}

bool ring_open(struct ring *ring, void *map, size_t map_size)
{
	volatile struct tcmu_mailbox *box = map;

	*ring = (struct ring){ .map = map, .map_size = map_size };
	if (map_size < sizeof(struct tcmu_mailbox) || box->version != TCMU_MAILBOX_VERSION)
		return fail(ring, "the mailbox has another version");
	if (!(box->flags & TCMU_MAILBOX_FLAG_CAP_OOOC))
		return fail(ring, "the kernel takes completions in order only");
	if (box->cmdr_off < sizeof(struct tcmu_mailbox) || box->cmdr_off > map_size ||
	    box->cmdr_size > map_size - box->cmdr_off || !box->cmdr_size || box->cmdr_size % TCMU_OP_ALIGN_SIZE ||
	    box->cmdr_off % TCMU_OP_ALIGN_SIZE)
		return fail(ring, "the command ring lies outside of the map");
	ring->commands = ring->map + box->cmdr_off;
	ring->size = box->cmdr_size;
	ring->read = ring->tail = box->cmd_tail;
	if (ring->tail >= ring->size || ring->tail % TCMU_OP_ALIGN_SIZE)
		return fail(ring, "the tail lies outside of the ring");
	return true;
}

/* Length of the entry at AT, which must end within the ring; 0 and a fault if it is invalid. */
static uint32_t length_at(struct ring *ring, uint32_t at)
{
	struct tcmu_cmd_entry_hdr header;
	uint32_t length;

	memcpy(&header, ring->commands + at, sizeof(header));
	length = tcmu_hdr_get_len(header.len_op);
	if (length < sizeof(header) || length > ring->size - at) {
		fail(ring, "an entry is longer than the ring");
		return 0;
	}
	if (tcmu_hdr_get_op(header.len_op) == TCMU_OP_CMD && length < sizeof(struct tcmu_cmd_entry)) {
		fail(ring, "a command is too short for its response");
		return 0;
	}
	return length;
}

static uint32_t behind(const struct ring *ring, uint32_t at, uint32_t length)
{
	return at + length == ring->size ? 0 : at + length;
}

static void set_tail(struct ring *ring, uint32_t tail)
{
	ring->tail = tail;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	mailbox(ring)->cmd_tail = tail;
	ring->completed = true;
}

/* Skip entries that need no answer, up to the next command or the first unread entry. */
static bool pass_over(struct ring *ring)
{
	uint32_t tail = ring->tail;

	while (tail != ring->read && tcmu_hdr_get_op(entry_at(ring, tail)->hdr.len_op) != TCMU_OP_CMD) {
		uint32_t length = length_at(ring, tail);

		if (!length)
			return false;
		tail = behind(ring, tail, length);
	}
	if (tail != ring->tail)
		set_tail(ring, tail);
	return true;
}

static bool within(const struct ring *ring, uint64_t offset, uint64_t length)
{
	return offset <= ring->map_size && length <= ring->map_size - offset;
}

static bool describe(struct ring *ring, struct tcmu_cmd_entry *entry, uint32_t length, struct ring_command *command)
{
	uint64_t most = (length - offsetof(struct tcmu_cmd_entry, req.iov)) / sizeof(struct ring_part);
	uint64_t cdb = entry->req.cdb_off;

	if (entry->req.iov_cnt > most)
		return fail(ring, "a command has more parts than room for them");
	if (!within(ring, cdb, 1))
		return fail(ring, "a command block lies outside of the map");
	*command = (struct ring_command){
		.id = entry->hdr.cmd_id,
		.cdb = ring->map + cdb,
		.cdb_room = ring->map_size - cdb < CDB_MAX ? ring->map_size - cdb : CDB_MAX,
		.parts = (const void *)((const uint8_t *)entry + offsetof(struct tcmu_cmd_entry, req.iov)),
		.part_count = entry->req.iov_cnt,
	};
	for (uint32_t i = 0; i < command->part_count; i++) {
		const struct ring_part *part = &command->parts[i];

		if (!within(ring, part->offset, part->length))
			return fail(ring, "data of a command lie outside of the map");
		command->length += part->length;
	}
	return true;
}

bool ring_next(struct ring *ring, struct ring_command *command, bool *found)
{
	*found = false;
	while (!*found) {
		uint32_t head = mailbox(ring)->cmd_head, length;
		struct tcmu_cmd_entry *entry = entry_at(ring, ring->read);
		enum tcmu_opcode operation;

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (head >= ring->size || head % TCMU_OP_ALIGN_SIZE)
			return fail(ring, "the head lies outside of the ring");
		if (head == ring->read)
			return pass_over(ring);
		length = length_at(ring, ring->read);
		if (!length)
			return false;
		operation = tcmu_hdr_get_op(entry->hdr.len_op);
		if (operation == TCMU_OP_CMD) {
			if (!describe(ring, entry, length, command))
				return false;
			*found = true;
		} else if (operation != TCMU_OP_PAD && operation != TCMU_OP_TMR) {
			entry->hdr.uflags |= TCMU_UFLAG_UNKNOWN_OP;
		}
		ring->read = behind(ring, ring->read, length);
	}
	return true;
}

bool ring_complete(struct ring *ring, uint16_t id, const uint8_t *sense, size_t sense_length)
{
	struct tcmu_cmd_entry *entry;

	if (!pass_over(ring))
		return false;
	if (ring->tail == ring->read)
		return fail(ring, "more was completed than commanded");
	entry = entry_at(ring, ring->tail);
	memset(&entry->rsp, 0, sizeof(entry->rsp));
	entry->hdr.cmd_id = id;
	entry->hdr.uflags = 0;
	if (sense) {
		entry->rsp.scsi_status = CHECK_CONDITION;
		memcpy(entry->rsp.sense_buffer, sense,
		       sense_length < TCMU_SENSE_BUFFERSIZE ? sense_length : TCMU_SENSE_BUFFERSIZE);
	}
	set_tail(ring, behind(ring, ring->tail, tcmu_hdr_get_len(entry->hdr.len_op)));
	return true;
}
