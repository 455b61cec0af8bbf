/* record_probe.c: which probe a command takes, and what the probe is told. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/record.h"
#include "io/stream.h"
#include "base/text.h"

/* ---- whose program ---- */

static const char *base_name_of_program(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Programs that start others and do no work of their own. */
static bool is_launcher_name(const char *name) {
	static const char *const names[] = {"mpirun",
	                                    "mpiexec",
	                                    "orterun",
	                                    "prterun",
	                                    "mpiexec.hydra",
	                                    "mpirun.openmpi",
	                                    "mpiexec.openmpi",
	                                    "mpirun.mpich",
	                                    "mpiexec.mpich",
	                                    "hydra_pmi_proxy",
	                                    "orted",
	                                    "srun",
	                                    "sh",
	                                    "bash",
	                                    "dash",
	                                    "zsh",
	                                    "ksh",
	                                    "fish",
	                                    "env",
	                                    "ssh",
	                                    "sudo",
	                                    "time",
	                                    "nice",
	                                    "ionice",
	                                    "taskset",
	                                    "numactl",
	                                    "timeout",
	                                    "setsid",
	                                    "nohup",
	                                    "stdbuf",
	                                    "strace",
	                                    "gdb",
	                                    "xargs"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0) return true;
	return false;
}

static const char *find_program_in_path(const char *name, char out[PATH_MAX]) {
	if (strchr(name, '/')) return name;
	const char *path = getenv("PATH");
	for (size_t part; path && *path; path += part + (path[part] == ':')) {
		part = strcspn(path, ":");
		if (snprintf(out, PATH_MAX, "%.*s/%s", (int)part, path, name) < PATH_MAX &&
		    access(out, X_OK) == 0)
			return out;
	}
	return NULL;
}

/* "#!/usr/bin/env -S python3 -u": python3. */
static const char *find_interpreter(const char *path, char room[LK_PROGRAM_NAME]) {
	char line[LK_PROGRAM_NAME] = "", *rest = NULL;
	FILE *file = fopen(path, "rb");
	bool script = file && fgets(line, sizeof line, file) && line[0] == '#' && line[1] == '!';
	if (file) fclose(file);
	char *word = script ? strtok_r(line + 2, " \t\r\n", &rest) : NULL;
	if (word && strcmp(base_name_of_program(word), "env") == 0) do
			word = strtok_r(NULL, " \t\r\n", &rest);
		while (word && (*word == '-' || strchr(word, '=')));
	if (word) lk_copy(room, LK_PROGRAM_NAME, base_name_of_program(word));
	return word ? room : NULL;
}

const char *lk_probe_programs(const lk_record_request *request, char room[LK_PROGRAM_NAME]) {
	char found[PATH_MAX];
	struct stat info;
	if (request->program) return request->program;
	const char *path = find_program_in_path(request->command[0], found);
	bool file = path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
	const char *interpreter = file ? find_interpreter(path, room) : NULL;
	const char *own = base_name_of_program(request->command[0]);
	if (is_launcher_name(own)) return NULL;
	/* a script of a shell may choose the program of its own name, as pyenv's python3 does */
	return interpreter && !is_launcher_name(interpreter) ? interpreter : own;
}

/* ---- which MPI ---- */

/* Whether a program's file names a library, as those do that are linked with it. */
static bool file_contains_text(const char *path, const char *library) {
	enum {
		CHUNK = 1 << 16,
		KEPT = 32,
		MOST = 1 << 26
	};
	struct stat info;
	char *text = malloc(CHUNK + KEPT);
	FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) && text ? fopen(path, "rb") : NULL;
	size_t kept = 0, read = 0;
	bool found = false;
	for (size_t got;
	     file && !found && read < MOST && (got = fread(text + kept, 1, CHUNK, file)) > 0;
	     read += got) {
		size_t size = kept + got;
		found = memmem(text, size, library, strlen(library)) != NULL;
		kept = size < KEPT ? size : KEPT;
		memmove(text, text + size - kept, kept);
	}
	if (file) fclose(file);
	free(text);
	return found;
}

static bool program_uses_mpich(const char *path) {
	char real[PATH_MAX];
	if (realpath(path, real) && (strstr(base_name_of_program(real), "hydra") ||
	                             strstr(base_name_of_program(real), "mpich")))
		return true;
	return file_contains_text(path, "libmpich.so") || file_contains_text(path, "libmpi.so.12");
}

/* By the words of the command that are programs: the launcher's name, or what a program is linked
 * with. */
static bool command_uses_mpich(const lk_record_request *request) {
	char found[PATH_MAX];
	if (request->mpi != LK_RECORD_MPI_FOUND) return request->mpi == LK_RECORD_MPICH;
	for (int i = 0; i < request->words && i < 64; i++) {
		const char *path = find_program_in_path(request->command[i], found);
		if (path && access(path, X_OK) == 0 && program_uses_mpich(path)) return true;
	}
	return false;
}

/* ---- the probe's file ---- */

