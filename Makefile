# Builds, tests and installs kd. `make help` lists the targets.
PREFIX  ?= /usr/local
CC      ?= cc
OPT     ?= -O2
THREADS := -pthread -fopenmp-simd
VERSION := 0.1
# WERROR=1 turns warnings into errors. SANITIZE=-fsanitize=... builds in build-san/.
WERROR  ?=
SANITIZE ?=
B       := build$(if $(SANITIZE),-san)

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla $(if $(WERROR),-Werror)
# No contraction: except in the CPU kernels, a*b+c rounds twice, so that results do not depend on the compiler.
# No errno and no traps from arithmetic: results are the same, and gcc can vectorize loops with sqrt or a condition.
FLAGS   := -std=c11 -D_GNU_SOURCE -DKD_VERSION='"$(VERSION)"' -Ilib -I. $(OPT) -g $(THREADS) -ffp-contract=off -fno-math-errno \
           -fno-trapping-math $(WARN) $(SANITIZE) -MMD -MP $(CPPFLAGS) $(CFLAGS)
# -rdynamic lets plug-ins call the program's functions (lib/device).
LINK     = $(CC) -rdynamic $(LDFLAGS)
LDLIBS  := $(THREADS) -lpng -ljpeg -lexif -lz -ljansson -lxxhash -Wl,--as-needed -llapacke -lopenblas -lm $(SANITIZE)

# The CPU kernels are compiled once per instruction set, and one set is chosen at run time (lib/cpu/cpu.c). KD_CPU=avx2
# forces a set.
ISAS    := base avx2 avx512
KFLAGS        := -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-tree-loop-distribute-patterns
KFLAGS.base   :=
KFLAGS.avx2   := -mavx2 -mfma -mf16c
KFLAGS.avx512 := -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512

# Kernels without contraction: what samplers compute has the same bits on every instruction set.
EXACT   := vec

