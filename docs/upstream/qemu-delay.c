// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into QEMU: a thread that leaves translated code by siglongjmp() (cpu_loop_exit: a halt, for example)
 * is delayed by 100 us, as if the host had given its processor to another process. Nothing else changes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <time.h>

__attribute__((noreturn)) static void delay(const char *name, sigjmp_buf environment, int value)
{
	struct timespec pause = { 0, 100000 };
	void (*next)(sigjmp_buf, int) = (void (*)(sigjmp_buf, int))dlsym(RTLD_NEXT, name);

	nanosleep(&pause, NULL);
	next(environment, value);
	__builtin_unreachable();
}

void siglongjmp(sigjmp_buf environment, int value)
{
	delay("siglongjmp", environment, value);
}

/* What siglongjmp() is with _FORTIFY_SOURCE. */
void __longjmp_chk(sigjmp_buf environment, int value)
{
	delay("__longjmp_chk", environment, value);
}
