# kd: build, test, install. `make help` lists targets.
TOOLS   := kd-prep kd-init kd-train kd-sample kd-denoise kd-grid kd-info
PREFIX  ?= /usr/local
CC      ?= cc
OPT     ?= -O2
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla $(if $(WERROR),-Werror)
SANITIZE ?=
B       := build$(if $(SANITIZE),-san)
# Contraction off: a*b+c rounds twice everywhere but in the CPU kernels, so numbers do not depend on the compiler.
CFLAGS  += -std=c11 -D_GNU_SOURCE $(OPT) -g -fopenmp -ffp-contract=off $(WARN) $(SANITIZE)
LDLIBS  := -fopenmp -lpng -ljpeg -lexif -lz -ljansson -lxxhash -lm $(SANITIZE)
VERSION := 0.1

# The CPU kernels are compiled once for each instruction set and chosen at run time (lib/cpu/cpu.c; KD_CPU=avx2 pins).
ISAS    := base avx2 avx512
KFLAGS        := -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math
KFLAGS.base   :=
KFLAGS.avx2   := -mavx2 -mfma -mf16c
KFLAGS.avx512 := -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512

KSRC    := $(wildcard lib/cpu/kernels/*.c)
SRC     := $(wildcard lib/*/*.c) $(wildcard formats/*.c)
OBJ     := $(SRC:%=$(B)/%.o) $(foreach i,$(ISAS),$(KSRC:%=$(B)/$(i)/%.o))
TESTS   := $(patsubst tests/%.c,$(B)/test-%,$(wildcard tests/unit/*.c))

all: $(TOOLS:%=$(B)/%)
.SECONDARY:
.SUFFIXES:
.DELETE_ON_ERROR:

$(B)/%.c.o: %.c                ; @mkdir -p $(@D) && $(CC) $(CFLAGS) -DKD_VERSION='"$(VERSION)"' -Ilib -I. -MMD -c -o $@ $<
define isa_rule
$(B)/$(1)/%.c.o: %.c           ; @mkdir -p $$(@D) && $$(CC) $$(CFLAGS) $$(KFLAGS) $$(KFLAGS.$(1)) -DKD_ISA=$(1) -DKD_ISA_$(1) -Ilib -I. -MMD -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))
$(B)/libkd.a: $(OBJ)           ; @rm -f $@ && $(AR) rcs $@ $^
$(B)/kd-%: $(B)/tools/kd-%.c.o $(B)/libkd.a ; $(CC) -o $@ $^ $(LDLIBS)
$(B)/test-unit/%: $(B)/tests/unit/%.c.o $(B)/libkd.a ; @mkdir -p $(@D) && $(CC) -o $@ $^ -lcmocka $(LDLIBS)
-include $(shell find $(B) -name '*.d' 2>/dev/null)

check: all $(TESTS)            ; tests/run $(B)
asan:                          ; $(MAKE) SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined' OPT=-O1 check
clean:                         ; rm -rf build build-san

help:
	@echo 'make            the tools, in build/'
	@echo 'make check      all tests; ends with N passed, N failed'
	@echo 'make asan       the same under address and undefined-behaviour sanitizers'
	@echo 'make install    PREFIX=/usr/local: programs, man pages, completion'
.PHONY: all check asan clean help
