# SPDX-License-Identifier: Apache-2.0
# A front for the verbs that people type; Meson and Ninja do the work.

BUILD ?= build
MESON_FLAGS ?=
T ?= 60

.PHONY: all demo test recipes bench bench-kernel check setup format lint clean fuzz
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

setup:
	@scripts/setup

$(BUILD)/build.ninja: | setup
	@log=$$(meson setup $(BUILD) $(MESON_FLAGS)) || { echo "$$log"; exit 1; }

# The whole product in one command: a CSV analysed by Python in a microVM.
demo: setup
	@$(MAKE) --no-print-directory all
	@scripts/demo

# All tests, with sanitizers and real VMs. Installs what it needs.
test:
	@scripts/test

# Units, fuzz corpora, format, lint and layers: no VM.
check:
	@scripts/setup --dev
	@scripts/test --quick

# Each recipe with its real framework, a scripted model and a real daemon.
recipes: setup
	@$(MAKE) --no-print-directory all
	@scripts/recipes

bench: setup
	@$(MAKE) --no-print-directory all
	@scripts/bench

# Our kernel beside ipykernel, in a VM and outside.
bench-kernel: setup
	@$(MAKE) --no-print-directory all
	@scripts/bench --kernel

lint: $(BUILD)/build.ninja
	@scripts/lint $(BUILD)

# Each fuzzer for T seconds, with libFuzzer.
fuzz:
	@scripts/setup --dev
	@scripts/fuzz $(T)

format:
	@git ls-files '*.[ch]' | xargs clang-format-14 -i

clean:
	rm -rf build build-*
