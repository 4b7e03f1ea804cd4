/* SPDX-License-Identifier: Apache-2.0 */
/* The processor that guests see under hardware virtualisation: read, kept in a manifest, compared. */
#include "engine/guest_cpu.h"

#include <cpuid.h>
#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/str.h"

enum {
	ENTRIES_MAX = 256,     /* as many as KVM has */
	NUMBER_MAX = 64 << 10, /* families and models are far smaller */
	NAME_BYTES = 48,
	TEXT_SIZE = 160,
};

enum reg {
	EAX,
	EBX,
	ECX,
	EDX,
};

/* Which words of CPUID hold features that a guest may use: Intel SDM, volume 2, CPUID; AMD APM, volume 3, appendix E; KVM's own
 * in Linux, Documentation/virt/kvm/x86/cpuid.rst. */
static const struct {
	const char *name;
	uint32_t leaf, sub;
	enum reg reg;
} words[] = {
	{"1.ecx", 0x1, 0, ECX},
	{"1.edx", 0x1, 0, EDX},
	{"7.ebx", 0x7, 0, EBX},
	{"7.ecx", 0x7, 0, ECX},
	{"7.edx", 0x7, 0, EDX},
	{"7.1.eax", 0x7, 1, EAX},
	{"d.eax", 0xd, 0, EAX},
	{"d.1.eax", 0xd, 1, EAX},
	{"80000001.ecx", 0x80000001, 0, ECX},
	{"80000001.edx", 0x80000001, 0, EDX},
	{"80000007.edx", 0x80000007, 0, EDX},
	{"80000008.ebx", 0x80000008, 0, EBX},
	{"80000021.eax", 0x80000021, 0, EAX},
	{"kvm", 0x40000001, 0, EAX},
};
static_assert(ARRAY_SIZE(words) == GUEST_CPU_WORDS, "every word has a place");

/* ---- this host's ---- */

/* Without the spaces around it. */
static void take_raw(char *dst, size_t size, const void *raw, size_t len)
{
	const char *text = raw;

	len = strnlen(text, len);
	for (; len > 0 && *text == ' '; len--)
		text++;
	while (len > 0 && text[len - 1] == ' ')
		len--;
	str_printable(dst, size, text, len);
}

static void read_name(struct guest_cpu *cpu)
{
	uint32_t raw[NAME_BYTES / 4] = {0};

	for (unsigned int i = 0; i < 3; i++) {
		uint32_t *at = raw + (size_t)4 * i;

		if (!__get_cpuid(0x80000002u + i, at, at + 1, at + 2, at + 3))
			break;
	}
	take_raw(cpu->name, sizeof(cpu->name), raw, sizeof(raw));
}

/* Family, model and stepping, as the makers reckon them. */
static void read_kind(struct guest_cpu *cpu)
{
	uint32_t a = 0, raw[3] = {0}, rest[3];

	/* Leaves 0 and 1 are always there. */
	(void)__get_cpuid(0, &a, &raw[0], &raw[2], &raw[1]);
	take_raw(cpu->vendor, sizeof(cpu->vendor), raw, sizeof(raw));
	(void)__get_cpuid(1, &a, &rest[0], &rest[1], &rest[2]);
	cpu->stepping = a & 0xf;
	cpu->model = (a >> 4 & 0xf) | (a >> 12 & 0xf0);
	cpu->family = a >> 8 & 0xf;
	if (cpu->family == 0xf)
		cpu->family += a >> 20 & 0xff;
}

static uint32_t word_of(const struct kvm_cpuid2 *all, size_t word)
{
	for (uint32_t i = 0; i < all->nent; i++) {
		const struct kvm_cpuid_entry2 *e = &all->entries[i];
		const uint32_t regs[] = {e->eax, e->ebx, e->ecx, e->edx};

		if (e->function == words[word].leaf && e->index == words[word].sub)
			return regs[words[word].reg];
	}
	return 0;
}

