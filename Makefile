# ttlfs: build, test, install. `make help` lists the targets.
#
# A flavour is a set of compiler flags with a build folder of its own:
#     make                        release, in build/
#     make FLAVOUR=debug          build/debug; likewise asan, tsan, coverage (and fuzz, by `make fuzz`)
# Every target works in every flavour: `make FLAVOUR=debug check`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:

VERSION ?= 0.1.0
FLAVOUR ?= release
BUILD_ROOT ?= build
JOBS ?= 2

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
# mount(8) looks for its helpers in /sbin and /usr/sbin only.
SBINDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/sbin,$(PREFIX)/sbin)
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share

# make has defaults of its own for CC and AR, which `?=` would not replace.
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin AR),default)
AR := ar
endif
FUZZ_CC ?= clang
CLANG_FORMAT ?= clang-format
CLANG_TIDY ?= clang-tidy
CPPCHECK ?= cppcheck
GCOV ?= gcov
PKG_CONFIG ?= pkg-config
INSTALL ?= install
PYTHON ?= /usr/bin/python3

# Tests: seconds for each unit program and for all mount tests together; which mount tests.
UNIT_TIMEOUT ?= 120
MOUNT_TIMEOUT ?= 900
MARKS ?= not long
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 30

# Flavours. CFLAGS is the user's; what makes the flavour is in FLAVOUR_FLAGS. TTLFS_DEBUG switches
# on the checks that a release does not pay for (who holds which lock).

BUILD := $(BUILD_ROOT)/$(FLAVOUR)
FLAVOUR_FLAGS :=
RUN_WRAP :=

ifeq ($(FLAVOUR),release)
BUILD := $(BUILD_ROOT)
CFLAGS ?= -O2 -g
else ifeq ($(FLAVOUR),debug)
CFLAGS ?= -Og -g3
FLAVOUR_FLAGS := -DTTLFS_DEBUG
else ifeq ($(FLAVOUR),asan)
CFLAGS ?= -O1 -g
FLAVOUR_FLAGS := -DTTLFS_DEBUG -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
else ifeq ($(FLAVOUR),tsan)
CFLAGS ?= -O1 -g
FLAVOUR_FLAGS := -DTTLFS_DEBUG -fno-omit-frame-pointer -fsanitize=thread
# ThreadSanitizer does not find its shadow memory when the kernel scatters mappings too widely.
RUN_WRAP := $(shell setarch -R true 2>/dev/null && echo setarch -R)
else ifeq ($(FLAVOUR),coverage)
CFLAGS ?= -O0 -g
FLAVOUR_FLAGS := --coverage -fprofile-update=atomic
else ifeq ($(FLAVOUR),fuzz)
CFLAGS ?= -O1 -g
FLAVOUR_FLAGS := -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
else
$(error FLAVOUR is release, debug, asan, tsan, coverage or fuzz, not "$(FLAVOUR)")
endif

ASAN_OPTIONS ?= detect_leaks=1:abort_on_error=1
UBSAN_OPTIONS ?= print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS ?= halt_on_error=1 second_deadlock_stack=1
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

# Flags

WERROR ?= -Werror
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
PACKAGES := libbson-1.0 lmdb libpcre2-8 libxxhash
pkg = $(shell $(PKG_CONFIG) $(1) 2>/dev/null)
LIB_CFLAGS := $(call pkg,--cflags $(PACKAGES))
LIB_LIBS := $(call pkg,--libs $(PACKAGES))
FUSE_CFLAGS := $(call pkg,--cflags fuse3)
FUSE_LIBS := $(call pkg,--libs fuse3)

