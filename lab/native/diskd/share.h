/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Max-min fair speeds by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).
 *
 * A level rises for all flows alike: the share that a flow has of the time of its slowest link. A flow
 * is settled when it is as fast as alone, or when one of its links is full. So disks share a link's
 * time evenly whatever the sizes of their requests, as frames that take turns on a link do.
 */
#ifndef DISKD_SHARE_H
#define DISKD_SHARE_H

#include "disk.h"

/* Give every flow its speed from NOW on. */
void model_share(struct model *model, uint64_t now);

#endif
