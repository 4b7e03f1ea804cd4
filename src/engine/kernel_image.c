/* SPDX-License-Identifier: Apache-2.0 */
/* From a bzImage to the ELF file in it. */
#include "engine/kernel_image.h"

#include <elf.h>
#include <errno.h>
#include <lz4.h>
#include <stdint.h>
#include <string.h>

#include "base/fs.h"
#include "base/macros.h"

enum {
	SECTOR = 512,
	/* Offsets in the header of a bzImage. */
	SETUP_SECTORS_AT = 0x1f1,
	MAGIC_AT = 0x202,
	PAYLOAD_AT = 0x248,
	PAYLOAD_LENGTH_AT = 0x24c,
	HEADER_END = 0x250,
	LZ4_BLOCK_MAX = 8 << 20, /* unpacked */
};

static const char lz4_magic[] = "\x02\x21\x4c\x18";

static uint32_t get_u32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The blocks behind the magic; each has its packed length before it. Returns the bytes of `dst`. */
static ptrdiff_t unpack(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
	size_t at = 0, made = 0;

	while (len - at >= sizeof(uint32_t)) {
		size_t packed = get_u32(src + at);
		int n;

		at += sizeof(uint32_t);
		if (packed == 0 || packed > len - at)
			break; /* the unpacked length ends the file */
		n = LZ4_decompress_safe((const char *)src + at, (char *)dst + made, (int)packed,
			(int)MIN(size - made, (size_t)LZ4_BLOCK_MAX));
		if (n < 0)
			return -EPROTO;
		at += packed;
		made += (size_t)n;
	}
	return (ptrdiff_t)made;
}

/* Finds the compressed kernel. */
static int find_payload(const uint8_t *image, size_t len, const uint8_t **ret, size_t *ret_len)
{
	size_t at, payload_len;

	if (len < HEADER_END || memcmp(image + MAGIC_AT, "HdrS", 4) != 0)
		return -EPROTO;
	at = ((size_t)image[SETUP_SECTORS_AT] + 1) * SECTOR + get_u32(image + PAYLOAD_AT);
	payload_len = get_u32(image + PAYLOAD_LENGTH_AT);
	if (at > len || payload_len > len - at || payload_len < sizeof(lz4_magic) - 1)
		return -EPROTO;
	*ret = image + at;
	*ret_len = payload_len;
	return 0;
}

ptrdiff_t kernel_image_unpack(const void *image, size_t len, void *elf, size_t size)
{
	static const size_t magic_len = sizeof(lz4_magic) - 1;
	const uint8_t *payload = NULL;
	size_t payload_len = 0;
	ptrdiff_t n;

	if (len > KERNEL_IMAGE_MAX || find_payload(image, len, &payload, &payload_len) < 0 ||
		memcmp(payload, lz4_magic, magic_len) != 0)
		return -EPROTO;
	n = unpack(payload + magic_len, payload_len - magic_len, elf, size);
	return n < (ptrdiff_t)SELFMAG || memcmp(elf, ELFMAG, SELFMAG) != 0 ? -EPROTO : n;
}

int kernel_image_extract(const char *path, const char *elf_path, struct err *err)
{
	_cleanup_free_ char *image = NULL;
	_cleanup_free_ uint8_t *elf = NULL;
	ptrdiff_t elf_len;
	size_t len;
	int r = fs_read(path, KERNEL_IMAGE_MAX, &image, &len, err);

	if (r < 0)
		return r;
	elf = malloc(KERNEL_ELF_MAX);
	if (!elf)
		return err_set_errno(err, -ENOMEM, "can't unpack %s", path);
	elf_len = kernel_image_unpack(image, len, elf, KERNEL_ELF_MAX);
	if (elf_len < 0)
		return err_set(err, ERR_ENGINE, -EPROTO,
			"%s is no Linux that this engine can start (a bzImage with LZ4 is)", path);
	return fs_write_atomic(elf_path, (const char *)elf, (size_t)elf_len, 0600, err);
}
