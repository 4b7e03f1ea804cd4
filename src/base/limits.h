/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every bound on what comes from outside, with its unit and its reason. A length is checked
 * against one of these before memory is asked for.
 */
#pragma once

#include "base/macros.h"

/* The link (api/link.md). */
#define LIMIT_FRAME_BYTES KIB(64)    /* payload of one frame */
#define LIMIT_STREAM_WINDOW KIB(256) /* unacknowledged bytes of one direction of a stream */
#define LIMIT_CONTROL_BYTES \
	KIB(4) /* of that, kept for EVENTs of the host where DATA fills the rest */
#define LIMIT_OPEN_BYTES KIB(256) /* a whole OPEN request: longer than any argv entry may be */
#define LIMIT_STREAMS 192         /* at once on one link */
#define LIMIT_TUNNELS 128         /* of these, connections to ports: the rest stays for all else */

/* The HTTP API. */
#define LIMIT_JSON_BODY_BYTES MIB(17) /* a cell of LIMIT_CODE_BYTES, escaped, and its envelope */
#define LIMIT_JSON_VALUES (1 << 17)   /* in it, or in a message of a WebSocket */
#define LIMIT_CODE_BYTES MIB(16)      /* code of one cell */
#define LIMIT_INPUT_BYTES KIB(64)     /* one answer to input() */
#define LIMIT_COMMAND_BYTES KIB(120)  /* Linux: one argument is at most 128 KiB (MAX_ARG_STRLEN) */
#define LIMIT_PATH_BYTES 4095         /* PATH_MAX without its NUL */
#define LIMIT_CONNECTIONS 512         /* HTTP connections at once, a thread each */
#define LIMIT_ANSWER_HEAD_BYTES KIB(32)   /* of a server in a sandbox */
#define LIMIT_WEBSOCKETS 256              /* of these, WebSockets: the rest stays for all else */
#define LIMIT_WEBSOCKET_TEXT_BYTES MIB(1) /* one text message; binary ones are not kept */
#define LIMIT_WEBSOCKET_COMMANDS 32       /* at once on one of them */
#define LIMIT_TERMINAL_CELLS 1000         /* rows, and columns */
#define LIMIT_METADATA_ENTRIES 64
#define LIMIT_METADATA_KEY_BYTES 128
#define LIMIT_METADATA_VALUE_BYTES KIB(4)
#define LIMIT_ENV_ENTRIES 256
#define LIMIT_MCP_FILE_BYTES MIB(8)    /* of a file that a tool reads: a model is to take it in */
#define LIMIT_MCP_LISTING_BYTES MIB(1) /* of a list of a folder, as JSON */
#define LIMIT_MCP_PACKAGES 64          /* installed by one call */
#define LIMIT_MCP_SESSION_BYTES 128    /* a client's name for its session */
#define LIMIT_MCP_ENDED_SESSIONS 256

/* What comes out; of a buffered answer the daemon's options say more (--max-output, --max-results). */
#define LIMIT_LISTING_BYTES MIB(32) /* the entries of a directory */
#define LIMIT_ANSWER_BYTES \
	MIB(768)                  /* that our own client takes: all of the above, escaped as JSON */
#define LIMIT_EVENT_BYTES MIB(32) /* one event of a cell, reassembled */
#define LIMIT_EVENT_VALUES (1 << 20) /* JSON values in it: each takes some 100 bytes once parsed */

/* What the package cache reads of an index at once: the largest are of 20 MB. */
#define LIMIT_PACKAGE_DOCUMENT_BYTES MIB(64)

/* Sandboxes. */
#define LIMIT_SANDBOXES 1000
#define LIMIT_SESSIONS 8 /* kernels in one sandbox */
#define LIMIT_TTL_SECONDS (366 * 24 * 3600)
#define LIMIT_TIMEOUT_MS (24 * 3600 * 1000)
#define DEFAULT_TTL_SECONDS 3600
#define DEFAULT_IDLE_SECONDS 300
#define DEFAULT_CELL_TIMEOUT_MS 30000
#define DEFAULT_EXEC_TIMEOUT_MS (600 * 1000)
