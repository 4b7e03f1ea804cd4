/* SPDX-License-Identifier: Apache-2.0 */
/* What listens in this guest, as the kernel tells it in /proc/net/tcp and tcp6 (proc(5)). */
#include "ports.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"
#include "file_io.h"

enum {
	ROW_BYTES = 512,   /* a row has 150 */
	LISTED_MAX = 4096, /* all of them, as text, fit a frame */
};

/* Addresses on which a connection to the loopback arrives: any, and the loopback, in the order of a little-endian
 * kernel's bytes; of IPv6 also those of IPv4 in it. */
static const char *const reachable[] = {
	"00000000",
	"0100007F",
	"00000000000000000000000000000000",
	"00000000000000000000000001000000",
	"0000000000000000FFFF000000000000",
	"0000000000000000FFFF00000100007F",
};

static bool is_reachable(const char *address)
{
	for (size_t i = 0; i < ARRAY_SIZE(reachable); i++) {
		if (strcmp(reachable[i], address) == 0)
			return true;
	}
	return false;
}

/* "  0: 0100007F:1F90 00000000:0000 0A …": number, own address, the other's, state. */
static void scan_row(char *row, struct port_set *set)
{
	static const char listening[] = "0A"; /* TCP_LISTEN */
	char *fields[4] = {0}, *rest = NULL, *port;
	uint64_t number;

	fields[0] = strtok_r(row, " ", &rest);
	for (size_t i = 1; i < ARRAY_SIZE(fields) && fields[i - 1]; i++)
		fields[i] = strtok_r(NULL, " ", &rest);
	if (!fields[3] || strcmp(fields[3], listening) != 0)
		return;
	port = strchr(fields[1], ':');
	if (!port)
		return;
	*port++ = '\0';
	if (is_reachable(fields[1]) && parse_hex(port, 1, UINT16_MAX, &number) == 0)
		set->bits[number / 8] |= (uint8_t)(1U << number % 8);
}

void ports_scan(FILE *f, struct port_set *set)
{
	char row[ROW_BYTES];

	while (fgets(row, sizeof(row), f))
		scan_row(row, set);
}

void ports_list(struct agent *agent, struct stream *s, const json_t *request)
{
	static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
	struct port_set set = {0};
	json_t *list = json_array();

	(void)agent;
	(void)request;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		FILE *f = file_open_text(files[i]);

		if (!f)
			continue; /* tcp6 is missing where there is no IPv6 */
		ports_scan(f, &set);
		(void)fclose(f);
	}
	for (unsigned int port = 1; port <= UINT16_MAX; port++) {
		if ((set.bits[port / 8] & 1U << port % 8) && json_array_size(list) < LISTED_MAX)
			(void)json_array_append_new(list, json_integer(port));
	}
	stream_close(s, json_pack("{so}", "ports", list));
}
