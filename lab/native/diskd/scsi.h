/* SPDX-License-Identifier: GPL-2.0-only */
/* A disk's answers to SCSI commands: pure functions of the command block. */
#ifndef DISKD_SCSI_H
#define DISKD_SCSI_H

#include <stddef.h>
#include <stdint.h>

#define SCSI_BLOCK 512u
#define SCSI_REPLY_MAX 64
#define SCSI_SENSE_LENGTH 18
#define SCSI_SERIAL_MAX 20

enum scsi_kind {
	SCSI_REPLY, /* answer at once with reply[] */
	SCSI_READ,
	SCSI_WRITE,
	SCSI_FLUSH, /* done when all before it is done */
	SCSI_CHECK, /* fail at once with sense[] */
};

struct scsi_identity {
	uint64_t blocks;
	uint64_t wwn; /* NAA, as in VPD 0x83 */
	char serial[SCSI_SERIAL_MAX + 1];
};

struct scsi_command {
	enum scsi_kind kind;
	uint64_t offset, length; /* bytes of the disk */
	uint32_t reply_length;
	uint8_t reply[SCSI_REPLY_MAX];
	uint8_t sense[SCSI_SENSE_LENGTH];
};

/* CDB_LENGTH bytes may be read at CDB; a longer command fails. */
void scsi_parse(const uint8_t *cdb, size_t cdb_length, const struct scsi_identity *identity,
		struct scsi_command *command);

/* Turn COMMAND into a failure: its transfer differs from the one in its CDB. */
void scsi_refuse_transfer(struct scsi_command *command);

#endif
