// SPDX-License-Identifier: GPL-2.0-only
/*
 * A lock is taken by the locked instruction of a function that takes locks, and released by the write of one that
 * releases them (asm-generic/qspinlock.h, asm-generic/qrwlock.h, kernel/locking/mutex.c). Without preemption the kernel
 * has the release of spinlocks and rwlocks in the function that holds the lock (kernel/Kconfig.locks).
 *
 * Mutexes and readers that had to wait are counted as contended, but not how long they hold the lock then.
 */
#include "locks.h"
#include "profile/memory.h"

#include <inttypes.h>
#include <string.h>

#define BUCKETS (1u << 12)
#define WRITERS 0x1ffu /* of a rwlock: a writer has it or waits for it */
#define READER 0x200u
#define LOCKED 0xffu /* of a spinlock: 1 when it is held; of a rwlock: all ones when a writer holds it */

struct lock {
	uint64_t address;
	uint8_t users; /* bit mask of CPUs */
	uint64_t taken, contended, held, longest;
	struct lock *next;
};

static struct lock *buckets[BUCKETS];

static struct lock *lock_at(uint64_t address)
{
	struct lock **place = &buckets[(address * 0x9e3779b97f4a7c15u) >> 52], *lock;

	for (lock = *place; lock; lock = lock->next)
		if (lock->address == address)
			return lock;
	lock = taken(sizeof(*lock));
	lock->address = address;
	lock->next = *place;
	*place = lock;
	return lock;
}

static void hold(const struct access *access, struct lock *lock)
{
	struct cpu *cpu = access->cpu;

	cpu->waits_for = 0;
	/* Another CPU can release a mutex: entries that nothing removes must not keep out later ones. */
	if (cpu->held_count == MOST_HELD)
		memmove(cpu->held, cpu->held + 1, --cpu->held_count * sizeof(*cpu->held));
	cpu->held[cpu->held_count++] = (struct held){ lock, access->at };
}

static void take(const struct access *access, bool free)
{
	struct lock *lock = lock_at(access->virtual);

	if (!free && access->by->kind == TRY_LOCK)
		return;
	lock->users |= (uint8_t)(1u << access->cpu->number);
	lock->taken++;
	access->cpu->taken++;
	if (free) {
		hold(access, lock);
	} else {
		lock->contended++;
		access->cpu->waits_for = access->virtual;
	}
}

static void release(const struct access *access)
{
	struct cpu *cpu = access->cpu;

	for (unsigned int i = cpu->held_count; i--;) {
		struct lock *lock = cpu->held[i].lock;
		uint64_t length = access->at - cpu->held[i].since;

		if (lock->address != access->virtual)
			continue;
		lock->held += length;
		cpu->held_instructions += length;
		if (length > lock->longest)
			lock->longest = length;
		cpu->held_count--;
		for (; i < cpu->held_count; i++)
			cpu->held[i] = cpu->held[i + 1];
		return;
	}
}

/* Whether a write to a lock that is held releases it, in any function. */
static bool releases(const struct access *access, uint64_t read, uint64_t value)
{
	if (access->by->locked)
		return (uint32_t)(read - value) == READER;
	return access->size == 1 && !value;
}

void locks_write_seen(const struct access *access, uint64_t read, uint64_t value)
{
	switch (access->by->kind) {
	case LOCK:
	case TRY_LOCK:
		if (access->by->locked)
			take(access, !read);
		break;
	case READ_LOCK:
		if (access->by->locked)
			take(access, !(read & WRITERS));
		break;
	case LOCK_SLOWLY:
		/* Who waits first marks the lock as pending, and fails to take it, with instructions that write too. */
		if (access->virtual == access->cpu->waits_for && value & LOCKED &&
		    !(access->by->locked && read & LOCKED))
			hold(access, lock_at(access->virtual));
		break;
	case UNLOCK:
		release(access);
		break;
	default:
		if (releases(access, read, value))
			release(access);
	}
}

void locks_clear(void)
{
	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++)
		for (struct lock *lock = buckets[bucket]; lock; lock = lock->next)
			*lock = (struct lock){ .address = lock->address, .next = lock->next };
}

void locks_write(FILE *file)
{
	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++)
		for (const struct lock *lock = buckets[bucket]; lock; lock = lock->next)
			if (lock->taken)
				fprintf(file, "lock %" PRIx64 " %x %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
					lock->address, lock->users, lock->taken, lock->contended, lock->held, lock->longest);
}
