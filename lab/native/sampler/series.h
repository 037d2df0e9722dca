/* SPDX-License-Identifier: GPL-2.0-only */
/* Small numbers sampled over time: how many of each, and their mean in equal parts of the window. */
#ifndef SAMPLER_SERIES_H
#define SAMPLER_SERIES_H

#include <stdint.h>
#include <stdio.h>

#define SERIES_VALUES 4096 /* larger ones are counted together */
#define SERIES_PARTS 100

struct series {
	uint64_t count, sum, max, larger;
	uint32_t histogram[SERIES_VALUES + 1];
	uint64_t part_sum[SERIES_PARTS];
	uint32_t part_count[SERIES_PARTS];
};

/* The sample of tick TICK of TICKS, which there will be. */
void series_add(struct series *series, uint64_t value, uint64_t tick, uint64_t ticks);

/* {"count": , "sum": , "max": , "larger": , "histogram": {"VALUE": samples}, "parts": [mean or null]} */
void series_write(const struct series *series, FILE *file);

/* The sum of the numbers in TEXT, "3" or "3 4"; -1 where there is none. */
int64_t series_parse(const char *text);

#endif
