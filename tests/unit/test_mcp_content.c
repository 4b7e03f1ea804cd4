/* SPDX-License-Identifier: Apache-2.0 */
/* What tools gave, as content: what a model reads, what a person sees, and what a hostile guest may not make of it. */
#include <errno.h>
#include <string.h>

#include "mcp/content.h"
#include "scratch.h"

static json_t *cell(const char *members)
{
	json_t *base = json_pack("{s:s, s:s, s:s, s:b, s:b, s:i}", "status", "ok", "stdout", "",
		"stderr", "", "state_lost", 0, "truncated", 0, "execution_count", 3);
	json_t *more = json_loads(members, 0, NULL);

	assert_non_null(more);
	(void)json_object_update(base, more);
	json_decref(more);
	return base;
}

static json_t *item(const struct mcp_content *c, size_t i)
{
	return json_array_get(c->items, i);
}

static const char *text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "(none)";
}

static void test_cell_text(void **state)
{
	static const struct {
		const char *members, *text;
	} cases[] = {
		{"{}", "[no output]"},
		{"{\"stdout\":\"a\\n\"}", "a\n"},
		{"{\"stdout\":\"a\",\"stderr\":\"b\"}", "a\nb"},
		{"{\"stdout\":\"a\\n\",\"results\":[{\"text/plain\":\"42\"}]}", "a\n42"},
		{"{\"results\":[{\"text/plain\":\"1\"},{\"text/plain\":\"2\"}]}", "1\n2"},
		{"{\"results\":[{\"text/latex\":\"$x$\"}]}", "$x$"},
		{"{\"results\":[{\"application/x-odd\":\"?\"}]}", "[a value without a text]"},
		{"{\"stdout\":\"a\",\"status\":\"error\",\"error\":\"Traceback: b\"}",
			"a\nTraceback: b"},
		{"{\"state_lost\":true}", "[the kernel began anew: its variables are gone]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mcp_content c = mcp_content_cell(cell(cases[i].members), "sb");

		assert_string_equal(text(item(&c, 0), "text"), cases[i].text);
		assert_int_equal(c.is_error, strstr(cases[i].members, "error") != NULL);
		assert_null(json_object_get(c.structured, "results"));
		mcp_content_done(&c);
	}
}

/* It ends no text early: what comes behind it is told. */
static void test_nul_bytes(void **state)
{
	static const char want[] = "a\0b\n\0e\n\0v\nTraceback";
	struct mcp_content c =
		mcp_content_cell(json_pack("{s:s, s:s%, s:s%, s:s, s:[{s:s%}]}", "status", "error",
					 "stdout", "a\0b\n", (size_t)4, "stderr", "\0e\n",
					 (size_t)3, "error", "Traceback", "results", "text/plain",
					 "\0v", (size_t)2),
			"sb");
	const json_t *got = json_object_get(item(&c, 0), "text");

	assert_int_equal(json_string_length(got), sizeof(want) - 1);
	assert_memory_equal(json_string_value(got), want, sizeof(want) - 1);
	assert_int_equal(json_string_length(json_object_get(c.structured, "text")), 2);
	mcp_content_done(&c);
}

static void test_images(void **state)
{
	struct mcp_content c = mcp_content_cell(
		cell("{\"results\":[{\"image/png\":\"aGk=\\n\",\"text/plain\":\"<Figure>\"},"
		     "{\"image/jpeg\":\"aGk=\"}]}"),
		"sb");

	assert_int_equal(json_array_size(c.items), 3);
	assert_string_equal(text(item(&c, 0), "text"), "[no output]"); /* the image says it all */
	assert_string_equal(text(item(&c, 1), "type"), "image");
	assert_string_equal(text(item(&c, 1), "data"), "aGk=");
	assert_string_equal(text(item(&c, 1), "mimeType"), "image/png");
	assert_string_equal(text(item(&c, 2), "mimeType"), "image/jpeg");
	mcp_content_done(&c);
}

static void test_no_images(void **state)
{
	static const char *const wrong[] = {"", "a", "aGk",
		"aGk=x===", "====", "aG<=", "a=k=", "\\u00e9\\u00e9"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char members[128];
		struct mcp_content c;

		(void)snprintf(members, sizeof(members),
			"{\"results\":[{\"image/png\":\"%s\",\"text/plain\":\"t\"}]}", wrong[i]);
		c = mcp_content_cell(cell(members), "sb");
		assert_int_equal(json_array_size(c.items), 1);
		assert_string_equal(text(item(&c, 0), "text"), "t");
		mcp_content_done(&c);
	}
}

static void test_tables(void **state)
{
	struct mcp_content c = mcp_content_cell(
		cell("{\"results\":[{\"text/html\":\"<table>\",\"text/plain\":\"a\\n1\"}]}"), "sb");
	json_t *resource = json_object_get(item(&c, 1), "resource");

	assert_string_equal(text(item(&c, 0), "text"), "a\n1");
	assert_string_equal(text(item(&c, 1), "type"), "resource");
	assert_string_equal(text(resource, "uri"), "result://sb/3/0");
	assert_string_equal(text(resource, "mimeType"), "text/html");
	assert_string_equal(text(resource, "text"), "<table>");
	mcp_content_done(&c);
}

/* A page of plotly's brings 8 MB of program along. */
static void test_programs_are_left_out(void **state)
{
	json_t *answer = cell("{}");
	char *page = malloc(MIB(1) + 1);
	struct mcp_content c;

	memset(page, 'x', MIB(1));
	page[MIB(1)] = '\0';
	(void)json_object_set_new(answer, "results", json_pack("[{s:s}]", "text/html", page));
	free(page);
	c = mcp_content_cell(answer, "sb");
	assert_int_equal(json_array_size(c.items), 1);
	mcp_content_done(&c);
}

static void test_command(void **state)
{
	struct mcp_content c = mcp_content_command(json_pack("{s:i, s:s, s:s, s:b}", "exit_code", 3,
		"stdout", "a", "stderr", "", "timed_out", 0));
	json_t *result;

	assert_string_equal(text(item(&c, 0), "text"), "a\n[exit code 3]");
	assert_false(c.is_error); /* grep has found nothing: that is no failure of the tool */
	result = mcp_content_result(&c);
	assert_true(json_is_false(json_object_get(result, "isError")));
	assert_int_equal(json_integer_value(
				 json_object_get(json_object_get(result, "structuredContent"),
					 "exit_code")),
		3);
	json_decref(result);
	c = mcp_content_command(json_pack("{s:i, s:s, s:s, s:b}", "exit_code", 137, "stdout", "",
		"stderr", "", "timed_out", 1));
	assert_true(c.is_error);
	mcp_content_done(&c);
}

static void test_failure(void **state)
{
	struct mcp_content c = mcp_content_failure("why");
	json_t *result = mcp_content_result(&c);

	assert_true(json_is_true(json_object_get(result, "isError")));
	assert_null(json_object_get(result, "structuredContent"));
	json_decref(result);
}

static void test_files(void **state)
{
	struct mcp_content c = mcp_content_file("sb", "/a", "h\xc3\xa9", 3);

	assert_string_equal(text(item(&c, 0), "text"), "h\xc3\xa9");
	assert_string_equal(text(c.structured, "text"), "h\xc3\xa9");
	mcp_content_done(&c);
	c = mcp_content_file("sb", "/a", "\x89PNG\r\n\x1a\n", 8);
	assert_string_equal(text(item(&c, 0), "type"), "image");
	mcp_content_done(&c);
	c = mcp_content_file("sb", "/a b", "a\0b", 3);
	assert_string_equal(text(item(&c, 0), "type"), "resource");
	assert_string_equal(text(json_object_get(item(&c, 0), "resource"), "uri"),
		"sandbox://sb/a%20b");
	assert_string_equal(text(json_object_get(item(&c, 0), "resource"), "blob"), "YQBi");
	assert_null(json_object_get(c.structured, "text"));
	mcp_content_done(&c);
}

static void test_addresses(void **state)
{
	static const char path[] = "/a b/\xc3\xa9/%?#\n\"";
	static const char *const wrong[] = {"", "/a", "file:///a", "sandbox://", "sandbox:///a",
		"sandbox://sb", "sandbox://sb/%", "sandbox://sb/%4", "sandbox://sb/%zz",
		"sandbox://sb/%00", "sandbox://sb/%ff"};
	_cleanup_free_ char *uri = mcp_file_uri("sb", path), *id = NULL, *back = NULL;

	assert_int_equal(mcp_file_uri_parse(uri, &id, &back), 0);
	assert_string_equal(id, "sb");
	assert_string_equal(back, path);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char *none = NULL;

		if (mcp_file_uri_parse(wrong[i], &none, &none) != -EINVAL)
			fail_msg("taken: %s", wrong[i]);
		assert_null(none);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cell_text),
		cmocka_unit_test(test_nul_bytes),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_no_images),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_programs_are_left_out),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
