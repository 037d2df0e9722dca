// SPDX-License-Identifier: GPL-2.0-only
#include "ahead.h"

#define ROUNDING 1000 /* ns: rounding error of the sum of many transfers */

/* If the head waits at the run's end, it continues when that sector passes. */
static uint64_t goes_on(const struct model_disk *disk, uint64_t now)
{
	const struct model_run *run = &disk->run;

	if (run->since + model_disk_time(disk, run->from, run->end - run->from) > now)
		return 0;
	return now + (disk->rotation ? model_disk_turn(disk, run->end, now) : 0);
}

uint64_t ahead_until(const struct model_disk *disk, uint64_t at, uint64_t now)
{
	const struct model_run *run = &disk->run;
	uint64_t again = goes_on(disk, now), when;

	if (again && at > run->end)
		when = again + model_disk_time(disk, run->end, at - run->end);
	else
		when = at > run->from ? run->since + model_disk_time(disk, run->from, at - run->from) : now;
	return when > now ? when : now;
}

bool ahead_covers(const struct model_disk *disk, const struct model_job *job, uint64_t now)
{
	const struct model_run *run = &disk->run;

	return run->going && job->bytes && !job->write && job->at >= run->kept && job->at <= run->end &&
	       ahead_until(disk, job->at, now) - now <= model_disk_seek(disk, job->at, now) + ROUNDING;
}

void ahead_turn(struct model_disk *disk, const struct model_job *job, uint64_t now)
{
	struct model_run *run = &disk->run;
	uint64_t again, end = job->at + job->bytes + disk->look_ahead;

	if (!job->bytes)
		return;
	if (!ahead_covers(disk, job, now)) {
		run->going = false;
		return;
	}
	again = goes_on(disk, now);
	if (again && end > run->end) {
		run->from = run->end;
		run->since = again;
	}
	if (end > run->end)
		run->end = end;
	if (run->end - run->kept > 2 * disk->look_ahead)
		run->kept = run->end - 2 * disk->look_ahead;
}

void ahead_begin(struct model_disk *disk, const struct model_job *job, uint64_t now)
{
	disk->run = (struct model_run){
		.going = true,
		.kept = job->at,
		.from = job->at,
		.since = now,
		.end = job->at + job->bytes + disk->look_ahead,
	};
}