TOOLS   := $(patsubst tools/%.c,%,$(wildcard tools/kd-*.c))
KSRC    := $(wildcard lib/cpu/kernels/*.c)
SRC     := $(wildcard lib/*/*.c) $(wildcard formats/*.c)
OBJ     := $(SRC:%=$(B)/%.o) $(foreach i,$(ISAS),$(KSRC:%=$(B)/$(i)/%.o))
UNIT    := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*.c))
OPTEST  := $(wildcard tests/op/*.c)
SUPPORT := $(wildcard tests/support/*.c)
FUZZ    := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
BENCH   := $(wildcard tests/bench/*.c)
DEVICE  := $(patsubst tests/device/%.c,%,$(filter-out tests/device/late.c,$(wildcard tests/device/*.c)))

all: $(TOOLS:%=$(B)/%)
tests: $(UNIT:%=$(B)/test-unit/%) $(if $(OPTEST),$(B)/test-op) $(FUZZ:%=$(B)/fuzz-replay/%) $(DEVICE:%=$(B)/tests/device/%.so) $(B)/late.so
.PHONY: all tests check check-update asan bench demo fuzz deps install uninstall clean dist-clean help
.SECONDARY:
.SUFFIXES:
.DELETE_ON_ERROR:

# One rule per kind of file ----------------------------------------------------------------------------------------

# Objects depend on this file because it contains their flags.
$(B)/%.c.o: %.c Makefile       ; @mkdir -p $(@D) && $(CC) $(FLAGS) -c -o $@ $<
define isa_rule
$(B)/$(1)/%.c.o: %.c Makefile  ; @mkdir -p $$(@D) && $$(CC) $$(FLAGS) $$(KFLAGS) $$(KFLAGS.$(1)) $$(if $$(filter $$(EXACT),$$(*F)),-ffp-contract=off) -DKD_ISA=$(1) -DKD_ISA_$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))
$(B)/libkd.a: $(OBJ)           ; @mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $^
$(B)/libtest.a: $(SUPPORT:%=$(B)/%.o) ; @mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $^
$(B)/kd-%: $(B)/tools/kd-%.c.o $(B)/libkd.a ; $(LINK) -o $@ $^ $(LDLIBS)
$(B)/test-unit/%: $(B)/tests/unit/%.c.o $(B)/libtest.a $(B)/libkd.a
	@mkdir -p $(@D) && $(LINK) -o $@ $^ -lcmocka $(LDLIBS)
$(B)/test-op: $(OPTEST:%=$(B)/%.o) $(B)/libtest.a $(B)/libkd.a ; $(LINK) -o $@ $^ $(LDLIBS)
$(B)/bench: $(BENCH:%=$(B)/%.o) $(B)/libkd.a ; $(LINK) -o $@ $^ -ldnnl $(LDLIBS)
PLUGIN   = @mkdir -p $(@D) && $(CC) $(FLAGS) -fPIC -shared $(LDFLAGS) -o $@ $<
$(B)/tests/device/%.so: tests/device/%.c Makefile ; $(PLUGIN)
$(B)/late.so: tests/device/late.c Makefile ; $(PLUGIN)
$(B)/fuzz-replay/%: $(B)/tests/fuzz/%.c.o $(B)/tests/fuzz/replay/main.c.o $(B)/libkd.a
	@mkdir -p $(@D) && $(LINK) -o $@ $^ $(LDLIBS)
$(B)/fuzz/%: $(B)/tests/fuzz/%.c.o $(B)/libkd.a
	@mkdir -p $(@D) && $(LINK) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)
-include $(shell find $(B) -name '*.d' 2>/dev/null)

# Tests ------------------------------------------------------------------------------------------------------------

check: all tests               ; @tests/run $(B)
check-update: all tests        ; @tests/run --update $(B)
asan:
	$(MAKE) SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' OPT=-O1 check
bench: $(B)/bench              ; $(B)/bench

# Example: make fuzz FUZZ=picture SECONDS=600. Inputs that cause failures are written to build-fuzz/found/. Move an input to
# tests/fuzz/corpus/ once its failure is fixed.
SECONDS ?= 60
fuzz:
	$(MAKE) B=build-fuzz CC=clang OPT=-O1 KFLAGS=-O1 SANITIZE=-fsanitize=fuzzer-no-link,address,undefined $(FUZZ:%=build-fuzz/fuzz/%)
	for f in $(FUZZ); do mkdir -p build-fuzz/found build-fuzz/corpus/$$f && build-fuzz/fuzz/$$f -max_total_time=$(SECONDS) \
	    -rss_limit_mb=2048 -artifact_prefix=build-fuzz/found/$$f- build-fuzz/corpus/$$f tests/fuzz/corpus/$$f || exit 1; done

# Demo -------------------------------------------------------------------------------------------------------------

DEMO_STEPS ?= 3200
demo:
	@.ci/deps build
	@$(MAKE) --no-print-directory -j$(shell nproc) all $(B)/knn
	@examples/digits/demo $(B) $(DEMO_STEPS)
$(B)/knn: $(B)/examples/digits/knn.c.o $(B)/libkd.a ; $(LINK) -o $@ $^ $(LDLIBS)

# Installation -----------------------------------------------------------------------------------------------------

BIN  = $(DESTDIR)$(PREFIX)/bin
MAN  = $(DESTDIR)$(PREFIX)/share/man/man1
COMP = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
install: all
	install -d $(BIN) $(MAN) $(COMP)
	install $(TOOLS:%=$(B)/%) $(BIN)
	install -m 644 $(TOOLS:%=tools/%.1) $(MAN)
	install -m 644 tools/kd.bash $(COMP)/kd
	for t in $(TOOLS); do ln -sf kd $(COMP)/$$t; done
uninstall:
	rm -f $(TOOLS:%=$(BIN)/%) $(TOOLS:%=$(MAN)/%.1) $(TOOLS:%=$(COMP)/%) $(COMP)/kd
deps:                          ; @.ci/deps build test
clean:                         ; rm -rf build build-san build-fuzz
dist-clean: clean              ; rm -f demo.png core core.*

help:
	@echo 'make demo          Install missing packages (named first), build, train on digits, draw demo.png. Takes minutes.'
	@echo 'make               Build the tools in build/. Options: OPT=-O2 WERROR=1'
	@echo 'make deps          Install the missing Debian packages of packages.txt.'
	@echo 'make check         Run all tests; the last line is "N passed, N failed". For one test: tests/run build NAME'
	@echo 'make check-update  Make the present output of the CLI tests their expected output.'
	@echo 'make asan          Run all tests with the address and undefined-behavior sanitizers.'
	@echo 'make fuzz          Test the readers with random input (needs clang). Options: FUZZ=safetensors SECONDS=60'
	@echo 'make bench         Measure speed and memory (needs libdnnl-dev).'
	@echo 'make install       Install programs, man pages and completion. Options: PREFIX=/usr/local DESTDIR='
	@echo 'make uninstall     Remove what make install installed.'
	@echo 'make clean         Remove the build folders.'
	@echo 'make dist-clean    Remove the build folders, demo.png and core files.'
