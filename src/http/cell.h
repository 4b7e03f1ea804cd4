/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cell of code gave: gathered from the stream of its run (api/link.md, "A cell") into one
 * answer.
 *
 * Everything comes from the guest and may be nonsense: members of the wrong type are left out. Not
 * for sharing between threads.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "http/capture.h"
#include "http/http.h"

struct cell {
	struct capture streams[2]; /* stdout, stderr */
	json_t *results;           /* array of MIME bundles, values are strings */
	json_t *display_ids;       /* array beside `results`: strings, or null */
	size_t results_bytes, results_max;
	json_t *error;   /* what the answer tells of the runtime's last error event */
	bool cut;        /* a result or an error was too much */
	bool clear_next; /* clear_output(wait=True): the next output clears */
};

void cell_init(struct cell *cell, const struct http_limits *limits);
void cell_done(struct cell *cell);

/* Output of stdout (is_err: stderr). */
void cell_output(struct cell *cell, bool is_err, const void *data, size_t len);

/* An event of the runtime. */
void cell_event(struct cell *cell, const json_t *event);

/*
 * The answer of the API: all of the above and the facts of the guest's own answer. Ends the cell.
 * NULL without memory.
 */
json_t *cell_answer(struct cell *cell, const json_t *ok);

/* The facts of the guest's answer by themselves, for a stream: status, exit_code and so on. */
json_t *cell_facts(const json_t *ok);

/*
 * What an error is told with: error (the traceback), error_name, error_value, error_line. From the
 * runtime's event, and for what that lacks (it may be NULL) from the guest's answer (may be NULL).
 */
json_t *cell_error(const json_t *event, const json_t *ok);

/* The guest's word for how it ended; never NULL. */
const char *cell_status(const json_t *ok);

/* A bundle in which every value is a string, as clients want it; never NULL unless out of memory.
 */
json_t *cell_bundle(const json_t *data);
