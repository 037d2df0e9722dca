// SPDX-License-Identifier: GPL-2.0-only
#include "model.h"

#include <stddef.h>

#define SECOND 1000000000u

static uint64_t transfer(uint64_t bytes, uint64_t rate)
{
	return (uint64_t)(((unsigned __int128)bytes * SECOND + rate - 1) / rate);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void model_disk_init(struct model_disk *disk, uint64_t rate, uint64_t seek)
{
	*disk = (struct model_disk){ .rate = rate, .seek = seek };
	disk->last = &disk->first;
}

static uint64_t through_link(struct model_link *link, uint64_t bytes, uint64_t from)
{
	uint64_t start = later(link->free_at, from);
	uint64_t time = link->cost + transfer(bytes, link->rate);

	link->free_at = start + time;
	link->busy += time;
	link->bytes += bytes;
	link->jobs++;
	return link->free_at;
}

static void move(struct model_disk *disk, uint64_t from)
{
	const struct model_job *job = disk->first;
	uint64_t end = from;

	if (job->bytes) {
		end = from + transfer(job->bytes, disk->rate);
		for (int i = 0; i < MODEL_LINKS && job->links[i]; i++)
			end = later(end, through_link(job->links[i], job->bytes, from));
	}
	disk->phase = MODEL_MOVING;
	disk->event = end;
}

static void start(struct model_disk *disk, uint64_t now)
{
	disk->started = now;
	if (disk->first->bytes && disk->seek && disk->first->at != disk->head) {
		disk->seeks++;
		disk->phase = MODEL_SEEKING;
		disk->event = now + disk->seek;
	} else {
		move(disk, now);
	}
}

static struct model_job *finish(struct model_disk *disk)
{
	struct model_job *job = disk->first;
	uint64_t now = disk->event;

	disk->first = job->next;
	disk->busy += now - disk->started;
	disk->jobs++;
	if (job->bytes) {
		disk->bytes += job->bytes;
		disk->head = job->at + job->bytes;
	}
	if (disk->first) {
		start(disk, now);
	} else {
		disk->last = &disk->first;
		disk->phase = MODEL_IDLE;
	}
	job->next = NULL;
	return job;
}

void model_submit(struct model_disk *disk, struct model_job *job, uint64_t now)
{
	job->next = NULL;
	*disk->last = job;
	disk->last = &job->next;
	if (disk->phase == MODEL_IDLE)
		start(disk, now);
}

static struct model_disk *earliest(const struct model *model)
{
	struct model_disk *found = NULL;

	for (unsigned int i = 0; i < model->disk_count; i++) {
		struct model_disk *disk = &model->disks[i];

		if (disk->phase != MODEL_IDLE && (!found || disk->event < found->event))
			found = disk;
	}
	return found;
}

bool model_next(const struct model *model, uint64_t *when)
{
	const struct model_disk *disk = earliest(model);

	if (disk)
		*when = disk->event;
	return disk != NULL;
}

struct model_job *model_finished(struct model *model, uint64_t now)
{
	struct model_disk *disk;

	while ((disk = earliest(model)) && disk->event <= now) {
		if (disk->phase == MODEL_MOVING)
			return finish(disk);
		move(disk, disk->event);
	}
	return NULL;
}

uint64_t model_disk_busy(const struct model_disk *disk, uint64_t now)
{
	return disk->busy + (disk->phase == MODEL_IDLE || now < disk->started ? 0 : now - disk->started);
}

uint64_t model_link_busy(const struct model_link *link, uint64_t now)
{
	/* What is reserved lies behind the present without gaps. */
	return link->busy - (link->free_at > now ? link->free_at - now : 0);
}
