/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network card for the machine: a TAP in the network namespace that we are in, where nothing else is.
 *
 * Its other end would be the namespace's network stack, which has no address and answers nothing. A packet socket is bound to it instead: each of
 * its datagrams is a frame. The program keeps that as descriptor JAIL_CARD_FD (proto/jail_card.h), and never uses it: the daemon takes
 * a copy whenever it needs one.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* `owner` may use the TAP. */
int card_make(uid_t owner, struct err *err);
