/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tool gave, as the protocol's content: text for the model, images, resources, and the same as structured content.
 *
 * Cells and files come from the guest and may be nonsense; what is no image is not passed on as one. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mcp_content {
	json_t *items;      /* owned; an array */
	json_t *structured; /* owned; an object that fits the tool's outputSchema, or NULL */
	bool is_error;
};

/* A result of tools/call; ends the content. */
json_t *mcp_content_result(struct mcp_content *c);
void mcp_content_done(struct mcp_content *c);

struct mcp_content mcp_content_failure(const char *text);
/* The answer of a route (takes the reference), as text too. */
struct mcp_content mcp_content_json(json_t *answer);
/* The answers of the API for a cell and for a command (take the reference), in the sandbox of that id. */
struct mcp_content mcp_content_cell(json_t *answer, const char *sandbox);
struct mcp_content mcp_content_command(json_t *answer);
/* A file's bytes. */
struct mcp_content mcp_content_file(const char *sandbox, const char *path, const char *data,
	size_t len);

/* One more item of text. */
void mcp_content_add_text(struct mcp_content *c, const char *text);

/* The `contents` of resources/read. */
json_t *mcp_resource(const char *uri, const char *data, size_t len);
/* "sandbox://ID/path": a file's address, to be freed; and back: 0 with both owned by the caller, or -EINVAL. */
char *mcp_file_uri(const char *sandbox, const char *path);
int mcp_file_uri_parse(const char *uri, char **ret_sandbox, char **ret_path);
