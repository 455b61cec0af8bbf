/* nccl_shim.c: a libnccl.so.2 for programs that load NCCL by dlopen, which bypasses a preload
 * library. It is first in LD_LIBRARY_PATH; every symbol leads to the recorder's wrapper if there is
 * one, else to the real library, which is opened by its path: LOCKSTEP_RECORD_NCCL, or the first
 * libnccl.so.2 in the rest of LD_LIBRARY_PATH and in the default folders.
 *
 * If no real library is found, every call returns "invalid usage", like NCCL for a call it cannot
 * serve. */
#include "recorder/gpu/nccl_shim.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INVALID_USE = 5 };
static int answer_absent(void) {
	return INVALID_USE;
}
static const char *answer_absent_text(void) {
	return "lockstep: the real libnccl.so.2 was not found";
}

/* Whether a path is this library itself, under any name. */
static bool is_own_library(const char *path) {
	struct stat a, b;
	Dl_info own;
	return dladdr((void *)(uintptr_t)answer_absent, &own) && stat(path, &a) == 0 &&
	       stat(own.dli_fname, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void *open_nccl_in(const char *folder, size_t length) {
	static char path[PATH_MAX]; /* used only while the library is loaded */
	if (!length ||
	    snprintf(path, sizeof path, "%.*s/libnccl.so.2", (int)length, folder) >= (int)sizeof path)
		return NULL;
	return is_own_library(path) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_real_nccl(void) {
	static const char *const usual[] = {"/usr/lib/x86_64-linux-gnu",
	                                    "/usr/lib/aarch64-linux-gnu",
	                                    "/usr/lib64",
	                                    "/usr/lib",
	                                    "/usr/local/lib",
	                                    "/usr/local/cuda/lib64",
	                                    "/usr/local/cuda/lib"};
	const char *said = getenv("LOCKSTEP_RECORD_NCCL"), *list = getenv("LD_LIBRARY_PATH");
	if (said && *said == '/' && !is_own_library(said)) return dlopen(said, RTLD_NOW | RTLD_LOCAL);
	void *found = NULL;
	for (size_t part; list && *list && !found; list += part + (list[part] == ':')) {
		part = strcspn(list, ":");
		found = open_nccl_in(list, part);
	}
	for (size_t i = 0; i < sizeof usual / sizeof *usual && !found; i++)
		found = open_nccl_in(usual[i], strlen(usual[i]));
	return found;
}

/* The probe, if it was loaded earlier. */
static void *open_recorder(void *real) {
	Dl_info probe;
	void (*announce)(void *) =
		(void (*)(void *))(uintptr_t)dlsym(RTLD_DEFAULT, "lockstep_probe_nccl_library");
	if (!announce || !dladdr((void *)(uintptr_t)announce, &probe)) return NULL;
	announce(real);
	return dlopen(probe.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

__attribute__((constructor)) static void fill_slots(void) {
	void *real = open_real_nccl(), *probe = real ? open_recorder(real) : NULL;
	for (int i = 0; i < lps_count; i++) {
		void *there = real ? dlsym(real, lps_name[i]) : NULL;
		void *wrapper = there && probe ? dlsym(probe, lps_name[i]) : NULL;
		bool text = strstr(lps_name[i], "ErrorString") || strstr(lps_name[i], "LastError");
		if (wrapper) lps_slot[i] = wrapper;
		else if (there) lps_slot[i] = there;
		else if (text) lps_slot[i] = (void *)(uintptr_t)answer_absent_text;
		else lps_slot[i] = (void *)(uintptr_t)answer_absent;
	}
	if (!real)
		fputs("lockstep: the real libnccl.so.2 was not found; LOCKSTEP_RECORD_NCCL=PATH names it\n",
		      stderr);
}
