/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack sandbox cp`: one file into a sandbox or out of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/opts.h"
#include "cli/sandbox.h"
#include "cli/sink.h"
#include "cli/text.h"

/* The side in the sandbox. */
struct remote {
	char *id; /* owned; a prefix of it will do */
	const char *path;
};

static void remote_done(struct remote *remote)
{
	free(remote->id);
}
#define _cleanup_remote_ CLEANUP(remote_done)

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* As cp does it: into a folder under the source's name. */
static char *join_if_folder(const char *dst, bool is_folder, const char *src)
{
	size_t len = strlen(dst);

	if (!is_folder)
		return text_format("%s", dst);
	return text_format("%s%s%s", dst, dst[len - 1] == '/' ? "" : "/", base_name(src));
}

static bool is_local_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The path of the API for that file. */
static int file_path(struct client *client, const char *sandbox, const char *path, char **ret,
	struct err *err)
{
	_cleanup_free_ char *id = NULL, *escaped = NULL, *suffix = NULL;
	int r;

	if (path[0] != '/')
		return err_set(err, ERR_INVALID, -EINVAL,
			"a path in a sandbox begins with '/', as in %s:/workspace/%s", sandbox,
			path);
	r = sandbox_resolve(client, sandbox, &id, err);
	if (r < 0)
		return r;
	escaped = client_escape(path);
	suffix = text_format("/fs?path=%s", escaped);
	*ret = sandbox_path(id, suffix);
	return 0;
}

static int download(struct client *client, const struct remote *src, const char *dst, bool json,
	struct err *err)
{
	_cleanup_free_ char *local = join_if_folder(dst, is_local_folder(dst), src->path);
	_cleanup_free_ char *path = NULL;
	struct progress progress = progress_init(base_name(src->path));
	_cleanup_sink_ struct sink sink = {.path = local, .fd = -1};
	struct client_request request = {
		.method = "GET",
		.accept = "application/octet-stream",
		.on_data = sink_write,
		.data_user = &sink,
		.progress = &progress,
	};
	json_t *summary;
	int r = file_path(client, src->id, src->path, &path, err);

	if (r < 0)
		return r;
	request.path = path;
	r = client_send(client, &request, NULL, err);
	if (r < 0)
		return sink.fd >= 0 ? err_wrap(err, "%s is incomplete", local) : r;
	r = sink_open(&sink, err);
	if (r < 0 || !json)
		return r;
	summary = json_pack("{s:s, s:I}", "path", local, "bytes", (json_int_t)sink.bytes);
	r = client_print_json(summary, JSON_INDENT(2), err);
	json_decref(summary);
	return r;
}

static int upload(struct client *client, const char *src, const struct remote *dst, bool json,
	struct err *err)
{
	size_t len = strlen(dst->path);
	bool is_folder = len && dst->path[len - 1] == '/';
	_cleanup_free_ char *remote = join_if_folder(dst->path, is_folder, src), *path = NULL;
	_cleanup_close_ int fd = -1;
	struct progress progress = progress_init(base_name(src));
	struct client_request request = {
		.method = "PUT",
		.uploads = true,
		.progress = &progress,
	};
	json_t *answer = NULL;
	int r;

	r = source_open(src, &fd, &request.upload_bytes, err);
	if (r == 0)
		r = file_path(client, dst->id, remote, &path, err);
	if (r < 0)
		return r;
	request.path = path;
	request.upload_fd = fd;
	r = client_send(client, &request, &answer, err);
	if (r == 0 && json)
		r = client_print_json(answer, JSON_INDENT(2), err);
	json_decref(answer);
	return r;
}

int cmd_sandbox_cp(int argc, char **argv, struct err *err)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_remote_ struct remote src = {0}, dst = {0};
	bool json = false, from_sandbox, to_sandbox;
	const struct opt opts[] = {OPT_JSON(&json)};
	const struct opts_spec spec = {
		.usage = "sandbox cp SOURCE DESTINATION [--json]",
		.about = "Copies one file into a sandbox or out of it. The side in the sandbox\n"
			 "is written ID:/PATH; the other is a local path, or '-' for stdin or\n"
			 "stdout. Folders on the way are made in the sandbox; folders themselves\n"
			 "are not copied.\n",
		.examples = "  pandastack sandbox cp data.csv 3f2a:/workspace/\n"
			    "  pandastack sandbox cp 3f2a:/workspace/report.pdf .\n"
			    "  tar c src | pandastack sandbox cp - 3f2a:/tmp/src.tar\n"
			    "  pandastack sandbox cp 3f2a:/etc/os-release -\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 2,
		.max_args = 2,
	};
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	from_sandbox = sandbox_split_path(argv[0], &src.id, &src.path);
	to_sandbox = sandbox_split_path(argv[1], &dst.id, &dst.path);
	if (from_sandbox == to_sandbox)
		return err_set(err, ERR_INVALID, -EINVAL,
			"one side must be in a sandbox (ID:/PATH), and the other must not");
	r = client_new(&client, err);
	if (r < 0)
		return r;
	if (from_sandbox)
		return download(client, &src, argv[1], json, err);
	return upload(client, argv[0], &dst, json, err);
}
