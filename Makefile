# lockstep: one Makefile, not recursive but for the sanitizer modes. `make help` lists the targets.
#
#   MODE=release|debug|asan|ubsan|tsan|cov   each has its own tree, build/$(MODE)/
#   CC=gcc|clang   CFLAGS=, LDFLAGS=         added to what is set here; changed flags rebuild
#   PREFIX=, DESTDIR=                        for install
#   V=1                                      shows every command
#   B=, RUN=                                 another tree; what runs its programs, where this machine cannot (release-aarch64)

VERSION := 0.1.0
SOVERSION := 0

MODE ?= release
B := build/$(MODE)
CLANG ?= clang
# With sanitizers clang builds in half of gcc's time, and its warnings are seen on the way.
ifeq ($(origin CC),default)
CC := $(or $(if $(filter asan,$(MODE)),$(shell command -v $(CLANG) > /dev/null 2>&1 && echo $(CLANG))),gcc)
endif
AR ?= ar
STRIP ?= strip
RUN ?=
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share

# --- flags ---------------------------------------------------------------------------------------------------------
# What a release keeps of a fault that nobody has found yet, as far as the compiler knows it: checked buffers, stacks that are
# guarded and touched page by page, returns and jumps that lead where they may. The package tests read it back.
knows = $(if $(shell printf '\043include <stdio.h>\n' | $(CC) -Werror -O2 $(1) -x c -c -o /dev/null - 2>&1 || echo no),,$(1))
FORTIFIED := $(or $(call knows,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
GUARDED := $(foreach flag,-fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard,$(call knows,$(flag)))
HARDENED := $(FORTIFIED) $(GUARDED)
# -ffp-contract=off: the same figures from every compiler and processor.
# -fno-semantic-interposition: position-independent code for the shared library costs the program nothing.
MODE_release := -g1 -O3 $(HARDENED)
MODE_debug := -O0 -g3
# The unit tests' own files: they check what is built above, and need to be quick to build more than to run.
TESTS_release := -Og
TESTS_asan := -fno-sanitize=undefined
# -g1: functions and lines, for profilers and sanitizers; what debuggers read besides makes building up to half as long again.
# Without optimization: what is built takes longer to build than to run. Of undefined behaviour, asan leaves to ubsan what is
# looked at in every access to memory.
MODE_asan := -g1 -O0 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,pointer-overflow \
	-fno-sanitize-recover=all
MODE_ubsan := -g1 -O1 -fno-omit-frame-pointer -fsanitize=undefined -fno-sanitize-recover=all
MODE_tsan := -g1 -O0 -fno-omit-frame-pointer -fsanitize=thread
MODE_cov := -O0 --coverage
MODE_fuzz := -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifndef MODE_$(MODE)
$(error MODE=$(MODE) is none of release, debug, asan, ubsan, tsan, cov)
endif
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# Loops that ask for vectors stay plain below -O2; clang would call that an error.
ifneq ($(findstring clang,$(CC)),)
WARN += -Wno-pass-failed
endif
# Four houses: the core, the compiler, libraries of their own, tables with what is fitted to them and scored against them.
HOUSES := src lang lib study
INCLUDES := -Iinclude -Isrc -Ilib -Istudy -I.
# Every build but the one for users states its invariants aloud: base/check.h.
ASSERTS := $(if $(filter-out release,$(MODE)),-DLK_ASSERTS)
ALL_CPPFLAGS := -D_GNU_SOURCE -DLOCKSTEP_VERSION=\"$(VERSION)\" $(INCLUDES) $(ASSERTS) $(CPPFLAGS)
ALL_CFLAGS := -std=c11 -g $(MODE_$(MODE)) -ffp-contract=off -fPIC -fno-semantic-interposition $(WARN) $(CFLAGS)
ALL_LDFLAGS := $(filter -fsanitize=% --coverage -fno-sanitize%,$(MODE_$(MODE))) $(CFLAGS) $(LDFLAGS)
LDLIBS := -lz -lzstd -lexpat -lyaml -lm -lpthread -ldl

# Intel's ISA-L unpacks gzip three times as fast as zlib; without its headers zlib does it. ISAL=no leaves it out.
ISAL ?= $(if $(wildcard /usr/include/isa-l.h /usr/local/include/isa-l.h),yes,no)
ifeq ($(ISAL),yes)
ALL_CPPFLAGS += -DLK_ISAL
LDLIBS += -lisal
endif

# libmicrohttpd serves the page of `lockstep serve`; without its header that verb says how to get it.
MICROHTTPD ?= $(if $(wildcard /usr/include/microhttpd.h /usr/local/include/microhttpd.h),yes,no)
ifeq ($(MICROHTTPD),yes)
SERVE_ABSENT := src/serve/serve_none.c
else
SERVE_ABSENT := $(wildcard src/serve/http*.c)
endif

# --- files ---------------------------------------------------------------------------------------------------------
# Folders that are programs or libraries of their own; all others make up liblockstep.
APART_DIRS := src/cli src/mpi src/serve src/mcp lib/recorder
PUBLIC_H := $(sort $(wildcard include/lockstep/*.h))
LIB_C := $(sort $(filter-out $(APART_DIRS:%=%/%),$(wildcard $(foreach house,$(HOUSES),$(house)/*/*.c $(house)/*/*/*.c))))
CLI_C := $(sort $(wildcard src/cli/*.c))
SERVE_C := $(filter-out $(SERVE_ABSENT),$(sort $(wildcard src/serve/*.c src/mcp/*.c)))
UNIT_C := $(sort $(wildcard tests/unit/test_*.c))
FUZZ_C := $(sort $(wildcard tests/fuzz/fuzz_*.c))
DATA := $(sort $(shell find data -type f 2>/dev/null))

# The package that draws curves in HTML reports, fetched once. CHARTS=no leaves it out: curves are then plain SVG.
CHARTS ?= yes
CHARTS_STAMP := $(if $(filter yes,$(CHARTS)),build/charts.stamp)

# Folders of data/ whose tables are packed.
PACKED := launch families measured causes
LIB_O := $(LIB_C:%.c=$(B)/%.o) $(B)/data.o $(B)/calibration.o $(PACKED:%=$(B)/%_tables.o)
CLI_O := $(CLI_C:%.c=$(B)/%.o)
SERVE_O := $(SERVE_C:%.c=$(B)/%.o)
SERVE := $(B)/liblockstep-serve.a
STATIC := $(B)/liblockstep.a
SONAME := liblockstep.so.$(SOVERSION)
SHARED := $(B)/liblockstep.so.$(VERSION)
PROGRAM := $(B)/lockstep
UNIT := $(UNIT_C:tests/unit/%.c=$(B)/unit/%)
REPLAY := $(FUZZ_C:tests/fuzz/fuzz_%.c=$(B)/replay/%)
FUZZERS := $(FUZZ_C:tests/fuzz/fuzz_%.c=$(B)/fuzzers/%)

# The preload library of `lockstep record`: libc alone; its calls of MPI once for each binary interface.
RECORDER_LIBRARIES := $(B)/liblockstep-probe.so $(B)/liblockstep-probe-mpich.so
# One that NCCL loads itself: the recorder's code without its wrappers.
RECORDER_PLUGIN := $(B)/libnccl-profiler-lockstep.so
# One that takes the place of libnccl.so.2 where a program loads it by dlopen.
RECORDER_SHIM := $(B)/lockstep-nccl/libnccl.so.2
RECORDERS := $(RECORDER_LIBRARIES) $(RECORDER_SHIM) $(RECORDER_PLUGIN)
# Compiled once for each binary interface of MPI.
RECORDER_MPI_C := $(sort $(wildcard lib/recorder/mpi/*.c lib/recorder/emulate/*.c) lib/recorder/start/start_mpi.c)
RECORDER_APART_C := $(addprefix lib/recorder/,gpu/nccl_shim.c start/plugin.c start/plugin_none.c)
RECORDER_BASE_C := $(filter-out $(RECORDER_MPI_C) $(RECORDER_APART_C),$(sort $(wildcard lib/recorder/*.c lib/recorder/*/*.c)))
RECORDER_C := $(RECORDER_BASE_C) $(RECORDER_MPI_C) $(RECORDER_APART_C)
RECORDER_BASE_O := $(RECORDER_BASE_C:lib/%.c=$(B)/%.o) $(addprefix $(B)/recorder/,recording.o cuda_wrappers.o nccl_wrappers.o)
RECORDER_MPI_O := $(RECORDER_MPI_C:lib/recorder/%.c=%.o) mpi_wrappers.o

