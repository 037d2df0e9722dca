// SPDX-License-Identifier: GPL-2.0-only
#include "model.h"

#include "ahead.h"
#include "share.h"

#include <stddef.h>

#define SECOND 1000000000u
#define LONGEST (1ull << 46) /* ns of one transfer, most of a day: a flow counts in 1/65536 of them */
#define FRACTION 16

static uint64_t transfer(uint64_t bytes, uint64_t rate)
{
	unsigned __int128 time = ((unsigned __int128)bytes * SECOND + rate - 1) / rate;

	return time < LONGEST ? (uint64_t)time : LONGEST;
}

void model_disk_init(struct model_disk *disk, uint64_t rate, uint64_t seek)
{
	*disk = (struct model_disk){ .zones = { { 0, rate } }, .zone_count = 1, .seek = seek, .ncq = 1, .coalesce = 1 };
	disk->last = &disk->first;
	disk->done_last = &disk->done;
}

bool model_disk_zone(struct model_disk *disk, uint64_t from, uint64_t rate)
{
	if (disk->zone_count == MODEL_ZONES || from <= disk->zones[disk->zone_count - 1].from)
		return false;
	disk->zones[disk->zone_count++] = (struct model_zone){ from, rate };
	return true;
}

void model_disk_buffer(struct model_disk *disk, struct model_disk *lanes, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		model_disk_init(&lanes[i], disk->zones[0].rate, 0);
	disk->medium.rate = disk->zones[0].rate;
	disk->lanes = lanes;
	disk->lane_count = count;
}

static unsigned int zone_of(const struct model_disk *disk, uint64_t at)
{
	unsigned int zone = (unsigned int)disk->zone_count - 1;

	while (disk->zones[zone].from > at)
		zone--;
	return zone;
}

uint64_t model_disk_time(const struct model_disk *disk, uint64_t at, uint64_t bytes)
{
	uint64_t time = 0;

	for (unsigned int zone = zone_of(disk, at); bytes; zone++) {
		bool last = zone + 1 == disk->zone_count;
		uint64_t room = last ? bytes : disk->zones[zone + 1].from - at;
		uint64_t part = bytes < room ? bytes : room;

		time += transfer(part, disk->zones[zone].rate);
		at += part;
		bytes -= part;
	}
	return time < LONGEST ? time : LONGEST;
}

uint64_t model_disk_turn(const struct model_disk *disk, uint64_t at, uint64_t now)
{
	uint64_t track = (uint64_t)((unsigned __int128)disk->zones[zone_of(disk, at)].rate * disk->rotation / SECOND);
	uint64_t angle = track ? (uint64_t)((unsigned __int128)(at % track) * disk->rotation / track) : 0;

	return (angle + disk->rotation - now % disk->rotation) % disk->rotation;
}

/* A flow begins or ends. Others are affected only if a link's demand exceeds its capacity. */
static void join_links(struct model *model, const struct model_disk *disk, bool come, uint64_t now)
{
	const struct model_flow *flow = &disk->flow;
	bool crowded = false;

	for (int i = 0; i < MODEL_LINKS && disk->first->links[i]; i++) {
		struct model_link *link = disk->first->links[i];
		uint64_t demand = (uint64_t)(((unsigned __int128)flow->links[i] * MODEL_ALONE) / flow->least);
		uint64_t without = come ? link->demand : link->demand - demand;

		crowded |= without + demand > MODEL_ALONE;
		link->demand = come ? without + demand : without;
	}
	if (crowded) {
		model->changed = true;
		model->changed_at = now;
	}
}

/* Time that the medium takes for the current job, from the head's position or from the end of the run. */
static uint64_t own_time(struct model_disk *disk, uint64_t now)
{
	const struct model_job *job = disk->first;
	uint64_t until;

	if (!disk->look_ahead || job->write)
		return model_disk_time(disk, job->at, job->bytes);
	if (!disk->run.going)
		ahead_begin(disk, job, now);
	until = ahead_until(disk, job->at + job->bytes, now);
	return until > now ? until - now : 1;
}

