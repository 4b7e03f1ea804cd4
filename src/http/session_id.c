/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that tell when they were made: UUIDs of version 7 (RFC 9562, section 5.7). */
#include "http/session_id.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

enum {
	TIME_BYTES = 6,
	UUID_BYTES = 16,
};

void session_id_make(char dst[SESSION_ID_SIZE])
{
	uint64_t ms = (uint64_t)clock_real_ms();
	uint8_t uuid[UUID_BYTES];
	char hex[2 * UUID_BYTES + 1];

	randombytes_buf(uuid, sizeof(uuid));
	for (int i = 0; i < TIME_BYTES; i++)
		uuid[i] = (uint8_t)(ms >> (8 * (TIME_BYTES - 1 - i)));
	uuid[6] = (uint8_t)(0x70 | (uuid[6] & 0x0F));
	uuid[8] = (uint8_t)(0x80 | (uuid[8] & 0x3F));
	str_hex(hex, uuid, sizeof(uuid));
	(void)snprintf(dst, SESSION_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
		hex + 16, hex + 20);
}

int session_id_time(const char *id, int64_t *ret_ms)
{
	uint8_t uuid[UUID_BYTES];
	int64_t ms = 0;
	size_t len;

	if (strlen(id) != SESSION_ID_SIZE - 1 ||
		sodium_hex2bin(uuid, sizeof(uuid), id, strlen(id), "-", &len, NULL) != 0 ||
		len != sizeof(uuid) || uuid[6] >> 4 != 7)
		return -EINVAL;
	for (int i = 0; i < TIME_BYTES; i++)
		ms = ms << 8 | uuid[i];
	*ret_ms = ms;
	return 0;
}
