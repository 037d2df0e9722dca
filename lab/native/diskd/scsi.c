// SPDX-License-Identifier: GPL-2.0-only
/* Formats and codes are those of SPC-4 and SBC-3. */
#include "scsi.h"

#include <string.h>

enum {
	TEST_UNIT_READY = 0x00,
	READ_6 = 0x08,
	WRITE_6 = 0x0a,
	INQUIRY = 0x12,
	MODE_SENSE_6 = 0x1a,
	READ_CAPACITY_10 = 0x25,
	READ_10 = 0x28,
	WRITE_10 = 0x2a,
	SYNCHRONIZE_CACHE_10 = 0x35,
	MODE_SENSE_10 = 0x5a,
	READ_16 = 0x88,
	WRITE_16 = 0x8a,
	SYNCHRONIZE_CACHE_16 = 0x91,
	SERVICE_ACTION_IN_16 = 0x9e,
	REPORT_LUNS = 0xa0,
	READ_12 = 0xa8,
	WRITE_12 = 0xaa,
};

enum { READ_CAPACITY_16 = 0x10, CACHING_PAGE = 0x08, ALL_PAGES = 0x3f };
enum { ILLEGAL_REQUEST = 0x05, INVALID_OPCODE = 0x2000, LBA_OUT_OF_RANGE = 0x2100, INVALID_FIELD = 0x2400 };

