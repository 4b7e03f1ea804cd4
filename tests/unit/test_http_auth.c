/* SPDX-License-Identifier: Apache-2.0 */
/* API keys: made once, known again after a restart, never stored; ids of sessions tell their time. */
#include "scratch.h"

#include "base/clock.h"
#include "http/auth.h"
#include "http/session_id.h"

static void open_auth(const char *dir, struct store **ret_store, struct auth **ret_auth)
{
	_cleanup_free_ char *path = fs_join(dir, "registry.db");
	struct err err = {0};

	if (store_open(path, ret_store, &err) < 0 || auth_new(*ret_store, ret_auth, &err) < 0)
		fail_msg("%s", err.msg);
}

static void test_keys(void **state)
{
	char key[AUTH_KEY_SIZE], other[AUTH_KEY_SIZE];
	struct store *store;
	struct auth *auth;
	json_t *list;

	open_auth(*state, &store, &auth);
	assert_false(auth_check(auth, ""));
	assert_int_equal(auth_make_key(auth, "first", key, NULL), 0);
	assert_int_equal(auth_make_key(auth, NULL, other, NULL), 0);
	assert_int_equal(strlen(key), AUTH_KEY_SIZE - 1);
	assert_int_equal(strspn(key + 4, "0123456789abcdef"), 32);
	assert_string_not_equal(key, other);
	auth_free(auth);
	store_close(store);

	open_auth(*state, &store, &auth);
	assert_true(auth_check(auth, key));
	assert_true(auth_check(auth, other));
	key[AUTH_KEY_SIZE - 2] ^= 1;
	assert_false(auth_check(auth, key));
	assert_false(auth_check(auth, "pds_"));
	list = auth_list(auth);
	assert_int_equal(json_array_size(list), 2);
	json_decref(list);
	auth_free(auth);
	store_close(store);
}

static void test_session_ids(void **state)
{
	static const char *const foreign[] = {"", "once-0190163d-8694-739b-aea5-966c26f8ad91",
		"0190163d-8694-439b-aea5-966c26f8ad91", "0190163d-8694-739b-aea5-966c26f8ad9",
		"0190163d-8694-739b-aea5-966c26f8ad9x", "------------------------------------"};
	int64_t before = clock_real_ms(), ms = 0;
	char id[SESSION_ID_SIZE];

	session_id_make(id);
	assert_int_equal(session_id_time(id, &ms), 0);
	assert_in_range(ms, before, clock_real_ms());
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		assert_true(session_id_time(foreign[i], &ms) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_keys),
		cmocka_unit_test(test_session_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
