// SPDX-License-Identifier: GPL-2.0-only
#include "series.h"

#include <inttypes.h>
#include <stdbool.h>

void series_add(struct series *series, uint64_t value, uint64_t tick, uint64_t ticks)
{
	uint64_t part = tick * SERIES_PARTS / ticks;

	series->count++;
	series->sum += value;
	if (value > series->max)
		series->max = value;
	if (value > SERIES_VALUES)
		series->larger++;
	else
		series->histogram[value]++;
	series->part_sum[part] += value;
	series->part_count[part]++;
}

static void write_histogram(const struct series *series, FILE *file)
{
	const char *between = "";

	for (unsigned int value = 0; value <= SERIES_VALUES; value++) {
		if (!series->histogram[value])
			continue;
		fprintf(file, "%s\"%u\": %" PRIu32, between, value, series->histogram[value]);
		between = ", ";
	}
}

static void write_parts(const struct series *series, FILE *file)
{
	for (int part = 0; part < SERIES_PARTS; part++) {
		fputs(part ? ", " : "", file);
		if (series->part_count[part])
			fprintf(file, "%.3f", (double)series->part_sum[part] / series->part_count[part]);
		else
			fputs("null", file);
	}
}

void series_write(const struct series *series, FILE *file)
{
	fprintf(file,
		"{\"count\": %" PRIu64 ", \"sum\": %" PRIu64 ", \"max\": %" PRIu64 ", \"larger\": %" PRIu64
		", \"histogram\": {",
		series->count, series->sum, series->max, series->larger);
	write_histogram(series, file);
	fputs("}, \"parts\": [", file);
	write_parts(series, file);
	fputs("]}", file);
}

int64_t series_parse(const char *text)
{
	int64_t sum = 0;
	bool any = false;

	for (;;) {
		int64_t value = 0;

		while (*text == ' ' || *text == '\t' || *text == '\n')
			text++;
		if (!*text)
			return any ? sum : -1;
		if (*text < '0' || *text > '9')
			return -1;
		for (; *text >= '0' && *text <= '9'; text++)
			if ((value = value * 10 + (*text - '0')) > INT32_MAX)
				return -1;
		sum += value;
		any = true;
	}
}
