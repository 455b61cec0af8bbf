# packaging.mk, a part of the Makefile: sources, Debian packages, and what a release gives out.

DIST := build/dist
dist: ## the sources as build/dist/lockstep-VERSION.tar.gz, the same bytes for the same commit
	@tools/dist.sh $(VERSION) $(DIST)

MULTIARCH = $(shell $(CC) -print-multiarch)
deb: all $(if $(HAS_MPI),mpi) ## Debian packages in build/dist, of this build
	@rm -rf build/deb
	@$(MAKE) --no-print-directory -s install PREFIX=/usr LIBDIR=/usr/lib/$(MULTIARCH) DESTDIR=build/deb
	@tools/deb.sh build/deb $(VERSION) $(SOVERSION) $(DIST)

# What a release gives to machines without Debian's libraries. The program is static: it runs on any Linux, with any libc or none.
# Next to it lies the same program linked with the machine's glibc, for the few questions that load libraries of the machine
# (src/cli/hand_over.c). It, the shared library and the recorder take of glibc what its version FLOOR has (tools/portable/floor.py).
# All hold the other libraries that they use. The archives that are linked are listed, for the bill of materials.
PORTABLE := $(B)/portable
FLOOR := 2.17
LINKED_LIBS := -lsqlite3 $(if $(filter yes,$(MICROHTTPD)),-lmicrohttpd)
# Debian has no archive of ISA-L; without one zlib unpacks gzip there.
PORTABLE_ISAL := $(if $(filter yes,$(ISAL)),$(filter /%,$(shell $(CC) -print-file-name=libisal.a)))
PORTABLE_ZLIB := $(if $(filter yes,$(ISAL)),$(if $(PORTABLE_ISAL),,yes))
PORTABLE_O := $(addprefix $(PORTABLE)/,io/release.o $(if $(PORTABLE_ZLIB),io/inflate.o))
LINKED_O := $(addprefix $(PORTABLE)/linked/,io/sqlite.o $(if $(filter yes,$(MICROHTTPD)),serve/http_library.o))
SYSTEM_LIBS := -lm -lpthread -ldl
HELD_LIBS = $(LINKED_LIBS) $(filter-out $(SYSTEM_LIBS) $(if $(PORTABLE_ZLIB),-lisal),$(LDLIBS))
, := ,
PORTABLE_LINK = $(CC) -Wl,-z,relro,-z,now $(ALL_LDFLAGS) -Wl,--trace
$(PORTABLE)/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(filter-out $(if $(PORTABLE_ZLIB),-DLK_ISAL),$(ALL_CPPFLAGS)) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(PORTABLE)/linked/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) -DLK_LINKED $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(PORTABLE)/static/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) -DLK_LINKED -DLK_STATIC $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(PORTABLE)/floor/%.o: tools/portable/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC $(HARDENED) $(WARN) -c -o $@ $<

$(PORTABLE)/static/absent.o: tools/portable/absent.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -std=c11 -DLK_STATIC -O2 -fPIC $(HARDENED) $(WARN) -c -o $@ $<

# A folder that the linker looks into first; atexit and the like are in no shared library.
$(PORTABLE)/floor/.floor: tools/portable/floor.py $(B)/flags packaging.mk
	@mkdir -p $(@D)
	$(call say,FLOOR)
	$(Q)python3 tools/portable/floor.py $(CC) $(FLOOR) $(@D)
	@touch $@
FLOOR_O := $(PORTABLE)/floor/compat.o
FLOOR_NEEDS := $(PORTABLE)/floor/.floor $(FLOOR_O)
FLOOR_LIBS = $(FLOOR_O) -L$(PORTABLE)/floor -static-libgcc $(SYSTEM_LIBS) -lc -l:libc_nonshared.a $(PORTABLE)/floor/loader.so

$(PORTABLE)/lockstep: $(PROGRAM) $(PORTABLE_O) $(LINKED_O) $(PORTABLE)/static/system/library.o $(PORTABLE)/static/cli/hand_over.o $(PORTABLE)/static/absent.o
	$(call say,LINK)
	$(Q)$(PORTABLE_LINK) -static-pie $(addprefix -Wl$(,)--wrap=,dlopen dlsym dlerror dlclose) -o $@ $(filter-out %/hand_over.o,$(CLI_O)) $(B)/commit.o $(filter %.o,$^) $(SERVE) $(STATIC) \
		$(HELD_LIBS) $(SYSTEM_LIBS) > $@.linked

$(PORTABLE)/lockstep-dynamic: $(PROGRAM) $(PORTABLE_O) $(LINKED_O) $(PORTABLE)/linked/system/library.o $(PORTABLE)/floor/absent.o $(PORTABLE)/floor/start.o $(FLOOR_NEEDS)
	$(call say,LINK)
	$(Q)$(PORTABLE_LINK) -pie -Wl,--wrap=__libc_start_main -o $@ $(CLI_O) $(B)/commit.o $(filter-out $(FLOOR_O),$(filter %.o,$^)) $(SERVE) $(STATIC) \
		-Wl,-Bstatic $(HELD_LIBS) -Wl,-Bdynamic $(FLOOR_LIBS) > $@.linked

