/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzzer's entry point over every file of a corpus: a regression test that needs no libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fs.h"

enum { INPUT_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
	_cleanup_free_ char *data = NULL;
	struct err err = {0};
	size_t len;

	if (fs_read(path, INPUT_BYTES_MAX, &data, &len, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		return -1;
	}
	(void)fprintf(stderr, "%s\n", path); /* the last line names the culprit of a crash */
	/* A copy without the NUL behind it, so that reading too far is seen. */
	uint8_t *exact = malloc(len ? len : 1);

	if (!exact)
		abort();
	for (size_t i = 0; i < len; i++)
		exact[i] = (uint8_t)data[i];
	(void)LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return 0;
}

int main(int argc, char *argv[])
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *e;
	int n = 0, r = 0;

	if (!dir) {
		(void)fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
		return 2;
	}
	while (r == 0 && (e = readdir(dir))) {
		_cleanup_free_ char *path = fs_join(argv[1], e->d_name);

		if (e->d_name[0] == '.')
			continue;
		r = replay(path);
		n++;
	}
	(void)closedir(dir);
	if (n == 0)
		(void)fprintf(stderr, "%s is empty\n", argv[1]);
	return r < 0 || n == 0;
}
