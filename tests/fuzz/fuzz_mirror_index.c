/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of package indexes: a page that is made ours leads nowhere but to us and away, and what is found is of its source. */
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "mirror/index.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char file[] = "x-1.whl";
static const char origin[] = "https://a.example/";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *page = json_loadb((const char *)data, size, 0, NULL);
	json_t *serves = json_pack("[s]", origin);
	const struct source s = {.base = "https://a.example/simple/", .serves = serves};
	_cleanup_free_ char *url = NULL;
	struct digest digest;

	(void)index_find_npm(page, "https://a.example/x/-/x-1.tgz", &digest);
	if (index_localize_page(page, &s, "https://a.example/simple/x/", "x") == 0 &&
		index_find_python(page, &s, HASH, file, &url, &digest) == 0)
		assert(str_starts_with(url, origin));
	json_decref(page);
	json_decref(serves);
	return 0;
}
