// SPDX-License-Identifier: GPL-2.0-only
#include "share.h"

#include <float.h>
#include <stddef.h>

#define SAME 1e-9 /* levels this close are equal */

static bool is_open(const struct model_disk *disk)
{
	return disk->phase == MODEL_MOVING && !disk->flow.settled;
}

static double slowest(const struct model_flow *flow)
{
	uint64_t most = 1;

	for (int i = 0; i < MODEL_LINKS; i++)
		if (flow->links[i] > most)
			most = flow->links[i];
	return (double)most;
}

static void open_flows(struct model *model)
{
	for (unsigned int i = 0; i < model->disk_count; i++) {
		struct model_disk *disk = &model->disks[i];

		if (disk->phase != MODEL_MOVING)
			continue;
		disk->flow.settled = !disk->flow.links[0];
		for (int l = 0; l < MODEL_LINKS && disk->first->links[l]; l++)
			disk->first->links[l]->room = 1;
	}
}

/* The load of the open flows on each link per unit of the level. */
static void load_links(struct model *model)
{
	for (unsigned int i = 0; i < model->disk_count; i++)
		if (is_open(&model->disks[i]))
			for (int l = 0; l < MODEL_LINKS && model->disks[i].first->links[l]; l++)
				model->disks[i].first->links[l]->load = 0;
	for (unsigned int i = 0; i < model->disk_count; i++) {
		const struct model_disk *disk = &model->disks[i];

		if (is_open(disk))
			for (int l = 0; l < MODEL_LINKS && disk->first->links[l]; l++)
				disk->first->links[l]->load += (double)disk->flow.links[l] / slowest(&disk->flow);
	}
}

/* The highest level of DISK's flow. */
static double ceiling(const struct model_disk *disk)
{
	double most = slowest(&disk->flow) / (double)disk->flow.least;

	for (int l = 0; l < MODEL_LINKS && disk->first->links[l]; l++) {
		const struct model_link *link = disk->first->links[l];

		if (link->room < most * link->load)
			most = link->room / link->load;
	}
	return most;
}

static double lowest_ceiling(const struct model *model)
{
	double lowest = DBL_MAX;

	for (unsigned int i = 0; i < model->disk_count; i++) {
		double most = is_open(&model->disks[i]) ? ceiling(&model->disks[i]) : DBL_MAX;

		if (most < lowest)
			lowest = most;
	}
	return lowest;
}

static void set_speed(struct model_disk *disk, double speed, uint64_t now)
{
	struct model_flow *flow = &disk->flow;
	uint64_t exact = speed > 1 - SAME ? MODEL_ALONE : (uint64_t)(speed * (double)MODEL_ALONE) + 1;

	if (exact == flow->speed)
		return;
	flow->left = model_flow_left(flow, now);
	flow->since = now;
	flow->speed = exact;
	/* Rounded up: a job is not done before its last byte. */
	disk->event = now + (uint64_t)((((unsigned __int128)flow->left << 16) + exact - 1) / exact);
}

/* Settle the flows whose ceiling is LEVEL, and subtract their share from the links. */
static void settle(struct model *model, double level, uint64_t now)
{
	for (unsigned int i = 0; i < model->disk_count; i++)
		if (is_open(&model->disks[i]) && ceiling(&model->disks[i]) <= level * (1 + SAME))
			model->disks[i].flow.settled = 2;
	for (unsigned int i = 0; i < model->disk_count; i++) {
		struct model_disk *disk = &model->disks[i];
		double portion = level / slowest(&disk->flow);

		if (disk->phase != MODEL_MOVING || disk->flow.settled != 2)
			continue;
		disk->flow.settled = 1;
		set_speed(disk, portion * (double)disk->flow.least, now);
		for (int l = 0; l < MODEL_LINKS && disk->first->links[l]; l++)
			disk->first->links[l]->room -= portion * (double)disk->flow.links[l];
	}
}

void model_share(struct model *model, uint64_t now)
{
	double level, last = 0;

	open_flows(model);
	for (;;) {
		load_links(model);
		level = lowest_ceiling(model);
		if (level == DBL_MAX)
			return;
		/* The level falls only by rounding. */
		last = level > last ? level : last;
		settle(model, last, now);
	}
}
