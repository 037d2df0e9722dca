/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The model as text, one thing a line, names before they are used:
 *
 *   link NAME RATE COST              bytes per second, ns for each request
 *   disk NAME SIZE RATE SEEK         bytes, bytes per second, ns (0: none)
 *   backstore NAME DISK SERIAL WWN [LINK...]
 *
 * A backstore is a path to a disk; WWN is its NAA in hex.
 */
#ifndef DISKD_CONFIG_H
#define DISKD_CONFIG_H

#include "model.h"
#include "scsi.h"
#include "store.h"

#include <stdbool.h>
#include <stdio.h>

#define CONFIG_MOST 256
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

struct backstore {
	char name[NAME_MAX_LENGTH + 1];
	unsigned int disk;
	struct model_link *links[MODEL_LINKS];
	struct scsi_identity identity;
};

struct config {
	struct named_link links[CONFIG_MOST];
	struct named_disk disks[CONFIG_MOST];
	struct model_disk models[CONFIG_MOST]; /* models[i] is that of disks[i] */
	struct backstore backstores[CONFIG_MOST];
	unsigned int link_count, disk_count, backstore_count;
};

/* False with the number of the offending line in *LINE; CONFIG must not be moved afterwards. */
bool config_read(struct config *config, FILE *file, unsigned int *line);

#endif
