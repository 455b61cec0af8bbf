/* measure.c: runs a command several times and prints what one run takes: wall time and processor
 * time from the start of the process to its end, and the peak of its resident memory (wait4).
 * Standard output of every run goes to one file.
 *
 *     measure [-r LEAST] [-R MOST] [-s SECONDS] [-o FILE] COMMAND [ARGUMENT...]
 *
 * prints: runs, least wall s, mean wall s, least processor s, peak bytes, exit status. Runs go on
 * until SECONDS are used up, but are LEAST at least and MOST at most. A first run that is not
 * counted warms the caches, unless it alone uses the time up. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct setting {
	int least, most;
	double seconds;
	const char *output;
	char **command;
};

struct sample {
	double wall_s, cpu_s, peak_bytes;
	int status;
};

static void fail(const char *what, int code) {
	fprintf(stderr, "measure: %s: %s\n", what, strerror(code));
	exit(2);
}

static double now_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t) {
	return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* posix_spawn and not fork: the child's peak of memory would otherwise begin with a copy of this
 * process. */
static struct sample run(const struct setting *setting, const posix_spawn_file_actions_t *files) {
	pid_t child;
	int status;
	struct rusage use;
	double start = now_s();
	int code = posix_spawnp(&child, setting->command[0], files, NULL, setting->command, environ);
	if (code) fail(setting->command[0], code);
	while (wait4(child, &status, 0, &use) < 0)
		if (errno != EINTR) fail("wait4", errno);
	return (struct sample){
		.wall_s = now_s() - start,
		.cpu_s = seconds(use.ru_utime) + seconds(use.ru_stime),
		.peak_bytes = 1024.0 * (double)use.ru_maxrss,
		.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	};
}

static void usage(void) {
	fputs("usage: measure [-r LEAST] [-R MOST] [-s SECONDS] [-o FILE] COMMAND [ARGUMENT...]\n",
	      stderr);
	exit(2);
}

static struct setting read_words(int argc, char **argv) {
	struct setting s = {.least = 3, .most = 100, .seconds = 2, .output = "/dev/null"};
	for (int option; (option = getopt(argc, argv, "+r:R:s:o:")) != -1;) {
		if (option == 'r') s.least = atoi(optarg);
		else if (option == 'R') s.most = atoi(optarg);
		else if (option == 's') s.seconds = atof(optarg);
		else if (option == 'o') s.output = optarg;
		else usage();
	}
	s.command = argv + optind;
	if (optind == argc || s.least < 1 || s.most < s.least) usage();
	return s;
}

int main(int argc, char **argv) {
	struct setting s = read_words(argc, argv);
	posix_spawn_file_actions_t files;
	int out = open(s.output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	if (out < 0) fail(s.output, errno);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);

	double start = now_s();
	struct sample best = run(&s, &files);
	int runs = 1;
	double sum = best.wall_s;
	if (best.wall_s < s.seconds) {
		best.wall_s = best.cpu_s = 1e30;
		sum = runs = 0;
	}
	while (runs < s.least || (runs < s.most && now_s() - start < s.seconds)) {
		struct sample one = run(&s, &files);
		runs++;
		sum += one.wall_s;
		if (one.wall_s < best.wall_s) best.wall_s = one.wall_s;
		if (one.cpu_s < best.cpu_s) best.cpu_s = one.cpu_s;
		if (one.peak_bytes > best.peak_bytes) best.peak_bytes = one.peak_bytes;
		if (one.status > best.status) best.status = one.status;
	}
	printf("%d %.6f %.6f %.6f %.0f %d\n", runs, best.wall_s, sum / runs, best.cpu_s,
	       best.peak_bytes, best.status);
	posix_spawn_file_actions_destroy(&files);
	return 0;
}
