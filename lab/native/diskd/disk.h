/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of the model: links, jobs and disks, and the functions of model.c that its parts use. */
#ifndef DISKD_DISK_H
#define DISKD_DISK_H

#include "level.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_PATH 4  /* links on the way to a disk */
#define MODEL_LINKS 5 /* with the medium of a buffered disk */
#define MODEL_ZONES 16
#define MODEL_ALONE (1ull << 32) /* speed of a job that shares no link with another */

struct model_link {
	uint64_t rate;   /* bytes per second */
	uint64_t cost;   /* ns for each job in addition to its bytes */
	uint64_t demand; /* of the flowing jobs, each as if alone, in 1/2^32 of the link */
	uint64_t busy, jobs, bytes;
	double room, load; /* of share.c */
};

struct model_job {
	struct model_job *next;
	struct model_link *links[MODEL_LINKS]; /* NULL after the last */
	uint64_t at, bytes;                    /* a job without bytes waits in the queue and takes no time */
	uint32_t write, passed;                /* passed: how often a later job was served first */
};

struct model_zone {
	uint64_t from, rate;
};

/* The run of a disk with look-ahead (ahead.c): it reads from byte FROM at SINCE to END, and keeps from KEPT on. */
struct model_run {
	uint64_t kept, from, since, end;
	bool going;
};

enum model_phase { MODEL_IDLE, MODEL_SEEKING, MODEL_MOVING };

/* The transfer of the job being served. */
struct model_flow {
	uint64_t own, least;         /* ns: at the disk's rate, and as the slowest of disk and links allows */
	uint64_t links[MODEL_LINKS]; /* ns of each link's time */
	uint64_t began, since;       /* since: when SPEED was set */
	uint64_t left;               /* of LEAST at SINCE, in 1/65536 ns */
	uint64_t speed;
	uint64_t settled; /* of share.c */
};

struct model_disk {
	struct model_zone zones[MODEL_ZONES]; /* the first from 0 */
	uint64_t zone_count, seek, rotation;  /* rotation: ns of a revolution, 0: no rotational delay */
	uint64_t ncq;                         /* the number of jobs from which it chooses the next; 1 serves in order */
	uint64_t head;
	uint64_t look_ahead; /* bytes, 0: none */
	struct model_run run;
	struct model_job *first, **last; /* the job at the front is being served */
	enum model_phase phase;
	uint64_t started, event; /* of the job being served: its start, and the end of its phase */
	struct model_flow flow;
	uint64_t busy, waited, jobs, writes, bytes, seeks; /* waited: ns of busy in which links delayed a transfer */
	struct level queue;
	uint64_t coalesce;                   /* the number of served jobs that are finished together */
	struct model_job *done, **done_last; /* served, not finished */
	uint64_t done_count;
	/* A buffered disk: all jobs are in its lanes. */
	struct model_disk *lanes;
	uint64_t lane_count;
	struct model_link medium;
};

struct model {
	struct model_disk *disks;
	unsigned int disk_count;
	struct model_job *ready; /* finished, for the caller to take */
	bool changed;            /* flows began or ended at CHANGED_AT: speeds must be computed again */
	uint64_t changed_at;
};

/*
 * model.c defines these for ahead.c and share.c, which it calls itself. In a file of their own gcc would no longer
 * inline them in model.c: guests would execute other instructions, and every digest would change.
 */

/* Time that the medium takes for BYTES from AT on. */
uint64_t model_disk_time(const struct model_disk *disk, uint64_t at, uint64_t bytes);

/* Time from NOW until the sector at AT passes under the head, on a rotating disk. */
uint64_t model_disk_turn(const struct model_disk *disk, uint64_t at, uint64_t now);

/* Time from NOW until an idle disk can read AT, seek and rotation included. */
uint64_t model_disk_seek(const struct model_disk *disk, uint64_t at, uint64_t now);

/* The rest of a flow at NOW, in 1/65536 ns of its time alone. */
uint64_t model_flow_left(const struct model_flow *flow, uint64_t now);

#endif
