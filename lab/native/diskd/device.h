/* SPDX-License-Identifier: GPL-2.0-only */
/* Backstores as target_core_user shows them: commands taken from their rings, data moved, completions told. */
#ifndef DISKD_DEVICE_H
#define DISKD_DEVICE_H

#include "config.h"
#include "ring.h"

struct device {
	struct backstore *backstore;
	struct config *config;
	struct model *model;
	struct ring ring;
	int fd;
};

/* Map the ring of backstore NUMBER. All of these end the process when something is wrong. */
void device_open(struct device *device, struct config *config, struct model *model, unsigned int number);

/* Serve what is in the ring: answers at once, transfers into the line of their disk. */
void device_take(struct device *device, uint64_t now);

/* Complete what the model has finished by NOW. */
void devices_finish(struct model *model, uint64_t now);

/* Let the kernel look at what was completed. */
void device_tell(struct device *device);

#endif
