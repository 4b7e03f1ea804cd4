/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request on its way to the guest, in pieces as they come (struct http_upload): the daemon never holds it.
 *
 * body_stream_begin() in the upload's begin; chunk and free are its chunk and free; body_stream_end() in the handler.
 */
#pragma once

#include "http/http.h"

/* Opens the operation that takes the body; the request's reference is taken. Sets req->upload. */
int body_stream_begin(struct http_req *req, struct sandbox *sb, json_t *request, struct err *err);

int body_stream_chunk(struct http_req *req, const void *data, size_t len, struct err *err);

/* All was read: waits for the guest's answer, which is the caller's. */
int body_stream_end(struct http_req *req, json_t **ret, struct err *err);

void body_stream_free(void *upload);