/* Beside the program, or where `make install` puts them: in a folder of lockstep's own, for nothing
 * is linked with them. */
static const char *find_installed_library(const char *name, lk_arena *arena) {
	static const char *const places[] = {"", "../lib/lockstep/", "../lib64/lockstep/",
	                                     "../lib/x86_64-linux-gnu/lockstep/",
	                                     "../lib/aarch64-linux-gnu/lockstep/"};
	char self[PATH_MAX], real[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	self[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(self, '/');
	if (slash) slash[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		char *path = lk_arena_printf(arena, "%s%s%s", self, places[i], name);
		if (path && access(path, R_OK) == 0 && realpath(path, real))
			return lk_arena_strdup(arena, real);
	}
	return NULL;
}

static lk_status choose_recorder_library(const lk_record_request *request, lk_arena *arena,
                                         const char **out, lk_error *err) {
	const char *name =
		command_uses_mpich(request) ? "liblockstep-probe-mpich.so" : "liblockstep-probe.so";
	*out = find_installed_library(name, arena);
	if (!*out) {
		lk_fail(err, LK_ERR_IO, name,
		        "is neither beside lockstep nor in the lib folder of its installation");
		return lk_hint(err, "`make` builds it, `make install` puts it there");
	}
	if (!strpbrk(*out, " :")) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, *out,
	        "the dynamic linker cannot load it: its path has a space or a colon");
	return lk_hint(err, "install lockstep elsewhere");
}

/* ---- settings ---- */

static lk_status add_setting(lk_probe_settings *out, const char *name, const char *value,
                             lk_error *err) {
	if (!value || !lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_probe_setting){name, value};
	return LK_OK;
}

static lk_status add_mode_settings(const lk_record_request *request, const char *scratch,
                                   lk_arena *arena, lk_probe_settings *out, lk_error *err) {
	static const char *const names[] = {"record", "null", "as-rank"};
	LK_TRY(add_setting(out, "LOCKSTEP_RECORD_MODE", names[request->mode], err));
	if (*scratch) LK_TRY(add_setting(out, "LOCKSTEP_RECORD_SCRATCH", scratch, err));
	if (*scratch)
		LK_TRY(add_setting(out, "TMPDIR", lk_arena_printf(arena, "%s/tmp", scratch), err));
	if (request->mode != LK_RECORD_MODE_AS_RANK) return LK_OK;
	LK_TRY(add_setting(out, "LOCKSTEP_RECORD_RANK", lk_arena_printf(arena, "%d", request->as_rank),
	                   err));
	LK_TRY(add_setting(out, "LOCKSTEP_RECORD_WORLD",
	                   lk_arena_printf(arena, "%d", request->world_size), err));
	LK_TRY(add_setting(out, "LOCKSTEP_RECORD_NODE",
	                   lk_arena_printf(arena, "%d", request->ranks_per_node), err));
	return add_setting(out, "LOCKSTEP_RECORD_FILL", request->fill ? request->fill : "numbers", err);
}

lk_status lk_probe_settings_of(const lk_record_request *request, const char *folder,
                               const char *scratch, lk_arena *arena, lk_probe_settings *out,
                               lk_error *err) {
	char room[LK_PROGRAM_NAME];
	const char *probe, *before = getenv("LD_PRELOAD"), *programs = lk_probe_programs(request, room);
	LK_TRY(choose_recorder_library(request, arena, &probe, err));
	LK_TRY(add_setting(out, "LD_PRELOAD",
	                   before && *before ? lk_arena_printf(arena, "%s:%s", probe, before) : probe,
	                   err));
	LK_TRY(add_setting(out, "LOCKSTEP_RECORD", folder, err));
	LK_TRY(add_mode_settings(request, scratch, arena, out, err));
	LK_TRY(
		add_setting(out, "LOCKSTEP_RECORD_MB", lk_arena_printf(arena, "%d", request->max_mb), err));
	if (programs)
		LK_TRY(add_setting(out, "LOCKSTEP_RECORD_PROGRAM", lk_arena_strdup(arena, programs), err));
	if (request->step_marker)
		LK_TRY(add_setting(out, "LOCKSTEP_RECORD_MARKER", request->step_marker, err));
	if (request->delay_us)
		LK_TRY(add_setting(out, "LOCKSTEP_RECORD_DELAY",
		                   lk_arena_printf(arena, "%d", request->delay_us), err));
	return lk_probe_device_settings(request, arena, out, err);
}

/* ---- for record_device.c ---- */

const char *lk_probe_file(const char *name, lk_arena *arena) {
	return find_installed_library(name, arena);
}
const char *lk_probe_in_path(const char *name, char room[PATH_MAX]) {
	return find_program_in_path(name, room);
}
bool lk_probe_file_names(const char *path, const char *library) {
	return file_contains_text(path, library);
}
lk_status lk_probe_set(lk_probe_settings *out, const char *name, const char *value, lk_error *err) {
	return add_setting(out, name, value, err);
}
