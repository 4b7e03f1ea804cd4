/* SPDX-License-Identifier: Apache-2.0 */
/* Why a machine has ended, for people. */
#include "engine/why_dead.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static size_t line_length(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && text[n] != '\r' && text[n] != '\n')
		n++;
	return n;
}

/* The last line of a text that is not empty. */
static void last_line(const char *text, size_t len, char *dst, size_t size)
{
	size_t start;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	start = len;
	while (start > 0 && text[start - 1] != '\n')
		start--;
	str_printable(dst, size, text + start, len - start);
}

/* What a signal that ended QEMU most likely means. */
static const char *signal_hint(int sig)
{
	return sig == SIGKILL   ? " (out of memory on this machine?)"
		: sig == SIGBUS ? " (the disk is full?)"
				: "";
}

void why_dead(const char *program, struct vm *vm, const char *log, size_t log_len, char *msg,
	size_t size)
{
	static const char panic[] = "Kernel panic - not syncing: ";
	char line[200];
	const char *at;
	size_t len;

	vm_drain_console(vm);
	at = memmem(vm->console, vm->console_len, panic, strlen(panic));
	if (at) {
		at += strlen(panic);
		len = (size_t)(vm->console + vm->console_len - at);
		str_printable(line, sizeof(line), at, line_length(at, len));
		(void)snprintf(msg, size, "its kernel panicked: %s", line);
	} else if (vm->status > 128) {
		(void)snprintf(msg, size, "%s was killed by signal %d%s", program, vm->status - 128,
			signal_hint(vm->status - 128));
	} else if (vm->status > 0 && log_len > 0) {
		last_line(log, log_len, line, sizeof(line));
		(void)snprintf(msg, size, "%s ended: %s", program, line);
	} else if (vm->status != 0) {
		(void)snprintf(msg, size, "%s ended",
			program); /* an adopted one's status is not ours */
	} else {
		last_line(vm->console, vm->console_len, line, sizeof(line));
		(void)snprintf(msg, size, "the machine was shut down from inside (%s)", line);
	}
}
