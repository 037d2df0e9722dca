/* SPDX-License-Identifier: GPL-2.0-only */
/* Backstores of target_core_user: take commands from their rings, move data, complete. */
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

/* Map the ring of backstore NUMBER. All functions here end the process on an error. */
void device_open(struct device *device, struct config *config, struct model *model, unsigned int number);

/* Serve the ring: answer commands without data at once, queue transfers at their disk. */
void device_take(struct device *device, uint64_t now);

/* Complete what the model has finished by NOW. */
void devices_finish(struct model *model, uint64_t now);

/* Tell the kernel about completions. */
void device_tell(struct device *device);

#endif
