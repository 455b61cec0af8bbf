/* corpus.c: reads every configuration below a folder of public ones as `lockstep predict FILE`
 * would, up to the completed job, and prints for each set (a folder of it) which share is answered,
 * and the reasons of refusals, with their numbers.
 *
 * Of files that state a step of reinforcement learning, those whose whole step is answered, from
 * generation to refit, are counted too; -v shows its phases.
 *
 * A file that asks for what is not modelled, or that is no job, is refused in one line: that is an
 * answer too, and is counted apart. -v names the files; -m NAME gives a network to all that state
 * none. Exit status 1: a file ended neither way. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/text.h"
#include "lockstep/predict.h"
#include "step/step.h"
#include "launch/read.h"

enum { REASONS = 400, FILES = 4096 };

static struct {
	char text[160];
	int count;
} reasons[REASONS];
static int reason_count;
static char *files[FILES];
static int file_count;
static int rollouts, rollouts_whole; /* files of the set */
static bool verbose;
static const char *network;

static void count_reason(const char *text) {
	for (int i = 0; i < reason_count; i++)
		if (strcmp(reasons[i].text, text) == 0) {
			reasons[i].count++;
			return;
		}
	if (reason_count == REASONS) return;
	lk_copy(reasons[reason_count].text, sizeof reasons[0].text, text);
	reasons[reason_count++].count = 1;
}

static int by_count(const void *a, const void *b) {
	return *((const int *)((const char *)b + sizeof reasons[0].text)) -
	       *((const int *)((const char *)a + sizeof reasons[0].text));
}

static int by_name(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_files(const char *folder) {
	DIR *dir = opendir(folder);
	struct dirent *entry;
	while (dir && (entry = readdir(dir)) != NULL) {
		char path[4096];
		struct stat status;
		if (entry->d_name[0] == '.') continue;
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		if (stat(path, &status) != 0) continue;
		bool config = lk_ends_in(path, ".yaml") || lk_ends_in(path, ".yml") ||
		              lk_ends_in(path, ".json") || lk_ends_in(path, ".toml") ||
		              lk_ends_in(path, ".sh") || lk_ends_in(path, ".sbatch") ||
		              lk_ends_in(path, ".slurm");
		if (S_ISDIR(status.st_mode)) find_files(path);
		else if (config && file_count < FILES) files[file_count++] = strdup(path);
	}
	if (dir) closedir(dir);
}

static void show_job(const char *path, const lk_job *job) {
	printf("%s\t%s\t%.4g\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%d\n", path,
	       job->model.name, lk_model_params(&job->model), job->gpus, job->tp, job->pp, job->cp,
	       job->ep, job->vp, job->mbs, job->gbs, job->seq, lk_dtype_name(job->dtype),
	       (int)job->sharding, job->stack, job->task == LK_TASK_LORA);
}

/* What a message says without its values: texts in quotes and numbers. */
static void plain_reason(const lk_error *err, char *out, size_t size) {
	size_t used = 0;
	bool quoted = false;
	for (const char *c = err->what; *c && used + 2 < size; c++) {
		if (*c == '"') quoted = !quoted;
		if (quoted && *c != '"') continue;
		out[used++] = *c >= '0' && *c <= '9' ? '#' : *c;
	}
	out[used] = '\0';
}

/* The whole step of a file that states a rollout. */
static void ask_rollout(const lk_predict_request *request) {
	lk_prediction *step;
	lk_error err = {0};
	rollouts++;
	if (lk_predict(request, &step, &err) != LK_OK) {
		if (verbose) printf("%s\tROLLOUT\t%s: %s\n", request->config, err.where, err.what);
		return;
	}
	rollouts_whole += step->phases;
	for (int i = 0; verbose && step->phases && i < step->breakdown_count; i++)
		printf("%s\tPHASE\t%s\t%.4g s\n", request->config, step->breakdown[i].key,
		       step->breakdown[i].exposed_s + step->breakdown[i].hidden_s);
	if (verbose && !step->phases) printf("%s\tROLLOUT\t%s\n", request->config, step->warning);
	lk_predict_free(step);
}

static bool read_one(const char *path) {
	lk_arena arena = LK_ARENA_INIT;
	lk_asked *asked = LK_NEW(&arena, lk_asked);
	lk_error err = {0};
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.config = path;
	request.gpu = strstr(path, "MI300X") || strstr(path, "MI325X") ? "mi300x" : "b200";
	request.model = network;
	lk_status status = lk_request_read(&arena, &request, asked, &err);
	if (status != LK_OK && strcmp(err.where, "--attention") == 0) { /* a file for Hopper */
		request.gpu = "h200";
		memset(asked, 0, sizeof *asked);
		status = lk_request_read(&arena, &request, asked, &err);
	}
	if (status == LK_OK && verbose) show_job(path, &asked->job);
	for (int i = 0; status == LK_OK && verbose && i < asked->launch.ignored_count; i++)
		if (asked->launch.ignored[i].as == LK_IGNORED_UNKNOWN)
			printf("%s\tUNKNOWN\t%s\n", path, asked->launch.ignored[i].flag);
	request.no_fixes = true;
	if (status == LK_OK && asked->launch.rollout) ask_rollout(&request);
	if (status != LK_OK) {
		char text[160];
		plain_reason(&err, text, sizeof text);
		count_reason(text);
		if (verbose) printf("%s\tREFUSED\t%s: %s; %s\n", path, err.where, err.what, err.hint);
	}
	lk_arena_free(&arena);
	return status == LK_OK;
}

static void read_set(const char *folder, const char *name) {
	int answered = 0;
	file_count = reason_count = rollouts = rollouts_whole = 0;
	memset(reasons, 0, sizeof reasons);
	find_files(folder);
	qsort(files, (size_t)file_count, sizeof *files, by_name);
	for (int i = 0; i < file_count; i++) answered += read_one(files[i]);
	printf("%-18s %4d files, %4d answered (%.1f %%)\n", name, file_count, answered,
	       file_count ? 100.0 * answered / file_count : 0.0);
	if (rollouts)
		printf("    %4d state a step of reinforcement learning: %d answered as a whole (%.1f %%)\n",
		       rollouts, rollouts_whole, 100.0 * rollouts_whole / rollouts);
	qsort(reasons, (size_t)reason_count, sizeof reasons[0], by_count);
	for (int i = 0; i < reason_count; i++)
		printf("    %4d  %s\n", reasons[i].count, reasons[i].text);
	for (int i = 0; i < file_count; i++) free(files[i]);
}

int main(int argc, char **argv) {
	const char *only = NULL, *root = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-v") == 0) verbose = true;
		else if (strcmp(argv[i], "-m") == 0 && i + 1 < argc) network = argv[++i];
		else if (!root) root = argv[i];
		else only = argv[i];
	}
	if (!root) {
		fprintf(stderr, "usage: corpus [-v] [-m NETWORK] FOLDER [SET]\n");
		return 2;
	}
	struct dirent **entries;
	int count = scandir(root, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char path[4096];
		struct stat status;
		snprintf(path, sizeof path, "%s/%s", root, entries[i]->d_name);
		bool set = entries[i]->d_name[0] != '.' && stat(path, &status) == 0 &&
		           S_ISDIR(status.st_mode) && (!only || strcmp(only, entries[i]->d_name) == 0);
		if (set) read_set(path, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0) free(entries);
	return count < 0 ? 2 : 0;
}
