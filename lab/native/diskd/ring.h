/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The command ring that target_core_user shares with its handler
 * (Documentation/target/tcmu-design.rst of the kernel).
 *
 * Commands are taken in the order of the ring and completed in any order: a completion overwrites the
 * oldest entry that is still in the ring, which was read before, with its own id.
 */
#ifndef DISKD_RING_H
#define DISKD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
	uint8_t *map;
	size_t map_size;
	uint8_t *commands;
	uint32_t size;  /* of the ring of commands */
	uint32_t read;  /* where the next command is read */
	uint32_t tail;  /* where the next completion goes */
	bool completed; /* something for the kernel to look at */
	const char *fault;
};

/* Data of a command at OFFSET in the map (checked). The layout is that of the ring's iovec. */
struct ring_part {
	uint64_t offset, length;
};

/* A command in the ring; valid until the next completion. */
struct ring_command {
	uint16_t id;
	const uint8_t *cdb;
	size_t cdb_room;
	const struct ring_part *parts;
	uint32_t part_count;
	uint64_t length; /* of all parts together */
};

/* Each returns false and sets ring->fault if the ring is invalid. */
bool ring_open(struct ring *ring, void *map, size_t map_size);

/* *FOUND is set to whether there was another command. */
bool ring_next(struct ring *ring, struct ring_command *command, bool *found);

/* SENSE may be NULL; then the status is GOOD, else CHECK CONDITION. */
bool ring_complete(struct ring *ring, uint16_t id, const uint8_t *sense, size_t sense_length);

#endif
