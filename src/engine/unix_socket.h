/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets by folder and name: no limit on how long the folder's path is (a socket address holds
 * 108 bytes), and no way out of the folder.
 */
#pragma once

/* A listening, CLOEXEC stream socket, or a negative errno. */
int unix_listen(int dir_fd, const char *name);

/* A connected, CLOEXEC stream socket, or a negative errno. */
int unix_connect(int dir_fd, const char *name);
