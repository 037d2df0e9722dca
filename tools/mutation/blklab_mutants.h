/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_BLKLAB_MUTANTS_H
#define _LINUX_BLKLAB_MUTANTS_H
#include <linux/compiler.h>
#include <linux/types.h>
extern int blklab_mutant;
extern u8 blklab_reached[];
/* 1 if mutant n is selected, else 0: opaque, so that gcc makes no path of its own for either. */
#define blklab_is(n) ({ \
	int __is = blklab_mutant == (n); \
	blklab_reached[n] = 1; \
	OPTIMIZER_HIDE_VAR(__is); \
	__is; })
/* The condition, inverted if mutant n is selected. Dead code of a constant one may call what is not linked. */
#define blklab_not(n, condition) ({ 	int __cond = !!(condition); 	__builtin_constant_p(__cond) ? __cond : __cond ^ blklab_is(n); })
#endif
