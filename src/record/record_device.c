/* record_device.c: by which way NCCL is recorded, and what a program finds instead of its own rank.
 *
 *     preload   the probe's wrappers: programs and libraries that are linked with libnccl.so.2
 *     shim      a libnccl.so.2 of lockstep's, first in LD_LIBRARY_PATH: programs that load it by
 * dlopen plugin    NCCL's own profiler interface: programs that have NCCL inside
 *
 * If not said: the shim where a program of the command has the library's name in it without being
 * linked with it. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/record.h"

static bool command_loads_nccl(const lk_record_request *request) {
	char room[PATH_MAX];
	for (int i = 0; i < request->words && i < 64; i++) {
		const char *path = lk_probe_in_path(request->command[i], room);
		if (!path || access(path, X_OK) != 0) continue;
		if (lk_probe_file_names(path, "libnccl.so") && !lk_elf_needs(path, "libnccl.so.2"))
			return true;
	}
	return false;
}

static lk_status fail_missing_library(const char *name, lk_error *err) {
	lk_fail(err, LK_ERR_IO, name,
	        "is neither beside lockstep nor in the lib folder of its installation");
	return lk_hint(err, "`make` builds it, `make install` puts it there");
}

static lk_status set_nccl_shim(lk_arena *arena, lk_probe_settings *out, lk_error *err) {
	const char *shim = lk_probe_file("lockstep-nccl/libnccl.so.2", arena),
			   *before = getenv("LD_LIBRARY_PATH");
	if (!shim) return fail_missing_library("lockstep-nccl/libnccl.so.2", err);
	int folder = (int)(strrchr(shim, '/') - shim);
	return lk_probe_set(out, "LD_LIBRARY_PATH",
	                    before && *before ? lk_arena_printf(arena, "%.*s:%s", folder, shim, before)
	                                      : lk_arena_printf(arena, "%.*s", folder, shim),
	                    err);
}

static lk_status set_nccl_plugin(lk_arena *arena, lk_probe_settings *out, lk_error *err) {
	const char *plugin = lk_probe_file("libnccl-profiler-lockstep.so", arena);
	if (!plugin) return fail_missing_library("libnccl-profiler-lockstep.so", err);
	LK_TRY(lk_probe_set(out, "LOCKSTEP_RECORD_NCCL_BY", "plugin", err));
	return lk_probe_set(out, "NCCL_PROFILER_PLUGIN", plugin, err);
}

/* Its rank, by the names of torchrun, for programs that take it from there. */
static lk_status set_launcher_rank(const lk_record_request *request, lk_arena *arena,
                                   lk_probe_settings *out, lk_error *err) {
	LK_TRY(lk_probe_set(out, "RANK", lk_arena_printf(arena, "%d", request->as_rank), err));
	LK_TRY(lk_probe_set(out, "WORLD_SIZE", lk_arena_printf(arena, "%d", request->world_size), err));
	LK_TRY(lk_probe_set(out, "LOCAL_RANK", "0", err)); /* the device that is at hand */
	return request->splits ? lk_probe_set(out, "LOCKSTEP_RECORD_SPLITS", request->splits, err)
	                       : LK_OK;
}

lk_status lk_probe_device_settings(const lk_record_request *request, lk_arena *arena,
                                   lk_probe_settings *out, lk_error *err) {
	static const char *const clocks[] = {"events", "calls", "cupti"};
	int by = request->nccl != LK_RECORD_NCCL_FOUND ? request->nccl
	         : command_loads_nccl(request)         ? LK_RECORD_NCCL_SHIM
	                                               : LK_RECORD_NCCL_PRELOAD;
	LK_TRY(lk_probe_set(out, "LOCKSTEP_RECORD_CUDA", clocks[request->cuda], err));
	if (by == LK_RECORD_NCCL_SHIM) LK_TRY(set_nccl_shim(arena, out, err));
	if (by == LK_RECORD_NCCL_PLUGIN) LK_TRY(set_nccl_plugin(arena, out, err));
	return request->mode == LK_RECORD_MODE_AS_RANK ? set_launcher_rank(request, arena, out, err)
	                                               : LK_OK;
}
