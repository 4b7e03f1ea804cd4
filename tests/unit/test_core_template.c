/* SPDX-License-Identifier: Apache-2.0 */
/* Baked templates: good, damaged and stale manifests, names, aliases, and what the errors say. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/template.h"
#include "scratch.h"

/* %s: name, then more keys. */
#define MANIFEST \
	"{\"format\": 5, \"name\": \"%s\", \"version\": \"00ff\", \"sources\": \"aa\", \"description\": \"A test\"," \
	" \"engine\": \"qemu\", \"engine_version\": \"7.2.22\", \"accel\": \"tcg\"," \
	" \"cpu_model\": \"Haswell\", \"cpus\": 1, \"memory_bytes\": 536870912," \
	" \"size_bytes\": 1, \"disk_bytes\": 2, \"built_ms\": 3%s}"

/* What one has that was baked with KVM. */
#define CPU \
	"\"cpu\": {\"vendor\": \"AuthenticAMD\", \"name\": \"AMD EPYC\", \"family\": 25, \"model\": 17, \"stepping\": 1," \
	" \"features\": {\"1.ecx\": 1, \"1.edx\": 0, \"7.ebx\": 0, \"7.ecx\": 0, \"7.edx\": 0, \"7.1.eax\": 0," \
	" \"d.eax\": 0, \"d.1.eax\": 0, \"80000001.ecx\": 0, \"80000001.edx\": 0, \"80000007.edx\": 0," \
	" \"80000008.ebx\": 0, \"80000021.eax\": 0, \"kvm\": 0}}"

static void write_manifest(const char *set, const char *name, const char *text)
{
	_cleanup_free_ char *dir = NULL, *link = NULL;

	assert_true(asprintf(&dir, "%s/%s/v1", set, name) > 0);
	assert_true(asprintf(&link, "%s/%s/current", set, name) > 0);
	assert_int_equal(fs_mkdirs(dir, 0755, NULL), 0);
	scratch_write(dir, "manifest.json", text);
	if (symlink("v1", link) < 0)
		assert_int_equal(errno, EEXIST);
}

static void bake(const char *set, const char *name, const char *more)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, MANIFEST, name, more) > 0);
	write_manifest(set, name, text);
}

static struct template_set *open_set(const char *dir)
{
	struct template_set *set = NULL;

	assert_int_equal(template_set_new(dir, &set, NULL), 0);
	return set;
}

static void test_load(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_template_ struct template *t = NULL;
	struct err err = {0};

	bake(*state, "base",
		", \"kernel\": \"python\", \"languages\": [\"python\", 1, \"bash\"], \"card\": false, \"new_key\": [1]");
	if (template_load(set, "base", &t, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(t->name, "base");
	assert_string_equal(t->version, "00ff");
	assert_string_equal(t->sources, "aa");
	assert_string_equal(t->description, "A test");
	assert_string_equal(t->engine, "qemu");
	assert_string_equal(t->engine_version, "7.2.22");
	assert_string_equal(t->kernel, "python");
	assert_int_equal(json_array_size(t->languages), 2);
	assert_string_equal(json_string_value(json_array_get(t->languages, 1)), "bash");
	assert_int_equal(t->size_bytes, 1);
	assert_int_equal(t->disk_bytes, 2);
	assert_int_equal(t->built_ms, 3);
	assert_int_equal(t->image.accel, ACCEL_TCG);
	assert_int_equal(t->image.cpus, 1);
	assert_true(t->image.memory_bytes == MIB(512));
	assert_string_equal(t->image.cpu_model, "Haswell");
	assert_false(t->image.card);
	assert_string_equal(strrchr(t->image.dir, '/'), "/v1"); /* the version, not the link */
	template_set_free(set);
}

static void test_aliases(void **state)
{
	static const char *const aliases[] = {"ubuntu-24.04", "code-interpreter-v1"};
	struct template_set *set = open_set(*state);
	struct err err = {0};

	bake(*state, "code-interpreter", "");
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		_cleanup_template_ struct template *t = NULL;

		assert_int_equal(template_load(set, aliases[i], &t, NULL), 0);
		assert_string_equal(t->name, "code-interpreter");
	}
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		_cleanup_template_ struct template *t = NULL;

		assert_int_equal(template_get(set, aliases[i], &t, &err),
			-ENOENT); /* not by name */
		assert_int_equal(err.kind, ERR_TEMPLATE_NOT_FOUND);
		bake(*state, aliases[i], "");
		assert_int_equal(template_load(set, aliases[i], &t, NULL), 0);
		assert_string_equal(t->name, aliases[i]); /* one's own goes first */
	}
	template_set_free(set);
}

