/* SPDX-License-Identifier: Apache-2.0 */
/* `pandastack template build`. */
#include "bake/cmd_template_build.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>

#include "bake/build.h"
#include "bake/cancel.h"
#include "base/clock.h"
#include "base/data_dir.h"
#include "base/fs.h"
#include "cli/opts.h"
#include "engine/firecracker_probe.h"

/* mke2fs lies in /usr/sbin, which an ordinary user of Debian does not have on the PATH. */
static void add_sbin(void)
{
	const char *path = getenv("PATH");
	_cleanup_free_ char *longer = NULL;

	if (asprintf(&longer, "%s:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin") < 0)
		abort();
	(void)setenv("PATH", longer, 1); /* without memory for it the spawn will say so */
}

int cmd_template_build(int argc, char **argv, struct err *err)
{
	struct build_options options = {.engine = "auto"};
	const char *templates = NULL, *firecracker = "firecracker";
	const struct opt opts[] = {
		{.name = "templates",
			.arg = "DIR",
			.text = &templates,
			.help = "where baked templates live (default: templates in the data folder)"},
		{.name = "mirror",
			.arg = "URL",
			.text = &options.mirror,
			.help = "Debian mirror, for machines that aren't Debian"},
		{.name = "security-mirror",
			.arg = "URL",
			.text = &options.security_mirror,
			.help = "the mirror of its security updates"},
		{.name = "engine",
			.arg = "NAME",
			.text = &options.engine,
			.help = "what to bake it for (default: auto, as the daemon chooses)"},
		{.name = "firecracker",
			.arg = "FILE",
			.text = &firecracker,
			.help = "the Firecracker to use (default: the one on the PATH)"},
		{.letter = 'f',
			.name = "force",
			.flag = &options.force,
			.help = "build even when the template is up to date"},
	};
	const struct opts_spec spec = {
		.usage = "template build NAME|DIR",
		.about =
			"Builds a template, and first the one that it stands on: root file system,\n"
			"first boot, warm kernel, memory snapshot. Does nothing when it is up to date.\n"
			"A running daemon uses the new version from the next create on.\n",
		.examples = "  pandastack template build code-interpreter\n"
			    "  pandastack template build ./my-template\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.min_args = 1,
		.max_args = 1,
	};
	_cleanup_free_ char *data_dir = NULL, *default_dir = NULL;
	int64_t start = clock_mono_ms();
	int r = opts_parse(&spec, &argc, &argv, err);

	if (r <= 0)
		return r;
	r = firecracker_use(firecracker, err);
	if (r < 0)
		return r;
	if (!templates) {
		r = data_dir_default(&data_dir, err);
		if (r < 0)
			return r;
		templates = default_dir = fs_join(data_dir, "templates");
	}
	add_sbin();
	(void)umask(022); /* a template holds no secrets */
	options.template_dir = templates;
	options.definition = argv[0];
	if (sodium_init() < 0)
		return err_set(err, ERR_INTERNAL, -EIO, "libsodium does not start");
	r = cancel_init();
	if (r < 0)
		return err_set_errno(err, r, "can't take signals over");
	r = build_template(&options, err);
	if (r == 0)
		(void)printf("template %s is ready (%.1f s)\n", argv[0],
			(double)(clock_mono_ms() - start) / 1000);
	return r == -EINTR ? -ECANCELED : r;
}
