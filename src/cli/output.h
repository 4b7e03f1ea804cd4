/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What code and commands in a sandbox give back: their output goes to ours as it is, charts go to
 * files, their end becomes an exit status.
 *
 * output_init() → output_feed() for each part of an event stream → output_end() → output_done().
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/sse.h"

struct output {
	struct sse sse;
	const char *chart_dir;           /* where charts go; NULL: nowhere; borrowed */
	unsigned int n_saved, n_unsaved; /* charts */
	bool mid_line;                   /* stdout does not end in a newline */
	bool ended;                      /* the event `exit` came */
	bool exited;                     /* the code called sys.exit() */
	int status;                      /* the exit status, known by one of the two */
	struct err *err;                 /* borrowed while output_feed() runs */
};

struct output output_init(const char *chart_dir);
void output_done(struct output *out);
#define _cleanup_output_ CLEANUP(output_done)

/* A client_data_fn; `user` is the struct output. */
int output_feed(const char *data, size_t len, void *user, struct err *err);

/* After the stream's end: the exit status, or an error when it ended too early. */
int output_end(struct output *out, struct err *err);

/* Saves the image of a result, if it has one and there is a folder for it. */
int output_save(struct output *out, const json_t *bundle, struct err *err);

/* The exit status that the facts of an answer, or of the event `exit`, stand for: 128 + N for
 * signal N, and that of sys.exit() as Python itself takes its argument. */
int output_status(const json_t *answer);
