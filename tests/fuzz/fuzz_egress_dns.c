/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of DNS: a name is short and lower case, and what was learned is found again. */
#include <ctype.h>
#include <string.h>

#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_known known = {0};
	char name[EGRESS_NAME_SIZE];
	const char *names[DNS_NAMES_MAX];

	memset(name, 'A', sizeof(name));
	if (dns_question(data, size, name) == 0) {
		if (!memchr(name, '\0', sizeof(name)))
			__builtin_trap();
		for (const char *c = name; *c; c++) {
			if (isupper((unsigned char)*c) || !isprint((unsigned char)*c))
				__builtin_trap();
		}
	}
	dns_learn(&known, data, size, 1);
	for (size_t i = 0; known.entries && i < DNS_KNOWN_MAX; i++) {
		if (known.entries[i].until_ms &&
			dns_names(&known, &known.entries[i].addr, 1, names) == 0)
			__builtin_trap();
	}
	dns_known_done(&known);
	return 0;
}
