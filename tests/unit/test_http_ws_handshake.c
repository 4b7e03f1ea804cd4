/* SPDX-License-Identifier: Apache-2.0 */
/* The opening handshake: the API key among the subprotocols. */
#include <string.h>

#include "http/ws_handshake.h"
#include "scratch.h"

static char *key_of(const char *upgrade, const char *protocol)
{
	_cleanup_buf_ struct buf headers = buf_init(1000);

	assert_int_equal(headers_add(&headers, "upgrade", 7, upgrade, strlen(upgrade)), 0);
	assert_int_equal(headers_add(&headers, "sec-websocket-protocol", 22, protocol,
				 strlen(protocol)),
		0);
	return ws_handshake_key(&headers);
}

static void test_key(void **state)
{
	static const struct {
		const char *upgrade, *protocol, *key;
	} cases[] = {
		{"websocket", "pds-pty, bearer.pds_1", "pds_1"},
		{"WebSocket", "bearer.pds_1,pds-pty", "pds_1"},
		{"websocket", "bearer.", ""},
		{"websocket", "pds-pty", NULL},
		{"websocket", "xbearer.pds_1, Bearer.pds_1", NULL},
		{"websocket", ",, \t,", NULL},
		{"h2c", "bearer.pds_1", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *key = key_of(cases[i].upgrade, cases[i].protocol);

		if (cases[i].key)
			assert_string_equal(key, cases[i].key);
		else
			assert_null(key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
