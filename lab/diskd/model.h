/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a disk would have finished: arithmetic alone, no clock and no memory.
 *
 * A disk serves one job at a time in the order of arrival: a seek when the job does not start where
 * the head is, then the transfer. The transfer also occupies each link of the job's path, one job
 * after another, and ends when disk and links are all done. Times are nanoseconds of one clock;
 * each step starts at the exact time at which the step before it ended, however late the caller is.
 */
#ifndef DISKD_MODEL_H
#define DISKD_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_LINKS 4

struct model_link {
	uint64_t rate; /* bytes per second */
	uint64_t cost; /* ns for each job beside its bytes */
	uint64_t free_at;
	uint64_t busy, jobs, bytes;
};

struct model_job {
	struct model_job *next;
	struct model_link *links[MODEL_LINKS]; /* NULL behind the last */
	uint64_t at, bytes;                    /* a job without bytes waits for its turn and takes no time */
};

enum model_phase { MODEL_IDLE, MODEL_SEEKING, MODEL_MOVING };

struct model_disk {
	uint64_t rate, seek;
	uint64_t head;
	struct model_job *first, **last; /* the job at the front is being served */
	enum model_phase phase;
	uint64_t started, event; /* of the job being served: when its turn came, when its phase ends */
	uint64_t busy, jobs, bytes, seeks;
};

struct model {
	struct model_disk *disks;
	unsigned int disk_count;
};

void model_disk_init(struct model_disk *disk, uint64_t rate, uint64_t seek);

/* A job arrives at NOW; everything due up to then must have been taken from model_finished. */
void model_submit(struct model_disk *disk, struct model_job *job, uint64_t now);

/* When something happens next; false when all disks are idle. */
bool model_next(const struct model *model, uint64_t *when);

/* The next job that is done by NOW, or NULL. */
struct model_job *model_finished(struct model *model, uint64_t now);

/* Busy time up to NOW, with the part of the present job that lies before it. */
uint64_t model_disk_busy(const struct model_disk *disk, uint64_t now);
uint64_t model_link_busy(const struct model_link *link, uint64_t now);

#endif
