/* SPDX-License-Identifier: Apache-2.0 */
/* The processor of a host: kept in a manifest, told from another one, and manifests that hold none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/guest_cpu.h"

static struct guest_cpu milan(void)
{
	struct guest_cpu cpu = {.vendor = "AuthenticAMD",
		.name = "AMD EPYC 7763 64-Core Processor",
		.family = 25,
		.model = 1,
		.stepping = 1};

	for (uint32_t i = 0; i < GUEST_CPU_WORDS; i++)
		cpu.features[i] = UINT32_MAX - i;
	return cpu;
}

static void test_round_trip(void **state)
{
	struct guest_cpu cpu = milan(), again;
	json_t *json = guest_cpu_to_json(&cpu);

	memset(&again, 0, sizeof(again));
	assert_int_equal(guest_cpu_from_json(json, &again), 0);
	assert_memory_equal(&again, &cpu, sizeof(cpu));
	json_decref(json);
}

static void test_another(void **state)
{
	const struct guest_cpu made_on = milan();
	struct guest_cpu others[4] = {milan(), milan(), milan(), milan()};
	char why[GUEST_CPU_WHY_SIZE];

	strcpy(others[0].vendor, "GenuineIntel");
	strcpy(others[0].name, "Intel(R) Xeon(R) Platinum 8488C");
	others[1].family = 6;
	others[2].model = 17;
	others[3].stepping = 2;
	assert_true(guest_cpu_fits(&made_on, &made_on, why));
	for (size_t i = 0; i < 4; i++)
		assert_false(guest_cpu_fits(&made_on, &others[i], why));
	assert_false(guest_cpu_fits(&made_on, &others[0], why));
	assert_string_equal(why,
		"AMD EPYC 7763 64-Core Processor (AuthenticAMD, family 25, model 1, stepping 1), and this is "
		"Intel(R) Xeon(R) Platinum 8488C (GenuineIntel, family 25, model 1, stepping 1)");
}

/* Some more are no reason to refuse, some less are. */
static void test_features(void **state)
{
	struct guest_cpu all = milan(), fewer = milan(), none = milan();
	char why[GUEST_CPU_WHY_SIZE];

	fewer.features[2] &= ~0x00010020u;
	assert_true(guest_cpu_fits(&fewer, &all, why));
	assert_false(guest_cpu_fits(&all, &fewer, why));
	assert_non_null(strstr(why, "lacks features that it had there (CPUID 7.ebx 00010020)"));
	memset(none.features, 0, sizeof(none.features));
	assert_false(guest_cpu_fits(&all, &none, why)); /* as many words as fit */
	assert_non_null(strstr(why, "(CPUID 1.ecx ffffffff, 1.edx fffffffe, "));
	assert_true(why[strlen(why) - 1] == ')');
}

/* The longest that a manifest may hold fits. */
static void test_long(void **state)
{
	struct guest_cpu a = milan(), b;
	char why[GUEST_CPU_WHY_SIZE];

	memset(a.name, 'x', sizeof(a.name) - 1);
	memset(a.vendor, 'y', sizeof(a.vendor) - 1);
	a.family = a.model = a.stepping = 64 << 10;
	b = a;
	b.family--;
	assert_false(guest_cpu_fits(&a, &b, why));
	assert_true(why[strlen(why) - 1] == ')');
}

static void test_not_one(void **state)
{
	static const struct {
		const char *key;
		const char *value; /* NULL: none */
	} bad[] = {
		{"vendor", NULL},
		{"vendor", "1"},
		{"name", "[]"},
		{"family", NULL},
		{"family", "-1"},
		{"model", "65537"},
		{"stepping", "\"1\""},
		{"stepping", "1.5"},
		{"features", NULL},
		{"features", "[]"},
		{"features", "{\"1.ecx\": 1}"},
	};
	const struct guest_cpu cpu = milan();
	struct guest_cpu got = {.family = 7};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *json = guest_cpu_to_json(&cpu);

		if (bad[i].value)
			(void)json_object_set_new(json, bad[i].key,
				json_loads(bad[i].value, JSON_DECODE_ANY, NULL));
		else
			(void)json_object_del(json, bad[i].key);
		assert_int_equal(guest_cpu_from_json(json, &got), -EPROTO);
		json_decref(json);
	}
	assert_int_equal(guest_cpu_from_json(NULL, &got), -EPROTO);
	assert_int_equal(got.family, 7);
}

static void test_feature_out_of_range(void **state)
{
	const struct guest_cpu cpu = milan();
	json_t *json = guest_cpu_to_json(&cpu), *features = json_object_get(json, "features");
	struct guest_cpu got;

	(void)json_object_set_new(features, "kvm", json_integer((json_int_t)1 << 32));
	assert_int_equal(guest_cpu_from_json(json, &got), -EPROTO);
	json_decref(json);
}

/* What a forged one says goes to terminals and logs. */
static void test_hostile_text(void **state)
{
	const struct guest_cpu here = milan();
	json_t *json = guest_cpu_to_json(&here);
	struct guest_cpu got;
	char why[GUEST_CPU_WHY_SIZE];

	(void)json_object_set_new(json, "name", json_string("a\033[31m\n\ab"));
	(void)json_object_set_new(json, "vendor",
		json_string("a vendor whose name is much too long for one"));
	assert_int_equal(guest_cpu_from_json(json, &got), 0);
	json_decref(json);
	assert_false(guest_cpu_fits(&got, &here, why));
	assert_non_null(strstr(why, "a?[31m??b (a vendor who..., family"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_another),
		cmocka_unit_test(test_features),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_not_one),
		cmocka_unit_test(test_feature_out_of_range),
		cmocka_unit_test(test_hostile_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
