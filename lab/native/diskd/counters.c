// SPDX-License-Identifier: GPL-2.0-only
#include "counters.h"

#include <inttypes.h>

struct use {
	uint64_t busy, waited, jobs, writes, bytes, seeks, queued;
};

static struct use use_of(const struct model_disk *disk, uint64_t now)
{
	return (struct use){ model_disk_busy(disk, now),
			     model_disk_waited(disk, now),
			     disk->jobs,
			     disk->writes,
			     disk->bytes,
			     disk->seeks,
			     level_sum(&disk->queue, now) };
}

/* A buffered disk is busy while its medium is, which waits for no link. */
static struct use use_of_lanes(const struct model *model, const struct model_disk *disk, uint64_t now)
{
	struct use sum = { .busy = model_link_busy(model, &disk->medium, now) };

	for (uint64_t i = 0; i < disk->lane_count; i++) {
		const struct use lane = use_of(&disk->lanes[i], now);

		sum.jobs += lane.jobs;
		sum.writes += lane.writes;
		sum.bytes += lane.bytes;
		sum.queued += lane.queued;
	}
	return sum;
}

static void write_disk(const char *name, const struct use *use, FILE *file)
{
	fprintf(file,
		"\"%s\": {\"busy\": %" PRIu64 ", \"waited\": %" PRIu64 ", \"requests\": %" PRIu64
		", \"writes\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seeks\": %" PRIu64 ", \"queued\": %" PRIu64 "}",
		name, use->busy, use->waited, use->jobs, use->writes, use->bytes, use->seeks, use->queued);
}

static void write_path(struct backstore *path, FILE *file, uint64_t now)
{
	fprintf(file,
		"\"%s\": {\"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"queued\": %" PRIu64
		", \"most\": %" PRIu64 "}",
		path->name, path->requests, path->bytes, level_sum(&path->held, now), path->held.most);
	path->held.most = path->held.held;
}

void counters_write(struct config *config, const struct model *model, FILE *file, uint64_t now)
{
	fprintf(file, "{\"time\": %" PRIu64 ", \"disks\": {", now);
	for (unsigned int i = 0; i < config->disk_count; i++) {
		const struct model_disk *disk = &config->models[i];
		const struct use use = disk->lane_count ? use_of_lanes(model, disk, now) : use_of(disk, now);

		fputs(i ? ", " : "", file);
		write_disk(config->disks[i].name, &use, file);
	}
	fputs("}, \"links\": {", file);
	for (unsigned int i = 0; i < config->link_count; i++) {
		const struct model_link *link = &config->links[i].link;

		fprintf(file, "%s\"%s\": {\"busy\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
			i ? ", " : "", config->links[i].name, model_link_busy(model, link, now), link->jobs,
			link->bytes);
	}
	fputs("}, \"paths\": {", file);
	for (unsigned int i = 0; i < config->backstore_count; i++) {
		fputs(i ? ", " : "", file);
		write_path(&config->backstores[i], file, now);
	}
	fputs("}}\n", file);
}