static void move(struct model *model, struct model_disk *disk, uint64_t now)
{
	const struct model_job *job = disk->first;
	struct model_flow *flow = &disk->flow;

	disk->phase = MODEL_MOVING;
	*flow = (struct model_flow){ .began = now, .since = now, .speed = MODEL_ALONE };
	if (job->bytes) {
		flow->own = flow->least = own_time(disk, now);
		for (int i = 0; i < MODEL_LINKS && job->links[i]; i++) {
			flow->links[i] = job->links[i]->cost + transfer(job->bytes, job->links[i]->rate);
			if (flow->links[i] > flow->least)
				flow->least = flow->links[i];
		}
		flow->left = flow->least << FRACTION;
		join_links(model, disk, true, now);
	}
	disk->event = now + flow->least;
}

uint64_t model_disk_seek(const struct model_disk *disk, uint64_t at, uint64_t now)
{
	return disk->seek + (disk->rotation ? model_disk_turn(disk, at, now + disk->seek) : 0);
}

/* Time from NOW until an idle disk can move the first byte of a job. */
static uint64_t positioning(const struct model_disk *disk, const struct model_job *job, uint64_t now)
{
	if (ahead_covers(disk, job, now))
		return ahead_until(disk, job->at, now) - now;
	if (!job->bytes || (job->at == disk->head && !disk->run.going) || (!disk->seek && !disk->rotation))
		return 0;
	return model_disk_seek(disk, job->at, now);
}

static void start(struct model *model, struct model_disk *disk, uint64_t now)
{
	uint64_t time = positioning(disk, disk->first, now);

	disk->started = now;
	ahead_turn(disk, disk->first, now);
	if (!time) {
		move(model, disk, now);
		return;
	}
	disk->seeks += !disk->run.going;
	disk->phase = MODEL_SEEKING;
	disk->event = now + time;
}

static uint64_t distance(const struct model_disk *disk, const struct model_job *job)
{
	return job->at > disk->head ? job->at - disk->head : disk->head - job->at;
}

/*
 * Move the job that can start first to the front; among equals, the one closest to the head. A job without
 * bytes ends after all earlier ones, so no job passes it. No job is passed more often than NCQ times.
 */
static void choose(struct model_disk *disk, uint64_t now)
{
	struct model_job **best = &disk->first, **at = &disk->first, *chosen;
	uint64_t soonest = UINT64_MAX;

	if (disk->first->passed >= disk->ncq)
		return;
	for (uint64_t i = 0; i < disk->ncq && *at && (*at)->bytes; i++, at = &(*at)->next) {
		uint64_t time = positioning(disk, *at, now);

		if (time < soonest || (time == soonest && distance(disk, *at) < distance(disk, *best))) {
			best = at;
			soonest = time;
		}
	}
	chosen = *best;
	if (chosen == disk->first)
		return;
	for (struct model_job *job = disk->first; job != chosen; job = job->next)
		job->passed++;
	*best = chosen->next;
	if (disk->last == &chosen->next)
		disk->last = best;
	chosen->next = disk->first;
	disk->first = chosen;
}

static void leave_links(struct model *model, struct model_disk *disk)
{
	const struct model_job *job = disk->first;

	join_links(model, disk, false, disk->event);
	for (int i = 0; i < MODEL_LINKS && job->links[i]; i++) {
		job->links[i]->busy += disk->flow.links[i];
		job->links[i]->bytes += job->bytes;
		job->links[i]->jobs++;
	}
}

/* A served job is finished with those before it once they are enough, or if no other would follow soon. */
static void hold(struct model *model, struct model_disk *disk, struct model_job *job)
{
	job->next = NULL;
	*disk->done_last = job;
	disk->done_last = &job->next;
	if (++disk->done_count < disk->coalesce && disk->first)
		return;
	model->ready = disk->done;
	disk->done = NULL;
	disk->done_last = &disk->done;
	disk->done_count = 0;
}

static void finish(struct model *model, struct model_disk *disk)
{
	struct model_job *job = disk->first;
	uint64_t now = disk->event;

	if (job->bytes) {
		leave_links(model, disk);
		disk->bytes += job->bytes;
		disk->head = job->at + job->bytes;
	}
	disk->busy += now - disk->started;
	disk->waited += now - disk->flow.began - disk->flow.own;
	disk->jobs++;
	disk->writes += job->write;
	level_add(&disk->queue, -1, now);
	disk->first = job->next;
	disk->phase = MODEL_IDLE;
	if (disk->first) {
		choose(disk, now);
		start(model, disk, now);
	} else {
		disk->last = &disk->first;
	}
	hold(model, disk, job);
}

