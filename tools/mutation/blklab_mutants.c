// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blklab_mutants.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/string.h>

#define ROW 32

int blklab_mutant;
EXPORT_SYMBOL_GPL(blklab_mutant);
u8 blklab_reached[COUNT];
EXPORT_SYMBOL_GPL(blklab_reached);

static int blklab_select(const char *text, const struct kernel_param *kp)
{
	int number, at, ret = kstrtoint(text, 10, &number);
	u8 row[ROW];

	if (ret)
		return ret;
	if (number < 0 || number >= COUNT)
		return -EINVAL;
	WRITE_ONCE(blklab_mutant, number);
	if (number) {
		memset(blklab_reached, 0, COUNT);
		return 0;
	}
	for (at = 0; at < COUNT; at++) {
		if (at % (8 * ROW) == 0)
			memset(row, 0, ROW);
		row[at / 8 % ROW] |= blklab_reached[at] << at % 8;
		if (at % (8 * ROW) == 8 * ROW - 1)
			printk(KERN_DEBUG "REACHED%*phN\n", ROW, row);
	}
	return 0;
}

static const struct kernel_param_ops blklab_ops = { .set = blklab_select };
module_param_cb(number, &blklab_ops, NULL, 0200);
