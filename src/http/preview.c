/* SPDX-License-Identifier: Apache-2.0 */
/* Links to a port of a sandbox: signed tokens. */
#include "http/preview.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "base/fs.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/url.h"

enum {
	FILE_MODE = 0600,
	/* All paths, with an escape for each byte and what stands between them, in base64. */
	TOKEN_BYTES_MAX = 2 * PREVIEW_PATHS_MAX * (6 * PREVIEW_PATH_BYTES_MAX + 8),
	VARIANT = sodium_base64_VARIANT_URLSAFE_NO_PADDING,
	MAC_BYTES = crypto_auth_hmacsha256_BYTES,
};

_Static_assert(PREVIEW_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "the key of an HMAC-SHA-256");

static int make_key(const char *path, struct preview_key *ret, struct err *err)
{
	randombytes_buf(ret->bytes, sizeof(ret->bytes));
	return fs_write_atomic(path, ret->bytes, sizeof(ret->bytes), FILE_MODE, err);
}

int preview_key_load(const char *path, struct preview_key *ret, struct err *err)
{
	_cleanup_free_ char *bytes = NULL;
	size_t len = 0;
	int r;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return make_key(path, ret, err);
	r = fs_read(path, PREVIEW_KEY_BYTES, &bytes, &len, err);
	if (r == -EFBIG || (r == 0 && len != PREVIEW_KEY_BYTES))
		return err_set(err, ERR_INTERNAL, -EBADMSG,
			"%s is no key of %d bytes: remove it, and links that were given out end",
			path, PREVIEW_KEY_BYTES);
	if (r < 0)
		return r;
	memcpy(ret->bytes, bytes, sizeof(ret->bytes));
	sodium_memzero(bytes, len);
	return 0;
}

void preview_done(struct preview *p)
{
	json_decref(p->paths);
	*p = (struct preview){0};
}

static char *encode(const void *data, size_t len)
{
	size_t size = sodium_base64_ENCODED_LEN(len, VARIANT);

	return sodium_bin2base64(xcalloc(1, size), size, data, len, VARIANT);
}

/* The mac of the characters, as text; to be freed. */
static char *sign(const struct preview_key *key, const char *payload, size_t len)
{
	uint8_t mac[MAC_BYTES];

	(void)crypto_auth_hmacsha256(mac, (const uint8_t *)payload, len, key->bytes);
	return encode(mac, sizeof(mac));
}

char *preview_sign(const struct preview_key *key, const struct preview *p)
{
	json_t *json = json_pack("{s:s, s:i, s:I, s:O}", "s", p->id, "p", (int)p->port, "e",
		(json_int_t)p->expires_s, "a", p->paths);
	_cleanup_free_ char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	_cleanup_free_ char *payload = NULL, *mac = NULL;
	char *token;

	json_decref(json);
	if (!text)
		return NULL;
	payload = encode(text, strlen(text));
	mac = sign(key, payload, strlen(payload));
	return asprintf(&token, "%s.%s", payload, mac) < 0 ? NULL : token;
}

static int err_invalid(struct err *err)
{
	return err_set(err, ERR_UNAUTHORIZED, -EACCES,
		"unauthorized: this link is not valid here; ask for a new one");
}

/* Reads what we wrote: its form was ours when it was signed. */
static int read_payload(const char *payload, size_t len, struct preview *ret)
{
	_cleanup_free_ uint8_t *text = xcalloc(1, len + 1);
	json_int_t port = 0, expires = 0;
	const char *id = "";
	json_t *json = NULL;
	size_t text_len;
	int r = -EACCES;

	if (sodium_base642bin(text, len, payload, len, NULL, &text_len, NULL, VARIANT) == 0)
		json = json_loadb((const char *)text, text_len, 0, NULL);
	if (json_unpack(json, "{s:s, s:I, s:I, s:O}", "s", &id, "p", &port, "e", &expires, "a",
		    &ret->paths) == 0 &&
		strlen(id) < sizeof(ret->id) && port >= 1 && port <= UINT16_MAX &&
		json_is_array(ret->paths)) {
		memcpy(ret->id, id, strlen(id) + 1);
		ret->port = (uint16_t)port;
		ret->expires_s = expires;
		r = 0;
	}
	json_decref(json);
	return r;
}

int preview_verify(const struct preview_key *key, const char *token, int64_t now_s,
	struct preview *ret, struct err *err)
{
	const char *dot = strchr(token, '.');
	_cleanup_free_ char *mac = NULL;
	_cleanup_preview_ struct preview p = {0};

	if (!dot || strlen(token) > TOKEN_BYTES_MAX)
		return err_invalid(err);
	mac = sign(key, token, (size_t)(dot - token));
	if (strlen(dot + 1) != strlen(mac) || sodium_memcmp(dot + 1, mac, strlen(mac)) != 0)
		return err_invalid(err);
	if (read_payload(token, (size_t)(dot - token), &p) < 0)
		return err_invalid(err);
	if (p.expires_s <= now_s)
		return err_set(err, ERR_UNAUTHORIZED, -EACCES,
			"unauthorized: this link has expired; ask for a new one");
	*ret = p;
	p.paths = NULL;
	return 0;
}

static size_t count_slashes(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '/';
	return n;
}

/* Every server has to read it as the same path. */
static bool is_plain(const char *path)
{
	for (const char *at = path; (at = strchr(at, '/')); at++) {
		size_t len = strcspn(at + 1, "/");

		if ((len == 0 && at[1]) || (len == 1 && at[1] == '.') ||
			(len == 2 && at[1] == '.' && at[2] == '.'))
			return false;
	}
	return *path == '/' && !strchr(path, '\\');
}

static bool is_below(const char *path, const char *parent)
{
	size_t len = strlen(parent);

	if (!str_starts_with(path, parent))
		return false;
	return path[len] == '\0' || path[len] == '/' || parent[len - 1] == '/';
}

bool preview_allows(const struct preview *p, const char *target)
{
	_cleanup_free_ char *path = NULL;
	json_t *parent;
	size_t slashes, i;

	if (json_array_size(p->paths) == 0)
		return true;
	path = *target == '/' ? strndup(target, strcspn(target, "?")) : strdup("/");
	if (!path)
		return false;
	slashes = count_slashes(path);
	if (url_decode(path, false, NULL) < 0 || count_slashes(path) != slashes || !is_plain(path))
		return false;
	json_array_foreach(p->paths, i, parent) {
		if (json_string_length(parent) > 0 && is_below(path, json_string_value(parent)))
			return true;
	}
	return false;
}
