/* SPDX-License-Identifier: Apache-2.0 */
/* What the API lists, as a table. */
#include "cli/table.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "cli/term.h"
#include "cli/text.h"

enum {
	CELL_MAX_BYTES = 1024 * 1024,
	GAP = 2, /* blanks between columns */
};

static char *join(const json_t *value)
{
	_cleanup_buf_ struct buf text = buf_init(CELL_MAX_BYTES);
	json_t *item;
	const char *key;
	size_t i;

	if (json_is_array(value)) {
		json_array_foreach(value, i, item) {
			_cleanup_free_ char *one = table_any(item);

			(void)buf_appendf(&text, "%s%s", text.len ? "," : "", one);
		}
	} else {
		/* jansson iterates over objects that it could change; nothing is changed here */
		json_object_foreach((json_t *)(uintptr_t)value, key, item) {
			_cleanup_free_ char *name = text_clean(key), *one = table_any(item);

			(void)buf_appendf(&text, "%s%s=%s", text.len ? "," : "", name, one);
		}
	}
	return text.len ? buf_steal(&text) : text_format("-");
}

char *table_any(const json_t *value)
{
	if (json_string_length(value) > 0)
		return text_clean(json_string_value(value));
	if (json_is_integer(value))
		return text_format("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (json_is_real(value))
		return text_format("%g", json_real_value(value));
	if (json_is_boolean(value))
		return text_format("%s", json_is_true(value) ? "yes" : "no");
	if (json_is_array(value) || json_is_object(value))
		return join(value);
	return text_format("-");
}

char *table_size(const json_t *value)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return table_any(value);
	return text_bytes((uint64_t)json_integer_value(value));
}

/* Seconds from now to that time; false where it is no RFC 3339 time in UTC. */
static bool seconds_to(const json_t *value, int64_t *ret)
{
	struct tm tm = {0};

	if (!json_is_string(value) || !strptime(json_string_value(value), "%Y-%m-%dT%H:%M:%S", &tm))
		return false;
	*ret = (int64_t)timegm(&tm) - (int64_t)time(NULL);
	return true;
}

char *table_age(const json_t *value)
{
	int64_t s;

	return seconds_to(value, &s) ? text_seconds(MAX(-s, 0)) : table_any(value);
}

char *table_left(const json_t *value)
{
	int64_t s;

	return seconds_to(value, &s) ? text_seconds(MAX(s, 0)) : table_any(value);
}

struct table_style table_style_of(FILE *f)
{
	return (struct table_style){
		.aligned = isatty(fileno(f)),
		.colour = term_has_colour(fileno(f)),
	};
}

static char *cell(const json_t *row, const struct table_column *column)
{
	return column->format(json_object_get(row, column->key));
}

/* Errors of these writes are found when the program ends, see cli_main(). */
static void put_cell(FILE *f, struct table_style style, const char *text, size_t width, bool last)
{
	(void)fputs(text, f);
	if (last)
		(void)fputc('\n', f);
	else if (style.aligned)
		(void)fprintf(f, "%*s", (int)(width - text_width(text) + GAP), "");
	else
		(void)fputc('\t', f);
}

static void put_heading(FILE *f, struct table_style style, const struct table_column *columns,
	size_t n, const size_t *widths)
{
	if (style.colour)
		(void)fputs("\033[1m", f);
	for (size_t c = 0; c + 1 < n; c++)
		put_cell(f, style, columns[c].heading, widths[c], false);
	(void)fprintf(f, "%s%s\n", columns[n - 1].heading, style.colour ? "\033[0m" : "");
}

void table_print(FILE *f, struct table_style style, const json_t *rows,
	const struct table_column *columns, size_t n_columns)
{
	size_t widths[TABLE_COLUMNS_MAX], i;
	json_t *row;

	assert(n_columns > 0 && n_columns <= TABLE_COLUMNS_MAX);
	for (size_t c = 0; c < n_columns; c++) {
		widths[c] = text_width(columns[c].heading);
		json_array_foreach(rows, i, row) {
			_cleanup_free_ char *text = cell(row, &columns[c]);

			widths[c] = MAX(widths[c], text_width(text));
		}
	}
	if (style.aligned)
		put_heading(f, style, columns, n_columns, widths);
	json_array_foreach(rows, i, row) {
		for (size_t c = 0; c < n_columns; c++) {
			_cleanup_free_ char *text = cell(row, &columns[c]);

			put_cell(f, style, text, widths[c], c + 1 == n_columns);
		}
	}
}

void table_print_value(FILE *f, const json_t *value)
{
	_cleanup_free_ char *text = table_any(value);

	(void)fprintf(f, "%s\n", text);
}

void table_print_object(FILE *f, struct table_style style, const json_t *object)
{
	static const struct table_column columns[] = {
		{"KEY", "key", table_any},
		{"VALUE", "value", table_any},
	};
	json_t *rows = json_array(), *value;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
		(void)json_array_append_new(rows,
			json_pack("{s:s, s:O}", "key", key, "value", value));
	table_print(f, style, rows, columns, ARRAY_SIZE(columns));
	json_decref(rows);
}
