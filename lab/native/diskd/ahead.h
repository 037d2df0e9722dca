/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a disk's buffer holds of the tracks that it reads: the disk goes on reading behind the last byte that
 * was asked for, until it is its look-ahead further or has to go elsewhere. What passed under the head is there at once;
 * what lies in front of it comes in its turn, where no seek is faster, and what lies between is kept.
 * Reads go to the medium through one run of sectors; a write or a read elsewhere ends it.
 */
#ifndef DISKD_AHEAD_H
#define DISKD_AHEAD_H

#include "disk.h"

/* Whether JOB is a read in the run, or so near in front of it that reading on is no slower at NOW than a seek. */
bool ahead_covers(const struct model_disk *disk, const struct model_job *job, uint64_t now);

/* When byte AT of the run has been read if the disk turns to it at NOW: not before NOW. */
uint64_t ahead_until(const struct model_disk *disk, uint64_t at, uint64_t now);

/* The disk turns to JOB at NOW: the run goes on for it, or ends where JOB is elsewhere. */
void ahead_turn(struct model_disk *disk, const struct model_job *job, uint64_t now);

/* The head is at JOB, a read elsewhere, at NOW: a run begins there. */
void ahead_begin(struct model_disk *disk, const struct model_job *job, uint64_t now);

#endif
