/* SPDX-License-Identifier: Apache-2.0 */
/* From options to the API's `network`. */
#include "cli/network.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"

static json_t *split(const char *rules)
{
	_cleanup_free_ char *copy = strdup(rules);
	json_t *list = json_array();
	char *save = NULL;

	if (!copy)
		abort();
	for (char *rule = strtok_r(copy, ", ", &save); rule; rule = strtok_r(NULL, ", ", &save))
		(void)json_array_append_new(list, json_string(rule));
	return list;
}

static json_t *egress_of(const struct network_options *o)
{
	json_t *egress;

	if (!o->allow && !o->deny)
		return o->egress ? json_string(o->egress) : NULL;
	egress = json_object();
	if (o->allow)
		(void)json_object_set_new(egress, "allow", split(o->allow));
	if (o->deny)
		(void)json_object_set_new(egress, "deny", split(o->deny));
	return egress;
}

int network_body(const struct network_options *o, json_t **ret, struct err *err)
{
	json_t *egress = egress_of(o);
	uint64_t rate = 0;

	if (o->egress && strcmp(o->egress, "none") == 0 && (o->allow || o->deny)) {
		json_decref(egress);
		return err_set(err, ERR_INVALID, -EINVAL,
			"with --network none there is nothing to allow or deny");
	}
	if (o->rate && parse_size(o->rate, 0, INT64_MAX, &rate) < 0) {
		json_decref(egress);
		return err_set(err, ERR_INVALID, -EINVAL,
			"--rate takes a number of bytes, such as 512K or 1MiB, not '%s'", o->rate);
	}
	*ret = NULL;
	if (egress || o->rate)
		*ret = json_pack("{s:o*}", "egress", egress);
	if (o->rate)
		(void)json_object_set_new(*ret, "bytes_per_second", json_integer((json_int_t)rate));
	return 0;
}
