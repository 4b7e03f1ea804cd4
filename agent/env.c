/* SPDX-License-Identifier: Apache-2.0 */
/* Environments of the programs that the agent starts, in layers. */
#include "env.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "file_io.h"

enum { ENVIRONMENT_BYTES = 64 * 1024 };

static const char default_path[] =
	"/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

void env_done(struct env *env)
{
	for (size_t i = 0; i < env->count; i++)
		free(env->vars[i]);
	free(env->vars);
	*env = (struct env){0};
}

void env_set(struct env *env, const char *key, const char *value)
{
	size_t key_len = strlen(key), i;
	char *var;

	if (asprintf(&var, "%s=%s", key, value) < 0)
		abort(); /* out of memory; requests are bounded by LIMIT_OPEN_BYTES */
	for (i = 0; i < env->count; i++) {
		if (strncmp(env->vars[i], var, key_len + 1) == 0)
			break;
	}
	if (i < env->count) {
		free(env->vars[i]);
	} else {
		env->vars = reallocarray(env->vars, env->count + 2, sizeof(*env->vars));
		if (!env->vars)
			abort(); /* out of memory */
		env->count++;
		env->vars[env->count] = NULL;
	}
	env->vars[i] = var;
}

static void set_line(struct env *env, char *line)
{
	char *value;
	size_t len;

	line += strspn(line, " \t");
	if (strncmp(line, "export ", 7) == 0)
		line += 7;
	value = strchr(line, '=');
	if (*line == '#' || !value || value == line)
		return;
	*value++ = '\0';
	len = strlen(value);
	if (len >= 2 && (value[0] == '"' || value[0] == '\'') && value[len - 1] == value[0]) {
		value[len - 1] = '\0';
		value++;
	}
	env_set(env, line, value);
}

void env_set_text(struct env *env, char *text)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		set_line(env, line);
}

void env_set_json(struct env *env, json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) {
		if (json_is_string(value))
			env_set(env, key, json_string_value(value));
	}
}

void env_build(struct env *env, const char *environment_path, const char *home, const char *user,
	json_t *sandbox, json_t *request)
{
	_cleanup_buf_ struct buf text = buf_init(ENVIRONMENT_BYTES);

	env_set(env, "PATH", default_path);
	env_set(env, "LANG", "C.UTF-8");
	env_set(env, "HOME", home);
	env_set(env, "USER", user);
	env_set(env, "LOGNAME", user);
	env_set(env, "SHELL", "/bin/bash");
	if (file_read_small(AT_FDCWD, environment_path, &text) == 0)
		env_set_text(env, text.data);
	env_set_json(env, sandbox);
	env_set_json(env, request);
}

json_t *env_to_json(const struct env *env)
{
	json_t *object = json_object();

	for (size_t i = 0; i < env->count; i++) {
		const char *value = strchr(env->vars[i], '=');
		size_t key_len = (size_t)(value - env->vars[i]);
		_cleanup_free_ char *key = strndup(env->vars[i], key_len);

		/* A line of /etc/environment that is not UTF-8 cannot be told in JSON. */
		if (key)
			(void)json_object_set_new(object, key, json_string(value + 1));
	}
	return object;
}

const char *env_check_json(json_t *object)
{
	const char *key;
	json_t *value;

	if (!object)
		return NULL;
	if (!json_is_object(object))
		return "\"env\" must be an object";
	json_object_foreach(object, key, value) {
		if (!*key || strchr(key, '='))
			return "names in \"env\" must not be empty or hold \"=\"";
		if (!json_is_string(value))
			return "values in \"env\" must be text";
	}
	return NULL;
}
