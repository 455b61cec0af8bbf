/* replay.c: runs one fuzz target over a corpus without a fuzzer: main() for any
 * LLVMFuzzerTestOneInput.
 *
 * Usage: replay NAME FILE-OR-FOLDER...
 *
 * Every file is tried whole and cut short at some places (truncated input is the cheapest hostile
 * input), each in a child process of its own with a time limit, so that one crash neither hides the
 * others nor leaves the file unnamed. The sanitizers find reads beyond the end because every input
 * lies in a heap block of exactly its size.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 20, CUTS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int passed, failed;

static void try_bytes(const uint8_t *bytes, size_t size) {
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact) _exit(3);
	if (size) memcpy(exact, bytes, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

/* The child: the input whole, then its first 0/8, 1/8, ... 7/8, then all but the last byte. Leaves
 * by exit(), which is where leaks are looked for. */
static void try_input(const uint8_t *bytes, size_t size) {
	alarm(SECONDS);
	try_bytes(bytes, size);
	for (int i = 0; i < CUTS; i++) try_bytes(bytes, size / CUTS * (size_t)i);
	if (size) try_bytes(bytes, size - 1);
	exit(0);
}

static uint8_t *read_file(const char *path, size_t *size) {
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = NULL;
	long length;

	if (!file) return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 &&
	    fseek(file, 0, SEEK_SET) == 0) {
		bytes = malloc((size_t)length + 1);
		*size = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
	}
	fclose(file);
	return bytes;
}

static void report(const char *path, int status) {
	failed++;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fprintf(stderr, "%s: not done after %d seconds\n", path, SECONDS);
	else if (WIFSIGNALED(status))
		fprintf(stderr, "%s: ended by signal %d\n", path, WTERMSIG(status));
	else fprintf(stderr, "%s: exit status %d\n", path, WEXITSTATUS(status));
}

static void replay_file(const char *path) {
	size_t size = 0;
	uint8_t *bytes = read_file(path, &size);
	int status = 0;
	pid_t child;

	if (!bytes) {
		fprintf(stderr, "%s: cannot read it\n", path);
		failed++;
		return;
	}
	fflush(NULL);
	child = fork();
	if (child == 0) {
		try_input(bytes, size);
	} else if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("replay: fork");
		failed++;
	} else if (status != 0) {
		report(path, status);
	} else {
		passed++;
	}
	free(bytes);
}

static void replay_path(const char *path) {
	struct dirent **entries;
	char inner[4096];
	struct stat st;
	int count;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
		replay_file(path);
		return;
	}
	count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.') replay_path(inner);
		free(entries[i]);
	}
	if (count >= 0) free(entries);
}

int main(int argc, char **argv) {
	if (argc < 3) {
		fprintf(stderr, "usage: replay NAME FILE-OR-FOLDER...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) replay_path(argv[i]);
	if (passed + failed == 0) {
		fprintf(stderr, "%s: the corpus is empty; put small files into it\n", argv[1]);
		failed++;
	}
	printf("fuzz %s: %d passed, %d failed, 0 skipped\n", argv[1], passed, failed);
	return failed != 0;
}
