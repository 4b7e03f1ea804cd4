/* SPDX-License-Identifier: Apache-2.0 */
/* A delta file from the disk: applied to a memory of its length, or refused; nothing is written outside of that. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "engine/memory_delta.h"

enum { MEMORY_BYTES = 64 << 10 };

static char root[] = "/tmp/pandastack-fuzz.XXXXXX";

static void clean_up(void)
{
	(void)fs_remove_tree(root, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char *delta, *memory;
	struct stat st;
	int fd;

	if (!delta) {
		if (!mkdtemp(root) || atexit(clean_up) != 0)
			abort();
		delta = fs_join(root, "delta");
		memory = fs_join(root, "memory");
		fd = open(memory, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, MEMORY_BYTES) < 0)
			abort();
		(void)close(fd);
	}
	if (fs_write_atomic(delta, data, size, 0600, NULL) < 0)
		abort();
	(void)delta_apply(delta, memory, MEMORY_BYTES, NULL);
	for (int compress = 0; compress <= 1; compress++) {
		if (delta_seal(delta, compress, NULL) == 0 && delta_check(delta, NULL, NULL) < 0)
			__builtin_trap(); /* what we sealed is whole */
	}
	if (stat(memory, &st) < 0 || st.st_size != MEMORY_BYTES)
		__builtin_trap();
	return 0;
}
