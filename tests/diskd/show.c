// SPDX-License-Identifier: GPL-2.0-only
/*
 * show [OFFSET LENGTH]: the model on standard input as it was understood, in the language that it was written in,
 * and the pieces of a transfer on its first backstore.
 */
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
	if (model->look_ahead)
		printf(" look_ahead=%" PRIu64, model->look_ahead);
	if (model->coalesce > 1)
		printf(" coalesce=%" PRIu64, model->coalesce);
	if (model->lane_count)
		printf(" buffer=%" PRIu64, model->lane_count);
	for (unsigned int i = 1; i < model->zone_count; i++)
		printf(" zone=%" PRIu64 ":%" PRIu64, model->zones[i].from, model->zones[i].rate);
	putchar('\n');
}

static void show_links(const struct config *config, const struct extent *extent)
{
	for (int i = 0; i < MODEL_PATH && extent->links[i]; i++)
		for (unsigned int l = 0; l < config->link_count; l++)
			if (&config->links[l].link == extent->links[i])
				printf(" %s", config->links[l].name);
	putchar('\n');
}

static void show_path(const struct config *config, const struct backstore *path)
{
	printf("backstore %s %s %s %" PRIx64, path->name, config->disks[path->extents[0].disk].name,
	       path->identity.serial, path->identity.wwn);
	show_links(config, &path->extents[0]);
	for (unsigned int i = 1; i < path->extent_count; i++) {
		printf("more %s", config->disks[path->extents[i].disk].name);
		show_links(config, &path->extents[i]);
	}
}

static void show_pieces(const struct config *config, uint64_t offset, uint64_t left)
{
	struct piece piece;

	do {
		piece = config_piece(config, &config->backstores[0], offset, left);
		printf("piece %s %" PRIu64 " %" PRIu64 "\n", config->disks[piece.on->disk].name, piece.at, piece.bytes);
		offset += piece.bytes;
		left -= piece.bytes;
	} while (left);
}

int main(int argc, char **argv)
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
	if (argc == 3)
		show_pieces(&config, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
	return 0;
}