/* The lane with the shortest queue; for a job without bytes, which passes no other, the one with the longest. */
static struct model_disk *lane_for(struct model_disk *disk, struct model_job *job)
{
	struct model_disk *found = disk->lanes;
	int links = 0;

	for (struct model_disk *lane = disk->lanes + 1; lane < disk->lanes + disk->lane_count; lane++)
		if (job->bytes ? lane->queue.held < found->queue.held : lane->queue.held > found->queue.held)
			found = lane;
	while (job->links[links])
		links++;
	job->links[links] = &disk->medium;
	return found;
}

void model_submit(struct model *model, struct model_disk *disk, struct model_job *job, uint64_t now)
{
	if (disk->lane_count)
		disk = lane_for(disk, job);
	job->next = NULL;
	job->passed = 0;
	*disk->last = job;
	disk->last = &job->next;
	level_add(&disk->queue, 1, now);
	if (disk->phase == MODEL_IDLE)
		start(model, disk, now);
}

static struct model_disk *first_event(const struct model *model)
{
	struct model_disk *found = NULL;

	for (unsigned int i = 0; i < model->disk_count; i++) {
		struct model_disk *disk = &model->disks[i];

		if (disk->phase != MODEL_IDLE && (!found || disk->event < found->event))
			found = disk;
	}
	return found;
}

static struct model_disk *earliest(struct model *model)
{
	struct model_disk *found = first_event(model);

	/* Other events of the same time come first, so that speeds are computed once. */
	if (!model->changed || (found && found->event <= model->changed_at))
		return found;
	model->changed = false;
	model_share(model, model->changed_at);
	return first_event(model);
}

bool model_next(struct model *model, uint64_t *when)
{
	const struct model_disk *disk = earliest(model);

	if (disk)
		*when = disk->event;
	return disk != NULL;
}

struct model_job *model_finished(struct model *model, uint64_t now)
{
	struct model_disk *disk;
	struct model_job *job;

	while (!model->ready && (disk = earliest(model)) && disk->event <= now) {
		if (disk->phase == MODEL_MOVING)
			finish(model, disk);
		else
			move(model, disk, disk->event);
	}
	job = model->ready;
	if (job)
		model->ready = job->next;
	return job;
}

uint64_t model_disk_busy(const struct model_disk *disk, uint64_t now)
{
	return disk->busy + (disk->phase == MODEL_IDLE || now < disk->started ? 0 : now - disk->started);
}

uint64_t model_flow_left(const struct model_flow *flow, uint64_t now)
{
	uint64_t time = now > flow->since ? now - flow->since : 0;
	unsigned __int128 done = (unsigned __int128)time * flow->speed >> (32 - FRACTION);

	return done < flow->left ? flow->left - (uint64_t)done : 0;
}

/* The part before NOW of TIME, which the whole flow takes. */
static uint64_t past(const struct model_flow *flow, uint64_t time, uint64_t now)
{
	uint64_t whole = flow->least << FRACTION;

	return whole ? (uint64_t)((unsigned __int128)time * (whole - model_flow_left(flow, now)) / whole) : 0;
}

uint64_t model_disk_waited(const struct model_disk *disk, uint64_t now)
{
	uint64_t moving = disk->phase == MODEL_MOVING && now > disk->flow.began ? now - disk->flow.began : 0;
	uint64_t own = moving ? past(&disk->flow, disk->flow.own, now) : 0;

	return disk->waited + (moving > own ? moving - own : 0);
}

uint64_t model_link_busy(const struct model *model, const struct model_link *link, uint64_t now)
{
	uint64_t busy = link->busy;

	for (unsigned int i = 0; i < model->disk_count; i++) {
		const struct model_disk *disk = &model->disks[i];

		for (int l = 0; disk->phase == MODEL_MOVING && l < MODEL_LINKS && disk->first->links[l]; l++)
			if (disk->first->links[l] == link)
				busy += past(&disk->flow, disk->flow.links[l], now);
	}
	return busy;
}
