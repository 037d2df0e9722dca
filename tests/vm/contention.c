// SPDX-License-Identifier: GPL-2.0-only
/*
 * contention CPUS INCREMENTS LOCKED SLOW FILLER: a thread on each CPU; what they share is known beforehand.
 *
 * The cases follow one another in the order of RUN below. Each has its own page at SHARED + 4096 * case, begins turns
 * with begin_turns() and is a window between two calls of mark(). The loops are assembly, so that the number of
 * instructions and blocks of an iteration is known; a label at the head of a loop is a step.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SHARED 0x10000000ul
#define PAGE 4096ul
#define MOST 8

#define HELD_TURNS 20ul /* test_contention.py has it too */

#define FUNCTION(name) ".globl " #name "\n.type " #name ", @function\n" #name ":\n"

__asm__(".text\n"
    ".p2align 6\n"
    /* 3 instructions, 1 block */
    FUNCTION(increment)
    "	lock incq (%rdi)\n"
    "	decq %rsi\n"
    "	jnz increment\n"
    "	ret\n"
    FUNCTION(increment_plainly)
    "	incq (%rdi)\n"
    "	decq %rsi\n"
    "	jnz increment_plainly\n"
    "	ret\n"
    /* The prefix ds pads it, as the release of a spinlock since 7.3: no atomic. */
    FUNCTION(store)
    "	.byte 0x3e, 0x3e\n"
    "	movq %rsi, (%rdi)\n"
    "	decq %rsi\n"
    "	jnz store\n"
    "	ret\n"
    FUNCTION(load)
    "	movq (%rdi), %rax\n"
    "	decq %rsi\n"
    "	jnz load\n"
    "	ret\n"
    /* 2 * filler + 4 instructions */
    FUNCTION(increment_slowly)
    "	lock incq (%rdi)\n"
    "	movq %rdx, %rcx\n"
    "1:	decq %rcx\n"
    "	jnz 1b\n"
    "	decq %rsi\n"
    "	jnz increment_slowly\n"
    "	ret\n"
    /* From the instruction that takes the lock to the one that releases it: 2 * HELD_TURNS + 5. */
    FUNCTION(work_locked)
    "	call take\n"
    "	movq %rdx, %rcx\n"
    "1:	decq %rcx\n"
    "	jnz 1b\n"
    "	call release\n"
    "	decq %rsi\n"
    "	jnz work_locked\n"
    "	ret\n"
    /* The same without a function that releases, as kernels without preemption have it: 2 * HELD_TURNS + 4. */
    FUNCTION(work_locked_inline)
    "	call take\n"
    "	movq %rdx, %rcx\n"
    "1:	decq %rcx\n"
    "	jnz 1b\n"
    "	movb $0, (%rdi)\n"
    "	decq %rsi\n"
    "	jnz work_locked_inline\n"
    "	ret\n"
    /* As the kernel's queued spinlocks: a byte that is 1 when locked, and a pending bit for who waits. */
    FUNCTION(take)
    "	xorl %eax, %eax\n"
    "	movl $1, %r8d\n"
    "	lock cmpxchgl %r8d, (%rdi)\n"
    "	jne take_slowly\n"
    "	ret\n"
    FUNCTION(take_slowly)
    "1:	lock btsl $8, (%rdi)\n"
    "	jc 3f\n"
    "2:	pause\n"
    "	cmpb $0, (%rdi)\n"
    "	jne 2b\n"
    "	movw $1, (%rdi)\n"
    "	nop\n"
    "	ret\n"
    "3:	pause\n"
    "	jmp 1b\n"
    FUNCTION(release)
    "	movb $0, (%rdi)\n"
    "	ret\n"
    FUNCTION(begin_turns)
    "	movl $7, %eax\n"
    "	movl $8, %ecx\n"
    "	ret\n"
    FUNCTION(mark)
    "	movl $9, %eax\n"
    "	movl $10, %ecx\n"
    "	ret\n"
    FUNCTION(end_of_cases)
    "	ret\n");

typedef void body(void *at, unsigned long count, unsigned long more);

body increment, increment_plainly, store, load, increment_slowly, work_locked, work_locked_inline;
void begin_turns(void);
void mark(void);

static unsigned long cpus, increments, locked, slow, filler;
static struct {
	_Alignas(64) volatile unsigned long value;
} arrived, go, finished;

static void wait_for(volatile unsigned long *value, unsigned long wanted)
{
	while (*value < wanted)
		__builtin_ia32_pause();
}

static long tick(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_nsec;
}

/* QEMU shortens the turns before a timer expires: begin when the kernel's tick is over on all CPUs. */
static void wait_for_tick(void)
{
	for (long before = tick(); tick() == before;)
		;
	for (unsigned int i = 0; i < 100; i++)
		__builtin_ia32_pause();
}

static void run(unsigned long round, unsigned long cpu, body *loop, char *at, unsigned long count, unsigned long more)
{
	__atomic_add_fetch(&arrived.value, 1, __ATOMIC_SEQ_CST);
	if (!cpu) {
		wait_for(&arrived.value, (round + 1) * cpus);
		wait_for_tick();
		begin_turns();
		mark();
		go.value = round + 1;
	} else {
		wait_for(&go.value, round + 1);
	}
	loop(at, count, more);
	__atomic_add_fetch(&finished.value, 1, __ATOMIC_SEQ_CST);
	if (!cpu) {
		wait_for(&finished.value, (round + 1) * cpus);
		mark();
	}
}

#define RUN(loop, offset, count, more) run(round, cpu, loop, page + (offset), count, more), round++, page += PAGE

static void *work(void *number)
{
	unsigned long cpu = (unsigned long)number, round = 0;
	char *page = (char *)SHARED;
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET(cpu, &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		exit(2);
	RUN(increment, 0, increments, 0);
	RUN(increment_plainly, 8 * cpu, increments, 0);
	RUN(increment_plainly, 64 * cpu, increments, 0);
	RUN(cpu ? load : store, 0, increments, 0);
	RUN(work_locked, 0, locked, HELD_TURNS);
	RUN(work_locked_inline, 0, locked, HELD_TURNS);
	RUN(increment_slowly, 0, slow, filler);
	RUN(increment_plainly, 64 * (2 * cpu / cpus), increments, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST];
	void *shared = mmap((void *)SHARED, 8 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (argc != 6)
		return 1;
	cpus = strtoul(argv[1], NULL, 10);
	increments = strtoul(argv[2], NULL, 10);
	locked = strtoul(argv[3], NULL, 10);
	slow = strtoul(argv[4], NULL, 10);
	filler = strtoul(argv[5], NULL, 10);
	if (shared != (void *)SHARED || !cpus || cpus > MOST)
		return 1;
	memset(shared, 0, 8 * PAGE);
	for (unsigned long cpu = 1; cpu < cpus; cpu++)
		if (pthread_create(&threads[cpu], NULL, work, (void *)cpu))
			return 1;
	work(NULL);
	for (unsigned long cpu = 1; cpu < cpus; cpu++)
		pthread_join(threads[cpu], NULL);
	return 0;
}
