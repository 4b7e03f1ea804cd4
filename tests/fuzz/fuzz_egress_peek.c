/* SPDX-License-Identifier: Apache-2.0 */
/* Names in streams: however the bytes are cut, the verdict is the same. The first bytes choose the port, the mode and the cuts. */
#include <string.h>

#include "base/macros.h"
#include "egress/peek.h"

enum { HEAD = 6 };

static enum peek_verdict run(const struct egress_policy *policy, const uint8_t *data, size_t size,
	bool cut)
{
	static const uint16_t ports[] = {80, 443, 8080};
	const uint8_t *stream = data + HEAD;
	enum peek_verdict v = PEEK_PASS;
	char why[EGRESS_WHY_SIZE];
	struct peek p;
	size_t at = 0, len = size - HEAD;

	peek_init(&p, policy, ports[data[0] % ARRAY_SIZE(ports)], (enum egress_names)(data[1] % 3));
	for (size_t n = 0; at < len && (v == PEEK_PASS || v == PEEK_HOLD); n++) {
		size_t step = cut ? MIN(1 + (size_t)data[2 + n % 4], len - at) : len;

		v = peek_feed(&p, stream + at, step, why);
		at += step;
	}
	peek_done(&p);
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct egress_policy policy;

	if (!policy.allow.n) {
		(void)egress_rules_add(&policy.allow, "*.good.example", NULL);
		(void)egress_rules_add(&policy.host_allow, "good.example:80", NULL);
		(void)egress_rules_add(&policy.deny, "evil.good.example", NULL);
	}
	if (size > HEAD && size <= PEEK_HELLO_MAX &&
		run(&policy, data, size, true) != run(&policy, data, size, false))
		__builtin_trap();
	return 0;
}
