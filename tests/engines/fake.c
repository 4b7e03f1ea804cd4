/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake engine: the real drivers with faults on demand, in the daemon that this is linked into (pandastack-fake).
 *
 * Theory of operation
 * -------------------
 * Machines are real, and with no fault asked for it does what every engine has to do (test_contract.py). The linker's
 * --wrap puts the tables below in place of the drivers'; their functions call the drivers'.
 *
 * PANDASTACK_ENGINE_FAULTS names a folder. A file in it with the name of an operation is a fault: the next call of that
 * operation removes the file and does what it says.
 *
 *	fail    nothing but to return an error
 *	late    all, and then it returns an error
 *	die     the machine's process is killed, and then what that comes to
 *	never   the same as fail; the file stays
 *
 * The start of a spare machine is `spare`, so that no other thread takes what is for a request. The file `lacks` stays, and has a
 * word that the engine declares to lack.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "base/fs.h"
#include "engine/engine.h"

enum { WORD_MAX = 31 };

enum fault { NONE, FAIL, LATE, DIE, NEVER };

static const char *const fault_names[] = {
	[FAIL] = "fail",
	[LATE] = "late",
	[DIE] = "die",
	[NEVER] = "never",
};

/* The drivers' tables, and what stands in their place. */
extern const struct engine_ops __real_qemu_ops, __real_firecracker_ops;
struct engine_ops __wrap_qemu_ops, __wrap_firecracker_ops;

static char *path_of(const char *name)
{
	const char *dir = getenv("PANDASTACK_ENGINE_FAULTS");

	return fs_join(dir ? dir : "/nonexistent", name);
}

static enum fault take_fault(const char *operation)
{
	_cleanup_free_ char *path = path_of(operation), *word = NULL;
	size_t len, i = FAIL;

	if (fs_read(path, WORD_MAX, &word, &len, NULL) < 0)
		return NONE;
	while (i < ARRAY_SIZE(fault_names) && strcmp(word, fault_names[i]) != 0)
		i++;
	if (i == ARRAY_SIZE(fault_names))
		abort(); /* the test has it wrong */
	if (i == NEVER)
		return FAIL;
	return unlink(path) < 0 ? NONE : (enum fault)i; /* another thread has it */
}

/* The fault of a call to a machine, which is dead by then if that is it. */
static enum fault begin(const char *operation, const struct vm *vm)
{
	enum fault fault = take_fault(operation);

	if (fault == DIE)
		(void)pidfd_send_signal(vm->pidfd, SIGKILL, NULL, 0); /* fails when it has ended */
	return fault;
}

static int no(const char *operation, struct err *err)
{
	return err_set(err, ERR_ENGINE, -EIO, "the fake engine failed to %s", operation);
}

/* ---- operations on a machine ---- */

static const struct engine_ops *real(const struct vm *vm)
{
	return vm->ops == &__wrap_qemu_ops ? &__real_qemu_ops : &__real_firecracker_ops;
}

