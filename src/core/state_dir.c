/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a captured machine. */
#include "core/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/macros.h"
#include "base/str.h"
#include "engine/memory_delta.h"

enum {
	BLOCK = 64 << 10,
	HASH_BYTES = 32,
};

static bool all_zeros(const char *data, size_t len)
{
	return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

/* One block at `at`, unless it is all zeros. Returns its length, 0 at the end. */
static ssize_t hash_block(crypto_generichash_state *hash, int fd, off_t at, char *block)
{
	ssize_t n = pread(fd, block, BLOCK, at);
	uint64_t where = (uint64_t)at;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (!all_zeros(block, (size_t)n)) {
		(void)crypto_generichash_update(hash, (const uint8_t *)&where, sizeof(where));
		(void)crypto_generichash_update(hash, (const uint8_t *)block, (size_t)n);
	}
	return n;
}

static int add_file(crypto_generichash_state *hash, const char *path)
{
	_cleanup_free_ char *block = xcalloc(1, BLOCK);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t size;
	struct stat st;
	off_t at = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	size = (uint64_t)st.st_size;
	(void)crypto_generichash_update(hash, (const uint8_t *)&size, sizeof(size));
	while (at < st.st_size) {
		off_t data = lseek(fd, at, SEEK_DATA);
		ssize_t n;

		if (data < 0)
			return errno == ENXIO ? 0 : -errno; /* ENXIO: no data behind `at` */
		at = data / BLOCK * BLOCK;
		n = hash_block(hash, fd, at, block);
		if (n < 0)
			return (int)n;
		at += BLOCK;
	}
	return 0;
}

int state_hash(const char *dir, char ret[STATE_HASH_SIZE], struct err *err)
{
	static const char *const names[] = {"devices", "scratch.ext4", "memory"};
	_cleanup_free_ char *delta = fs_join(dir, "delta");
	const uint8_t has_delta = access(delta, F_OK) == 0;
	crypto_generichash_state hash;
	uint8_t bytes[HASH_BYTES];

	(void)crypto_generichash_init(&hash, NULL, 0,
		HASH_BYTES); /* never fails with these sizes */
	/* Where there is `memory` too, a machine would start without its delta, and be a wrong one. */
	(void)crypto_generichash_update(&hash, &has_delta, 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = fs_join(dir, names[i]);
		int r = add_file(&hash, path);

		if (r == -ENOENT && i == 2)
			continue; /* most have none */
		if (r < 0)
			return err_set_errno(err, r, "can't read %s", path);
	}
	(void)crypto_generichash_final(&hash, bytes, sizeof(bytes));
	str_hex(ret, bytes, sizeof(bytes));
	return 0;
}

int state_hash_file(const char *path, char ret[STATE_HASH_SIZE], struct err *err)
{
	crypto_generichash_state hash;
	uint8_t bytes[HASH_BYTES];
	int r;

	(void)crypto_generichash_init(&hash, NULL, 0, HASH_BYTES);
	r = add_file(&hash, path);
	if (r < 0)
		return err_set_errno(err, r, "can't read %s", path);
	(void)crypto_generichash_final(&hash, bytes, sizeof(bytes));
	str_hex(ret, bytes, sizeof(bytes));
	return 0;
}

int state_verify(const char *dir, const char *hash, uint64_t *ret_bytes, struct err *err)
{
	_cleanup_free_ char *delta = fs_join(dir, "delta");
	char found[STATE_HASH_SIZE];
	int r = state_hash(dir, found, err);

	if (r == 0 && strcmp(found, hash) != 0)
		r = err_set(err, ERR_SNAPSHOT_DAMAGED, -EBADMSG,
			"%s is damaged: its files are not what was written", dir);
	if (r == 0 && access(delta, F_OK) == 0)
		r = delta_check(delta, ret_bytes, err);
	return r;
}

int state_seal(const char *dir, struct err *err)
{
	_cleanup_free_ char *delta = fs_join(dir, "delta"), *path = fs_join(dir, "hash");
	char hash[STATE_HASH_SIZE];
	int r = delta_seal(delta, false, err);

	if (r == 0)
		r = state_hash(dir, hash, err);
	return r == 0 ? fs_write_atomic(path, hash, strlen(hash), 0600, err) : r;
}

int state_check(const char *dir, uint64_t *ret_bytes, struct err *err)
{
	_cleanup_free_ char *path = fs_join(dir, "hash"), *hash = NULL;
	size_t len;
	int r = fs_read(path, STATE_HASH_SIZE, &hash, &len, err);

	return r == 0 ? state_verify(dir, hash, ret_bytes, err) : r;
}

int state_flatten(const char *dir, const char *base_memory, uint64_t bytes, struct err *err)
{
	_cleanup_free_ char *memory = fs_join(dir, "memory"), *delta = fs_join(dir, "delta");
	_cleanup_free_ char *work = fs_join(dir, "memory.new");
	/* The folder's own is shared with others by a hard link: it must not change. */
	int r = fs_clone(access(memory, F_OK) == 0 ? memory : base_memory, work, 0600, err);

	if (r == 0)
		r = delta_apply(delta, work, bytes, err);
	if (r == 0 && (rename(work, memory) < 0 || unlink(delta) < 0))
		r = err_set_errno(err, -errno, "can't replace %s", memory);
	if (r < 0)
		(void)unlink(work); /* it may not even be there */
	return r;
}

int state_clone(const char *from, const char *to, struct err *err)
{
	static const char *const names[] = {"devices", "delta", "scratch.ext4", "memory"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *source = fs_join(from, names[i]);
		_cleanup_free_ char *target = fs_join(to, names[i]);

		if (access(source, F_OK) < 0)
			continue; /* not every state has all of them */
		if (i == 3)
			r = link(source, target) < 0
				? err_set_errno(err, -errno, "can't link %s", source)
				: 0;
		else
			r = fs_clone(source, target, 0600, err);
	}
	return r;
}
