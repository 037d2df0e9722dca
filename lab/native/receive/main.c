// SPDX-License-Identifier: GPL-2.0-only
/*
 * receive NAME: writes the file that the host has put under NAME into QEMU's fw_cfg device to standard output.
 *
 * Before it reads, it lets the watchdog of an ib700 device expire and sleeps. A QEMU with that device and the action
 * "pause" stops while the guest sleeps: a snapshot of it can be given any job. Without the device the write has no
 * effect. Reading fw_cfg takes no virtual time, so a job arrives at the same instant however the guest was started.
 *
 * Ports instead of the kernel's drivers: ib700wdt and qemu_fw_cfg are options that a kernel under test may lack.
 * Layouts: hw/watchdog/wdt_ib700.c and docs/specs/fw_cfg of QEMU.
 */
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <time.h>

#define WATCHDOG_ENABLE_PORT 0x443
#define WATCHDOG_NO_TIME 15
#define SELECTOR_PORT 0x510
#define DATA_PORT 0x511
#define FILE_DIRECTORY 0x19

struct file {
	uint32_t size;
	uint16_t selector;
	uint16_t reserved;
	char name[56];
};

static void take(void *into, size_t size)
{
	insb(DATA_PORT, into, size);
}

static int find(const char *name, struct file *file)
{
	uint32_t count;

	outw(FILE_DIRECTORY, SELECTOR_PORT);
	take(&count, sizeof(count));
	for (count = be32toh(count); count; count--) {
		take(file, sizeof(*file));
		if (!strncmp(file->name, name, sizeof(file->name)))
			return 0;
	}
	return -1;
}

int main(int argc, char **argv)
{
	static const struct timespec rest = { .tv_nsec = 20 * 1000 * 1000 };
	static char block[4096];
	struct file file;
	size_t left, part;

	if (argc != 2) {
		fputs("usage: receive NAME\n", stderr);
		return 2;
	}
	if (ioperm(WATCHDOG_ENABLE_PORT, 1, 1) || ioperm(SELECTOR_PORT, 2, 1)) {
		perror("receive: ioperm");
		return 1;
	}
	outb(WATCHDOG_NO_TIME, WATCHDOG_ENABLE_PORT);
	nanosleep(&rest, NULL);
	if (find(argv[1], &file)) {
		fprintf(stderr, "receive: the host gives no %s\n", argv[1]);
		return 1;
	}
	outw(be16toh(file.selector), SELECTOR_PORT);
	for (left = be32toh(file.size); left; left -= part) {
		part = left < sizeof(block) ? left : sizeof(block);
		take(block, part);
		if (fwrite(block, 1, part, stdout) != part)
			break;
	}
	if (fflush(stdout) || left) {
		perror("receive: standard output");
		return 1;
	}
	return 0;
}
