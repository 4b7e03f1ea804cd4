/* SPDX-License-Identifier: Apache-2.0 */
/* The guest link by vsock, for engines without a serial port of that kind: the same in each sandbox, and fixed by the bake. */
#pragma once

enum {
	GUEST_VSOCK_CID = 3,
	GUEST_VSOCK_PORT = 1070, /* the agent listens on it; the latest connection is the link */
	HOST_VSOCK_PORT = 1071,  /* to which it connects once, when it does, at its first boot */
};
