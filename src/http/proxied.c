/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are for a server in a sandbox. */
#include "http/proxied.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"
#include "base/str.h"

enum {
	ID_CHARS = 36, /* a UUID */
	PORT_DIGITS_MAX = 5,
};

/* Behind a prefix and one segment; 0 where the target begins otherwise. */
static size_t skip(const char *target, size_t at, const char *prefix)
{
	size_t len = strlen(prefix), segment;

	if (strncmp(target + at, prefix, len) != 0)
		return 0;
	segment = strcspn(target + at + len, "/?");
	return segment ? at + len + segment : 0;
}

static bool find_by_path(const char *target, struct proxied *ret)
{
	size_t len = skip(target, 0, "/v1/sandboxes/");

	if (len)
		len = skip(target, len, "/proxy/");
	if (!len)
		len = skip(target, 0, "/v1/p/");
	if (!len)
		return false;
	*ret = (struct proxied){.route = strndup(target, len), .prefix_len = len};
	return ret->route;
}

/* The host's first label, in lower case: names are the same in any. */
static bool find_by_host(const char *host, struct proxied *ret)
{
	char label[PORT_DIGITS_MAX + 1 + ID_CHARS + 1], *id;
	size_t len = strcspn(host, ".");
	uint64_t port;

	if (host[len] != '.' || len >= sizeof(label))
		return false;
	for (size_t i = 0; i < len; i++)
		label[i] = (char)tolower((unsigned char)host[i]);
	label[len] = '\0';
	id = strchr(label, '-');
	if (!id)
		return false;
	*id++ = '\0';
	if (label[0] == '0' || parse_u64(label, 1, UINT16_MAX, &port) < 0 ||
		strlen(id) != ID_CHARS || id[strspn(id, "0123456789abcdef-")])
		return false;
	*ret = (struct proxied){.by_host = true};
	return asprintf(&ret->route, "/v1/sandboxes/%s/proxy/%s", id, label) > 0;
}

bool proxied_find(const char *host, const char *target, struct proxied *ret)
{
	return (host && find_by_host(host, ret)) || find_by_path(target, ret);
}
