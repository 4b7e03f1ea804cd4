/* SPDX-License-Identifier: Apache-2.0 */
/* The guest link by vsock: see api/link.md for who connects to whom. */
#include "vsock.h"

#include <dirent.h>
#include <errno.h>
#include <linux/vm_sockets.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "base/str.h"
#include "proto/guest_vsock.h"

bool vsock_exists(void)
{
	DIR *d = opendir("/sys/bus/virtio/drivers/vmw_vsock_virtio_transport");
	const struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d)))
		found = str_starts_with(e->d_name, "virtio");
	if (d)
		(void)closedir(d);
	return found;
}

/* Who starts a machine for the first time waits for this; others do not listen, and it is refused. */
static void knock(void)
{
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_vm host = {.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = HOST_VSOCK_PORT};

	(void)connect(fd, (const struct sockaddr *)&host, sizeof(host));
}

int vsock_listen(struct err *err)
{
	const struct sockaddr_vm own = {.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_ANY,
		.svm_port = GUEST_VSOCK_PORT};
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&own, sizeof(own)) < 0 || listen(fd, 4) < 0)
		return err_set_errno(err, -errno, "listening on vsock");
	knock();
	return steal_fd(&fd);
}

static void on_connection(struct source *src, uint32_t revents)
{
	struct vsock *v = container_of(src, struct vsock, source);
	struct sockaddr_vm peer = {.svm_cid = VMADDR_CID_ANY};
	socklen_t len = sizeof(peer);
	int fd = accept4(src->fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* Programs of the guest could connect, too, by the loopback of vsock: the link is the host's alone. */
	if (fd >= 0 && peer.svm_cid == VMADDR_CID_HOST)
		link_replace(v->link, fd);
	else
		cleanup_close(&fd);
}

int vsock_serve(struct vsock *v, struct loop *loop, int listen_fd, struct link *link)
{
	v->link = link;
	return source_attach(&v->source, loop, listen_fd, EPOLLIN, on_connection);
}
