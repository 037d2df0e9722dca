// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two counts for each line and CPU:
 *
 *   moves   with caches that hold everything, at the order in which the CPUs execute here: a read of a line that
 *           another CPU has written since the reader's last access, a write to a line that another CPU has
 *   steps   in how many steps (struct cpu) the CPU read the line, and in how many it wrote it; they do not depend on
 *           how long each CPU executes before the next one
 *
 * An instruction that reads and writes the same line is a write. Accesses of an instruction to a second line, by a
 * value that crosses its end, are not counted.
 */
#include "lines.h"
#include "profile/memory.h"

#include <inttypes.h>
#include <string.h>

#define LINE_SHIFT 6
#define PAGE_SHIFT 12
#define LINES_PER_PAGE (1u << (PAGE_SHIFT - LINE_SHIFT))
#define BUCKETS (1u << 16)

enum way { READ, WRITE, WAYS };

struct user {
	unsigned int last[WAYS]; /* step, counted from 1 */
	uint64_t steps[WAYS], moves[WAYS], bytes[WAYS];
};

struct accessor {
	const struct instruction *by;
	struct cpu *cpu;
	uint64_t count[WAYS], moves[WAYS], bytes;
	struct accessor *next;
};

struct line {
	uint64_t virtual;
	uint8_t users, holders; /* bit masks of CPUs: in the window; with a valid copy */
	bool written;
	struct user *user[MOST_CPUS];
	struct accessor *accessors;
};

struct page {
	uint64_t number;
	struct line *lines[LINES_PER_PAGE];
	struct page *next;
};

static struct page *buckets[BUCKETS];

static struct page *page_of(uint64_t physical)
{
	static struct page *last;
	uint64_t number = physical >> PAGE_SHIFT;
	struct page **place = &buckets[(number * 0x9e3779b97f4a7c15u) >> 48];

	if (last && last->number == number)
		return last;
	for (last = *place; last; last = last->next)
		if (last->number == number)
			return last;
	last = taken(sizeof(*last));
	last->number = number;
	last->next = *place;
	*place = last;
	return last;
}

static struct line *line_of(const struct access *access)
{
	struct line **line = &page_of(access->physical)->lines[access->physical >> LINE_SHIFT & (LINES_PER_PAGE - 1)];

	if (!*line)
		*line = taken(sizeof(**line));
	if (!(*line)->users)
		(*line)->virtual = access->virtual & ~(((uint64_t)1 << LINE_SHIFT) - 1);
	return *line;
}

static void note_accessor(struct line *line, const struct access *access, enum way way, bool moved, uint64_t bytes)
{
	struct accessor **place = &line->accessors, *found;

	while ((found = *place) && (found->by != access->by || found->cpu != access->cpu))
		place = &found->next;
	if (found)
		*place = found->next;
	else
		found = taken(sizeof(*found));
	found->by = access->by;
	found->cpu = access->cpu;
	found->next = line->accessors;
	line->accessors = found;
	found->count[way]++;
	found->moves[way] += moved;
	found->bytes |= bytes;
}

static uint64_t bytes_of(const struct access *access)
{
	unsigned int offset = access->physical & ((1u << LINE_SHIFT) - 1);
	uint64_t mask = access->size < 64 ? ((uint64_t)1 << access->size) - 1 : ~(uint64_t)0;

	return mask << offset;
}

void lines_access(const struct access *access)
{
	struct line *line = line_of(access);
	unsigned int number = access->cpu->number;
	uint8_t own = (uint8_t)(1u << number), others = line->holders & (uint8_t)~own;
	enum way way = access->write ? WRITE : READ;
	bool moved = access->write ? others : line->written && !(line->holders & own);
	uint64_t bytes = bytes_of(access);
	struct user *user = line->user[number];

	if (!user)
		user = line->user[number] = taken(sizeof(*user));
	line->written |= access->write;
	line->holders = access->write ? own : line->holders | own;
	line->users |= own;
	if (user->last[way] != access->cpu->step + 1) {
		user->last[way] = access->cpu->step + 1;
		user->steps[way]++;
	}
	user->moves[way] += moved;
	user->bytes[way] |= bytes;
	if (line->users & (uint8_t)~own)
		note_accessor(line, access, way, moved, bytes);
}

static void each_line(void (*visit)(struct line *line, uint64_t number, FILE *file), FILE *file)
{
	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++)
		for (struct page *page = buckets[bucket]; page; page = page->next)
			for (unsigned int i = 0; i < LINES_PER_PAGE; i++)
				if (page->lines[i] && page->lines[i]->users)
					visit(page->lines[i], page->number << (PAGE_SHIFT - LINE_SHIFT) | i, file);
}

static void clear_line(struct line *line, uint64_t number, FILE *file)
{
	(void)number;
	(void)file;
	for (unsigned int i = 0; i < MOST_CPUS; i++)
		if (line->user[i])
			*line->user[i] = (struct user){ 0 };
	for (struct accessor *accessor = line->accessors; accessor; accessor = accessor->next)
		*accessor = (struct accessor){ .by = accessor->by, .cpu = accessor->cpu, .next = accessor->next };
	line->users = line->holders = 0;
	line->written = false;
}

void lines_clear(void)
{
	each_line(clear_line, NULL);
}

static void write_line(struct line *line, uint64_t number, FILE *file)
{
	if (!line->written || !(line->users & (line->users - 1)))
		return;
	fprintf(file, "line %" PRIx64 " %" PRIx64 "\n", number << LINE_SHIFT, line->virtual);
	for (unsigned int i = 0; i < MOST_CPUS; i++) {
		const struct user *user = line->user[i];

		if (user && (line->users >> i & 1))
			fprintf(file, "user %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIx64 " %" PRIx64 "\n", i,
				user->steps[READ], user->steps[WRITE], user->moves[READ], user->moves[WRITE],
				user->bytes[READ], user->bytes[WRITE]);
	}
	for (const struct accessor *accessor = line->accessors; accessor; accessor = accessor->next)
		if (accessor->count[READ] || accessor->count[WRITE])
			fprintf(file, "by %" PRIx64 " %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIx64 "\n",
				accessor->by->address, accessor->cpu->number, accessor->count[READ], accessor->count[WRITE],
				accessor->moves[READ], accessor->moves[WRITE], accessor->bytes);
}

void lines_write(FILE *file)
{
	each_line(write_line, file);
}
