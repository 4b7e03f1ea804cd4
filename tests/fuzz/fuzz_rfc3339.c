/* SPDX-License-Identifier: Apache-2.0 */
/* Instants from outside: what is accepted is written by us as the same instant. */
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	char again[CLOCK_TEXT_SIZE];
	int64_t ms, same;

	if (parse_rfc3339_ms(text, &ms) < 0)
		return 0;
	clock_format_rfc3339(again, ms);
	/* The last day of 9999 in a western zone is a day of 10000 in ours. */
	if (ms <= 253402300799999 && (parse_rfc3339_ms(again, &same) < 0 || same != ms))
		__builtin_trap();
	return 0;
}
