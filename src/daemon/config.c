/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `pandastack serve`, from the command line, then from the environment. */
#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "base/parse.h"
#include "base/str.h"

enum type {
	TYPE_TEXT,
	TYPE_CHOICE,
	TYPE_SIZE,
	TYPE_COUNT,
	TYPE_FLAG,
};

enum {
	NAME_SIZE = 64,
	HELP_COLUMN = 29,
};

struct option {
	const char *name; /* the member's: with '_' */
	enum type type;
	const char *def;
	const char *choices;
	const char *value_name;
	const char *help;
	size_t offset;
};

static const struct option options[] = {
#define X(n, t, d, c, v, h) {#n, TYPE_##t, d, c, v, h, offsetof(struct serve_config, n)},
#include "config.def"
#undef X
};

/* "data_dir" to "data-dir". */
static void option_name(char dst[NAME_SIZE], const struct option *o)
{
	(void)snprintf(dst, NAME_SIZE, "%s", o->name);
	for (char *p = dst; *p; p++) {
		if (*p == '_')
			*p = '-';
	}
}

/* "data_dir" to "PANDASTACK_DATA_DIR". */
static void env_name(char dst[NAME_SIZE], const struct option *o)
{
	(void)snprintf(dst, NAME_SIZE, "PANDASTACK_%s", o->name);
	for (char *p = dst; *p; p++)
		*p = (char)toupper((unsigned char)*p);
}

static bool is_choice(const char *choices, const char *value)
{
	size_t len = strlen(value);

	for (const char *p = choices; *p; p += *p == '|') {
		size_t n = strcspn(p, "|");

		if (n == len && memcmp(p, value, n) == 0)
			return true;
		p += n;
	}
	return false;
}

/* `bounds` are two sizes with a '|' between them; `kind` is the word for what it is. */
static int set_size(uint64_t *member, const char *kind, const char *bounds, const char *source,
	const char *value, struct err *err)
{
	char low[NAME_SIZE];
	const char *high = strchr(bounds, '|') + 1;
	uint64_t min = 0, max = 0;

	(void)snprintf(low, sizeof(low), "%.*s", (int)(high - bounds - 1), bounds);
	(void)parse_size(low, 0, UINT64_MAX, &min); /* of our own table */
	(void)parse_size(high, 0, UINT64_MAX, &max);
	if (parse_size(value, min, max, member) < 0)
		return err_set(err, ERR_INVALID, -EINVAL,
			"%s must be a %s between %s and %s, such as %s", source, kind, low, high,
			high);
	return 0;
}

static int set_count(unsigned int *member, const char *bounds, const char *source,
	const char *value, struct err *err)
{
	uint64_t n;
	int r = set_size(&n, "number", bounds, source, value, err);

	if (r == 0)
		*member = (unsigned int)n;
	return r;
}

/* `source` is what the user wrote it as, for the message. */
static int set_value(struct serve_config *config, const struct option *o, const char *source,
	const char *value, struct err *err)
{
	void *member = (char *)config + o->offset;

	switch (o->type) {
	case TYPE_FLAG:
		if (!is_choice("0|1", value))
			return err_set(err, ERR_INVALID, -EINVAL, "%s must be 0 or 1", source);
		*(bool *)member = *value == '1';
		return 0;
	case TYPE_CHOICE:
		if (!is_choice(o->choices, value))
			return err_set(err, ERR_INVALID, -EINVAL, "%s must be one of %s", source,
				o->choices);
		break;
	case TYPE_SIZE:
		return set_size(member, "size", o->choices, source, value, err);
	case TYPE_COUNT:
		return set_count(member, o->choices, source, value, err);
	case TYPE_TEXT:
		if (!*value)
			return err_set(err, ERR_INVALID, -EINVAL, "%s must not be empty", source);
		break;
	}
	*(const char **)member = value;
	return 0;
}

/* Whether one edit (a character put in, left out, changed, or two swapped) makes b of a, or two. */
static unsigned int edits(const char *a, const char *b, unsigned int max)
{
	unsigned int best;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	if (strcmp(a, b) == 0)
		return 0;
	if (max == 0)
		return 1;
	best = *a ? edits(a + 1, b, max - 1) : max;
	if (*b)
		best = MIN(best, edits(a, b + 1, max - 1));
	if (*a && *b)
		best = MIN(best, edits(a + 1, b + 1, max - 1));
	if (*a && a[0] == b[1] && a[1] == b[0])
		best = MIN(best, edits(a + 2, b + 2, max - 1));
	return best + 1;
}

