/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may reach a port of a sandbox: whoever shows an API key, or a token for that port (preview.h).
 *
 *	/v1/p/{token}/…                               the token is part of the path
 *	Authorization: Bearer KEY-OR-TOKEN            programs
 *	?access_token=KEY-OR-TOKEN                    clients that cannot set headers
 *	Cookie: pandastack_preview=TOKEN              browsers, where the host name is the port's alone
 *
 * The server never sees what was shown. A browser that brings it in an address is sent on to one without it before the
 * server may answer, for the server's pages read their own address.
 */
#pragma once

#include "http/http.h"

struct access {
	char id[SANDBOX_ID_SIZE];
	uint16_t port;
	char *target;       /* owned; the server's part of it, without what was shown */
	bool authorization; /* that header is meant for the server */
	char *redirect;     /* owned; NULL, or where this browser has to go */
	char *cookie;       /* owned; NULL, or what it has to show there */
};

/* ERR_UNAUTHORIZED; ERR_FORBIDDEN where the token is for other paths; ERR_INVALID for what is no port. */
int access_check(struct http_req *req, struct access *ret, struct err *err);
void access_done(struct access *a);
