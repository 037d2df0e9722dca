/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The model as text, one item per line; names are defined before they are used:
 *
 *   memory BYTES                     limit of the data written to all disks together
 *   link NAME RATE COST              bytes per second, ns for each request
 *   disk NAME SIZE RATE SEEK [KEY=VALUE...]
 *   backstore NAME DISK SERIAL WWN [LINK...]
 *   more DISK [LINK...]              further sectors of the backstore above: those of DISK
 *
 * A disk has a size in bytes, a rate in bytes per second and a seek in ns (0: none). Its keys are
 *
 *   rotation=NS       time of a revolution: after a seek the disk waits for the sector
 *   ncq=N             it chooses, from its first N jobs, the one that it can begin first
 *   zone=FROM:RATE    another rate from byte FROM on; repeatable in ascending order
 *   look_ahead=BYTES  it reads this much past a request, and keeps it
 *   coalesce=N        it reports N jobs as done at a time, fewer when it has no other
 *   buffer=N          it moves N jobs at a time, which share its rate; excludes a seek and all other keys
 *
 * A backstore is a path to a disk through links. Backstores of one disk share its head, its queue and its
 * data. WWN is the NAA in hex.
 */
#ifndef DISKD_CONFIG_H
#define DISKD_CONFIG_H

#include "model.h"
#include "scsi.h"
#include "store.h"

#include <stdbool.h>
#include <stdio.h>

#define CONFIG_MOST 256
#define CONFIG_NCQ 256
#define CONFIG_LANES 768 /* of all buffers together */
#define CONFIG_EXTENTS 16
#define NAME_MAX_LENGTH 40

struct named_link {
	char name[NAME_MAX_LENGTH + 1];
	struct model_link link;
};

struct named_disk {
	char name[NAME_MAX_LENGTH + 1];
	uint64_t size;
	struct store store;
};

/* A disk behind a backstore, and the path to it. */
struct extent {
	unsigned int disk;
	struct model_link *links[MODEL_PATH];
};

struct backstore {
	char name[NAME_MAX_LENGTH + 1];
	struct extent extents[CONFIG_EXTENTS]; /* their sectors follow each other */
	unsigned int extent_count;
	struct scsi_identity identity;
	struct level held; /* commands */
	uint64_t requests, bytes;
};

struct config {
	struct named_link links[CONFIG_MOST];
	struct named_disk disks[CONFIG_MOST];
	struct model_disk models[CONFIG_MOST + CONFIG_LANES]; /* models[i] is that of disks[i], then come lanes */
	struct backstore backstores[CONFIG_MOST];
	unsigned int link_count, disk_count, model_count, backstore_count;
	uint64_t memory; /* 0 where nothing is said */
};

/* False with the number of the offending line in *LINE; CONFIG must not be moved afterwards. */
bool config_read(struct config *config, FILE *file, unsigned int *line);

/* The part of a transfer on one disk. */
struct piece {
	const struct extent *on;
	uint64_t at, bytes;
};

/* The first piece of the transfer of LENGTH bytes at OFFSET of a backstore, which must lie within it. */
struct piece config_piece(const struct config *config, const struct backstore *backstore, uint64_t offset,
			  uint64_t length);

#endif
