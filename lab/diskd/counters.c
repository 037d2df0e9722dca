// SPDX-License-Identifier: GPL-2.0-only
#include "counters.h"

#include <inttypes.h>

static void write_disk(const struct named_disk *disk, const struct model_disk *model, FILE *file, uint64_t now)
{
	fprintf(file,
		"\"%s\": {\"busy\": %" PRIu64 ", \"waited\": %" PRIu64 ", \"requests\": %" PRIu64
		", \"writes\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seeks\": %" PRIu64 ", \"queued\": %" PRIu64 "}",
		disk->name, model_disk_busy(model, now), model_disk_waited(model, now), model->jobs, model->writes,
		model->bytes, model->seeks, level_sum(&model->queue, now));
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
		fputs(i ? ", " : "", file);
		write_disk(&config->disks[i], &config->models[i], file, now);
	}
	fputs("}, \"links\": {", file);
	for (unsigned int i = 0; i < config->link_count; i++) {
		const struct model_link *link = &config->links[i].link;

		fprintf(file, "%s\"%s\": {\"busy\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
			i ? ", " : "", config->links[i].name, model_link_busy(model, link, now), link->jobs, link->bytes);
	}
	fputs("}, \"paths\": {", file);
	for (unsigned int i = 0; i < config->backstore_count; i++) {
		fputs(i ? ", " : "", file);
		write_path(&config->backstores[i], file, now);
	}
	fputs("}}\n", file);
}
