/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Look-ahead: after a read the disk continues to read, until it is LOOK_AHEAD bytes past the end of the request or must
 * seek. Bytes that passed under the head are available at once. Bytes in front of the head become available as the disk
 * turns, unless a seek is faster; the bytes in between are kept. All of them form one run of sectors, which a write or
 * a read elsewhere ends.
 */
#ifndef DISKD_AHEAD_H
#define DISKD_AHEAD_H

#include "disk.h"

/* Whether JOB is a read in the run, or so close after it that at NOW reading on is not slower than a seek. */
bool ahead_covers(const struct model_disk *disk, const struct model_job *job, uint64_t now);

/* When byte AT of the run is read if the disk turns to it at NOW; not before NOW. */
uint64_t ahead_until(const struct model_disk *disk, uint64_t at, uint64_t now);

/* The disk turns to JOB at NOW: the run continues for it, or ends if JOB is elsewhere. */
void ahead_turn(struct model_disk *disk, const struct model_job *job, uint64_t now);

/* The head is at JOB, a read elsewhere, at NOW: begin a run there. */
void ahead_begin(struct model_disk *disk, const struct model_job *job, uint64_t now);

#endif
