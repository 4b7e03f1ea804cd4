/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox network`. */
#include <errno.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/sandbox.h"
#include "cli/table.h"

static void print_text(const char *what, const json_t *value)
{
	_cleanup_free_ char *text = table_any(value);

	(void)printf("%-12s %s\n", what, text);
}

static void print_rules(const char *what, const json_t *rules)
{
	const json_t *rule;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rules, i, rule)
		print_text(i == 0 ? what : "", rule);
}

static void print_counter(const json_t *counters, const char *key, const char *what)
{
	(void)printf("%-12s %lld\n", what,
		(long long)json_integer_value(json_object_get(counters, key)));
}

static int print_network(const json_t *network)
{
	const json_t *egress = json_object_get(network, "egress");
	const json_t *counters = json_object_get(network, "counters");
	json_int_t rate = json_integer_value(json_object_get(network, "bytes_per_second"));

	if (json_is_string(egress))
		print_text("egress", egress);
	print_rules("allow", json_object_get(egress, "allow"));
	print_rules("deny", json_object_get(egress, "deny"));
	if (rate)
		(void)printf("%-12s %lld bytes a second\n", "rate", (long long)rate);
	if (json_is_object(counters)) {
		print_counter(counters, "bytes_out", "bytes out");
		print_counter(counters, "bytes_in", "bytes in");
		print_counter(counters, "connections", "connections");
		print_counter(counters, "denied", "denied");
	}
	return 0;
}

int cmd_sandbox_network(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *path = NULL;
	struct network_options o = {0};
	json_t *body = NULL, *network = NULL;
	bool json = false;
	const struct opt opts[] = {OPTS_NETWORK(&o), OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "sandbox network ID [options]",
		.about =
			"Shows what a sandbox may reach and how much it has, or changes it at once:\n"
			"connections that are not allowed any more are reset.\n",
		.examples =
			"  pandastack sandbox network 3f2a\n"
			"  pandastack sandbox network 3f2a --network none\n"
			"  pandastack sandbox network 3f2a --allow 'api.example.com,*.example.net'\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r > 0)
		r = network_body(&o, &body, err) < 0 ? err->os : 1;
	if (r <= 0)
		return r;
	r = sandbox_reach(argv[0], "/network", &client, &path, err);
	if (r < 0) {
		json_decref(body);
		return r;
	}
	r = client_json(client, body ? "PATCH" : "GET", path, body, &network, err);
	if (r == 0)
		r = json ? client_print_json(network, JSON_INDENT(2), err) : print_network(network);
	json_decref(network);
	return r;
}
