/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine's jail (src/jail) has for the engine that asks for a network card. */
#pragma once

/* The TAP's name: the same in each machine's network namespace, so that a restored one finds its own. */
#define JAIL_CARD_NAME "card"

/* The packet socket on it, in the machine's process. */
enum { JAIL_CARD_FD = 3 };
