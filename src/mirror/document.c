/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of indexes, into memory and out of it. */
#include "mirror/document.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json_count.h"
#include "base/limits.h"
#include "base/macros.h"

json_t *document_read(int fd)
{
	json_t *root = NULL;
	struct stat st;
	size_t len;
	char *text;

	/* Nobody else writes to it: files of the cache are replaced as a whole. */
	if (fstat(fd, &st) < 0 || st.st_size < 1 ||
		st.st_size > (off_t)LIMIT_PACKAGE_DOCUMENT_BYTES)
		return NULL;
	len = (size_t)st.st_size;
	text = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return NULL;
	if (json_count_values(text, len) <= DOCUMENT_VALUES_MAX)
		root = json_loadb(text, len, 0, NULL);
	(void)munmap(text, len);
	return root;
}

int document_write(const json_t *root, int fd)
{
	_cleanup_free_ char *text = json_dumps(root, JSON_COMPACT);

	return text ? fs_write_all(fd, text, strlen(text)) : -ENOMEM;
}
