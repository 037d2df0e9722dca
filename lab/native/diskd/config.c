// SPDX-License-Identifier: GPL-2.0-only
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_LENGTH 2048
#define DISK_WORDS 5
#define PATH_WORDS 5
#define MORE_WORDS 2
#define MOST_WORDS (DISK_WORDS + 3 + MODEL_ZONES)

static bool number(const char *word, int base, uint64_t least, uint64_t *value)
{
	char *end;

	*value = strtoull(word, &end, base);
	return *word >= '0' && !*end && *value >= least;
}

static bool name(char *to, const char *word)
{
	if (strlen(word) > NAME_MAX_LENGTH)
		return false;
	strcpy(to, word);
	return true;
}

static bool read_memory(struct config *config, char **words, int count)
{
	return count == 2 && !config->memory && number(words[1], 10, 1, &config->memory);
}

static bool read_link(struct config *config, char **words, int count)
{
	struct named_link *link = &config->links[config->link_count];

	return count == 4 && config->link_count++ < CONFIG_MOST && name(link->name, words[1]) &&
	       number(words[2], 10, 1, &link->link.rate) && number(words[3], 10, 0, &link->link.cost);
}

static bool read_zone(struct model_disk *model, char *word)
{
	char *rate = word, *from = strsep(&rate, ":");
	uint64_t start, speed;

	return rate && number(from, 10, 1, &start) && number(rate, 10, 1, &speed) &&
	       model_disk_zone(model, start, speed);
}

static bool read_key(struct model_disk *model, char *word)
{
	char *value = word, *key = strsep(&value, "=");

	if (!value)
		return false;
	if (!strcmp(key, "rotation"))
		return !model->rotation && number(value, 10, 1, &model->rotation);
	if (!strcmp(key, "ncq"))
		return model->ncq == 1 && number(value, 10, 1, &model->ncq) && model->ncq <= CONFIG_NCQ;
	if (!strcmp(key, "look_ahead"))
		return !model->look_ahead && number(value, 10, 1, &model->look_ahead);
	if (!strcmp(key, "coalesce"))
		return model->coalesce == 1 && number(value, 10, 2, &model->coalesce);
	if (!strcmp(key, "buffer"))
		return !model->lane_count && number(value, 10, 2, &model->lane_count);
	return !strcmp(key, "zone") && read_zone(model, value);
}

static bool has_mechanics(const struct model_disk *model)
{
	return model->seek || model->rotation || model->ncq > 1 || model->look_ahead || model->zone_count > 1 ||
	       model->coalesce > 1;
}

/* The lanes of buffered disks follow the models of all disks. */
static bool lay_lanes(struct config *config)
{
	unsigned int count = config->disk_count;

	for (unsigned int i = 0; i < config->disk_count; i++) {
		struct model_disk *disk = &config->models[i];

		if (disk->lane_count > config->disk_count + CONFIG_LANES - count)
			return false;
		if (disk->lane_count)
			model_disk_buffer(disk, &config->models[count], disk->lane_count);
		count += (unsigned int)disk->lane_count;
	}
	config->model_count = count;
	return true;
}

static bool read_disk(struct config *config, char **words, int count)
{
	struct named_disk *disk = &config->disks[config->disk_count];
	struct model_disk *model = &config->models[config->disk_count];
	uint64_t rate, seek;

	if (count < DISK_WORDS || config->disk_count == CONFIG_MOST || !name(disk->name, words[1]) ||
	    !number(words[2], 10, SCSI_BLOCK, &disk->size) || !number(words[3], 10, 1, &rate) ||
	    !number(words[4], 10, 0, &seek))
		return false;
	model_disk_init(model, rate, seek);
	config->disk_count++;
	for (int i = DISK_WORDS; i < count; i++)
		if (!read_key(model, words[i]))
			return false;
	return !model->lane_count || !has_mechanics(model);
}

static struct model_link *find_link(struct config *config, const char *wanted)
{
	for (unsigned int i = 0; i < config->link_count; i++)
		if (!strcmp(config->links[i].name, wanted))
			return &config->links[i].link;
	return NULL;
}

static bool find_disk(const struct config *config, const char *wanted, unsigned int *found)
{
	for (*found = 0; *found < config->disk_count; ++*found)
		if (!strcmp(config->disks[*found].name, wanted))
			return true;
	return false;
}

static bool add_extent(struct config *config, struct backstore *store, const char *disk, char **links, int count)
{
	struct extent *extent = &store->extents[store->extent_count];

	if (store->extent_count == CONFIG_EXTENTS || count > MODEL_PATH || !find_disk(config, disk, &extent->disk))
		return false;
	for (int i = 0; i < count; i++)
		if (!(extent->links[i] = find_link(config, links[i])))
			return false;
	store->extent_count++;
	store->identity.blocks += config->disks[extent->disk].size / SCSI_BLOCK;
	return true;
}

static bool read_backstore(struct config *config, char **words, int count)
{
	struct backstore *store = &config->backstores[config->backstore_count];

	if (count < PATH_WORDS || config->backstore_count++ == CONFIG_MOST || !name(store->name, words[1]) ||
	    strlen(words[3]) > SCSI_SERIAL_MAX || !number(words[4], 16, 1, &store->identity.wwn))
		return false;
	strcpy(store->identity.serial, words[3]);
	return add_extent(config, store, words[2], words + PATH_WORDS, count - PATH_WORDS);
}

static bool read_more(struct config *config, char **words, int count)
{
	return count >= MORE_WORDS && config->backstore_count &&
	       add_extent(config, &config->backstores[config->backstore_count - 1], words[1], words + MORE_WORDS,
			  count - MORE_WORDS);
}

static bool read_line(struct config *config, char *text)
{
	char *words[MOST_WORDS], *rest = text, *word;
	int count = 0;

	while ((word = strsep(&rest, " \n"))) {
		if (!*word)
			continue;
		if (count == MOST_WORDS)
			return false;
		words[count++] = word;
	}
	if (!count)
		return true;
	if (!strcmp(words[0], "memory"))
		return read_memory(config, words, count);
	if (!strcmp(words[0], "link"))
		return read_link(config, words, count);
	if (!strcmp(words[0], "disk"))
		return read_disk(config, words, count);
	if (!strcmp(words[0], "more"))
		return read_more(config, words, count);
	return !strcmp(words[0], "backstore") && read_backstore(config, words, count);
}

bool config_read(struct config *config, FILE *file, unsigned int *line)
{
	char text[LINE_MAX_LENGTH];

	memset(config, 0, sizeof(*config));
	for (*line = 1; fgets(text, sizeof(text), file); ++*line)
		if (!read_line(config, text))
			return false;
	return config->backstore_count > 0 && lay_lanes(config);
}

struct piece config_piece(const struct config *config, const struct backstore *backstore, uint64_t offset,
			  uint64_t length)
{
	const struct extent *on = backstore->extents, *last = on + backstore->extent_count - 1;
	uint64_t left;

	while (on < last && offset >= config->disks[on->disk].size)
		offset -= config->disks[on++->disk].size;
	left = config->disks[on->disk].size - offset;
	return (struct piece){ .on = on, .at = offset, .bytes = length < left ? length : left };
}