LONG_PARTS := release asan ubsan tsan clang lang lint packages fresh fuzz
.PHONY: same-bytes all check check-long $(LONG_PARTS:%=check-long-%) unit cli-tests serve-tests browser-tests fuzz fuzz-campaign coverage fuzz-programs fuzz-replay replay-programs unit-programs fresh-check bench bench-lookup accuracy layers docs-check lang-oracle lang-cuda charts \
        mpi lang-mpi lang-ring lint syntax man api dist deb release tutorials scripts pictures package-tests python python-tests bench-predict install uninstall clean help quick circles format format-check site
.SECONDARY:
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

# lockstep-mpi is built where MPI is. Debian's package of mpirun has mpicc too, without the headers.
# It compiles with the same compiler, whose sanitizers are then those of the library.
MPICC ?= $(if $(findstring clang,$(CC)),OMPI_CC=$(CC) MPICH_CC=$(CC) )mpicc
HAS_MPI := $(if $(shell $(MPICC) -E -include mpi.h -x c /dev/null >/dev/null 2>&1 && echo yes),$(B)/lockstep-mpi)

all: $(PROGRAM) $(STATIC) $(B)/liblockstep-lang.a $(B)/liblockstep.so $(RECORDERS) $(HAS_MPI) ## the program, the static and the shared library, the recorder, lockstep-mpi

# A line per file instead of the command; with make -s not even that.
ifndef V
Q := @
say = $(if $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),@:,@printf '%-6s %s\n' $(1) $@)
endif