static void test_unknown(void **state)
{
	_cleanup_free_ char *unfinished = fs_join(*state, "unfinished");
	struct template_set *set = open_set(*state);
	_cleanup_template_ struct template *t = NULL;
	struct err err = {0};

	assert_int_equal(template_load(set, "nope", &t, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_TEMPLATE_UNKNOWN);
	assert_non_null(strstr(err.msg, "\"nope\""));
	assert_non_null(strstr(err.msg, "pandastack template build code-interpreter"));
	bake(*state, "base", "");
	assert_int_equal(template_load(set, "nope", &t, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "there is: base"));
	bake(*state, "code-interpreter", "");
	assert_int_equal(mkdir(unfinished, 0755), 0);
	assert_int_equal(template_load(set, "nope", &t, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "there are: base, code-interpreter"));
	assert_null(strstr(err.msg, "unfinished"));
	assert_int_equal(template_load(set, "../base", &t, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_TEMPLATE_UNKNOWN);
	assert_null(strstr(err.msg, "../"));
	template_set_free(set);
}

static void test_many_unknown(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_template_ struct template *t = NULL;
	struct err err = {0};
	char name[TEMPLATE_NAME_MAX + 1];

	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "%02d-%050d", i, 0);
		bake(*state, name, "");
	}
	assert_int_equal(template_load(set, "nope", &t, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "00-0000")); /* as many as fit */
	template_set_free(set);
}

static void refused(const char *dir, struct template_set *set, const char *manifest)
{
	_cleanup_template_ struct template *t = NULL;
	struct err err = {0};

	write_manifest(dir, "base", manifest);
	if (template_load(set, "base", &t, &err) != -ESTALE)
		fail_msg("accepted: %s (%s)", manifest, err.msg);
	assert_int_equal(err.kind, ERR_TEMPLATE_STALE);
	assert_non_null(strstr(err.msg, "`pandastack template build base`"));
}

static void test_stale(void **state)
{
	struct template_set *set = open_set(*state);

	refused(*state, set, "{\"format\": 0, \"name\": \"base\"}");
	refused(*state, set, "{\"format\": 5, \"name\": \"base\"}");
	template_set_free(set);
}

/* A good one in which one thing is replaced. */
static void test_damaged(void **state)
{
	static const char *const changes[][2] = {
		{"\"name\": \"base\"", "\"name\": \"other\""},
		{"\"version\": \"00ff\"", "\"version\": 1"},
		{"\"description\"", "\"subscription\""},
		{"\"engine\": \"qemu\"", "\"engine\": null"},
		{"\"engine_version\"", "\"engine_revision\""},
		{"\"accel\": \"tcg\"", "\"accel\": \"abacus\""},
		{"\"accel\": \"tcg\"", "\"accel\": \"kvm\""}, /* on which processor? */
		{"\"cpu_model\"", "\"cpu_mode\""},
		{"\"cpus\": 1", "\"cpus\": 0"},
		{"\"cpus\": 1", "\"cpus\": 65"},
		{"\"cpus\": 1", "\"cpus\": 4294967297"},
		{"536870912", "1048576"},
		{"536870912", "1099511627777"},
		{"\"disk_bytes\": 2", "\"disk_bytes\": -2"},
		{"\"size_bytes\": 1", "\"size_bytes\": -1"},
		{"\"built_ms\"", "\"card\": \"yes\", \"built_ms\""},
		{"}", ""},
	};
	struct template_set *set = open_set(*state);
	char good[1024];

	(void)snprintf(good, sizeof(good), MANIFEST, "base", "");
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		char *at = strstr(good, changes[i][0]);
		_cleanup_free_ char *bad = NULL;

		assert_non_null(at);
		assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - good), good, changes[i][1],
				    at + strlen(changes[i][0])) > 0);
		refused(*state, set, bad);
	}
	refused(*state, set, "");
	refused(*state, set, "[]");
	refused(*state, set, "{\"format\": \"1\"}");
	template_set_free(set);
}