#define CALL(operation, vm, ...) \
	({ \
		enum fault fault_ = begin(#operation, vm); \
		int r_ = fault_ == FAIL ? 0 : real(vm)->operation(vm, __VA_ARGS__); \
		r_ == 0 && (fault_ == FAIL || fault_ == LATE) ? no(#operation, err) : r_; \
	})

static int fake_settle(struct vm *vm, struct err *err)
{
	return CALL(settle, vm, err);
}

static int fake_load(struct vm *vm, const struct vm_spec *spec, struct err *err)
{
	return CALL(load, vm, spec, err);
}

static int fake_pause(struct vm *vm, struct err *err)
{
	return CALL(pause, vm, err);
}

static int fake_unpause(struct vm *vm, struct err *err)
{
	return CALL(unpause, vm, err);
}

static int fake_relink(struct vm *vm, struct err *err)
{
	return CALL(relink, vm, err);
}

static int fake_save_devices(struct vm *vm, const char *path, struct err *err)
{
	return CALL(save_devices, vm, path, err);
}

static int fake_save_memory(struct vm *vm, uint64_t memory_bytes, const char *base,
	const char *path, uint64_t *ret_bytes, struct err *err)
{
	return CALL(save_memory, vm, memory_bytes, base, path, ret_bytes, err);
}

static int fake_open_network(struct vm *vm, int *ret_fd, struct err *err)
{
	int fd = -1, r = CALL(open_network, vm, &fd, err);

	if (r == 0)
		*ret_fd = steal_fd(&fd);
	cleanup_close(&fd);
	return r;
}

/* ---- operations of a driver ---- */

static void probe_with(const struct engine_ops *ops, struct engine_info *ret)
{
	static char *word; /* of the daemon's whole life */
	_cleanup_free_ char *path = path_of("lacks");
	size_t n = 0, len;

	ops->probe(ret);
	while (ret->lacks[n])
		n++;
	assert(n < ARRAY_SIZE(ret->lacks));
	if (word || fs_read(path, WORD_MAX, &word, &len, NULL) == 0)
		ret->lacks[n] = word;
}

/* A machine that was made, and is to be the fake's, or is not to be. */
static int give(const struct engine_ops *fake, const char *operation, enum fault fault,
	struct vm *vm, struct vm **ret, struct err *err)
{
	vm->ops = fake;
	if (fault == DIE)
		(void)pidfd_send_signal(vm->pidfd, SIGKILL, NULL, 0); /* fails when it has ended */
	if (fault != LATE) {
		*ret = vm;
		return 0;
	}
	if (vm->is_child)
		vm_kill(vm);
	vm_free(vm);
	return no(operation, err);
}

static int start_with(const struct engine_ops *ops, const struct engine_ops *fake,
	const struct vm_spec *spec, struct vm **ret, struct err *err)
{
	enum fault fault = take_fault(strstr(spec->dir, "/pool/") ? "spare" : "start");
	struct vm *vm;
	int r = fault == FAIL ? no("start", err) : ops->start(spec, &vm, err);

	return r < 0 ? r : give(fake, "start", fault, vm, ret, err);
}

static int adopt_with(const struct engine_ops *ops, const struct engine_ops *fake, const char *dir,
	struct vm **ret, struct err *err)
{
	enum fault fault = take_fault("adopt");
	struct vm *vm;
	int r = fault == FAIL ? no("adopt", err) : ops->adopt(dir, &vm, err);

	return r < 0 ? r : give(fake, "adopt", fault, vm, ret, err);
}

/* Those know no machine from which the driver could be told. */
#define OPERATIONS_OF(driver) \
	static void driver##_probe(struct engine_info *ret) \
	{ \
		probe_with(&__real_##driver##_ops, ret); \
	} \
	static int driver##_start(const struct vm_spec *spec, struct vm **ret, struct err *err) \
	{ \
		return start_with(&__real_##driver##_ops, &__wrap_##driver##_ops, spec, ret, err); \
	} \
	static int driver##_adopt(const char *dir, struct vm **ret, struct err *err) \
	{ \
		return adopt_with(&__real_##driver##_ops, &__wrap_##driver##_ops, dir, ret, err); \
	}
OPERATIONS_OF(qemu)
OPERATIONS_OF(firecracker)

static void fill(struct engine_ops *fake)
{
	fake->settle = fake_settle;
	fake->load = fake_load;
	fake->pause = fake_pause;
	fake->unpause = fake_unpause;
	fake->relink = fake->relink ? fake_relink : NULL;
	fake->save_devices = fake_save_devices;
	fake->save_memory = fake_save_memory;
	fake->open_network = fake_open_network;
}

__attribute__((constructor)) static void make_tables(void)
{
	__wrap_qemu_ops = __real_qemu_ops;
	__wrap_qemu_ops.probe = qemu_probe;
	__wrap_qemu_ops.start = qemu_start;
	__wrap_qemu_ops.adopt = qemu_adopt;
	fill(&__wrap_qemu_ops);
	__wrap_firecracker_ops = __real_firecracker_ops;
	__wrap_firecracker_ops.probe = firecracker_probe;
	__wrap_firecracker_ops.start = firecracker_start;
	__wrap_firecracker_ops.adopt = firecracker_adopt;
	fill(&__wrap_firecracker_ops);
}
