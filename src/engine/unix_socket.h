/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets by folder and name: no limit on how long the folder's path is (a socket address holds
 * 108 bytes), and no way out of the folder.
 */
#pragma once

/* A listening, CLOEXEC socket of that type (SOCK_STREAM, SOCK_SEQPACKET), or a negative errno. */
int unix_listen(int dir_fd, const char *name, int type);

/* A connected one, likewise; follows no symbolic link of that name. */
int unix_connect(int dir_fd, const char *name, int type);

/* A CLOEXEC, non-blocking socket of datagrams with the first name, connected to that with the second; or a negative errno. */
int unix_pair_up(int dir_fd, const char *own, const char *other);
