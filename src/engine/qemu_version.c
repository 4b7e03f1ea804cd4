/* SPDX-License-Identifier: Apache-2.0 */
/* What `qemu-system-x86_64 --version` says. */
#include "engine/qemu_version.h"

#include <stdint.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"

int qemu_parse_version(const char *text, char *version, size_t size)
{
	static const char lead[] = "QEMU emulator version ";
	uint64_t major = 0, minor = 0;
	char part[8];
	size_t n;

	if (!str_starts_with(text, lead))
		return 0;
	text += strlen(lead);
	n = strspn(text, "0123456789.");
	if (n == 0 || n >= size)
		return 0;
	memcpy(version, text, n);
	version[n] = '\0';
	n = strcspn(version, ".");
	if (version[n] != '.' || n >= sizeof(part))
		return 0;
	memcpy(part, version, n);
	part[n] = '\0';
	if (parse_u64(part, 0, 99, &major) < 0)
		return 0;
	text = version + n + 1;
	n = strcspn(text, ".");
	if (n == 0 || n >= sizeof(part))
		return 0;
	memcpy(part, text, n);
	part[n] = '\0';
	return parse_u64(part, 0, 99, &minor) < 0 ? 0 : (int)(major * 100 + minor);
}
