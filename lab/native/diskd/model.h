/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a disk would have finished: arithmetic alone, no clock and no memory.
 *
 * A disk serves one job at a time: a seek and the wait for the sector when the job does not start where
 * the head is, then the transfer, which flows through every link of the job's path. Jobs that flow at
 * the same time share their links by max-min fairness (share.c): none gets more of a link while
 * another that wants it gets less, and a link that is wanted is never idle. A disk with a buffer moves several
 * jobs at a time: its medium is one more link, which they share, and it does not seek. One with look-ahead finds what it read
 * before in its buffer (ahead.c). Times are nanoseconds of one clock;
 * each step starts at the exact time at which the step before it ended, however late the caller is.
 */
#ifndef DISKD_MODEL_H
#define DISKD_MODEL_H

#include "disk.h"

void model_disk_init(struct model_disk *disk, uint64_t rate, uint64_t seek);

/* From byte FROM on the rate is RATE; false when FROM does not ascend or there are too many zones. */
bool model_disk_zone(struct model_disk *disk, uint64_t from, uint64_t rate);

/* DISK moves COUNT jobs at a time, one in each of LANES, which are disks of the model too. */
void model_disk_buffer(struct model_disk *disk, struct model_disk *lanes, uint64_t count);

/* A job arrives at NOW; everything due up to then must have been taken from model_finished. */
void model_submit(struct model *model, struct model_disk *disk, struct model_job *job, uint64_t now);

/* When something happens next; false when all disks are idle. */
bool model_next(struct model *model, uint64_t *when);

/* The next job that is done by NOW, or NULL. */
struct model_job *model_finished(struct model *model, uint64_t now);

/* Busy time up to NOW, with the part of the present jobs that lies before it. */
uint64_t model_disk_busy(const struct model_disk *disk, uint64_t now);
uint64_t model_disk_waited(const struct model_disk *disk, uint64_t now);
uint64_t model_link_busy(const struct model *model, const struct model_link *link, uint64_t now);

#endif
