/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of indexes: what is read, and what would take too much memory. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fs.h"
#include "mirror/document.h"
#include "scratch.h"

/* A file in memory that begins so, has `piece` `n` times, and ends so. */
static int make(const char *head, const char *piece, size_t n, const char *tail)
{
	int fd = memfd_create("document", MFD_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_true(fputs(head, f) >= 0);
	for (size_t i = 0; i < n; i++)
		assert_true(fputs(piece, f) >= 0);
	assert_true(fputs(tail, f) >= 0 && fclose(f) == 0);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, len), 0);
	return fd;
}

static bool is_read(const char *head, const char *piece, size_t n, const char *tail)
{
	_cleanup_close_ int fd = make(head, piece, n, tail);
	json_t *root = document_read(fd);
	bool is = root;

	json_decref(root);
	return is;
}

static void test_what_is_read(void **state)
{
	assert_true(is_read("{\"files\": []}", "", 0, ""));
	assert_true(is_read("{", "", 0, "}"));
	assert_false(is_read("", "", 0, ""));
	assert_false(is_read("<html>", "", 0, ""));
	assert_false(is_read("{} ", "x", 1, ""));
}

static void test_values_are_counted(void **state)
{
	assert_true(is_read("[0", ",0", DOCUMENT_VALUES_MAX - 1, "]"));
	assert_false(is_read("[0", ",0", DOCUMENT_VALUES_MAX, "]"));
	assert_false(is_read("[{}", ",{}", DOCUMENT_VALUES_MAX / 2, "]"));
	/* Text is no value. */
	assert_true(is_read("[\"", ",{[\\\",", DOCUMENT_VALUES_MAX, "\"]"));
}

static void test_both_ways(void **state)
{
	_cleanup_close_ int from = make("{ \"a\" : [1, \"\u00e9\"] }", "", 0, ""),
			    to = memfd_create("copy", MFD_CLOEXEC);
	json_t *root = document_read(from);
	char text[64] = "";

	assert_int_equal(document_write(root, to), 0);
	assert_int_equal(pread(to, text, sizeof(text) - 1, 0), 14);
	assert_string_equal(text, "{\"a\":[1,\"\u00e9\"]}");
	json_decref(root);
	assert_int_equal(document_write(NULL, to), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_read),
		cmocka_unit_test(test_values_are_counted),
		cmocka_unit_test(test_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
