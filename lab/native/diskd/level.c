// SPDX-License-Identifier: GPL-2.0-only
#include "level.h"

uint64_t level_sum(const struct level *level, uint64_t now)
{
	return level->sum + (now > level->since ? level->held * (now - level->since) : 0);
}

void level_add(struct level *level, int change, uint64_t now)
{
	level->sum = level_sum(level, now);
	level->since = now;
	level->held += (uint64_t)(int64_t)change;
	if (level->held > level->most)
		level->most = level->held;
}
