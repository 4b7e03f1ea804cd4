/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks for that needs no sandbox: how to speak, and what there is. */
#include "mcp/methods.h"

#include <string.h>

#include "base/macros.h"
#include "version.h"

/* What a list holds is the same for all, until another version of the daemon. */
enum { LIST_TTL_MS = 3600 * 1000 };

static const char daemon_instructions[] =
	"Runs code and commands in sandboxes: virtual machines with a persistent kernel each. Where the client has a session, "
	"its calls share one sandbox, which is made with the first call and ends with the session. Results name their "
	"sandbox: pass `sandbox_id` to go on in that one.";
static const char sandbox_instructions[] =
	"Runs code and commands in one sandbox: a virtual machine with a persistent kernel.";

static const char *instructions(enum mcp_scope scope)
{
	return scope == MCP_SCOPE_DAEMON ? daemon_instructions : sandbox_instructions;
}

static json_t *capabilities(void)
{
	return json_pack("{s:{}, s:{}}", "tools", "resources");
}

static json_t *do_initialize(const struct mcp_message *m, enum mcp_scope scope)
{
	const char *wanted = json_string_value(json_object_get(m->params, "protocolVersion"));

	return json_pack("{s:s, s:o, s:{s:s, s:s}, s:s}", "protocolVersion", mcp_negotiate(wanted),
		"capabilities", capabilities(), "serverInfo", "name", "pandastack", "version",
		PANDASTACK_VERSION, "instructions", instructions(scope));
}

static json_t *do_ping(const struct mcp_message *m, enum mcp_scope scope)
{
	return json_object();
}

/* What may be kept by who asks for it. */
static json_t *cacheable(json_t *result)
{
	(void)json_object_set_new(result, "ttlMs", json_integer(LIST_TTL_MS));
	(void)json_object_set_new(result, "cacheScope", json_string("public"));
	return result;
}

static json_t *do_discover(const struct mcp_message *m, enum mcp_scope scope)
{
	return cacheable(json_pack("{s:o, s:o, s:s}", "supportedVersions", mcp_versions(),
		"capabilities", capabilities(), "instructions", instructions(scope)));
}

static json_t *do_tools(const struct mcp_message *m, enum mcp_scope scope)
{
	return cacheable(json_pack("{s:o}", "tools", mcp_tools(scope)));
}

/* Files are read by their address; there are too many to list. */
static json_t *do_resources(const struct mcp_message *m, enum mcp_scope scope)
{
	return cacheable(json_pack("{s:[]}", "resources"));
}

static json_t *do_templates(const struct mcp_message *m, enum mcp_scope scope)
{
	return cacheable(json_pack("{s:[{s:s, s:s, s:s, s:s}]}", "resourceTemplates", "uriTemplate",
		"sandbox://{sandbox_id}{+path}", "name", "file", "title", "A file of a sandbox",
		"description", "Its bytes, up to 8 MiB; `path` is absolute"));
}

static const struct {
	const char *name;
	bool legacy, modern;
	enum mcp_todo todo;
	json_t *(*make)(const struct mcp_message *m, enum mcp_scope scope); /* of MCP_DONE */
} methods[] = {
	{"initialize", .legacy = true, .make = do_initialize},
	{"ping", .legacy = true, .make = do_ping},
	{"server/discover", .modern = true, .make = do_discover},
	{"tools/list", true, true, .make = do_tools},
	{"tools/call", true, true, MCP_CALL},
	{"resources/list", true, true, .make = do_resources},
	{"resources/templates/list", true, true, .make = do_templates},
	{"resources/read", true, true, MCP_READ},
};

enum mcp_todo mcp_answer(const struct mcp_message *m, enum mcp_scope scope,
	struct mcp_answer *answer)
{
	*answer = (struct mcp_answer){.status = 202};
	if (!m->id)
		return MCP_DONE;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(m->method, methods[i].name) != 0 ||
			!(m->modern ? methods[i].modern : methods[i].legacy))
			continue;
		if (methods[i].todo == MCP_DONE)
			*answer =
				(struct mcp_answer){200, mcp_result(m, methods[i].make(m, scope))};
		return methods[i].todo;
	}
	*answer = (struct mcp_answer){m->modern ? 404 : 200,
		mcp_error(m->id, MCP_NO_METHOD, "there is no such method", NULL)};
	return MCP_DONE;
}
