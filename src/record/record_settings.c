/* record_settings.c: the environment of a command's processes: which of lockstep's libraries they
 * load, and the libraries' settings.
 *
 * NCCL is recorded by one of
 *
 *     preload   the recorder's wrappers: programs and libraries that are linked with libnccl.so.2
 *     shim      lockstep's libnccl.so.2, first in LD_LIBRARY_PATH: programs that load it by dlopen
 *     plugin    NCCL's own profiler interface: programs that contain NCCL
 *
 * Default: the shim if a program of the command contains the library's name without being linked
 * with it, else the wrappers. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "record/record.h"
#include "base/check.h"
#include "options/number_words.h"

/* ---- lockstep's libraries ---- */

/* Nothing is linked with them, so `make install` puts them into lockstep's own folder. */
lk_status lk_record_library(const char *name, lk_arena *arena, const char **out, lk_error *err) {
	static const char *const places[] = {"", "../lib/lockstep/", "../lib64/lockstep/",
	                                     "../lib/x86_64-linux-gnu/lockstep/",
	                                     "../lib/aarch64-linux-gnu/lockstep/"};
	char self[PATH_MAX], real[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	self[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(self, '/');
	if (slash) slash[1] = '\0';
	*out = NULL;
	for (size_t i = 0; i < sizeof places / sizeof *places && !*out; i++) {
		char *path = lk_arena_printf(arena, "%s%s%s", self, places[i], name);
		if (!path) return lk_oom(err);
		if (access(path, R_OK) != 0) continue;
		if (!realpath(path, real)) {
			if (errno == ENOMEM) return lk_oom(err);
			continue;
		}
		*out = lk_arena_strdup(arena, real);
		if (!*out) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status fail_missing_library(const char *name, lk_error *err) {
	lk_fail(err, LK_ERR_IO, name,
	        "was not found next to lockstep, nor in the lib folder of its installation");
	return lk_hint(err, "`make` builds it, `make install` puts it there");
}

static lk_status choose_recorder_library(const lk_record_request *request, lk_arena *arena,
                                         const char **out, lk_error *err) {
	const char *name =
		lk_command_uses_mpich(request) ? "liblockstep-probe-mpich.so" : "liblockstep-probe.so";
	LK_TRY(lk_record_library(name, arena, out, err));
	if (!*out) return fail_missing_library(name, err);
	if (!strpbrk(*out, " :")) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, *out,
	        "the dynamic linker cannot load a library whose path has a space or a colon");
	return lk_hint(err, "install lockstep elsewhere");
}

/* ---- settings ---- */

lk_status lk_record_set(lk_record_settings *out, const char *name, const char *value,
                        lk_error *err) {
	LK_ASSERT(name != NULL);
	if (!value || !lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_record_setting){name, value};
	return LK_OK;
}

/* Open MPI starts a daemon for a process that runs without mpirun. When one rank has ended, its
 * daemon may remove the session's folder while the next rank is creating its own there. */
static lk_status be_alone_in_open_mpi(lk_record_settings *out, lk_error *err) {
	return lk_record_set(out, "OMPI_MCA_ess_singleton_isolated", "1", err);
}

static lk_status add_mode_settings(const lk_record_request *request, const char *scratch,
                                   lk_arena *arena, lk_record_settings *out, lk_error *err) {
	static const char *const names[] = {"record", "null", "as-rank"};
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_MODE", names[request->mode], err));
	if (*scratch) LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_SCRATCH", scratch, err));
	if (*scratch)
		LK_TRY(lk_record_set(out, "TMPDIR", lk_arena_printf(arena, "%s/tmp", scratch), err));
	if (request->mode != LK_RECORD_MODE_RECORD)
		LK_TRY(lk_record_set(out, "PYTHONPATH", lk_record_python_path(scratch, arena), err));
	if (request->mode != LK_RECORD_MODE_AS_RANK) return LK_OK;
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_RANK",
	                     lk_arena_printf(arena, "%d", request->as_rank), err));
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_WORLD",
	                     lk_arena_printf(arena, "%d", request->world_size), err));
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_NODE",
	                     lk_arena_printf(arena, "%d", request->ranks_per_node), err));
	LK_TRY(
		lk_record_set(out, "LOCKSTEP_RECORD_FILL", request->fill ? request->fill : "numbers", err));
	return be_alone_in_open_mpi(out, err);
}

/* ---- CUDA and NCCL ---- */

static bool command_loads_nccl(const lk_record_request *request) {
	char room[PATH_MAX];
	for (int i = 0; i < request->words && i < 64; i++) {
		const char *path = lk_program_in_path(request->command[i], room);
		if (!path || access(path, X_OK) != 0) continue;
		if (lk_file_contains(path, "libnccl.so") && !lk_elf_needs(path, "libnccl.so.2"))
			return true;
	}
	return false;
}

static lk_status set_nccl_shim(lk_arena *arena, lk_record_settings *out, lk_error *err) {
	const char *shim, *before = getenv("LD_LIBRARY_PATH");
	LK_TRY(lk_record_library("lockstep-nccl/libnccl.so.2", arena, &shim, err));
	if (!shim) return fail_missing_library("lockstep-nccl/libnccl.so.2", err);
	int folder = (int)(strrchr(shim, '/') - shim);
	return lk_record_set(out, "LD_LIBRARY_PATH",
	                     before && *before ? lk_arena_printf(arena, "%.*s:%s", folder, shim, before)
	                                       : lk_arena_printf(arena, "%.*s", folder, shim),
	                     err);
}

