/* SPDX-License-Identifier: Apache-2.0 */
/* Language helpers: array sizes, scope-bound cleanup, ownership transfer. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) \
	({ \
		__auto_type min_a_ = (a); \
		__auto_type min_b_ = (b); \
		min_a_ < min_b_ ? min_a_ : min_b_; \
	})
#define MAX(a, b) \
	({ \
		__auto_type max_a_ = (a); \
		__auto_type max_b_ = (b); \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* Run a destructor when the variable leaves its scope; the variable must be initialised. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
	/* Nothing can be done about a failed close of a descriptor that we drop. */
	if (*fd >= 0)
		(void)close(*fd);
}

#define _cleanup_free_ CLEANUP(cleanup_free)
#define _cleanup_close_ CLEANUP(cleanup_close)

/* Defines name##p() so that CLEANUP(name##p) frees a pointer variable of that type. */
#define DEFINE_CLEANUP(type, fn) \
	static inline void fn##p(type *p) \
	{ \
		if (*p) \
			fn(*p); \
	}

/* Hand an owned descriptor or pointer to somebody else: the variable no longer owns it. */
static inline int steal_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

#define steal_ptr(p) \
	({ \
		__auto_type steal_ptr_ = (p); \
		__typeof__(*steal_ptr_) steal_val_ = *steal_ptr_; \
		*steal_ptr_ = NULL; \
		steal_val_; \
	})

/* Small fixed-size allocations: zeroed, and the program ends when there is no memory for them. */
static inline void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

#define xnew(type) ((type *)xcalloc(1, sizeof(type)))

/* A copy of a short text, as that; NULL of NULL. */
static inline char *xstrdup(const char *s)
{
	char *copy = s ? strdup(s) : NULL;

	if (s && !copy)
		abort();
	return copy;
}