static void test_no_manifest(void **state)
{
	_cleanup_free_ char *path = fs_join(*state, "base/v1/manifest.json");
	struct template_set *set = open_set(*state);
	uint64_t kept = 1;
	_cleanup_template_ struct template *t = NULL;
	struct err err = {0};

	bake(*state, "base", "");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(template_get(set, "base", &t, &err), -ESTALE);
	assert_int_equal(template_remove(set, "base", false, &kept, &err),
		0); /* what can't be used can go */
	assert_int_equal(template_get(set, "base", &t, &err), -ENOENT);
	template_set_free(set);
}

static void test_remove_while_built(void **state)
{
	struct template_set *set = open_set(*state);
	uint64_t kept = 1;
	_cleanup_free_ char *lock = NULL;
	_cleanup_close_ int fd = -1;
	struct err err = {0};

	bake(*state, "a", "");
	assert_true(asprintf(&lock, "%s/a/.lock", (const char *)*state) > 0);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(template_remove(set, "a", false, &kept, &err), -EBUSY);
	assert_int_equal(err.kind, ERR_CONFLICT);
	assert_int_equal(flock(fd, LOCK_UN), 0);
	assert_int_equal(template_remove(set, "a", false, &kept, &err), 0);
	assert_true(kept == 0);
	assert_int_equal(access(lock, F_OK), -1);
	template_set_free(set);
}

