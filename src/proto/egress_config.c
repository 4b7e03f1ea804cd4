/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what the daemon tells an egress helper. */
#include "proto/egress_config.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"

static int add_resolver(struct egress_config *c, const char *value, struct err *err)
{
	struct egress_addr addr;

	if (egress_addr_parse(value, &addr) < 0)
		return err_set(err, ERR_INVALID, -EINVAL, "\"%s\" is no address", value);
	/* Sockets of the guest's IPv4 reach no other. */
	if (egress_addr_is_v4(&addr) && c->n_resolvers < ARRAY_SIZE(c->resolvers))
		c->resolvers[c->n_resolvers++] = addr;
	return 0;
}

static int read_line(struct egress_config *c, const char *word, const char *value, struct err *err)
{
	struct egress_policy *p = &c->policy;

	if (strcmp(word, "internet") == 0 &&
		(strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)) {
		p->internet = value[0] == 'y';
		return 0;
	}
	if (strcmp(word, "allow") == 0)
		return egress_rules_add(&p->allow, value, err);
	if (strcmp(word, "deny") == 0)
		return egress_rules_add(&p->deny, value, err);
	if (strcmp(word, "host-allow") == 0)
		return egress_rules_add(&p->host_allow, value, err);
	if (strcmp(word, "host-deny") == 0)
		return egress_rules_add(&p->host_deny, value, err);
	if (strcmp(word, "resolver") == 0)
		return add_resolver(c, value, err);
	if (strcmp(word, "mirror") == 0 && parse_u64(value, 1, UINT16_MAX, &c->mirror_port) == 0)
		return 0;
	if (strcmp(word, "rate") == 0 && parse_u64(value, 0, EGRESS_RATE_MAX, &c->rate) == 0)
		return 0;
	return err_set(err, ERR_INVALID, -EINVAL, "\"%s %s\" is nothing that can be set", word,
		value);
}

int egress_config_parse(const char *text, struct egress_config *ret, struct err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL, *line;
	int r = 0;

	if (!copy)
		abort();
	for (line = strtok_r(copy, "\n", &save); line && r == 0;
		line = strtok_r(NULL, "\n", &save)) {
		char *value = strchr(line, ' ');

		if (!value)
			return err_set(err, ERR_INVALID, -EINVAL, "\"%s\" has no value", line);
		*value++ = '\0';
		r = read_line(ret, line, value, err);
	}
	return r;
}

void egress_config_done(struct egress_config *c)
{
	egress_policy_done(&c->policy);
	*c = (struct egress_config){0};
}
