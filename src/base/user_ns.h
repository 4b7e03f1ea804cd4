/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces (user_namespaces(7)). */
#pragma once

#include <sys/types.h>

/* In a new one that this process has just entered: the ids that it had outside are the only ones inside. A negative errno. */
int user_ns_map(uid_t uid, gid_t gid);
