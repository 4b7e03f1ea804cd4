/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: nothing that was not signed is accepted; a line of a host and a target find the port that they are for. */
#include <sodium.h>
#include <stdint.h>
#include <string.h>

#include "http/preview.h"
#include "http/proxied.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct preview_key key = {{1}};
	_cleanup_free_ char *text = strndup((const char *)data, size);
	_cleanup_preview_ struct preview p = {.paths = json_array()};
	struct preview none;
	struct proxied found;
	char *target = text, *host;

	if (preview_verify(&key, text, 0, &none, NULL) == 0)
		abort(); /* whoever finds one has broken HMAC-SHA-256 */
	host = strsep(&target, "\n");
	if (!target)
		target = host;
	if (proxied_find(host, target, &found)) {
		assert(found.prefix_len <= strlen(target));
		assert(strncmp(found.route, "/v1/", 4) == 0);
		assert(found.by_host == (found.prefix_len == 0));
		free(found.route);
	}
	json_array_append_new(p.paths, json_string("/app"));
	if (preview_allows(&p, target))
		assert(!strstr(target, "/../") || strchr(target, '?'));
	return 0;
}
