/* SPDX-License-Identifier: Apache-2.0 */
/* Text to numbers, strictly. */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

int parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	char *end;
	long long v;

	if (!isdigit((unsigned char)s[0]) && !(s[0] == '-' && isdigit((unsigned char)s[1])))
		return -EINVAL;
	errno = 0;
	v = strtoll(s, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

/* Of these digits alone: strtoull() would take signs, blanks and prefixes. */
static int parse_digits(const char *s, const char *digits, int base, uint64_t min, uint64_t max,
	uint64_t *ret)
{
	unsigned long long v;

	if (!*s || s[strspn(s, digits)])
		return -EINVAL;
	errno = 0;
	v = strtoull(s, NULL, base);
	if (errno == ERANGE || v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse_digits(s, "0123456789", 10, min, max, ret);
}

int parse_hex(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse_digits(s, "0123456789abcdefABCDEF", 16, min, max, ret);
}

int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const char units[] = "kmgt";
	const char *unit;
	unsigned int shift = 0;
	char *end;
	unsigned long long v;

	if (!isdigit((unsigned char)s[0]))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno == ERANGE)
		return -ERANGE;
	unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
		if (strcasecmp(end, "iB") == 0)
			end += 2;
		else if (strcasecmp(end, "B") == 0)
			end++;
	}
	if (*end)
		return -EINVAL;
	if (v > max >> shift || v << shift < min)
		return -ERANGE;
	*ret = v << shift;
	return 0;
}

int parse_duration_ms(const char *s, int64_t min_ms, int64_t max_ms, int64_t *ret_ms)
{
	static const struct {
		const char *suffix;
		int64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"", 1000}};
	char *end;
	long long v;

	if (!isdigit((unsigned char)s[0]))
		return -EINVAL;
	errno = 0;
	v = strtoll(s, &end, 10);
	if (errno == ERANGE)
		return -ERANGE;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].suffix) != 0)
			continue;
		if (v > max_ms / units[i].ms || v * units[i].ms < min_ms)
			return -ERANGE;
		*ret_ms = v * units[i].ms;
		return 0;
	}
	return -EINVAL;
}

/* Whether s begins as the pattern does, in which 'd' is a digit. Returns what is behind, or NULL. */
static const char *shaped(const char *s, const char *pattern)
{
	for (; *pattern; s++, pattern++) {
		if (*pattern == 'd' ? !isdigit((unsigned char)*s) : *s != *pattern)
			return NULL;
	}
	return s;
}

/* ".123456", or nothing. Returns what is behind, or NULL. */
static const char *fraction_ms(const char *s, int64_t *ret_ms)
{
	int64_t unit = 100;

	if (*s != '.')
		return s;
	if (!isdigit((unsigned char)*++s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++, unit /= 10)
		*ret_ms += unit * (*s - '0');
	return s;
}

/* "Z" or "+02:00", up to the end. */
static int offset_ms(const char *s, int64_t *ret_ms)
{
	const char *end;
	int64_t hours, minutes;

	if (strcmp(s, "Z") == 0)
		return 0;
	end = *s == '+' || *s == '-' ? shaped(s + 1, "dd:dd") : NULL;
	if (!end || *end)
		return -EINVAL;
	hours = 10 * (s[1] - '0') + (s[2] - '0');
	minutes = 10 * (s[4] - '0') + (s[5] - '0');
	if (hours > 23 || minutes > 59)
		return -EINVAL;
	*ret_ms = (*s == '+' ? 1 : -1) * (hours * 60 + minutes) * 60000;
	return 0;
}

int parse_rfc3339_ms(const char *s, int64_t *ret_ms)
{
	int64_t fraction = 0, offset = 0, ms;
	const char *end = shaped(s, "dddd-dd-ddTdd:dd:dd");
	struct tm tm = {0}, same;

	if (!end || strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) != end)
		return -EINVAL;
	end = fraction_ms(end, &fraction);
	if (!end || offset_ms(end, &offset) < 0)
		return -EINVAL;
	same = tm;
	ms = (int64_t)timegm(&same) * 1000 + fraction - offset;
	if (same.tm_mday != tm.tm_mday && tm.tm_sec < 60) /* the 30th of February */
		return -EINVAL;
	if (ms < 0)
		return -ERANGE;
	*ret_ms = ms;
	return 0;
}
