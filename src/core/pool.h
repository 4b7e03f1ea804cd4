/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare machines: started before anybody asks, so that who asks waits for less.
 *
 * All calls are for any thread. Only pool_free() waits for anything.
 */
#pragma once

#include "core/template.h"
#include "engine/engine.h"
#include "link/link.h"

enum pool_kind {
	POOL_PRESPAWN, /* the engine's process waits for a state of its template's version */
	POOL_WARM,     /* the template's machine runs, and has done once what sandboxes do first */
	_POOL_MAX,
};

const char *pool_kind_name(enum pool_kind kind);

struct spare {
	struct spare *next;
	enum pool_kind kind;
	char *template, *version; /* owned */
	struct vm *vm;            /* owned; NULL once handed on */
	struct link *link;        /* a reference; NULL: not of POOL_WARM, or handed on */
};

/* Ends the machine and removes its folder, unless they were handed on. NULL is fine; returns NULL. */
struct spare *spare_free(struct spare *s);

struct pool_config {
	const char *data_dir;
	unsigned int sizes[_POOL_MAX];
	/* Borrowed: */
	const struct engine_ops *ops;
	const struct engine_info *engine;
	struct template_set *templates;
	struct link_hub *hub;
};

struct pool;

/* Removes what an earlier daemon left, and begins to fill. */
int pool_new(const struct pool_config *config, struct pool **ret, struct err *err);
struct pool *pool_free(struct pool *p);

/* A machine that lives and is of that version, for the caller to hand on and free; or NULL. */
struct spare *pool_take(struct pool *p, enum pool_kind kind, const struct template *t);

/* Somebody waits for a machine: no spare is begun in between, so that they have the processors for themselves. */
void pool_pause(struct pool *p);
void pool_resume(struct pool *p);

/* What templates there are has changed. */
void pool_look(struct pool *p);

struct pool_stats {
	unsigned int spares[_POOL_MAX]; /* that wait now */
	uint64_t hits[_POOL_MAX], misses[_POOL_MAX];
};
void pool_stats(struct pool *p, struct pool_stats *ret);
