/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents of indexes: JSON in files.
 *
 * Their bytes are bounded by who downloads them; in memory a small value takes fifty times its bytes, so values are bounded here.
 */
#pragma once

#include <jansson.h>

enum { DOCUMENT_VALUES_MAX = 2 * 1000 * 1000 };

/* NULL: it is none, or has too many values. */
json_t *document_read(int fd);
/* 0, or an errno; to where the descriptor stands. */
int document_write(const json_t *root, int fd);
