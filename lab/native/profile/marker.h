/* SPDX-License-Identifier: GPL-2.0-only */
/* The user function that marks both ends of a window, and the window's file: marker=ADDRESS, bytes=HEX, output=PREFIX. */
#ifndef PROFILE_MARKER_H
#define PROFILE_MARKER_H

#include "qemu_api.h"

#include <stdbool.h>
#include <stdio.h>

#define MARKER_MAX 32

/* A function of a program, by its address and its first instructions. */
struct marker {
	uint64_t address;
	uint8_t bytes[MARKER_MAX];
	size_t size;
};

/* Read an argument that begins with ADDRESS or with BYTES; false for another one. */
bool marker_read(struct marker *marker, const char *argument, const char *address, const char *bytes);

/* Whether this block of user space begins with the marker's function. */
bool marker_begins(const struct marker *marker, const struct qemu_plugin_tb *tb);

/* Whether the argument was one of the marker's, and is kept. */
bool marker_argument(const char *argument);

bool marker_is_set(void);

/* Whether this block of user space begins with the marker. */
bool is_marker(const struct qemu_plugin_tb *tb);

/* The marker is executed: whether a window begins; otherwise it ends. */
bool window_begins(void);

/* The file of the window that ends: PREFIX.N, counted from 0. */
FILE *window_open(void);
void window_close(FILE *file);

/* Copy at most ROOM bytes of the instruction; their number. */
size_t copy_bytes(const struct qemu_plugin_insn *insn, uint8_t *to, size_t room);

#endif
