/* record_programs.c: the programs of a command: which one is recorded, which MPI it uses. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/record.h"
#include "base/text.h"

/* ---- whose program ---- */

/* Programs that only start others. */
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

const char *lk_program_in_path(const char *name, char out[PATH_MAX]) {
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
	if (word && strcmp(lk_file_name(word), "env") == 0) do
			word = strtok_r(NULL, " \t\r\n", &rest);
		while (word && (*word == '-' || strchr(word, '=')));
	if (word) lk_copy(room, LK_PROGRAM_NAME, lk_file_name(word));
	return word ? room : NULL;
}

/* A launcher's command may name an interpreter, or a script that has one, as in mpirun -n 2 python3
 * train.py. Programs without one call MPI_Init. */
static const char *find_launched_interpreter(const lk_record_request *request,
                                             char room[LK_PROGRAM_NAME]) {
	char found[PATH_MAX];
	struct stat info;
	for (int i = 1; i < request->words && i < 64; i++) {
		const char *path = lk_program_in_path(request->command[i], found);
		if (!path || access(path, X_OK) != 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
			continue;
		const char *own = lk_file_name(request->command[i]);
		if (is_launcher_name(own)) continue;
		if (lk_begins_with(own, "python")) return own;
		const char *interpreter = find_interpreter(path, room);
		return interpreter && !is_launcher_name(interpreter) ? interpreter : NULL;
	}
	return NULL;
}

const char *lk_record_programs(const lk_record_request *request, char room[LK_PROGRAM_NAME]) {
	char found[PATH_MAX];
	struct stat info;
	if (request->program) return request->program;
	const char *path = lk_program_in_path(request->command[0], found);
	bool file = path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
	const char *interpreter = file ? find_interpreter(path, room) : NULL;
	const char *own = lk_file_name(request->command[0]);
	if (is_launcher_name(own)) return find_launched_interpreter(request, room);
	/* a script of a shell may choose the program of its own name, as pyenv's python3 does */
	return interpreter && !is_launcher_name(interpreter) ? interpreter : own;
}

/* ---- which MPI ---- */

bool lk_file_contains(const char *path, const char *library) {
	enum { CHUNK = 1 << 16, KEPT = 32, MOST = 1 << 26 };
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
	if (realpath(path, real) &&
	    (strstr(lk_file_name(real), "hydra") || strstr(lk_file_name(real), "mpich")))
		return true;
	return lk_file_contains(path, "libmpich.so") || lk_file_contains(path, "libmpi.so.12");
}

lk_status lk_record_check_mpi(const lk_record_request *request, lk_error *err) {
	char found[PATH_MAX];
	bool mpich = request->mpi == LK_RECORD_MPICH;
	if (request->mpi == LK_RECORD_MPI_FOUND) return LK_OK;
	for (int i = 0; i < request->words && i < 64; i++) {
		const char *path = lk_program_in_path(request->command[i], found);
		if (!path || access(path, X_OK) != 0) continue;
		bool other = mpich ? lk_file_contains(path, "libmpi.so.40") : program_uses_mpich(path);
		if (!other) continue;
		lk_fail(err, LK_ERR_INPUT, mpich ? "--mpi mpich" : "--mpi openmpi",
		        "%.200s is built with %s", request->command[i], mpich ? "Open MPI" : "MPICH");
		return lk_hint(err, "leave it out: the library is detected");
	}
	return LK_OK;
}

/* ---- which libc ---- */

lk_status lk_record_check_libc(const lk_record_request *request, lk_error *err) {
	char found[PATH_MAX], loader[PATH_MAX], interpreter[LK_PROGRAM_NAME];
	const char *path = lk_program_in_path(request->command[0], found);
	const char *script = path ? find_interpreter(path, interpreter) : NULL;
	if (script) path = lk_program_in_path(script, loader);
	if (!path || !lk_elf_has_loader(path, "/ld-musl-")) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, path, "is linked with musl; the recorder works with glibc alone");
	return lk_hint(err, "run it in a container or a root folder of a Linux with glibc");
}

bool lk_command_uses_mpich(const lk_record_request *request) {
	char found[PATH_MAX];
	if (request->mpi != LK_RECORD_MPI_FOUND) return request->mpi == LK_RECORD_MPICH;
	for (int i = 0; i < request->words && i < 64; i++) {
		const char *path = lk_program_in_path(request->command[i], found);
		if (path && access(path, X_OK) == 0 && program_uses_mpich(path)) return true;
	}
	return false;
}
