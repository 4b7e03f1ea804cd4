/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API lists, as a table: aligned, with a heading, on a terminal; else one row per line,
 * cells separated by tabs and no heading, for other programs. Values are cleaned (text.h), also where
 * one is printed by itself.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12 };

/* A cell's text, cleaned and owned by the caller; `value` is NULL where the row has none. */
typedef char *table_format_fn(const json_t *value);

/* Scalars as they are, "k=v,k=v" for an object, "a,b" for an array, "-" for nothing. */
table_format_fn table_any;
table_format_fn table_size; /* bytes */
table_format_fn table_age;  /* an RFC 3339 time in the past */
table_format_fn table_left; /* an RFC 3339 time to come */

struct table_column {
	const char *heading;
	const char *key; /* of the row's object */
	table_format_fn *format;
};

struct table_style {
	bool aligned; /* with spaces, under a heading */
	bool colour;
};

/* What fits that file. */
struct table_style table_style_of(FILE *f);

/* `rows` is an array of objects; anything else in it is an empty row. */
void table_print(FILE *f, struct table_style style, const json_t *rows,
	const struct table_column *columns, size_t n_columns);

/* One value on a line of its own. */
void table_print_value(FILE *f, const json_t *value);

/* An object's keys and values, one per line. */
void table_print_object(FILE *f, struct table_style style, const json_t *object);
