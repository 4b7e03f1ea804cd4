/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a web page of somebody else's may be behind a request: browsers say in `Origin` whose page asks, and a name that
 * was rebound to this machine stands in `Host`.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "http/http.h"

/* ERR_FORBIDDEN for an Origin that is not of this machine, and for a Host that is not, where the connection came in on a loopback address. */
int origin_check(const struct http_req *req, struct err *err);

/* Whether "HOST", "HOST:PORT" or "[IPV6]:PORT" is a name of this machine for itself. Pure. */
bool origin_is_loopback(const char *authority);
