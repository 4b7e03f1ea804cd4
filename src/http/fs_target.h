/* SPDX-License-Identifier: Apache-2.0 */
/* What a request about files is about, for the routes that have them (h_fs.c). */
#pragma once

#include "http/http.h"

/* The sandbox, a reference, and ?path=, which is absolute. */
int fs_read_target(struct http_req *req, struct sandbox **ret_sb, const char **ret_path,
	struct err *err);