static int err_unknown(const char *given, size_t len, struct err *err)
{
	char word[NAME_SIZE], name[NAME_SIZE];

	(void)str_printable(word, sizeof(word), given, len);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		option_name(name, &options[i]);
		if (edits(word, name, 2) <= 2 || (len >= 3 && str_starts_with(name, word)))
			return err_set(err, ERR_INVALID, -EINVAL,
				"there is no option --%s; did you mean --%s?", word, name);
	}
	return err_set(err, ERR_INVALID, -EINVAL,
		"there is no option --%s; `pandastack serve --help` lists them", word);
}

static const struct option *find_option(const char *word, size_t len)
{
	char name[NAME_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		option_name(name, &options[i]);
		if (strlen(name) == len && memcmp(name, word, len) == 0)
			return &options[i];
	}
	return NULL;
}

/* Reads the option at argv[*i], which begins with "--", and steps over its value. */
static int parse_option(int argc, char **argv, int *i, struct serve_config *config, struct err *err)
{
	const char *word = argv[*i] + 2, *value = strchr(word, '=');
	size_t len = strcspn(word, "=");
	const struct option *o = find_option(word, len);
	char source[NAME_SIZE];

	if (!o)
		return err_unknown(word, len, err);
	(void)snprintf(source, sizeof(source), "--%.*s", (int)len, word);
	if (o->type == TYPE_FLAG) {
		if (value)
			return err_set(err, ERR_INVALID, -EINVAL, "%s takes no value", source);
		return set_value(config, o, source, "1", err);
	}
	if (value)
		return set_value(config, o, source, value + 1, err);
	if (*i + 1 == argc)
		return err_set(err, ERR_INVALID, -EINVAL, "%s needs a value: %s %s", source, source,
			o->value_name);
	return set_value(config, o, source, argv[++*i], err);
}

static int set_defaults(struct serve_config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(options); i++) {
		if (options[i].def)
			r = set_value(config, &options[i], options[i].name, options[i].def, err);
	}
	return r;
}

static int read_env(config_env_fn *env, struct serve_config *config, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		char name[NAME_SIZE];
		const char *value;
		int r;

		env_name(name, &options[i]);
		value = env(name);
		if (!value || !*value)
			continue;
		r = set_value(config, &options[i], name, value, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int serve_config_parse(int argc, char **argv, config_env_fn *env, struct serve_config *ret,
	struct err *err)
{
	struct serve_config config = {0};
	int r = set_defaults(&config, err);

	if (r == 0)
		r = read_env(env, &config, err);

	for (int i = 1; r == 0 && i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			config.help = true;
			break;
		}
		if (!str_starts_with(argv[i], "--")) {
			char word[NAME_SIZE];

			str_printable(word, sizeof(word), argv[i], strlen(argv[i]));
			return err_set(err, ERR_INVALID, -EINVAL,
				"\"%s\" is too much: `pandastack serve` takes only options", word);
		}
		r = parse_option(argc, argv, &i, &config, err);
	}
	if (r < 0)
		return r;
	*ret = config;
	return 0;
}

void serve_config_help(FILE *out)
{
	(void)fprintf(out,
		"Usage: pandastack serve [OPTIONS]\n\n"
		"Runs sandboxes and serves the HTTP API until SIGTERM or SIGINT; a second one "
		"ends it at once.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct option *o = &options[i];
		char name[NAME_SIZE], left[2 * NAME_SIZE];

		option_name(name, o);
		(void)snprintf(left, sizeof(left), "--%s %s", name,
			o->value_name ? o->value_name : "");
		(void)fprintf(out, "  %-*s %s", HELP_COLUMN, left, o->help);
		if (o->type == TYPE_CHOICE)
			(void)fprintf(out, ": %s", o->choices);
		if (o->def)
			(void)fprintf(out, " (%s)", o->def);
		(void)fprintf(out, "\n");
	}
	(void)fprintf(out,
		"\nEach can be set in the environment instead: PANDASTACK_LISTEN for --listen, and "
		"so on; "
		"a flag by 1.\n\n"
		"The first start makes an API key. Key and address are written, readable by you "
		"alone, to\n"
		"~/.config/pandastack/config.json (XDG_CONFIG_HOME), where the command line and "
		"the SDKs find\n"
		"them; or to config.json in the data folder, when that is not the default one or "
		"the first file\n"
		"holds the key of another service. While it runs, daemon.json in the data folder "
		"tells its\n"
		"process and its address.\n");
}
