/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes: which handler answers which method and path. */
#pragma once

#include <stdbool.h>

#include "http/http.h"

typedef int http_handler_fn(struct http_req *req, struct http_resp *resp, struct err *err);

struct route {
	const char *method;  /* "*": any */
	const char *pattern; /* "{x}" is any one segment, "*" at the end any number of them, also
				none */
	http_handler_fn *handler;         /* NULL: a part of the API that is still to be built */
	const struct http_upload *upload; /* NULL: the body is JSON */
	bool public;                      /* needs no key */
};

/* Enough for every method, with commas. */
enum { ROUTE_ALLOW_SIZE = 64 };

/*
 * Finds the route of a request, and its parameters. HEAD is answered as GET is.
 * -ENOENT (ERR_NOT_FOUND); -EPERM (ERR_METHOD) with the methods that would do in `allow`.
 */
int route_find(const char *method, const struct url *url, const struct route **ret,
	const char *ret_params[HTTP_PARAMS_MAX], char allow[ROUTE_ALLOW_SIZE], struct err *err);
