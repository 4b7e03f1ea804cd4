/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a policy and the text for a helper: a rule is read again as it is shown, and what is none says why. */
#include <stdio.h>
#include <string.h>

#include "proto/egress_config.h"

static void check_rule(const char *text)
{
	struct egress_rule rule, again;
	struct err err = {0};

	if (egress_rule_parse(text, &rule, &err) < 0) {
		if (!err.msg[0])
			__builtin_trap();
		return;
	}
	if (rule.prefix > 128 || rule.first_port > rule.last_port || strpbrk(rule.text, " \n"))
		__builtin_trap();
	if (egress_rule_parse(rule.text, &again, &err) < 0 ||
		memcmp(&rule, &again, sizeof(rule)) != 0)
		__builtin_trap();
	/* Whatever a sandbox may allow the daemon may, too. */
	if (egress_rule_can_allow(&rule, false, &err) == 0 &&
		egress_rule_can_allow(&rule, true, &err) < 0)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	struct egress_config config = {0};
	struct err err = {0};
	char *line = text;

	if (egress_config_parse(text, &config, &err) < 0 && !err.msg[0])
		__builtin_trap();
	egress_config_done(&config);
	while (line)
		check_rule(strsep(&line, "\n"));
	return 0;
}