ALL_CPPFLAGS = -D_GNU_SOURCE -DFUSE_USE_VERSION=312 -DTTLFS_VERSION='"$(VERSION)"' -I. \
    $(LIB_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS = -std=c11 -pthread $(WARNINGS) $(WERROR) $(CFLAGS) $(FLAVOUR_FLAGS)
ALL_LDFLAGS = -pthread $(CFLAGS) $(FLAVOUR_FLAGS) -Wl,--as-needed $(LDFLAGS)

# A make that was not given -j starts its sub-makes with JOBS jobs.
SUBMAKE = +$(MAKE) --no-print-directory $(if $(filter --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))
Q := $(if $(V),,@)

# Sources and what becomes of them

LIB_SOURCES := $(wildcard core/*.c ttl/*.c)
FS_SOURCES := $(wildcard fs/*.c)
HELPER_SOURCES := $(wildcard mount-helpers/*.c)
UNIT_SOURCES := $(wildcard tests/unit/test_*.c)
BENCH_SOURCES := $(wildcard tests/bench/*.c)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
SOURCES := $(LIB_SOURCES) $(FS_SOURCES) $(HELPER_SOURCES) $(UNIT_SOURCES) $(BENCH_SOURCES) $(FUZZ_SOURCES)
HEADERS := $(wildcard $(addsuffix /*.h,core ttl fs mount-helpers tests/unit tests/bench tests/fuzz))

OBJ := $(BUILD)/obj
objects = $(patsubst %.c,$(OBJ)/%.o,$(1))

LIB := $(BUILD)/libttlfs.a
TTLFS_BINARY := $(BUILD)/ttlfs
# A helper is mount-helpers/NAME.c and, where there are such, NAME_*.c.
HELPER_MAINS := mount-helpers/mount_ttlfs.c mount-helpers/ttlctl.c
helper = $(patsubst mount_%,mount.%,$(notdir $(1:.c=)))
helper_sources = $(1) $(wildcard $(1:.c=_*.c))
HELPERS := $(addprefix $(BUILD)/,$(foreach source,$(HELPER_MAINS),$(call helper,$(source))))
UNITS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(BENCH_SOURCES))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(FUZZ_SOURCES))

.PHONY: all units benches
all: $(TTLFS_BINARY) $(HELPERS)
units: $(UNITS)
benches: $(BENCHES)

$(OBJ)/mount-helpers/mount_ttlfs.o: CPPFLAGS += -DTTLFS_BINDIR='"$(BINDIR)"'

# core/ and ttl/ are compiled without FUSE's folder: its headers do not belong there.
$(call objects,$(FS_SOURCES) $(BENCH_SOURCES)): FUSE_INCLUDES = $(FUSE_CFLAGS)

$(OBJ)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(ALL_CPPFLAGS) $(FUSE_INCLUDES) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

link = $(Q)mkdir -p $(@D); echo "  LINK  $@"; $(CC) $(ALL_LDFLAGS) $(1) -o $@ $(filter %.o %.a,$^)

$(LIB): $(call objects,$(LIB_SOURCES)) $(BUILD)/members
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(TTLFS_BINARY): $(call objects,$(FS_SOURCES)) $(LIB) $(BUILD)/members
	$(link) $(LIB_LIBS) $(FUSE_LIBS)

define helper-rule
$(BUILD)/$(call helper,$(1)): $(call objects,$(call helper_sources,$(1))) $(LIB) $(BUILD)/members
	$$(link) $(LIB_LIBS)
endef
$(foreach source,$(HELPER_MAINS),$(eval $(call helper-rule,$(source))))

$(UNITS): $(BUILD)/unit/%: $(OBJ)/tests/unit/%.o $(LIB)
	$(link) $(LIB_LIBS)

$(BENCHES): $(BUILD)/bench/%: $(OBJ)/tests/bench/%.o $(LIB)
	$(link) $(LIB_LIBS) $(FUSE_LIBS)

$(FUZZERS): $(BUILD)/%: $(OBJ)/tests/fuzz/%.o $(LIB)
	$(call link,-fsanitize=fuzzer) $(LIB_LIBS)

# Two notes that are rewritten only when they change: other flags rebuild everything, a source file
# that came or went rebuilds what is put together of all of them.
quoted = '$(subst ','\'',$(1))'
note = mkdir -p $(@D); printf '%s\n' $(call quoted,$(1)) > $@.new; \
    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(BUILD)/flags: FORCE
	@$(PKG_CONFIG) --exists --print-errors fuse3 $(PACKAGES) || \
	    { echo "Libraries are missing: make deps"; exit 1; }
	@$(call note,$(CC) $(AR) $(ALL_CPPFLAGS) $(FUSE_CFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIB_LIBS) $(FUSE_LIBS))

$(BUILD)/members: FORCE
	@$(call note,$(LIB_SOURCES) $(FS_SOURCES) $(HELPER_SOURCES))

.PHONY: FORCE
FORCE:

-include $(patsubst %.o,%.d,$(call objects,$(SOURCES)))

# Tests. `check` uses what is installed; `test` first installs what is missing.

.PHONY: deps test test-long check check-unit check-mount check-built check-asan check-tsan
deps:
	@tests/install-deps.sh build test

test: deps
	$(SUBMAKE) check

test-long: deps
	@tests/install-deps.sh long
	$(SUBMAKE) check TTLFS_LONG=1 MARKS= UNIT_TIMEOUT=1800 MOUNT_TIMEOUT=7200

check:
	$(SUBMAKE) all units
	@$(SUBMAKE) check-built

TTLFS_LONG ?=
test_environment = TTLFS=$(abspath $(TTLFS_BINARY)) TTLFS_BUILD=$(abspath $(BUILD)) TTLFS_LONG=$(TTLFS_LONG) \
    RUN_WRAP="$(RUN_WRAP)" UNIT_TIMEOUT=$(UNIT_TIMEOUT) MOUNT_TIMEOUT=$(MOUNT_TIMEOUT) PYTHON=$(PYTHON)
run_unit = $(test_environment) tests/unit/run.sh $(BUILD)/results/unit $(UNITS)
run_mount = $(test_environment) tests/mount/run.sh $(BUILD)/results/mount -m "$(MARKS)" $(PYTEST_ARGS)

# The mount tests run whatever the unit tests say: one run shows all that is wrong.
check-built:
	@status=0; $(run_unit) || status=1; $(run_mount) || status=1; exit $$status

check-unit: units
	@$(run_unit)

check-mount: all
	@$(run_mount)

check-asan:
	$(SUBMAKE) FLAVOUR=asan UNIT_TIMEOUT=600 MOUNT_TIMEOUT=1800 check

check-tsan:
	$(SUBMAKE) FLAVOUR=tsan UNIT_TIMEOUT=600 MOUNT_TIMEOUT=900 MARKS="tsan and not long" check

.PHONY: fuzz run-fuzz coverage coverage-report
fuzz:
	@tests/install-deps.sh build fuzz
	$(SUBMAKE) FLAVOUR=fuzz CC=$(FUZZ_CC) run-fuzz

run-fuzz: $(FUZZERS)
	@[ -n "$(FUZZERS)" ] || { echo "no tests/fuzz/fuzz_*.c"; exit 1; }
	@status=0; for fuzzer in $(FUZZERS); do \
	    name=$${fuzzer##*/}; corpus=$(BUILD)/corpus/$$name; mkdir -p $$corpus $(BUILD)/crashes; \
	    seeds=tests/fuzz/corpus/$${name#fuzz_}; [ -d $$seeds ] || seeds=; \
	    if $$fuzzer -max_total_time=$(FUZZ_SECONDS) -timeout=10 -artifact_prefix=$(BUILD)/crashes/$$name- \
	        $$corpus $$seeds > $$fuzzer.log 2>&1; \
	    then echo "$$name: $$(tail -n 1 $$fuzzer.log)"; \
	    else status=1; tail -n 60 $$fuzzer.log; echo "$$name: FAILED, the whole log is $$fuzzer.log"; fi; \
	done; exit $$status

coverage:
	$(SUBMAKE) FLAVOUR=coverage coverage-report

coverage-report:
	@find $(BUILD) -name '*.gcda' -delete 2>/dev/null || true
	@status=0; $(MAKE) --no-print-directory check || status=1; \
	find $(OBJ)/core $(OBJ)/ttl $(OBJ)/fs -name '*.gcda' -exec $(GCOV) -n {} + 2>/dev/null \
	| awk "/^File /{file=\$$2; gsub(/'/, \"\", file)} \
	    /^Lines executed/ && file ~ /^(core|ttl|fs)\/.*\.c\$$/ { \
	        split(\$$2, part, /[:%]/); printf \"%6.1f %%  %5d lines  %s\n\", part[2], \$$4, file | \"sort -k5\"; \
	        all += \$$4; hit += \$$4 * part[2] / 100; file = \"\"} \
	    END {close(\"sort -k5\"); if (all) printf \"%6.1f %%  %5d lines  in all\n\", 100 * hit / all, all}" \
	| tee $(BUILD)/coverage.txt; exit $$status

# Linters. A file is looked at again by clang-tidy only when it, a header or the settings changed.

TIDY_DONE := $(patsubst %.c,$(BUILD)/lint/%.done,$(SOURCES))

.PHONY: lint run-lint lint-format lint-cppcheck lint-tidy
lint:
	@tests/install-deps.sh build lint
	$(SUBMAKE) --keep-going --output-sync=target run-lint

run-lint: lint-format lint-cppcheck lint-tidy

lint-format:
	$(CLANG_FORMAT) --dry-run -Werror $(SOURCES) $(HEADERS)

lint-cppcheck:
	@mkdir -p $(BUILD)/lint/cppcheck
	$(CPPCHECK) --quiet -j $(JOBS) --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --error-exitcode=1 --cppcheck-build-dir=$(BUILD)/lint/cppcheck \
	    -I. -D_GNU_SOURCE -DFUSE_USE_VERSION=312 -DTTLFS_VERSION='"$(VERSION)"' $(SOURCES)

lint-tidy: $(TIDY_DONE)

# What runs with one thread may call what is not safe with several (getenv, exit, strerror), and a test
# may include the file whose inside it tests.
$(BUILD)/lint/mount-helpers/%.done $(BUILD)/lint/tests/%.done: TIDY_CHECKS = \
    --checks=-concurrency-mt-unsafe,-bugprone-suspicious-include

$(TIDY_DONE): $(BUILD)/lint/%.done: %.c $(HEADERS) .clang-tidy
	@mkdir -p $(@D)
	@echo "  TIDY  $<"
	@$(CLANG_TIDY) --quiet $(TIDY_CHECKS) $< -- -std=c11 $(ALL_CPPFLAGS) $(FUSE_CFLAGS) $(WARNINGS) 2> $@.err || \
	    { cat $@.err >&2; exit 1; }
	@touch $@

# Benchmarks and the demonstration

.PHONY: bench bench-quick demo
bench: bench-deps
	$(SUBMAKE) all benches
	ROUNDS=$${ROUNDS:-41} EXPIRY_DOCS=$${EXPIRY_DOCS:-500000} TTLFS_BUILD=$(abspath $(BUILD)) tests/bench/run-quick.sh

bench-quick: bench-deps
	$(SUBMAKE) all benches
	TTLFS_BUILD=$(abspath $(BUILD)) tests/bench/run-quick.sh

.PHONY: bench-deps
bench-deps:
	@tests/install-deps.sh build bench

demo:
	@tests/install-deps.sh build demo
	$(SUBMAKE) all
	@TTLFS=$(abspath $(TTLFS_BINARY)) tests/demo.sh

# Installation

MAN_PAGES := $(wildcard mount-helpers/*.[1578] mount-helpers/man/*.[1578])
BASH_COMPLETIONS := $(wildcard mount-helpers/completions/*.bash)
ZSH_COMPLETIONS := $(wildcard mount-helpers/completions/_*)
FISH_COMPLETIONS := $(wildcard mount-helpers/completions/*.fish)
EXAMPLES := $(wildcard mount-helpers/*.mount)

# Words of the form SOURCE|MODE|DESTINATION. A remount is asked for under the type that the kernel shows, fuse.ttlfs.
INSTALLED = $(TTLFS_BINARY)|755|$(BINDIR)/ttlfs \
    $(BUILD)/mount.ttlfs|755|$(SBINDIR)/mount.fuse.ttlfs \
    $(foreach file,$(HELPERS),$(file)|755|$(if $(filter mount.%,$(notdir $(file))),$(SBINDIR),$(BINDIR))/$(notdir $(file))) \
    $(foreach file,$(MAN_PAGES),$(file)|644|$(MANDIR)/man$(subst .,,$(suffix $(file)))/$(notdir $(file))) \
    $(foreach file,$(BASH_COMPLETIONS),$(file)|644|$(DATADIR)/bash-completion/completions/$(basename $(notdir $(file)))) \
    $(foreach file,$(ZSH_COMPLETIONS),$(file)|644|$(DATADIR)/zsh/site-functions/$(notdir $(file))) \
    $(foreach file,$(FISH_COMPLETIONS),$(file)|644|$(DATADIR)/fish/vendor_completions.d/$(notdir $(file))) \
    README.md|644|$(DATADIR)/doc/ttlfs/README.md \
    $(foreach file,$(EXAMPLES),$(file)|644|$(DATADIR)/doc/ttlfs/examples/$(notdir $(file)))
field = $(word $(1),$(subst |, ,$(2)))

.PHONY: install uninstall clean help
install: all
	$(foreach item,$(INSTALLED),$(INSTALL) -D -m $(call field,2,$(item)) $(call field,1,$(item)) '$(DESTDIR)$(call field,3,$(item))' &&) true

uninstall:
	rm -f $(foreach item,$(INSTALLED),'$(DESTDIR)$(call field,3,$(item))')

clean:
	rm -rf $(BUILD_ROOT)

help:
	@echo 'all          build/ttlfs and its helpers'
	@echo 'deps         install what is missing to build and test (Debian, as root or through sudo)'
	@echo 'check        unit tests, then mount tests; check-unit, check-mount: one kind'
	@echo 'test         deps, then check; test-long: the long tests too'
	@echo 'check-asan   all tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'check-tsan   unit tests and the mount tests marked tsan under ThreadSanitizer'
	@echo 'fuzz         every fuzzer for FUZZ_SECONDS; coverage: lines that the tests reach'
	@echo 'lint         clang-format, clang-tidy, cppcheck'
	@echo 'bench        the benchmarks; bench-quick: the same in fewer rounds, under three minutes'
	@echo 'demo         files that expire, in ten seconds'
	@echo 'install, uninstall (PREFIX, DESTDIR), clean'
