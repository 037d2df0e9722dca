// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into QEMU: its main loop stands still while the virtual CPU executes.
 *
 * Under -icount sleep=off the main loop moves the virtual clock over idle time: it sees that every
 * CPU is halted and jumps to the next timer (icount_start_warp_timer, called from main_loop_wait).
 * But a CPU is marked as halted before the instructions that it has just executed are added to the
 * clock, and each timer that fires wakes the main loop (icount_notify_aio_contexts). A main loop
 * that looks in between jumps too far by those instructions, some nanoseconds, and the figures of two boots
 * differ in their last digits.
 *
 * The main loop is therefore held behind its poll until the CPU's thread waits for work, when all
 * that it executed has been added. QEMU itself wakes the main loop again at that moment. A signal
 * that asks QEMU to end releases it.
 *
 * Found with QEMU 7.2.22, where 3 of 16 boots of one cell differed on a busy host and 0 of 46 did
 * with this library. 8.2.2 and 10.0.13 boot with it and repeat themselves.
 *
 * The host's monotonic clock stands still for both threads. A timer of that clock limits what the CPU executes
 * (icount_get_limit), so that its turn would end at a chance moment, and once it has expired the CPU executes nothing
 * until the main loop runs it, which waits for the CPU. The announcement that a watchdog expired sets one, for 1 s
 * (monitor_qapi_event_conf): a busy guest stopped there for ever on QEMU 10.0.13.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The functions have an older version on x86-64, which dlsym would find first. */
#define COND_VERSION "GLIBC_2.3.2"

/*
 * The CPU's thread is the first one besides the main loop that waits for a condition: for the start of the machine,
 * with the big lock. Others follow when the machine is stopped and its state is saved (the migration's thread).
 */
static atomic_int cpu_thread;
static atomic_int cpu_waits;
static _Atomic(pthread_cond_t *) cpu_condition;
static _Atomic(pthread_mutex_t *) big_lock;
static atomic_bool ending;

static bool is_main_loop(void)
{
	return syscall(SYS_gettid) == getpid();
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*next)(clockid_t, struct timespec *);
	static struct timespec first;

	if (!next)
		next = dlsym(RTLD_NEXT, "clock_gettime");
	if (clock != CLOCK_MONOTONIC || (!is_main_loop() && syscall(SYS_gettid) != atomic_load(&cpu_thread)))
		return next(clock, now);
	if (!first.tv_sec && !first.tv_nsec)
		next(clock, &first);
	*now = first;
	return 0;
}

static bool is_cpu(void)
{
	int self = syscall(SYS_gettid), nobody = 0;

	return atomic_compare_exchange_strong(&cpu_thread, &nobody, self) || nobody == self;
}

static void *next_cond(const char *name)
{
	void *found = dlvsym(RTLD_NEXT, name, COND_VERSION);

	return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	static int (*next)(pthread_cond_t *, pthread_mutex_t *);
	int result;

	if (!next)
		next = next_cond("pthread_cond_wait");
	if (is_main_loop() || !is_cpu())
		return next(condition, mutex);
	if (!atomic_load(&big_lock))
		atomic_store(&big_lock, mutex);
	atomic_store(&cpu_condition, condition);
	atomic_store(&cpu_waits, 1);
	syscall(SYS_futex, &cpu_waits, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	result = next(condition, mutex);
	atomic_store(&cpu_waits, 0);
	return result;
}

/* The main loop wakes the CPU by this; from then on it may execute, even before it returns above. */
int pthread_cond_broadcast(pthread_cond_t *condition)
{
	static int (*next)(pthread_cond_t *);

	if (!next)
		next = next_cond("pthread_cond_broadcast");
	if (is_main_loop() && condition == atomic_load(&cpu_condition))
		atomic_store(&cpu_waits, 0);
	return next(condition);
}

/*
 * QEMU polls with its big lock held as well, when it drains its queues on the way out; the CPU could
 * never come to wait then. The lock is the one that the CPU's thread gives up in order to wait.
 */
static bool holds_lock(void)
{
	pthread_mutex_t *lock = atomic_load(&big_lock);

	return lock->__data.__owner == getpid();
}

/*
 * A CPU that never waits again must not keep QEMU from ending when it is told to. QEMU's own handler
 * leaves a note and wakes the main loop, which would be held before it could read the note.
 */
static void (*handlers[NSIG])(int, siginfo_t *, void *);

static void end(int number, siginfo_t *info, void *context)
{
	atomic_store(&ending, true);
	atomic_store(&cpu_waits, 1);
	syscall(SYS_futex, &cpu_waits, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	handlers[number](number, info, context);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);
	struct sigaction ours;

	if (!next)
		next = dlsym(RTLD_NEXT, "sigaction");
	if ((number != SIGTERM && number != SIGINT && number != SIGHUP) || !action || !(action->sa_flags & SA_SIGINFO))
		return next(number, action, old);
	handlers[number] = action->sa_sigaction;
	ours = *action;
	ours.sa_sigaction = end;
	return next(number, &ours, old);
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	static int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	int result, error;

	if (!next)
		next = dlsym(RTLD_NEXT, "ppoll");
	result = next(files, count, timeout, mask);
	error = errno;
	if (!is_main_loop() || !atomic_load(&big_lock) || holds_lock())
		return result;
	while (!atomic_load(&cpu_waits) && !atomic_load(&ending))
		syscall(SYS_futex, &cpu_waits, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	errno = error;
	return result;
}
