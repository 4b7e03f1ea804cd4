/* SPDX-License-Identifier: Apache-2.0 */
/* From a bzImage to the ELF file in it. */
#include "engine/kernel_image.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/fs.h"
#include "base/macros.h"

enum {
	IMAGE_MAX = 64 << 20,
	SECTOR = 512,
	/* Offsets in the header of a bzImage. */
	SETUP_SECTORS_AT = 0x1f1,
	MAGIC_AT = 0x202,
	PAYLOAD_AT = 0x248,
	PAYLOAD_LENGTH_AT = 0x24c,
	HEADER_END = 0x250,
	LZ4_BLOCK_MAX = 8 << 20, /* unpacked */
	LZ4_MATCH_MIN = 4,
};

static const char lz4_magic[] = "\x02\x21\x4c\x18";

static uint32_t get_u32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A length of four bits goes on in bytes for as long as these are 255. */
static int get_length(const uint8_t **src, const uint8_t *end, size_t *length)
{
	uint8_t more = 255;

	if (*length < 15)
		return 0;
	while (more == 255) {
		if (*src == end || *length > KERNEL_ELF_MAX)
			return -EPROTO;
		more = *(*src)++;
		*length += more;
	}
	return 0;
}

ptrdiff_t lz4_block_decode(const void *data, size_t len, void *to, size_t size)
{
	const uint8_t *src = data, *end = src + len;
	uint8_t *dst = to, *dst_end = dst + size;

	while (src < end) {
		size_t literals = *src >> 4, match = *src & 15, back;

		src++;
		if (get_length(&src, end, &literals) < 0 || literals > (size_t)(end - src) ||
			literals > (size_t)(dst_end - dst))
			return -EPROTO;
		memcpy(dst, src, literals);
		src += literals;
		dst += literals;
		if (src == end)
			break; /* the last sequence has no match */
		if (end - src < 2)
			return -EPROTO;
		back = src[0] | (size_t)src[1] << 8;
		src += 2;
		if (get_length(&src, end, &match) < 0)
			return -EPROTO;
		match += LZ4_MATCH_MIN;
		if (back == 0 || back > (size_t)(dst - (uint8_t *)to) ||
			match > (size_t)(dst_end - dst))
			return -EPROTO;
		/* It may overlap what it makes: byte by byte. */
		for (; match > 0; match--, dst++)
			*dst = *(dst - back);
	}
	return dst - (uint8_t *)to;
}

/* The blocks behind the magic; each has its packed length before it. Returns the bytes of `dst`. */
static ptrdiff_t lz4_decode(const uint8_t *src, size_t len, uint8_t *dst, size_t size)
{
	size_t at = 0, made = 0;

	while (len - at >= sizeof(uint32_t)) {
		size_t packed = get_u32(src + at);
		ptrdiff_t n;

		at += sizeof(uint32_t);
		if (packed == 0 || packed > len - at)
			break; /* the unpacked length ends the file */
		n = lz4_block_decode(src + at, packed, dst + made,
			MIN(size - made, (size_t)LZ4_BLOCK_MAX));
		if (n < 0)
			return n;
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

int kernel_image_extract(const char *path, const char *elf_path, struct err *err)
{
	_cleanup_free_ char *image = NULL;
	_cleanup_free_ uint8_t *elf = NULL;
	const uint8_t *payload = NULL;
	ptrdiff_t elf_len = -EPROTO;
	size_t len, payload_len = 0;
	int r = fs_read(path, IMAGE_MAX, &image, &len, err);

	if (r < 0)
		return r;
	elf = malloc(KERNEL_ELF_MAX);
	if (!elf)
		return err_set_errno(err, -ENOMEM, "can't unpack %s", path);
	if (find_payload((const uint8_t *)image, len, &payload, &payload_len) == 0 &&
		memcmp(payload, lz4_magic, sizeof(lz4_magic) - 1) == 0)
		elf_len = lz4_decode(payload + sizeof(lz4_magic) - 1,
			payload_len - (sizeof(lz4_magic) - 1), elf, KERNEL_ELF_MAX);
	if (elf_len < (ptrdiff_t)SELFMAG || memcmp(elf, ELFMAG, SELFMAG) != 0)
		return err_set(err, ERR_ENGINE, -EPROTO,
			"%s is no Linux that this engine can start (a bzImage with LZ4 is)", path);
	return fs_write_atomic(elf_path, (const char *)elf, (size_t)elf_len, 0600, err);
}
