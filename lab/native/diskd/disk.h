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
	uint64_t cost;   /* ns for each job beside its bytes */
	uint64_t demand; /* of the jobs that flow, as if each were alone, in 1/2^32 of the link */
	uint64_t busy, jobs, bytes;
	double room, load; /* of share.c */
};

struct model_job {
	struct model_job *next;
	struct model_link *links[MODEL_LINKS]; /* NULL behind the last */
	uint64_t at, bytes;                    /* a job without bytes waits for its turn and takes no time */
	uint32_t write, passed;                /* passed: how often a later job went before it */
};

struct model_zone {
	uint64_t from, rate;
};

/* What a disk with look-ahead reads on (ahead.c): byte FROM at SINCE and on to END, and it has KEPT what lies before. */
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
	uint64_t zone_count, seek, rotation;  /* rotation: ns of a revolution, 0 where sectors are always there */
	uint64_t ncq;                         /* among how many jobs it chooses the next; 1 serves in order */
	uint64_t head;
	uint64_t look_ahead; /* bytes, 0 where it reads nothing that was not asked for */
	struct model_run run;
	struct model_job *first, **last; /* the job at the front is being served */
	enum model_phase phase;
	uint64_t started, event; /* of the job being served: when its turn came, when its phase ends */
	struct model_flow flow;
	uint64_t busy, waited, jobs, writes, bytes, seeks; /* waited: ns of busy in which links held a transfer back */
	struct level queue;
	/* Of a disk with a buffer, whose jobs all are its lanes'. */
	struct model_disk *lanes;
	uint64_t lane_count;
	struct model_link medium;
};

struct model {
	struct model_disk *disks;
	unsigned int disk_count;
	bool changed; /* jobs began or ended to flow at CHANGED_AT, and speeds are to be shared anew */
	uint64_t changed_at;
};

/* How long the medium takes for BYTES from AT on. */
uint64_t model_disk_time(const struct model_disk *disk, uint64_t at, uint64_t bytes);

/* How long after NOW the sector at AT comes by, on a disk that turns. */
uint64_t model_disk_turn(const struct model_disk *disk, uint64_t at, uint64_t now);

/* How long a disk that is free at NOW takes to come to AT from elsewhere. */
uint64_t model_disk_seek(const struct model_disk *disk, uint64_t at, uint64_t now);

/* What is left of a flow at NOW, in 1/65536 ns of the time that it takes alone. */
uint64_t model_flow_left(const struct model_flow *flow, uint64_t now);

#endif
