/* SPDX-License-Identifier: GPL-2.0-only */
/* A count over time: its integral and its maximum. */
#ifndef DISKD_LEVEL_H
#define DISKD_LEVEL_H

#include <stdint.h>

/* SUM is the integral up to SINCE, in ns; MOST is the maximum of HELD. */
struct level {
	uint64_t held, most, sum, since;
};

void level_add(struct level *level, int change, uint64_t now);
uint64_t level_sum(const struct level *level, uint64_t now);

#endif
