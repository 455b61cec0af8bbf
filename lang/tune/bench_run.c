/* bench_run.c: compiles an emitted program for MPI and runs it under the launcher, within the
 * remaining time. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "lang/tune/tune.h"

enum { OUTPUT = 64 << 20 };

enum { SHOWN = 200 };

/* The emitted program's own message, "NAME: ...", in the launcher's output; NULL. */
static const char *own_words(const char *name, char *text) {
	size_t length = strlen(name);
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) != 0 || line[length] != ':') continue;
		line[strcspn(line, "\n")] = '\0';
		return line;
	}
	return NULL;
}

static const char *last_words(char *text) {
	size_t length = strlen(text);
	while (length && (text[length - 1] == '\n' || text[length - 1] == ' ')) text[--length] = '\0';
	char *line = strrchr(text, '\n');
	const char *error = strstr(text, "error");
	if (error && error != text) {
		while (error > text && error[-1] != '\n') error--;
		text[strcspn(error, "\n") + (size_t)(error - text)] = '\0';
		return error;
	}
	return line ? line + 1 : text;
}

static lk_status bench_finish(const char *what, const lc_bench_job *job, lk_status status,
                              lk_process_end *end, lk_error *err) {
	char shown[4 * SHOWN + 1];
	if (status == LK_OK && end->late)
		status =
			lk_fail(err, LK_ERR_INPUT, what, "took longer than %.0f s and was ended", job->seconds);
	else if (status == LK_OK && end->code != 0) {
		const char *words = own_words(job->original->name, end->messages);
		if (!words) words = last_words(*end->messages ? end->messages : end->out);
		char cut[SHOWN + 1];
		lk_copy(cut, sizeof cut, words);
		status = lk_fail(err, LK_ERR_INPUT, what, "ended with %d: %s", end->code,
		                 lk_escape(cut, shown, sizeof shown));
	}
	return status;
}

static const char *tool(const char *variable, const char *otherwise) {
	const char *said = getenv(variable);
	return said && *said ? said : otherwise;
}

static bool bench_multiplies(const lc_program *program) {
	for (size_t i = 0; i < program->nodes.count; i++)
		if (lc_ops[program->nodes.at[i].op].family == LC_CONTRACT) return true;
	return false;
}

/* Compile; with OpenBLAS if it is installed and matrices are multiplied. */
lk_status lc_bench_build(const lc_bench_job *job, lk_error *err) {
	const char *cc = tool("MPICC", "mpicc");
	const char *plain[] = {cc,
	                       "-std=c11",
	                       "-O3",
	                       "-march=native",
	                       "-fno-math-errno",
	                       "-fno-trapping-math",
	                       "-o",
	                       job->program,
	                       job->source,
	                       "-lm",
	                       NULL};
	const char *blas[] = {cc,
	                      "-std=c11",
	                      "-O3",
	                      "-march=native",
	                      "-fno-math-errno",
	                      "-fno-trapping-math",
	                      "-DLOCKSTEP_BLAS",
	                      "-o",
	                      job->program,
	                      job->source,
	                      "-lopenblas",
	                      "-lm",
	                      NULL};
	char temporary[sizeof job->folder + 8]; /* removes what a killed compiler leaves */
	snprintf(temporary, sizeof temporary, "TMPDIR=%s", job->folder);
	const char *settings[] = {temporary, NULL};
	lk_process_end end;
	lk_process process = {blas, settings, job->seconds, 1 << 20};
	bool have_blas = bench_multiplies(job->original) &&
	                 lk_process_run(&process, &end, NULL) == LK_OK && end.code == 0 && !end.late;
	if (bench_multiplies(job->original)) lk_process_end_free(&end);
	if (have_blas) return LK_OK;
	process.arguments = plain;
	lk_status status = bench_finish(cc, job, lk_process_run(&process, &end, err), &end, err);
	lk_process_end_free(&end);
	return status;
}

static bool is_open_mpi(const char *launcher) {
	const char *arguments[] = {launcher, "--version", NULL};
	lk_process process = {arguments, NULL, 20, 4096};
	lk_process_end end;
	bool open = lk_process_run(&process, &end, NULL) == LK_OK &&
	            (strstr(end.out, "Open MPI") || strstr(end.out, "OpenRTE"));
	lk_process_end_free(&end);
	return open;
}

lk_status lc_bench_run(const lc_bench_job *job, const char *const *last, lk_process_end *end,
                       lk_error *err) {
	static const char *const open_mpi[] = {"--oversubscribe", "--bind-to",           "none",
	                                       "--mca",           "mpi_yield_when_idle", "1"};
	static const char *const root[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
	                                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OPENBLAS_NUM_THREADS=1",
	                                   NULL};
	const char *launcher = tool("MPIRUN", "mpirun"), *arguments[LK_PROCESS_ARGUMENTS];
	char ranks[24];
	int used = 0;
	arguments[used++] = launcher;
	for (size_t i = 0; i < sizeof open_mpi / sizeof *open_mpi && is_open_mpi(launcher); i++)
		arguments[used++] = open_mpi[i];
	snprintf(ranks, sizeof ranks, "%lld", (long long)job->result->ranks);
	arguments[used++] = "-np";
	arguments[used++] = ranks;
	arguments[used++] = job->program;
	while (*last && used < LK_PROCESS_ARGUMENTS - 1) arguments[used++] = *last++;
	arguments[used] = NULL;
	lk_process process = {arguments, geteuid() == 0 ? root : root + 2, job->seconds, OUTPUT};
	return bench_finish(launcher, job, lk_process_run(&process, end, err), end, err);
}

bool lc_bench_can(lk_error *err) {
	const char *needed[] = {tool("MPICC", "mpicc"), tool("MPIRUN", "mpirun")};
	for (int i = 0; i < 2; i++) {
		if (strchr(needed[i], '/') ? access(needed[i], X_OK) == 0 : lk_process_found(needed[i]))
			continue;
		lk_fail(err, LK_ERR_INPUT, needed[i], "is not on the PATH");
		lk_hint(err, "install an MPI library, or name it with %s", i ? "MPIRUN" : "MPICC");
		return false;
	}
	return true;
}