# --- compiling -----------------------------------------------------------------------------------------------------
# Stamps: files with what a build was made with, written anew where that has changed: $(B)/flags with compiler and flags, the
# others with the list of files (a removed file relinks), the commit, and whether MPI is there. They are compared while the
# Makefile is read and written by rules, so that `make -n` writes nothing.
STAMP_flags := $(CC) $(shell $(CC) -dumpfullversion -dumpversion 2>/dev/null) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS)
STAMP_sources := $(LIB_C) $(CLI_C) $(SERVE_C)
STAMP_datafiles := $(DATA) charts $(CHARTS)
STAMP_commit := $(shell tools/commit.sh 2>/dev/null)
STAMP_mpi := $(if $(HAS_MPI),yes)
STAMPS := flags sources datafiles commit mpi
changed = $(shell printf '%s\n' '$(subst ','\'',$(STAMP_$1))' | cmp -s - $(B)/$1 || echo yes)
$(foreach s,$(STAMPS),$(if $(call changed,$s),$(eval $(B)/$s: FORCE)))
$(STAMPS:%=$(B)/%):
	@mkdir -p $(B)
	@printf '%s\n' '$(subst ','\'',$(STAMP_$(@F)))' > $@.$$$$ && mv -f $@.$$$$ $@
.PHONY: FORCE

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(if $(filter tests/%,$<),-Wno-missing-prototypes) $(if $(filter tests/unit/%,$<),$(TESTS_$(MODE))) -MMD -MP -c -o $@ $<

# A build without npm left them out; now it is there.
build/charts.stamp: tools/web_charts.sh $(if $(and $(wildcard build/charts/.without-npm),$(shell command -v npm 2>/dev/null)),FORCE)
	$(call say,CHARTS)
	$(Q)tools/web_charts.sh build/charts
	$(Q)touch $@

charts: ## fetches the package that draws curves in HTML reports, where the first build could not
	@rm -f build/charts.stamp
	@$(MAKE) --no-print-directory build/charts.stamp

# What a build has that the library itself does not use.
$(B)/src/io/release.o: ALL_CPPFLAGS += $(if $(HAS_MPI),-DLK_MPI)
$(B)/src/io/release.o: $(B)/mpi

$(B)/data.c: tools/embed.sh $(DATA) $(B)/datafiles $(CHARTS_STAMP)
	@mkdir -p $(@D)
	$(call say,EMBED)
	$(Q)sh tools/embed.sh data $(if $(CHARTS_STAMP),build/charts) > $@.new
	$(Q)mv -f $@.new $@