static uint32_t get(const uint8_t *at, int bytes)
{
	uint32_t value = 0;

	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

static uint64_t get64(const uint8_t *at)
{
	return (uint64_t)get(at, 4) << 32 | get(at + 4, 4);
}

static void put(uint8_t *at, uint64_t value, int bytes)
{
	while (bytes--) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static void put_text(uint8_t *at, const char *text, size_t width)
{
	size_t length = strlen(text);

	memset(at, ' ', width);
	memcpy(at, text, length < width ? length : width);
}

static void check(struct scsi_command *command, unsigned int code)
{
	memset(command->sense, 0, sizeof(command->sense));
	command->kind = SCSI_CHECK;
	command->sense[0] = 0x70;
	command->sense[2] = ILLEGAL_REQUEST;
	command->sense[7] = SCSI_SENSE_LENGTH - 8;
	put(command->sense + 12, code, 2);
}

void scsi_refuse_transfer(struct scsi_command *command)
{
	check(command, INVALID_FIELD);
}

static void reply(struct scsi_command *command, uint32_t length, uint32_t allocated)
{
	command->kind = SCSI_REPLY;
	command->reply_length = length < allocated ? length : allocated;
}

static void standard_inquiry(struct scsi_command *command, uint32_t allocated)
{
	uint8_t *out = command->reply;

	out[2] = 0x06; /* SPC-4 */
	out[3] = 0x02;
	out[4] = 36 - 5;
	out[7] = 0x02; /* takes several commands */
	put_text(out + 8, "BLKLAB", 8);
	put_text(out + 16, "MODELLED DISK", 16);
	put_text(out + 32, "1", 4);
	reply(command, 36, allocated);
}

static void product_data(const uint8_t *cdb, const struct scsi_identity *identity, struct scsi_command *command)
{
	uint8_t *out = command->reply;
	size_t serial = strlen(identity->serial);
	uint32_t length;

	out[1] = cdb[2];
	switch (cdb[2]) {
	case 0x00:
		memcpy(out + 4, "\x00\x80\x83", 3);
		length = 3;
		break;
	case 0x80:
		memcpy(out + 4, identity->serial, serial);
		length = (uint32_t)serial;
		break;
	case 0x83:
		memcpy(out + 4, "\x01\x03\x00\x08", 4);
		put(out + 8, identity->wwn, 8);
		length = 12;
		break;
	default:
		check(command, INVALID_FIELD);
		return;
	}
	put(out + 2, length, 2);
	reply(command, length + 4, get(cdb + 3, 2));
}

static void inquiry(const uint8_t *cdb, const struct scsi_identity *identity, struct scsi_command *command)
{
	if (cdb[1] & 0x01)
		product_data(cdb, identity, command);
	else if (cdb[2])
		check(command, INVALID_FIELD);
	else
		standard_inquiry(command, get(cdb + 3, 2));
}

/* One page: caching, without a write-back cache. */
static void mode_sense(const uint8_t *cdb, struct scsi_command *command)
{
	int header = cdb[0] == MODE_SENSE_6 ? 4 : 8;
	uint32_t allocated = header == 4 ? cdb[4] : get(cdb + 7, 2);
	uint32_t length = (uint32_t)header + 20;
	uint8_t page = cdb[2] & 0x3f;

	if ((page != CACHING_PAGE && page != ALL_PAGES) || cdb[2] >> 6 == 1) {
		check(command, INVALID_FIELD);
		return;
	}
	command->reply[header] = CACHING_PAGE;
	command->reply[header + 1] = 18;
	if (header == 4)
		command->reply[0] = (uint8_t)(length - 1);
	else
		put(command->reply, length - 2, 2);
	reply(command, length, allocated);
}

static void capacity_10(const struct scsi_identity *identity, struct scsi_command *command)
{
	uint64_t last = identity->blocks - 1;

	put(command->reply, last > UINT32_MAX ? UINT32_MAX : last, 4);
	put(command->reply + 4, SCSI_BLOCK, 4);
	reply(command, 8, 8);
}

static void capacity_16(const uint8_t *cdb, const struct scsi_identity *identity, struct scsi_command *command)
{
	if ((cdb[1] & 0x1f) != READ_CAPACITY_16) {
		check(command, INVALID_OPCODE);
		return;
	}
	put(command->reply, identity->blocks - 1, 8);
	put(command->reply + 8, SCSI_BLOCK, 4);
	reply(command, 32, get(cdb + 10, 4));
}

static void transfer(const struct scsi_identity *identity, struct scsi_command *command, enum scsi_kind kind,
		     uint64_t lba, uint64_t blocks)
{
	if (lba > identity->blocks || blocks > identity->blocks - lba) {
		check(command, LBA_OUT_OF_RANGE);
		return;
	}
	command->kind = kind;
	command->offset = lba * SCSI_BLOCK;
	command->length = blocks * SCSI_BLOCK;
}

static size_t length_of(uint8_t opcode)
{
	static const uint8_t by_group[] = { 6, 10, 10, 0, 16, 12, 0, 0 };

	return by_group[opcode >> 5];
}

void scsi_parse(const uint8_t *cdb, size_t cdb_length, const struct scsi_identity *identity,
		struct scsi_command *command)
{
	memset(command, 0, sizeof(*command));
	if (!cdb_length || length_of(cdb[0]) == 0 || length_of(cdb[0]) > cdb_length) {
		check(command, INVALID_OPCODE);
		return;
	}
	switch (cdb[0]) {
	case TEST_UNIT_READY:
		reply(command, 0, 0);
		break;
	case INQUIRY:
		inquiry(cdb, identity, command);
		break;
	case MODE_SENSE_6:
	case MODE_SENSE_10:
		mode_sense(cdb, command);
		break;
	case READ_CAPACITY_10:
		capacity_10(identity, command);
		break;
	case SERVICE_ACTION_IN_16:
		capacity_16(cdb, identity, command);
		break;
	case REPORT_LUNS:
		put(command->reply, 8, 4); /* LUN 0 alone */
		reply(command, 16, get(cdb + 6, 4));
		break;
	case READ_6:
	case WRITE_6:
		transfer(identity, command, cdb[0] == READ_6 ? SCSI_READ : SCSI_WRITE, get(cdb + 1, 3) & 0x1fffff,
			 cdb[4] ? cdb[4] : 256);
		break;
	case READ_10:
	case WRITE_10:
		transfer(identity, command, cdb[0] == READ_10 ? SCSI_READ : SCSI_WRITE, get(cdb + 2, 4),
			 get(cdb + 7, 2));
		break;
	case READ_12:
	case WRITE_12:
		transfer(identity, command, cdb[0] == READ_12 ? SCSI_READ : SCSI_WRITE, get(cdb + 2, 4),
			 get(cdb + 6, 4));
		break;
	case READ_16:
	case WRITE_16:
		transfer(identity, command, cdb[0] == READ_16 ? SCSI_READ : SCSI_WRITE, get64(cdb + 2),
			 get(cdb + 10, 4));
		break;
	case SYNCHRONIZE_CACHE_10:
	case SYNCHRONIZE_CACHE_16:
		command->kind = SCSI_FLUSH;
		break;
	default:
		check(command, INVALID_OPCODE);
	}
}