static void test_list_and_remove(void **state)
{
	struct template_set *set = open_set(*state);
	uint64_t kept = 1;
	struct template **all;
	struct err err = {0};
	size_t n;

	bake(*state, "c", "");
	bake(*state, "a", "");
	write_manifest(*state, "b", "{}");
	assert_int_equal(template_list(set, &all, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(all[0]->name, "a");
	assert_string_equal(all[1]->name, "c");
	template_free(all[0]);
	template_free(all[1]);
	free(all);
	assert_int_equal(template_remove(set, "a", false, &kept, &err), 0);
	assert_int_equal(template_remove(set, "a", false, &kept, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_TEMPLATE_NOT_FOUND);
	assert_int_equal(template_remove(set, "../c", false, &kept, &err), -ENOENT);
	assert_int_equal(template_list(set, &all, &n, NULL), 0);
	assert_int_equal(n, 1);
	template_free(all[0]);
	free(all);
	template_set_free(set);
}

/* ---- who stands on a version ---- */

#define OLD "0123456789abcdef"
#define NEW "fedcba9876543210"

/* A template with an old version and a current one. */
static void bake_two(const char *set)
{
	static const char *const versions[] = {OLD, NEW};
	_cleanup_free_ char *current = NULL;

	assert_true(asprintf(&current, "%s/base/current", set) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_free_ char *dir = NULL, *text = NULL;

		assert_true(asprintf(&dir, "%s/base/%s", set, versions[i]) > 0);
		assert_true(asprintf(&text, MANIFEST, "base", "") > 0);
		assert_int_equal(fs_mkdirs(dir, 0755, NULL), 0);
		scratch_write(dir, "manifest.json", text);
	}
	assert_int_equal(symlink(NEW, current), 0);
}

static bool has(const char *set, const char *name)
{
	_cleanup_free_ char *path = fs_join(set, name);

	return access(path, F_OK) == 0;
}

static void test_hold(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_free_ char *dir = fs_join(*state, "base"), *gone = fs_join(*state, "gone");

	bake_two(*state);
	assert_int_equal(template_hold(set, "base", "00", "p1", dir, NULL), -ESTALE);
	assert_int_equal(template_hold(set, "none", OLD, "p1", dir, NULL), -ESTALE);
	assert_false(has(*state, "none"));
	assert_int_equal(template_hold(set, "base", OLD, "p1", dir, NULL), 0);
	assert_int_equal(template_hold(set, "base", OLD, "p1", dir, NULL), 0);  /* once more */
	assert_int_equal(template_hold(set, "base", OLD, "p2", gone, NULL), 0); /* of no account */
	assert_int_equal(template_hold(set, "base", NEW, "p3", dir, NULL), 0);
	assert_int_equal(template_drop(dir, OLD, NULL), -EBUSY);
	assert_int_equal(template_hold(set, "base", OLD, "p2", dir, NULL),
		0); /* it was moved there */
	template_release(set, "base", OLD, "p1");
	template_release(set, "base", OLD, "p1");
	assert_int_equal(template_drop(dir, OLD, NULL), -EBUSY);
	template_release(set, "base", OLD, "p2");
	assert_false(has(*state, "base/refs/" OLD));
	assert_int_equal(template_drop(dir, OLD, NULL), 0);
	assert_int_equal(template_hold(set, "base", OLD, "p2", dir, NULL), -ESTALE);
	assert_int_equal(template_drop(dir, NEW, NULL), -EBUSY);
	template_set_free(set);
}

/* What holds it can't be read: somebody does, for all we know. */
static void test_hold_unreadable(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_free_ char *dir = fs_join(*state, "base");

	bake_two(*state);
	assert_int_equal(template_hold(set, "base", NEW, "p1", dir, NULL), 0);
	scratch_write(*state, "base/refs/" OLD, "no folder");
	assert_int_equal(template_drop(dir, OLD, NULL), -EBUSY);
	template_set_free(set);
}

static void removed(const char *name, const char *version, uint64_t bytes, void *user)
{
	assert_string_equal(version, OLD);
	assert_true(bytes > 0);
}

static void test_drop(void **state)
{
	struct template_set *set = open_set(*state);
	const struct template_sweep sweep = {.removed = removed};
	_cleanup_free_ char *dir = fs_join(*state, "base"), *old = fs_join(dir, OLD);
	_cleanup_free_ char *gone = fs_join(dir, ".gone-" OLD);

	bake_two(*state);
	assert_int_equal(template_hold(set, "base", OLD, "p1", *state, NULL), 0);
	assert_int_equal(template_drop(dir, OLD, NULL), -EBUSY);
	assert_true(has(*state, "base/" OLD "/manifest.json"));
	template_release(set, "base", OLD, "p1");
	assert_int_equal(rename(old, gone), 0); /* one that was killed in the middle */
	assert_int_equal(template_sweep(set, &sweep, NULL), 0);
	assert_false(has(*state, "base/.gone-" OLD));
	assert_false(has(*state, "base/" OLD));
	assert_int_equal(template_drop(dir, OLD, NULL), -ENOENT);
	assert_int_equal(template_drop(dir, NEW, NULL), 0);
	assert_false(has(*state, "base/" NEW));
	template_set_free(set);
}

struct holding {
	struct template_set *set;
	const char *dir;
	atomic_bool go;
};

static void *hold_it(void *arg)
{
	struct holding *h = arg;

	while (!atomic_load(&h->go))
		;
	return (void *)(intptr_t)template_hold(h->set, "base", OLD, "p1", h->dir, NULL);
}

/* At the same time: either it is held and there, or it is refused and gone. */
static void test_hold_and_drop(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_free_ char *dir = fs_join(*state, "base"), *old = fs_join(dir, OLD);
	struct holding h = {.set = set, .dir = dir};

	bake_two(*state);
	for (int i = 0; i < 1000; i++) {
		pthread_t thread;
		void *held;
		int dropped;

		atomic_store(&h.go, false);
		assert_int_equal(pthread_create(&thread, NULL, hold_it, &h), 0);
		atomic_store(&h.go, true);
		dropped = template_drop(dir, OLD, NULL);
		assert_int_equal(pthread_join(thread, &held), 0);
		assert_int_equal((int)(intptr_t)held, dropped == 0 ? -ESTALE : 0);
		assert_int_equal(dropped, has(*state, "base/" OLD) ? -EBUSY : 0);
		template_release(set, "base", OLD, "p1");
		assert_int_equal(fs_mkdirs(old, 0755, NULL), 0);
	}
	template_set_free(set);
}

/* As many names as fit are given, and then it says that there are more. */
static void test_remove_held_by_many(void **state)
{
	struct template_set *set = open_set(*state);
	uint64_t kept = 1;
	char id[] = "00000000-0000-4000-8000-000000000000";
	struct err err = {0};

	bake_two(*state);
	for (char c = '1'; c <= '9'; c++) {
		id[0] = c;
		assert_int_equal(template_hold(set, "base", OLD, id, *state, NULL), 0);
		assert_int_equal(template_remove(set, "base", false, &kept, &err), -EBUSY);
		assert_true((c == '9') == (strstr(err.msg, ", ...") != NULL));
		assert_true((c == '9') || strstr(err.msg, id) != NULL);
		assert_non_null(strstr(err.msg, "by force")); /* it is not cut off */
	}
	template_set_free(set);
}

static void test_remove_held(void **state)
{
	struct template_set *set = open_set(*state);
	uint64_t kept = 1;
	_cleanup_template_ struct template *t = NULL;
	struct err err = {0};

	bake_two(*state);
	scratch_write(*state, "base/build.log", "");
	assert_int_equal(template_hold(set, "base", OLD, "p1", *state, NULL), 0);
	assert_int_equal(template_remove(set, "base", false, &kept, &err), -EBUSY);
	assert_int_equal(err.kind, ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "p1"));
	assert_true(has(*state, "base/current"));
	assert_int_equal(template_remove(set, "base", true, &kept, &err), 0);
	assert_true(kept > 0);
	assert_int_equal(template_get(set, "base", &t, &err), -ENOENT);
	assert_int_equal(template_load_version(set, "base", OLD, &t, &err), 0);
	assert_false(has(*state, "base/" NEW));
	assert_false(has(*state, "base/build.log"));
	assert_int_equal(template_remove(set, "base", true, &kept, &err), -ENOENT);
	template_set_free(set);
}

static void test_sweep(void **state)
{
	struct template_set *set = open_set(*state);
	const struct template_sweep sweep = {.removed = removed};
	_cleanup_free_ char *lock = fs_join(*state, "base/.lock");
	_cleanup_close_ int fd = -1;

	bake_two(*state);
	scratch_write(*state, "base/.lock", "");
	fd = open(lock, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(template_sweep(set, &sweep, NULL), 0);
	assert_true(has(*state, "base/" OLD)); /* it is being built */
	assert_int_equal(flock(fd, LOCK_UN), 0);
	assert_int_equal(template_hold(set, "base", OLD, "p1", *state, NULL), 0);
	assert_int_equal(template_sweep(set, &sweep, NULL), 0);
	assert_true(has(*state, "base/" OLD));
	template_release(set, "base", OLD, "p1");
	assert_int_equal(template_hold(set, "base", OLD, "p2", "/nonexistent", NULL), 0);
	assert_int_equal(template_sweep(set, &sweep, NULL), 0);
	assert_false(has(*state, "base/" OLD));
	assert_false(has(*state, "base/refs"));
	assert_true(has(*state, "base/" NEW "/manifest.json")); /* the current one stays */
	template_set_free(set);
}

static void test_sweep_after_force(void **state)
{
	struct template_set *set = open_set(*state);
	uint64_t kept = 1;
	const struct template_sweep sweep = {.removed = removed};

	bake_two(*state);
	scratch_write(*state, "base/.lock", "");
	assert_int_equal(template_hold(set, "base", OLD, "p1", *state, NULL), 0);
	assert_int_equal(template_remove(set, "base", true, &kept, NULL), 0);
	assert_int_equal(template_sweep(set, &sweep, NULL), 0);
	assert_true(has(*state, "base/" OLD "/manifest.json"));
	template_release(set, "base", OLD, "p1");
	assert_int_equal(template_sweep(set, &sweep, NULL), 0);
	assert_false(has(*state, "base"));
	template_set_free(set);
}

static void test_names(void **state)
{
	static const char *const good[] = {"a", "0", "base", "ubuntu-24.04", "a_b", "a..b"};
	static const char *const bad[] = {"", ".", "..", ".a", "-a", "_a", "a/b", "A", "a b", "a\n",
		"\xC3\xA4"};
	char longest[TEMPLATE_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(template_name_ok(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(template_name_ok(bad[i]));
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_false(template_name_ok(longest));
	assert_true(template_name_ok(longest + 1));
}

static void check(const struct template *t, struct engine_info info, int want)
{
	struct err err = {0};

	assert_int_equal(template_check_engine(t, &info, &err), want);
	if (want < 0) {
		assert_int_equal(err.kind, ERR_TEMPLATE_STALE);
		assert_non_null(strstr(err.msg, "`pandastack template build base"));
	}
}

static void test_engine(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_template_ struct template *t = NULL;
	struct engine_info same = {.name = "qemu", .accel = ACCEL_TCG, .version = "7.2.22"};
	struct engine_info other = same;

	bake(*state, "base", "");
	assert_int_equal(template_load(set, "base", &t, NULL), 0);
	check(t, same, 0);
	other.accel = ACCEL_KVM;
	check(t, other, 0); /* software runs everywhere */
	t->image.accel = ACCEL_KVM;
	check(t, other, 0);
	check(t, same, -ESTALE);
	strcpy(t->image.cpu.vendor, "AuthenticAMD");
	strcpy(other.cpu.vendor, "GenuineIntel");
	check(t, other, -ESTALE);
	strcpy(other.cpu.vendor, "AuthenticAMD");
	check(t, other, 0);
	t->image.cpu.features[0] = 1;
	check(t, other, -ESTALE);
	t->image.accel = ACCEL_TCG; /* which has a processor of its own */
	check(t, other, 0);
	other = same;
	strcpy(other.version, "8.0");
	check(t, other, -ESTALE);
	other = same;
	other.name = "fake";
	check(t, other, -ESTALE);
	other = same;
	assert_true(t->image.card); /* it does not say */
	other.lacks[0] = "streams";
	check(t, other, 0);
	other.lacks[1] = "network";
	check(t, other, -ESTALE);
	t->image.card = false;
	check(t, other, 0);
	check(t, same, -ESTALE);
	template_set_free(set);
}

/* Each says what differs. */
static void test_what_differs(void **state)
{
	struct template_set *set = open_set(*state);
	_cleanup_template_ struct template *t = NULL;
	struct engine_info here = {.name = "firecracker",
		.accel = ACCEL_KVM,
		.version = "1.16.1",
		.cpu = {.vendor = "GenuineIntel", .name = "Intel Xeon", .family = 6, .model = 85}};
	struct err err = {0};

	bake(*state, "base",
		", \"engine\": \"firecracker\", \"engine_version\": \"1.15.1\", \"accel\": \"kvm\", " CPU);
	assert_int_equal(template_load(set, "base", &t, NULL), 0);
	assert_int_equal(template_check_engine(t, &here, &err), -ESTALE);
	assert_string_equal(err.msg,
		"template base was baked with firecracker 1.15.1 (kvm), but this is firecracker 1.16.1 (kvm): "
		"run `pandastack template build base` once more");
	strcpy(here.version, "1.15.1");
	assert_int_equal(template_check_engine(t, &here, &err), -ESTALE);
	assert_string_equal(err.msg,
		"template base was baked on AMD EPYC (AuthenticAMD, family 25, model 17, stepping 1), and this is "
		"Intel Xeon (GenuineIntel, family 6, model 85, stepping 0): "
		"run `pandastack template build base` here");
	here.cpu = t->image.cpu;
	assert_int_equal(template_check_engine(t, &here, &err), 0);
	template_set_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_load),
		scratch_test(test_aliases),
		scratch_test(test_unknown),
		scratch_test(test_many_unknown),
		scratch_test(test_stale),
		scratch_test(test_damaged),
		scratch_test(test_no_manifest),
		scratch_test(test_list_and_remove),
		scratch_test(test_remove_while_built),
		scratch_test(test_hold),
		scratch_test(test_hold_unreadable),
		scratch_test(test_hold_and_drop),
		scratch_test(test_drop),
		scratch_test(test_remove_held),
		scratch_test(test_remove_held_by_many),
		scratch_test(test_sweep),
		scratch_test(test_sweep_after_force),
		cmocka_unit_test(test_names),
		scratch_test(test_engine),
		scratch_test(test_what_differs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
