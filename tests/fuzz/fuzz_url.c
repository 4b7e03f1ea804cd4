/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of requests: whatever is accepted is UTF-8, and the table of routes can be asked for it. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "http/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *target = strndup((const char *)data, size);
	const char *params[HTTP_PARAMS_MAX];
	char allow[ROUTE_ALLOW_SIZE];
	const struct route *route;
	struct url url;

	if (url_parse(target, &url, NULL) == 0) {
		for (size_t i = 0; i < url.n_segments; i++)
			assert(str_is_utf8(url.segments[i], strlen(url.segments[i])));
		for (size_t i = 0; i < url.n_query; i++)
			assert(url_query(&url, url.query[i].key));
		(void)route_find("GET", &url, &route, params, allow, NULL);
	}
	url_done(&url);
	return 0;
}