$(PORTABLE)/$(notdir $(SHARED)): $(SHARED) $(PORTABLE_O) $(PORTABLE)/linked/io/sqlite.o $(PORTABLE)/linked/system/library.o $(FLOOR_NEEDS)
	$(call say,LINK)
	$(Q)$(PORTABLE_LINK) -shared -Wl,-z,defs -Wl,-soname,$(SONAME) -Wl,--version-script=$(B)/lockstep.map -Wl,--exclude-libs,ALL -o $@ \
		$(filter-out $(PORTABLE_O:$(PORTABLE)/%=$(B)/src/%) $(B)/src/io/sqlite.o $(B)/src/system/library.o,$(LIB_O)) $(filter-out $(FLOOR_O),$(filter %.o,$^)) \
		-Wl,-Bstatic -lsqlite3 $(filter-out $(LINKED_LIBS),$(HELD_LIBS)) -Wl,-Bdynamic $(FLOOR_LIBS) > $@.linked

# The recorder is libc alone; it is linked again for the floor.
PORTABLE_RECORDERS := $(RECORDERS:$(B)/%=$(PORTABLE)/%)
$(PORTABLE)/liblockstep-probe.so $(PORTABLE)/liblockstep-probe-mpich.so $(PORTABLE)/libnccl-profiler-lockstep.so $(PORTABLE)/lockstep-nccl/libnccl.so.2: \
	$(PORTABLE)/%: $(B)/% $(FLOOR_NEEDS)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-z,relro,-z,now -Wl,-z,defs -o $@ $(RECORDER_OF_$(@F)) $(filter-out $(FLOOR_O),$(FLOOR_LIBS))
RECORDER_OF_liblockstep-probe.so = $(RECORDER_BASE_O) $(B)/recorder/start/plugin_none.o $(RECORDER_MPI_O:%=$(B)/recorder/%) -Wl,--version-script=lib/recorder/recorder.map
RECORDER_OF_liblockstep-probe-mpich.so = $(RECORDER_BASE_O) $(B)/recorder/start/plugin_none.o $(RECORDER_MPI_O:%=$(B)/recorder-mpich/%) -Wl,--version-script=lib/recorder/recorder.map
RECORDER_OF_libnccl-profiler-lockstep.so = $(RECORDER_BASE_O) $(RECORDER_MPI_O:%=$(B)/recorder/%) $(B)/recorder/start/plugin.o -Wl,--version-script=lib/recorder/gpu/plugin.map
RECORDER_OF_libnccl.so.2 = $(B)/recorder/gpu/nccl_shim.o $(B)/recorder/nccl_shim_jumps.o -Wl,-soname,libnccl.so.2 -Wl,--version-script=lib/recorder/gpu/nccl_shim.map $(FLOOR_O)

PORTABLE_FILES := $(PORTABLE)/lockstep $(PORTABLE)/lockstep-dynamic $(PORTABLE)/$(notdir $(SHARED)) $(PORTABLE_RECORDERS)
.PHONY: portable
portable: $(PORTABLE_FILES) ## what the tarball of a release runs: a static program, libraries for glibc 2.17

release: dist deb python tarball ## build/dist: sources, a tarball that needs libc alone, Debian packages, a wheel, checksums, a bill of materials
	@cp $$(cat $(WHEEL)) $(DIST)/
	@$(checksums)

checksums = cd $(DIST) && sha256sum $$(ls | grep -v -e SHA256SUMS -e '^dist.tar') > SHA256SUMS

.PHONY: tarball release-aarch64
tarball: all man $(PORTABLE_FILES)
	@rm -rf $(B)/tree
	@$(MAKE) --no-print-directory -s install PREFIX= DESTDIR=$(B)/tree
	@STRIP=$(STRIP) LIBRARIES=$(wildcard $(B)/libraries) tools/release.sh $(VERSION) $(shell $(CC) -dumpmachine | cut -d- -f1) $(B)/tree $(PORTABLE) $(DIST)

# The same for another processor, of Debian's cross compiler and the libraries of Debian's packages for it; the programs that the
# build runs are run by qemu. Without MPI and ISA-L, whose headers and archives are of this machine.
# (gcc 12 of Debian has an internal error in the vectoriser for aarch64 at two files.)
build/aarch64/src/plan/hierarchy.o build/aarch64/src/stalls/stalls_fit.o: ALL_CFLAGS += -fno-tree-vectorize
CROSS_LIBRARIES := build/aarch64/libraries
CROSS := B=build/aarch64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar STRIP=aarch64-linux-gnu-strip MPICC=false ISAL=no MICROHTTPD=yes \
	CPPFLAGS="-isystem $(CROSS_LIBRARIES)/usr/include $(CPPFLAGS)" LDFLAGS="-L$(CROSS_LIBRARIES)/usr/lib/aarch64-linux-gnu $(LDFLAGS)" \
	RUN="qemu-aarch64-static -L /usr/aarch64-linux-gnu -E 'LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib:$(CURDIR)/$(CROSS_LIBRARIES)/usr/lib/aarch64-linux-gnu'"
release-aarch64: ## the tarball for aarch64; takes gcc-aarch64-linux-gnu and qemu-user-static
	@tools/cross_libraries.sh arm64 $(CROSS_LIBRARIES) zlib1g zlib1g-dev libzstd1 libzstd-dev libexpat1 libexpat1-dev libyaml-0-2 libyaml-dev \
		libmicrohttpd12 libmicrohttpd-dev libsqlite3-0 libsqlite3-dev
	@$(MAKE) --no-print-directory tarball $(CROSS)
	@$(checksums)
