/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters of the disks as JSON: {"time": ns, "disks": {...}, "links": {...}, "paths": {...}}.
 *
 *   disks  busy, waited (ns), requests, writes, bytes, seeks, queued (ns x requests)
 *   links  busy (ns), requests, bytes
 *   paths  requests, bytes, queued (ns x commands), most (in flight at once since the last reading)
 *
 * A disk is busy while it has a request; it waits while its links delay its transfer. All but "most" are counted from
 * the start.
 */
#ifndef DISKD_COUNTERS_H
#define DISKD_COUNTERS_H

#include "config.h"

void counters_write(struct config *config, const struct model *model, FILE *file, uint64_t now);

#endif
