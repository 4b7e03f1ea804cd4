/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox asks of the mirror, by the target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mirror/target.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *text;
	enum target_kind kind;
	const char *name;
} targets[] = {
	{"/pypi/simple/six/", TARGET_PYTHON_PAGE, "six"},
	{"/pypi/simple/zope-interface", TARGET_PYTHON_PAGE, "zope-interface"},
	{"/pypi/simple/six/?x=y", TARGET_PYTHON_PAGE, "six"},
	{"/pypi/files/six/" HASH "/six-1.0-py3-none-any.whl", TARGET_PYTHON_FILE, "six"},
	{"/pypi/files/torch/" HASH "/torch-1.0%2Bcpu.whl.metadata", TARGET_PYTHON_FILE, "torch"},
	{"http://archive.example/debian/x.deb", TARGET_APT, NULL},
	{"/left-pad", TARGET_NPM_METADATA, "left-pad"},
	{"/pypi", TARGET_NPM_METADATA, "pypi"},
	{"/JSONStream", TARGET_NPM_METADATA, "JSONStream"},
	{"/@types%2fnode", TARGET_NPM_METADATA, "@types/node"},
	{"/@types/node", TARGET_NPM_METADATA, "@types/node"},
	{"/left-pad/-/left-pad-1.3.0.tgz", TARGET_NPM_TARBALL, "left-pad"},
	{"/pypi/-/pypi-1.0.0.tgz", TARGET_NPM_TARBALL, "pypi"},
	{"/@types/node/-/node-20.0.0.tgz", TARGET_NPM_TARBALL, "@types/node"},
	{"/repository/npm/@types/node/-/node-20.0.0.tgz", TARGET_NPM_TARBALL, "@types/node"},
	{"/repository/npm/x/-/x-1.0.0.tgz", TARGET_NPM_TARBALL, "x"},
	{"/-/v1/search?text=x", TARGET_NPM_OTHER, NULL},
	{"/-/npm/v1/security/audits", TARGET_NPM_OTHER, NULL},
	{"/left-pad/1.3.0", TARGET_NPM_OTHER, NULL},
	{"/@types%2f..%2fnode", TARGET_NPM_OTHER, NULL},
	/* What nobody has. */
	{"", TARGET_NONE, NULL},
	{"*", TARGET_NONE, NULL},
	{"/", TARGET_NONE, NULL},
	{"//evil.example/x", TARGET_NONE, NULL},
	{"https://index.example/", TARGET_NONE, NULL},
	{"/%", TARGET_NONE, NULL},
	{"/left-pad%00", TARGET_NONE, NULL},
	{"/pypi/simple/", TARGET_NONE, NULL},
	{"/pypi/simple/Six/", TARGET_NONE, NULL},
	{"/pypi/simple/../", TARGET_NONE, NULL},
	{"/pypi/simple/%2e%2e/", TARGET_NONE, NULL},
	{"/pypi/simple/a%2fb/", TARGET_NONE, NULL},
	{"/pypi/simple/six/more/", TARGET_NONE, NULL},
	{"/pypi/other/six/", TARGET_NONE, NULL},
	{"/pypi/files/six/" HASH "/", TARGET_NONE, NULL},
	{"/pypi/files/six/" HASH "0/six.whl", TARGET_NONE, NULL},
	{"/pypi/files/six/0/six.whl", TARGET_NONE, NULL},
	{"/pypi/files/six/" HASH "/.hidden", TARGET_NONE, NULL},
	{"/pypi/files/six/" HASH "/a%2fb", TARGET_NONE, NULL},
	{"/pypi/files/six/" HASH "/a%0d%0ab", TARGET_NONE, NULL},
	{"/pypi/files/six/" HASH "/six.whl/x", TARGET_NONE, NULL},
};

static void test_targets(void **state)
{
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct target t;

		target_parse(targets[i].text, &t);
		if (t.kind != targets[i].kind)
			fail_msg("%s is %d", targets[i].text, (int)t.kind);
		if (targets[i].name)
			assert_string_equal(t.name, targets[i].name);
		target_done(&t);
	}
}

static void test_a_file(void **state)
{
	char *text = target_of_file("torch", HASH, "torch-1.0+cpu.whl");
	struct target t;

	assert_string_equal(text, "/pypi/files/torch/" HASH "/torch-1.0%2Bcpu.whl");
	target_parse(text, &t);
	assert_int_equal(t.kind, TARGET_PYTHON_FILE);
	assert_string_equal(t.hash, HASH);
	assert_string_equal(t.file, "torch-1.0+cpu.whl");
	target_done(&t);
	free(text);
	assert_null(target_of_file("x", HASH, "../x"));
	assert_null(target_of_file("x", HASH, "a b"));
	assert_null(target_of_file("x", HASH, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
