/* libraries.c: functions of CUDA's runtime and of NCCL, wherever they are loaded; numbers for names
 * and for pieces of work. */
#include "recorder/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- CUDA's runtime ---- */

void *lp_gpu_symbol(const char *name) {
	static const char *const libraries[] = {"libcudart.so.13", "libcudart.so.12",
	                                        "libcudart.so.11.0"};
	int code = errno;
	void *found = dlsym(RTLD_NEXT, name);
	/* loaded outside the search order of the next symbol: by a Python module */
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !found; i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		if (library) {
			found = dlsym(library, name);
			dlclose(library);
		}
	}
	dlerror();
	errno = code;
	return found;
}

/* ---- NCCL ---- */

static void *library; /* opened by lockstep's own libnccl.so.2 */

/* Called by lockstep's libnccl.so.2 (nccl_shim.c) with the real one. */
void lockstep_probe_nccl_library(void *handle);
LP_EXPORT void lockstep_probe_nccl_library(void *handle) {
	library = handle;
}

void *lp_nccl_symbol(const char *name) {
	int code = errno;
	void *found = library ? dlsym(library, name) : dlsym(RTLD_NEXT, name);
	void *loaded = found || library ? NULL : dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
	if (loaded) {
		found = dlsym(loaded, name);
		dlclose(loaded);
	}
	dlerror();
	errno = code;
	return found;
}

/* If NCCL itself reports its work (profiler.c), the wrappers record nothing. */
bool lp_nccl_by_plugin(void) {
	static enum { UNKNOWN, YES, NO } known;
	if (known == UNKNOWN) {
		const char *said = getenv("LOCKSTEP_RECORD_NCCL_BY");
		known = said && strcmp(said, "plugin") == 0 ? YES : NO;
	}
	return known == YES;
}

/* ---- numbers ---- */

uint64_t lp_gpu_serial(void) {
	static uint64_t serial;
	return __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
}

uint32_t lp_name(uint32_t *number, uint32_t *epoch, const char *name) {
	static uint32_t names = LP_FIRST_NAME;
	if (*epoch == lp_state.epoch) return *number;
	*number = __atomic_add_fetch(&names, 1, __ATOMIC_RELAXED);
	lk_record_entry record = {.object = *number};
	lp_text(&record, LK_RECORD_NAME, name);
	*epoch = lp_state.epoch;
	return *number;
}
