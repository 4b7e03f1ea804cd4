/* SPDX-License-Identifier: Apache-2.0 */
/* What a request about files is about, for the routes that have them (h_fs.c). */
#pragma once

#include "http/http.h"

/* ERR_INVALID unless it is absolute and not too long; `name` is for the message. NULL is missing. */
int fs_check_path(const char *path, const char *name, struct err *err);

/* The sandbox, a reference, and ?path=, which is absolute. */
int fs_read_target(struct http_req *req, struct sandbox **ret_sb, const char **ret_path,
	struct err *err);
