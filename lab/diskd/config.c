// SPDX-License-Identifier: GPL-2.0-only
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_LENGTH 512
#define MOST_WORDS (5 + MODEL_LINKS)

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

static bool read_link(struct config *config, char **words, int count)
{
	struct named_link *link = &config->links[config->link_count];

	return count == 4 && config->link_count++ < CONFIG_MOST && name(link->name, words[1]) &&
	       number(words[2], 10, 1, &link->link.rate) && number(words[3], 10, 0, &link->link.cost);
}

static bool read_disk(struct config *config, char **words, int count)
{
	struct named_disk *disk = &config->disks[config->disk_count];
	uint64_t rate, seek;

	if (count != 5 || config->disk_count == CONFIG_MOST || !name(disk->name, words[1]) ||
	    !number(words[2], 10, SCSI_BLOCK, &disk->size) || !number(words[3], 10, 1, &rate) ||
	    !number(words[4], 10, 0, &seek))
		return false;
	model_disk_init(&config->models[config->disk_count++], rate, seek);
	return true;
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

static bool read_backstore(struct config *config, char **words, int count)
{
	struct backstore *store = &config->backstores[config->backstore_count];

	if (count < 5 || config->backstore_count++ == CONFIG_MOST || !name(store->name, words[1]) ||
	    !find_disk(config, words[2], &store->disk) || strlen(words[3]) > SCSI_SERIAL_MAX ||
	    !number(words[4], 16, 1, &store->identity.wwn))
		return false;
	strcpy(store->identity.serial, words[3]);
	store->identity.blocks = config->disks[store->disk].size / SCSI_BLOCK;
	for (int i = 5; i < count; i++)
		if (!(store->links[i - 5] = find_link(config, words[i])))
			return false;
	return true;
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
	if (!strcmp(words[0], "link"))
		return read_link(config, words, count);
	if (!strcmp(words[0], "disk"))
		return read_disk(config, words, count);
	return !strcmp(words[0], "backstore") && read_backstore(config, words, count);
}

bool config_read(struct config *config, FILE *file, unsigned int *line)
{
	char text[LINE_MAX_LENGTH];

	memset(config, 0, sizeof(*config));
	for (*line = 1; fgets(text, sizeof(text), file); ++*line)
		if (!read_line(config, text))
			return false;
	return config->backstore_count > 0;
}
