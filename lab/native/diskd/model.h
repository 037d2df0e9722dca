/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The time at which a disk completes each job: arithmetic only, without a clock and without memory allocation.
 *
 * A disk serves one job at a time: seek and rotational delay if the job does not start at the head's position,
 * then the transfer, which flows through every link of the job's path. Jobs that flow at the same time share
 * links by max-min fairness (share.c): no job gets more of a link than another that needs it, and no needed
 * link is idle. A buffered disk moves several jobs at a time, which share its medium like a link; it does not
 * seek. A disk with look-ahead finds earlier reads in its buffer (ahead.c). A disk that coalesces finishes its
 * jobs a number at a time, the last ones when it has no other to serve.
 *
 * Times are nanoseconds of one clock. Each step starts exactly when the previous one ended, even if the caller
 * is late.
 */
#ifndef DISKD_MODEL_H
#define DISKD_MODEL_H

#include "disk.h"

void model_disk_init(struct model_disk *disk, uint64_t rate, uint64_t seek);

/* Set the rate from byte FROM on; false if FROM does not ascend or there are too many zones. */
bool model_disk_zone(struct model_disk *disk, uint64_t from, uint64_t rate);

/* Let DISK move COUNT jobs at a time, one in each of LANES, which are also disks of the model. */
void model_disk_buffer(struct model_disk *disk, struct model_disk *lanes, uint64_t count);

/* A job arrives at NOW. The caller has taken everything due by then from model_finished. */
void model_submit(struct model *model, struct model_disk *disk, struct model_job *job, uint64_t now);

/* The time of the next event; false if all disks are idle. */
bool model_next(struct model *model, uint64_t *when);

/* The next job that is done by NOW, or NULL. */
struct model_job *model_finished(struct model *model, uint64_t now);

/* Busy time up to NOW, including the part of current jobs before NOW. */
uint64_t model_disk_busy(const struct model_disk *disk, uint64_t now);
uint64_t model_disk_waited(const struct model_disk *disk, uint64_t now);
uint64_t model_link_busy(const struct model *model, const struct model_link *link, uint64_t now);

#endif