int guest_cpu_read(int kvm_fd, struct guest_cpu *ret)
{
	_cleanup_free_ struct kvm_cpuid2 *all =
		xcalloc(1, sizeof(*all) + ENTRIES_MAX * sizeof(all->entries[0]));
	struct guest_cpu cpu = {0};

	all->nent = ENTRIES_MAX;
	if (ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, all) < 0)
		return -errno;
	read_kind(&cpu);
	read_name(&cpu);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		cpu.features[i] = word_of(all, i);
	*ret = cpu;
	return 0;
}

/* ---- in a manifest ---- */

json_t *guest_cpu_to_json(const struct guest_cpu *cpu)
{
	json_t *features = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		(void)json_object_set_new(features, words[i].name, json_integer(cpu->features[i]));
	return json_pack("{s:s, s:i, s:i, s:i, s:s, s:o}", "vendor", cpu->vendor, "family",
		(int)cpu->family, "model", (int)cpu->model, "stepping", (int)cpu->stepping, "name",
		cpu->name, "features", features);
}

static bool take_text(const json_t *json, const char *key, char *dst, size_t size)
{
	const char *text = json_string_value(json_object_get(json, key));

	if (!text)
		return false;
	str_printable(dst, size, text, strlen(text));
	return true;
}

static bool take_number(const json_t *json, const char *key, int64_t max, uint32_t *ret)
{
	const json_t *number = json_object_get(json, key);
	int64_t value = json_integer_value(number);

	if (!json_is_integer(number) || value < 0 || value > max)
		return false;
	*ret = (uint32_t)value;
	return true;
}

int guest_cpu_from_json(const json_t *json, struct guest_cpu *ret)
{
	const json_t *features = json_object_get(json, "features");
	struct guest_cpu cpu = {0};
	bool ok = take_text(json, "vendor", cpu.vendor, sizeof(cpu.vendor)) &&
		take_text(json, "name", cpu.name, sizeof(cpu.name)) &&
		take_number(json, "family", NUMBER_MAX, &cpu.family) &&
		take_number(json, "model", NUMBER_MAX, &cpu.model) &&
		take_number(json, "stepping", NUMBER_MAX, &cpu.stepping);

	for (size_t i = 0; ok && i < ARRAY_SIZE(words); i++)
		ok = take_number(features, words[i].name, UINT32_MAX, &cpu.features[i]);
	if (!ok)
		return -EPROTO;
	*ret = cpu;
	return 0;
}

/* ---- compared ---- */

static const char *text_of(const struct guest_cpu *cpu, char dst[TEXT_SIZE])
{
	(void)snprintf(dst, TEXT_SIZE, "%s (%s, family %u, model %u, stepping %u)", cpu->name,
		cpu->vendor, cpu->family, cpu->model, cpu->stepping);
	return dst;
}

static bool same_kind(const struct guest_cpu *a, const struct guest_cpu *b)
{
	return strcmp(a->vendor, b->vendor) == 0 && a->family == b->family &&
		a->model == b->model && a->stepping == b->stepping;
}

bool guest_cpu_fits(const struct guest_cpu *made_on, const struct guest_cpu *here,
	char why[GUEST_CPU_WHY_SIZE])
{
	char theirs[TEXT_SIZE], ours[TEXT_SIZE];
	_cleanup_buf_ struct buf missing = buf_init(128);

	if (!same_kind(made_on, here)) {
		(void)snprintf(why, GUEST_CPU_WHY_SIZE, "%s, and this is %s",
			text_of(made_on, theirs), text_of(here, ours));
		return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		uint32_t lost = made_on->features[i] & ~here->features[i];

		if (lost)
			(void)buf_appendf(&missing, "%s%s %08x", missing.len ? ", " : "",
				words[i].name, lost); /* as many as fit */
	}
	if (missing.len == 0)
		return true;
	(void)snprintf(why, GUEST_CPU_WHY_SIZE,
		"%s, and this one lacks features that it had there (CPUID %s)",
		text_of(made_on, theirs), missing.data);
	return false;
}
