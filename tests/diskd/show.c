// SPDX-License-Identifier: GPL-2.0-only
/* show: the model on standard input as it was understood, in the language that it was written in. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

static void show_disk(const struct config *config, unsigned int number)
{
	const struct model_disk *model = &config->models[number];

	printf("disk %s %" PRIu64 " %" PRIu64 " %" PRIu64, config->disks[number].name, config->disks[number].size,
	       model->zones[0].rate, model->seek);
	if (model->rotation)
		printf(" rotation=%" PRIu64, model->rotation);
	if (model->ncq > 1)
		printf(" ncq=%" PRIu64, model->ncq);
	for (unsigned int i = 1; i < model->zone_count; i++)
		printf(" zone=%" PRIu64 ":%" PRIu64, model->zones[i].from, model->zones[i].rate);
	putchar('\n');
}

static void show_path(const struct config *config, const struct backstore *path)
{
	printf("backstore %s %s %s %" PRIx64, path->name, config->disks[path->disk].name, path->identity.serial,
	       path->identity.wwn);
	for (int i = 0; i < MODEL_LINKS && path->links[i]; i++)
		for (unsigned int l = 0; l < config->link_count; l++)
			if (&config->links[l].link == path->links[i])
				printf(" %s", config->links[l].name);
	putchar('\n');
}

int main(void)
{
	static struct config config;
	unsigned int line;

	if (!config_read(&config, stdin, &line)) {
		fprintf(stderr, "line %u\n", line);
		return 1;
	}
	if (config.memory)
		printf("memory %" PRIu64 "\n", config.memory);
	for (unsigned int i = 0; i < config.link_count; i++)
		printf("link %s %" PRIu64 " %" PRIu64 "\n", config.links[i].name, config.links[i].link.rate,
		       config.links[i].link.cost);
	for (unsigned int i = 0; i < config.disk_count; i++)
		show_disk(&config, i);
	for (unsigned int i = 0; i < config.backstore_count; i++)
		show_path(&config, &config.backstores[i]);
	return 0;
}