# The rows of data/calibration are read and checked once, here, by the reader of the library.
PACK := $(B)/pack_calibration
PACK_C := tools/pack_calibration.c $(filter-out %_current.c,$(wildcard src/cost/calibration/*.c)) \
	src/io/csv.c src/io/form.c src/io/stream.c src/io/inflate.c src/io/seal.c $(wildcard src/base/*.c src/system/*.c)
$(PACK): $(PACK_C:%.c=$(B)/%.o)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/calibration.c: $(PACK) $(filter data/calibration/%.csv,$(DATA)) $(B)/datafiles
	$(call say,PACK)
	$(Q)cd data && $(RUN) "$(abspath $(PACK))" $(patsubst data/%,%,$(filter data/calibration/%.csv,$(DATA))) > "$(abspath $@).new"
	$(Q)mv -f $@.new $@

# The rows of data/launch, data/families, data/measured and data/causes, checked against the fields that they name.
PACK_TABLES := $(B)/pack_tables
PACK_TABLES_C := tools/pack_tables.c tools/pack_launch.c tools/pack_families.c tools/pack_measured.c tools/pack_causes.c src/launch/reading/job_fields.c \
	src/launch/config/draft_facts.c src/model/layout/optimizers.c src/model/layout/job_loss.c src/io/csv.c src/io/form.c \
	src/io/stream.c src/io/inflate.c src/io/seal.c $(wildcard src/base/*.c src/system/*.c)
$(PACK_TABLES): $(PACK_TABLES_C:%.c=$(B)/%.o)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(foreach set,$(PACKED),$(eval $(B)/$(set)_tables.c: $(filter data/$(set)/%.csv,$(DATA))))
$(PACKED:%=$(B)/%_tables.c): $(B)/%_tables.c: $(PACK_TABLES) $(B)/datafiles
	$(call say,PACK)
	$(Q)$(RUN) $(PACK_TABLES) $* $(filter data/$*/%.csv,$(DATA)) > $@.new
	$(Q)mv -f $@.new $@

$(B)/data.o $(B)/calibration.o $(PACKED:%=$(B)/%_tables.o): %.o: %.c $(B)/flags
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The compiler as a library of its own: lang/ but for the search, which uses the simulator. With base, io and graph it
# links alone (tests/lang/library.sh).
LANG_O := $(filter $(B)/lang/%,$(filter-out $(B)/lang/tune/%,$(LIB_O)))
LANG_STATIC := $(B)/liblockstep-lang.a
$(LANG_STATIC): $(LANG_O) $(B)/sources
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $(LANG_O)

$(STATIC): $(LIB_O) $(B)/sources
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $(LIB_O)

# The servers are no part of the library; tests link what they need of it.
$(SERVE): $(SERVE_O) $(B)/sources
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $(SERVE_O)

# The shared library shows what the public headers declare and nothing else; tools/abi.sh holds it to what it was.
$(B)/lockstep.map: tools/exports.sh $(PUBLIC_H)
	@mkdir -p $(@D)
	$(call say,EXPORT)
	$(Q)CC="$(CC)" SOVERSION=$(SOVERSION) sh tools/exports.sh $(PUBLIC_H) > $@.new
	$(Q)mv -f $@.new $@

$(SHARED): $(LIB_O) $(B)/lockstep.map $(B)/sources
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=$(B)/lockstep.map -Wl,-z,relro,-z,now $(ALL_LDFLAGS) \
		-o $@ $(LIB_O) $(LDLIBS)

$(B)/liblockstep.so: $(SHARED)
	$(Q)ln -sf $(<F) $(B)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# The programs say which commit they are of; the libraries do not, so that a commit relinks little.
$(B)/commit.c: $(B)/commit
	@printf '#include "cli/cli.h"\nconst char *const cli_commit = %s;\n' "$$(sed 's/^$$/NULL/; s/^[^N].*/"&"/' $<)" > $@
$(B)/commit.o: $(B)/commit.c $(B)/flags
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Moved into its place: it may be running, and it is linked anew with each commit.
$(PROGRAM): $(CLI_O) $(B)/commit.o $(SERVE) $(STATIC) $(B)/sources
	$(call say,LINK)
	$(Q)$(CC) -Wl,-z,relro,-z,now $(ALL_LDFLAGS) -pie -o $@.new $(CLI_O) $(B)/commit.o $(SERVE) $(STATIC) $(LDLIBS)
	$(Q)mv -f $@.new $@

# --- the recorder --------------------------------------------------------------------------------------------------
# It runs in other people's programs: no sanitizers, and nothing seen of it but what it wraps.
RECORDER_CFLAGS := -std=c11 -g -O2 -Werror=frame-larger-than=512 $(ASSERTS) -fPIC -fvisibility=hidden $(HARDENED) $(WARN) $(if $(findstring clang,$(CC)),-Wno-strict-prototypes)
RECORDER_CC = $(CC) -D_GNU_SOURCE $(INCLUDES) $(RECORDER_CFLAGS) -MMD -MP -c -o $@ $<
RECORDER_LINK = $(CC) -shared -Wl,-z,relro,-z,now -Wl,-z,defs -o $@ $(filter %.o,$^)

$(B)/recorder/mpi_wrappers.c: tools/mpi_wrappers.awk lib/recorder/mpi/mpi_calls.txt
	@mkdir -p $(@D)
	$(call say,AWK)
	$(Q)awk -f tools/mpi_wrappers.awk lib/recorder/mpi/mpi_calls.txt > $@.new
	$(Q)mv -f $@.new $@

$(B)/recorder/%_wrappers.c: lib/recorder/gpu/%_calls.txt tools/gpu_wrappers.awk
	@mkdir -p $(@D)
	$(call say,AWK)
	$(Q)awk -f tools/gpu_wrappers.awk $< > $@.new
	$(Q)mv -f $@.new $@

$(B)/recorder/nccl_shim_jumps.c: lib/recorder/gpu/nccl_symbols.txt tools/nccl_shim.awk
	@mkdir -p $(@D)
	$(call say,AWK)
	$(Q)awk -f tools/nccl_shim.awk $< > $@.new
	$(Q)mv -f $@.new $@

$(B)/recorder/%.o: lib/recorder/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(RECORDER_CC)

$(B)/recorder/%.o: $(B)/recorder/%.c $(B)/flags
	$(call say,CC)
	$(Q)$(RECORDER_CC)

$(B)/recorder/recording.o: src/io/recording.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(RECORDER_CC)

# For handles that are numbers: MPICH and its relatives.
$(B)/recorder-mpich/%.o: lib/recorder/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(RECORDER_CC) -DLP_MPI_NUMBERS

$(B)/recorder-mpich/mpi_wrappers.o: $(B)/recorder/mpi_wrappers.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(RECORDER_CC) -DLP_MPI_NUMBERS

$(B)/liblockstep-probe.so: $(RECORDER_BASE_O) $(B)/recorder/start/plugin_none.o $(RECORDER_MPI_O:%=$(B)/recorder/%) lib/recorder/recorder.map
$(B)/liblockstep-probe-mpich.so: $(RECORDER_BASE_O) $(B)/recorder/start/plugin_none.o $(RECORDER_MPI_O:%=$(B)/recorder-mpich/%) lib/recorder/recorder.map
$(RECORDER_LIBRARIES):
	$(call say,LINK)
	$(Q)$(RECORDER_LINK) -Wl,--version-script=lib/recorder/recorder.map -lpthread -ldl

$(RECORDER_PLUGIN): $(RECORDER_BASE_O) $(RECORDER_MPI_O:%=$(B)/recorder/%) $(B)/recorder/start/plugin.o lib/recorder/gpu/plugin.map
	$(call say,LINK)
	$(Q)$(RECORDER_LINK) -Wl,--version-script=lib/recorder/gpu/plugin.map -lpthread -ldl

$(RECORDER_SHIM): $(B)/recorder/gpu/nccl_shim.o $(B)/recorder/nccl_shim_jumps.o lib/recorder/gpu/nccl_shim.map
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(RECORDER_LINK) -Wl,-soname,libnccl.so.2 -Wl,--version-script=lib/recorder/gpu/nccl_shim.map -ldl

# The other program that needs MPI; `lockstep calibrate host --mpi` starts it.
MPI_PAIRS := $(B)/lockstep-mpi-pairs
$(MPI_PAIRS): tools/mpi_pairs.c $(B)/flags
	$(call say,MPICC)
	$(Q)$(MPICC) -std=c11 -O2 -fPIE $(HARDENED) $(WARN) -pie -Wl,-z,relro,-z,now -o $@ $<

# lockstep-mpi: plan, sweeps and validate, divided over processes.
MPI_PROGRAM := $(B)/lockstep-mpi
MPI_C := $(sort $(wildcard src/mpi/*.c))
MPI_O := $(MPI_C:src/%.c=$(B)/with-mpi/%.o)
$(B)/with-mpi/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,MPICC)
	$(Q)$(MPICC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(MPI_PROGRAM): $(MPI_O) $(CLI_O) $(B)/commit.o $(SERVE) $(STATIC) $(B)/sources
	$(call say,LINK)
	$(Q)$(MPICC) -Wl,-z,relro,-z,now $(ALL_LDFLAGS) -pie -o $@ $(MPI_O) $(filter-out %/cli/main.o,$(CLI_O)) $(B)/commit.o $(SERVE) $(STATIC) $(LDLIBS)

mpi: $(MPI_PAIRS) $(MPI_PROGRAM) ## lockstep-mpi, and lockstep-mpi-pairs for calibrate host --mpi; takes mpicc

# --- tests ---------------------------------------------------------------------------------------------------------
# What states invariants is compiled once more for a release's unit tests, which then hold them to it in all of their cases.
ASSERTED_C := $(if $(ASSERTS),,$(shell grep -l LK_ASSERT $(LIB_C)))
ASSERTED_O := $(ASSERTED_C:%.c=$(B)/asserted/%.o)
$(B)/asserted/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) -DLK_ASSERTS $(ALL_CFLAGS) -O2 -MMD -MP -c -o $@ $<

$(B)/liblockstep-asserted.a: $(filter-out $(ASSERTED_C:%.c=$(B)/%.o),$(LIB_O)) $(ASSERTED_O) $(B)/sources
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcsT $@ $(filter %.o,$^)

TESTED := $(if $(ASSERTED_C),$(B)/liblockstep-asserted.a,$(STATIC))
$(B)/unit/%: $(B)/tests/unit/%.o $(SERVE) $(TESTED)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(SERVE) $(TESTED) -lcmocka -lsqlite3 $(LDLIBS)

$(B)/replay/%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(SERVE) $(STATIC)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(SERVE) $(STATIC) $(LDLIBS)

$(B)/fuzzers/%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/mutate.o $(SERVE) $(STATIC)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(SERVE) $(STATIC) $(LDLIBS)

unit-programs: $(UNIT)
replay-programs: $(REPLAY)
fuzz-programs: $(FUZZERS)

check: unit cli-tests serve-tests browser-tests fuzz-replay layers circles lint ## unit, CLI, server and browser tests, fuzz corpus, layers, circles, lint

unit: $(UNIT) ## unit tests of this MODE
	tests/unit/run.sh $(UNIT)

quick: $(PROGRAM) ## after a change: what it touches is built, and the unit tests that know its folder are run
	@tests/unit/quick.sh $(B)

cli-tests: $(PROGRAM) $(RECORDERS) $(HAS_MPI) $(if $(HAS_MPI),$(MPI_PAIRS)) ## command-line tests of this MODE
	tests/cli/run.sh $(PROGRAM)

fuzz-replay: ## every fuzz target on its corpus, with the address and undefined sanitizers
	@$(MAKE) --no-print-directory MODE=asan replay-programs
	tests/fuzz/run.sh replay build/asan/replay

serve-tests: $(PROGRAM) ## lockstep serve against clients on loopback
	tests/serve/run.sh $(PROGRAM)

browser-tests: $(PROGRAM) ## pages in Chromium; takes node and npm
	tests/browser/run.sh $(PROGRAM)

FUZZ_SECONDS ?= 60
fuzz: ## libFuzzer (clang) on every target, FUZZ_SECONDS=60 each; FUZZ_ONLY=name for one
	@$(MAKE) --no-print-directory MODE=fuzz CC=$(CLANG) fuzz-programs
	tests/fuzz/run.sh fuzz build/fuzz/fuzzers $(FUZZ_SECONDS) $(FUZZ_ONLY)

FUZZ_STATE ?= .fuzz
FUZZ_BUDGET ?= 3600
fuzz-campaign: ## goes on fuzzing for FUZZ_BUDGET=3600 s, the least executed target first; FUZZ_STATE=.fuzz keeps inputs and counts
	@$(MAKE) --no-print-directory MODE=fuzz CC=$(CLANG) fuzz-programs
	tests/fuzz/campaign.sh build/fuzz/fuzzers $(FUZZ_STATE) $(FUZZ_BUDGET) $(FUZZ_ONLY)

coverage: ## the share of lines that unit tests and the fuzz corpus execute, by room
	@$(MAKE) --no-print-directory MODE=cov unit-programs replay-programs
	@find build/cov -name '*.gcda' -delete
	-@tests/unit/run.sh build/cov/unit/*
	-@tests/fuzz/run.sh replay build/cov/replay
	@python3 tools/coverage.py build/cov

lang-mpi: $(PROGRAM) ## emitted C and MPI against the interpreter, on up to 4 ranks; takes mpicc
	tests/lang/mpi.sh $(PROGRAM)

lang-ring: $(PROGRAM) ## rings and overlaps of emitted C and MPI, sanitized; takes mpicc
	tests/lang/ring.sh $(PROGRAM) $(if $(LOCKSTEP_LONG),1 2 3 4,3)

# Each part by itself too: make check-long-tsan. Tests with big grids may take their time.
LONG := LOCKSTEP_LONG=1 TEST_SECONDS=21600 $(MAKE) --no-print-directory
check-long: $(LONG_PARTS:%=check-long-%) ## all of it for hours: sanitizers, compilers, big grids, fuzzing; by parts: check-long-tsan

check-long-release check-long-asan check-long-ubsan check-long-tsan: check-long-%:
	@$(LONG) MODE=$* unit cli-tests serve-tests $(if $(filter release,$*),browser-tests)
check-long-clang:
	@$(LONG) MODE=debug CC=$(CLANG) all unit cli-tests
	@$(LONG) same-bytes
check-long-lang:
	@$(LONG) lang-oracle lang-cuda lang-mpi lang-ring
check-long-lint:
	@$(MAKE) --no-print-directory fuzz-replay layers lint
check-long-packages:
	@$(LONG) tutorials package-tests python-tests
check-long-fresh:
	@if [ "$$(id -u)" -eq 0 ]; then tools/fresh_check.sh; else echo "skip fresh-check: it takes root"; fi
check-long-fuzz:
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=600

# What the compilers do differently where they optimize. Warnings are those of the build for users.
OTHER_BUILDS := gcc-O1 $(CLANG)-O1 $(CLANG)-O3
same-bytes: $(PROGRAM) ## the same bytes from builds of gcc and clang with and without much optimization, on 200 questions (2,000: LOCKSTEP_LONG=1)
	@for build in $(OTHER_BUILDS); do \
		$(MAKE) --no-print-directory MODE=release CC=$${build%-*} CFLAGS="-$${build##*-} -Wno-error" B=build/$$build build/$$build/lockstep || exit; done
	@tests/cli/same_bytes.sh $(if $(LOCKSTEP_LONG),2000,200) 0 $(PROGRAM) $(OTHER_BUILDS:%=build/%/lockstep)

lang-oracle: $(PROGRAM) ## the shipped programs of compile, evaluated a second time in Python
	python3 tests/lang/oracle.py $(PROGRAM)

lang-cuda: $(PROGRAM) ## emitted CUDA: compiled by nvcc where it is found, run on the CPU with virtual ranks, sanitized
	tests/cuda/run.sh $(PROGRAM)

.PHONY: gpu-tests
gpu-tests: $(PROGRAM) $(RECORDERS) ## on a GPU: programs recorded, emitted CUDA run and watched; takes nvcc and says so where there is no GPU
	tests/gpu/gpu.sh $(PROGRAM)
	tests/cuda/gpu.sh $(PROGRAM)

fresh-check: ## ./demo and ./check in a minimal Debian, without terminals and a network, that is made for it and removed; takes root
	tools/fresh_check.sh

layers: ## folders include only what is above them in the table of tools/layers.sh; static names are unique in a folder, and no function is written twice
	tools/layers.sh
	tools/names.py

circles: $(PROGRAM) $(RECORDERS) $(LANG_STATIC) ## symbols are defined in folders above, as in the table of tools/layers.sh; no file uses one that uses it; no static is written but those listed
	@tools/circles.py $(B)
	@tools/statics.sh $(B)
	@tests/lang/library.sh $(B)

api: $(B)/liblockstep.so ## build/docs/api.md from the public headers, and tools/abi.xml.gz, what programs that are linked rely on
	@mkdir -p build/docs
	tools/api_docs.py build/docs/api.md
	tools/abi.sh $(SHARED) --write

site: $(PROGRAM) ## the documentation as a web site with search, in build/site; takes mkdocs
	tools/site.sh $(PROGRAM)

docs-check: ## ARCHITECTURE.md has a row for each folder of the four houses; links of documents lead somewhere
	@tools/check_docs.sh

# Texts that emitted programs carry, and stand-ins for foreign headers, have a form of their own.
FORMATTED = $(filter-out tests/cuda/% tests/lang/%,$(shell find $(HOUSES) include tests bench tools examples -name '*.[ch]' | sort))
format: ## clang-format on every C file
	@printf '%s\n' $(FORMATTED) | xargs -P2 -n40 clang-format -i

format-check:
	@printf '%s\n' $(FORMATTED) | xargs -P2 -n40 clang-format --dry-run -Werror

.PHONY: measure
measure: ## how the C sources read: functions, asserts, comments, nested ?:, by room
	@tools/measure.py

# LINT_PART=0 to 5: every sixth file. ./check takes them in turn from commit to commit, make lint and check-long all.
LINT_PARTS = 6
LINTED = $(shell find $(HOUSES) tests/fuzz/replay.c -name '*.c' | sort $(if $(LINT_PART),| awk 'NR % $(LINT_PARTS) == $(LINT_PART)'))
lint: docs-check format-check ## cppcheck, zero warnings; the format; the documents
	@tools/measure.py --check
	@mkdir -p build/lint
	printf '%s\n' $(LINTED) | cppcheck --quiet --std=c11 --language=c --enable=warning,portability,performance --inline-suppr \
		--error-exitcode=1 --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --cppcheck-build-dir=build/lint -j2 \
		-D__GNUC__ -D_GNU_SOURCE -DLOCKSTEP_VERSION=\"$(VERSION)\" $(INCLUDES) --file-list=-

# By another name, for a line with $(MAKE) runs even with -n.
WOULD_RUN = $(MAKE) --no-print-directory -n -B V=1
.PHONY: compile_commands.json
compile_commands.json: ## how each C file is compiled, for editors and analysers
	@$(WOULD_RUN) all unit-programs replay-programs | tools/compile_commands.py > $@.new
	@mv -f $@.new $@

# What is built with the address sanitizer is built by clang; check-long-clang builds all.
syntax: ## clang's warnings on what only gcc builds otherwise
	@printf '%s\n' $(CLI_C) $(RECORDER_C) | xargs -r -P2 -n8 $(CLANG) -fsyntax-only -std=c11 $(ALL_CPPFLAGS) $(WARN)
	@$(CLANG) -fsyntax-only -std=c11 $(filter-out -DLK_ISAL,$(ALL_CPPFLAGS)) $(WARN) src/io/inflate.c

# Lookups of embedding tables on this processor; for the processor that it is built on.
# Rows that are no whole vectors: masked, as generated kernels do it, not one number after the other.
LOOKUP_TAILS := $(if $(findstring clang,$(CC)),,--param vect-partial-vector-usage=1)
LOOKUP_C := $(wildcard bench/lookup*.c)
LOOKUP_ARCH := native
$(B)/bench-lookup-counted: LOOKUP_ARCH := x86-64-v3
$(B)/bench-lookup $(B)/bench-lookup-counted: $(LOOKUP_C) $(wildcard bench/lookup*.h) $(STATIC)
	$(call say,CC)
	$(Q)$(CC) -std=c11 -O3 -march=$(LOOKUP_ARCH) $(LOOKUP_TAILS) -fopenmp -D_GNU_SOURCE $(INCLUDES) -Ibench $(WARN) -o $@ $(LOOKUP_C) $(STATIC) $(LDLIBS)

bench-lookup: $(B)/bench-lookup ## bench/lookup: the host's lookup model measured, checked, and the sharding study
bench-lookup-counted: $(B)/bench-lookup-counted ## the same with cycles counted in place of times, for bench/lookup_counted.sh

# --- Python ----------------------------------------------------------------------------------------------------------
# Debian's interpreter where there is one.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
PYTHON_SOURCES := $(wildcard python/lockstep/*.* python/lockstep/compile/*) python/generate.py python/wheel.py python/README.md LICENSE
WHEEL := $(B)/python/wheel

# The package with its library and its functions, which are written from the option tables; and the wheel of it.
$(WHEEL): $(PYTHON_SOURCES) $(SHARED) $(B)/portable/$(notdir $(SHARED))
	@rm -rf $(B)/python
	@mkdir -p $(B)/python/lockstep/compile
	$(call say,WHEEL)
	$(Q)cp python/lockstep/*.py python/lockstep/py.typed $(B)/python/lockstep/
	$(Q)cp python/lockstep/compile/*.py $(B)/python/lockstep/compile/
	$(Q)sed -i 's/@SOVERSION@/$(SOVERSION)/' $(B)/python/lockstep/_library.py
	$(Q)$(PYTHON) python/generate.py $(SHARED) $(B)/python/lockstep/_verbs.py \
		$(B)/python/lockstep/_answers.py
	$(Q)strip --strip-unneeded -o $(B)/python/lockstep/$(SONAME) $(B)/portable/$(notdir $(SHARED))
	$(Q)if command -v dpkg-query > /dev/null; then \
		python3 tools/sbom.py --copyrights $(B)/python/licenses $(VERSION) 0 $(PORTABLE)/$(notdir $(SHARED)).linked > $(B)/python/spdx.json; fi
	$(Q)$(PYTHON) python/wheel.py $(B)/python $(VERSION) $(B)/python/dist LICENSE python/README.md > $@

python: $(WHEEL) ## a wheel of the Python package, with the library in it: build/release/python/dist

python-tests: $(WHEEL) $(PROGRAM) ## the wheel, installed in clean environments, with and without NumPy; the examples of docs/guide/python.md
	python/tests/run.sh $(PYTHON) $$(cat $(WHEEL)) $(PROGRAM)

$(B)/bench-predict: bench/predict_loop.c $(STATIC)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(STATIC) $(LDLIBS)

bench-predict: $(B)/bench-predict ## lk_predict alone, for bench/python.py

accuracy: $(PROGRAM) ## build/accuracy/full.md and its pictures, from the measurements of LOCKSTEP_DATA
	tools/accuracy.py $(PROGRAM)

pictures: $(PROGRAM) ## docs/pictures, from what the program and the documents say; a command-line test compares them
	tools/pictures.py $(PROGRAM)

bench: ## benchmarks (hyperfine) of the release program
	bench/run.sh

# --- documentation and installation --------------------------------------------------------------------------------
man: $(PROGRAM) ## man pages and shell completions, from the option tables
	tools/manpages.sh "$(RUN) $(PROGRAM)" build/man

# What is installed, by folder: a new file of a folder's kind has its place here, and packages find it (tools/deb.sh).
INSTALLED_BIN = $(PROGRAM) $(wildcard $(MPI_PAIRS) $(MPI_PROGRAM))
INSTALLED_LIB = $(STATIC) $(SHARED)
# What `lockstep record` loads into other programs; nothing is linked with it.
PRIVATE_LIB = $(RECORDER_LIBRARIES) $(RECORDER_PLUGIN)
PRIVATEDIR = $(LIBDIR)/lockstep
CMAKEDIR = $(LIBDIR)/cmake/lockstep
COMPLETIONS := bash-completion/completions/lockstep zsh/site-functions/_lockstep fish/vendor_completions.d/lockstep.fish

# Paths below the prefix are written by it, so that pkg-config --define-prefix finds a tree that was moved.
install: all man ## program, libraries, headers, files for pkg-config and CMake, man pages, completions
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(CMAKEDIR) $(DESTDIR)$(PRIVATEDIR)/lockstep-nccl \
		$(DESTDIR)$(INCLUDEDIR)/lockstep $(DESTDIR)$(DATADIR)/man/man1 $(dir $(COMPLETIONS:%=$(DESTDIR)$(DATADIR)/%))
	install -m 755 $(INSTALLED_BIN) $(DESTDIR)$(BINDIR)/
	install -m 755 $(filter %.so %.so.$(VERSION),$(INSTALLED_LIB)) $(DESTDIR)$(LIBDIR)/
	install -m 644 $(filter %.a,$(INSTALLED_LIB)) $(DESTDIR)$(LIBDIR)/
	install -m 755 $(PRIVATE_LIB) $(DESTDIR)$(PRIVATEDIR)/
	install -m 755 $(RECORDER_SHIM) $(DESTDIR)$(PRIVATEDIR)/lockstep-nccl/
	ln -sf $(notdir $(SHARED)) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/liblockstep.so
	install -m 644 $(PUBLIC_H) $(DESTDIR)$(INCLUDEDIR)/lockstep/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@ISAL@|$(filter -lisal,$(LDLIBS))|' \
		tools/lockstep.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/lockstep.pc
	for file in lockstep-config lockstep-config-version; do \
		sed -e 's|@INCLUDES@|$(shell realpath -ms --relative-to=/$(CMAKEDIR) /$(INCLUDEDIR))|' -e 's|@VERSION@|$(VERSION)|' \
			tools/$$file.cmake.in > $(DESTDIR)$(CMAKEDIR)/$$file.cmake || exit 1; done
	install -m 644 $(filter-out $(if $(HAS_MPI),,%/lockstep-mpi.1) $(if $(wildcard $(MPI_PAIRS)),,%/lockstep-mpi-pairs.1), \
		$(shell ls build/man/*.1 2>/dev/null)) $(DESTDIR)$(DATADIR)/man/man1/
	for shell in bash:1 zsh:2 fish:3; do \
		install -m 644 build/man/lockstep.$${shell%:*} \
			$(DESTDIR)$(DATADIR)/$$(echo $(COMPLETIONS) | cut -d' ' -f$${shell#*:}) || exit 1; done

uninstall: ## removes what install put there
	rm -f $(foreach f,lockstep lockstep-mpi lockstep-mpi-pairs,$(DESTDIR)$(BINDIR)/$f)
	rm -f $(DESTDIR)$(LIBDIR)/liblockstep.* $(DESTDIR)$(LIBDIR)/pkgconfig/lockstep.pc
	rm -f $(DESTDIR)$(DATADIR)/man/man1/lockstep.1 $(DESTDIR)$(DATADIR)/man/man1/lockstep-*.1
	rm -f $(COMPLETIONS:%=$(DESTDIR)$(DATADIR)/%)
	rm -rf $(DESTDIR)$(INCLUDEDIR)/lockstep $(DESTDIR)$(PRIVATEDIR) $(DESTDIR)$(CMAKEDIR)

include packaging.mk

tutorials: $(PROGRAM) $(RECORDERS) ## every command of docs/guide/tutorials/ and of the README, its output compared
	tests/tutorials/run.py $(PROGRAM)

scripts: $(PROGRAM) $(RECORDERS) $(HAS_MPI) ## every script that a document names, in a short form; those that other checks run are listed
	tests/documents/scripts.py $(PROGRAM)

package-tests: all ## what is installed and packed: ABI, comments of the public headers, C examples, tarball, Debian packages; LOCKSTEP_LONG=1 all of it
	tests/package/run.sh

clean: ## removes build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z_.-]*\):.*## \(.*\)/  \1\t\2/p' Makefile packaging.mk | expand -t 16

# --- public configurations -------------------------------------------------------------------------------------------
# What of ../shared/data/configs is read, and why the rest is refused (build/release/corpus FOLDER lists the reasons); LOCKSTEP_DATA
# says where the data is.
$(B)/corpus: $(B)/tests/corpus/corpus.o $(STATIC)
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: corpus
corpus: $(B)/corpus ## which share of public configuration files is read, by framework, against tests/corpus/expected.csv
	@python3 tests/corpus/check.py $(B)/corpus

-include $(wildcard $(foreach d,recorder recorder-mpich,$(B)/$d/*.d $(B)/$d/*/*.d))
-include $(LIB_O:.o=.d) $(ASSERTED_O:.o=.d) $(CLI_O:.o=.d) $(SERVE_O:.o=.d) $(MPI_O:.o=.d) $(UNIT_C:%.c=$(B)/%.d) $(FUZZ_C:%.c=$(B)/%.d) $(B)/tests/fuzz/replay.d $(B)/tests/fuzz/mutate.d $(B)/tests/corpus/corpus.d $(B)/tools/pack_calibration.d $(patsubst %,$(B)/tools/pack_%.d,tables launch families measured)