static lk_status set_nccl_plugin(lk_arena *arena, lk_record_settings *out, lk_error *err) {
	const char *plugin;
	LK_TRY(lk_record_library("libnccl-profiler-lockstep.so", arena, &plugin, err));
	if (!plugin) return fail_missing_library("libnccl-profiler-lockstep.so", err);
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_NCCL_BY", "plugin", err));
	return lk_record_set(out, "NCCL_PROFILER_PLUGIN", plugin, err);
}

/* Set its rank under torchrun's names, for programs that read it there. */
static lk_status set_launcher_rank(const lk_record_request *request, lk_arena *arena,
                                   lk_record_settings *out, lk_error *err) {
	LK_TRY(lk_record_set(out, "RANK", lk_arena_printf(arena, "%d", request->as_rank), err));
	LK_TRY(
		lk_record_set(out, "WORLD_SIZE", lk_arena_printf(arena, "%d", request->world_size), err));
	LK_TRY(lk_record_set(out, "LOCAL_RANK", "0", err)); /* this machine's device */
	return request->splits ? lk_record_set(out, "LOCKSTEP_RECORD_SPLITS", request->splits, err)
	                       : LK_OK;
}

static lk_status add_device_settings(const lk_record_request *request, lk_arena *arena,
                                     lk_record_settings *out, lk_error *err) {
	static const char *const clocks[] = {"events", "calls", "cupti"};
	int by = request->nccl;
	if (by == LK_RECORD_NCCL_FOUND)
		by = command_loads_nccl(request) ? LK_RECORD_NCCL_SHIM : LK_RECORD_NCCL_PRELOAD;
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_CUDA", clocks[request->cuda], err));
	if (by == LK_RECORD_NCCL_SHIM) LK_TRY(set_nccl_shim(arena, out, err));
	if (by == LK_RECORD_NCCL_PLUGIN) LK_TRY(set_nccl_plugin(arena, out, err));
	return request->mode == LK_RECORD_MODE_AS_RANK ? set_launcher_rank(request, arena, out, err)
	                                               : LK_OK;
}

/* ---- a slow tier ---- */

struct slow_tier {
	double latency_s, rate;
};

static lk_status add_slow_setting(const lk_record_request *request, lk_arena *arena,
                                  lk_record_settings *out, lk_error *err) {
	static const lk_number_word words[] = {
		{"latency", "us", offsetof(struct slow_tier, latency_s), 0, 1e7, 1e-6, false},
		{"rate", "MB/s", offsetof(struct slow_tier, rate), 1e-3, 1e9, 1e6, false}};
	static const lk_word_list list = {"--slow", words, 2,
	                                  "give words as latency=4000us rate=50MB/s over DIR"};
	struct slow_tier tier = {0, INFINITY};
	const char *folder;
	char real[PATH_MAX];
	LK_TRY(lk_number_words_read(&list, request->slow, &tier, &folder, err));
	if (!folder) return lk_number_words_refuse(&list, "over", "is missing", err);
	folder += strspn(folder, " ");
	if (tier.latency_s <= 0 && isinf(tier.rate))
		return lk_number_words_refuse(&list, "latency", "and 'rate' are missing: it has no effect",
		                              err);
	if (!realpath(folder, real)) {
		lk_fail(err, LK_ERR_INPUT, "--slow", "%s: cannot be found", folder);
		return lk_hint(err, "%s", list.form);
	}
	return lk_record_set(
		out, "LOCKSTEP_RECORD_SLOW",
		lk_arena_printf(arena, "%.0f %.0f %s", 1e9 * tier.latency_s, 1e12 / tier.rate, real), err);
}

/* ---- all settings ---- */

#define NVTX_TOOL "NVTX_INJECTION64_PATH"

lk_status lk_record_settings_of(const lk_record_request *request, const char *folder,
                                const char *scratch, lk_arena *arena, lk_record_settings *out,
                                lk_error *err) {
	LK_ASSERT(folder[0] == '/' && (!*scratch || scratch[0] == '/'));
	char room[LK_PROGRAM_NAME];
	const char *probe, *before = getenv("LD_PRELOAD"),
					   *programs = lk_record_programs(request, room),
					   *sanitizer = getenv("ASAN_OPTIONS");
	LK_TRY(choose_recorder_library(request, arena, &probe, err));
	LK_TRY(lk_record_set(out, "LD_PRELOAD",
	                     before && *before ? lk_arena_printf(arena, "%s:%s", probe, before) : probe,
	                     err));
	/* a program built with the address sanitizer ends if another library is loaded before it */
	LK_TRY(lk_record_set(out, "ASAN_OPTIONS",
	                     lk_arena_printf(arena, "%s%sverify_asan_link_order=0",
	                                     sanitizer ? sanitizer : "",
	                                     sanitizer && *sanitizer ? ":" : ""),
	                     err));
	/* ranges of NVTX (lib/recorder/nvtx.c), unless another tool gets them */
	if (!getenv(NVTX_TOOL)) LK_TRY(lk_record_set(out, NVTX_TOOL, probe, err));
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD", folder, err));
	LK_TRY(add_mode_settings(request, scratch, arena, out, err));
	LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_MB", lk_arena_printf(arena, "%d", request->max_mb),
	                     err));
	if (programs)
		LK_TRY(
			lk_record_set(out, "LOCKSTEP_RECORD_PROGRAM", lk_arena_strdup(arena, programs), err));
	if (request->step_marker)
		LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_MARKER", request->step_marker, err));
	if (request->delay_us)
		LK_TRY(lk_record_set(out, "LOCKSTEP_RECORD_DELAY",
		                     lk_arena_printf(arena, "%d", request->delay_us), err));
	if (request->slow) LK_TRY(add_slow_setting(request, arena, out, err));
	return add_device_settings(request, arena, out, err);
}
