/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Max-min fair speeds by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).
 *
 * A level rises equally for all flows: the share of a flow in the time of its slowest link. A flow is settled
 * when it is as fast as alone, or when one of its links is full. So disks share the time of a link evenly for
 * any request sizes, like frames that take turns on a link.
 */
#ifndef DISKD_SHARE_H
#define DISKD_SHARE_H

#include "disk.h"

/* Give every flow its speed from NOW on. */
void model_share(struct model *model, uint64_t now);

#endif
