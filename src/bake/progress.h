/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a long job on stderr: a line each, with the time it took. On a terminal the seconds of
 * the running step count up.
 */
#pragma once

#include <stdint.h>

struct progress;

struct progress *progress_new(void);
/* Ends the running step as failed, if one runs. Returns NULL. */
struct progress *progress_free(struct progress *p);

/* Ends the running step, if any, and begins the next. */
void progress_step(struct progress *p, const char *text);
/* Ends the running step. */
void progress_done(struct progress *p);
