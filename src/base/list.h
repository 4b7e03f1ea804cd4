/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive, circular, doubly linked list. An entry embeds a `struct list`; a head is one too.
 * list_remove() leaves the entry empty, so that removing it twice is harmless.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l;
	l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *entry)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

static inline void list_remove(struct list *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	list_init(entry);
}

/* `it` and `tmp` are struct list pointers; `it` may be removed and freed in the body. */
#define list_for_each(it, tmp, head) \
	for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); \
		(it) = (tmp), (tmp) = (it)->next)
