/* record_run.c: a command in a process group of its own: its start, its end, and what ends it before. Signals are waited
 * for, not handled, so that nothing global is kept. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/record.h"

/* How often steps are counted, at most; which share of the time that may take; how long a command may take to end when it
 * is asked to. */
static const double LOOK_S = 0.25, LOOK_SHARE = 0.02, GRACE_S = 5;
/* How much of the time until a step is due passes before the next look, while it is further away than NEAR_S. */
static const double NEARLY = 0.6, NEAR_S = 0.1;

struct runner {
	const lk_record_request *request;
	const char *folder;
	pid_t child;
	sigset_t watched, before; /* signals */
	double begin, asked;     /* when it was asked to end; 0 not yet */
	double next_look;        /* for steps */
	lk_run_end *out;
};

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the start ---- */

/* Nothing comes in, and what is printed goes to a file. */
static bool redirect(const char *output) {
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC), out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) == 0 && dup2(out, STDOUT_FILENO) == 1 && dup2(out, STDERR_FILENO) == 2;
}

/* The child: never returns. What goes wrong is written to the pipe. */
static _Noreturn void become(const struct runner *r, const lk_probe_settings *settings, char **words, int pipe) {
	const char *const *more = r->request->settings;
	setpgid(0, 0);
	sigprocmask(SIG_SETMASK, &r->before, NULL);
	for (; more && *more; more++) putenv((char *)(uintptr_t)*more);
	for (size_t i = 0; i < settings->count; i++) setenv(settings->at[i].name, settings->at[i].value, 1);
	if (!r->request->output || redirect(r->request->output)) execvp(words[0], words);
	int code = errno;
	if (write(pipe, &code, sizeof code) != sizeof code) _exit(126);
	_exit(127);
}

static lk_status refused(const char *command, int code, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, command, "cannot be started: %s", strerror(code));
	return code == ENOENT ? lk_hint(err, "the command stands behind --, as in lockstep record -- ./train") : err->status;
}

/* The group gets the terminal, as a shell would give it. */
static void hand_over_terminal(pid_t group) {
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp()) tcsetpgrp(STDIN_FILENO, group);
}

static void take_back_terminal(const struct runner *r) {
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == r->child) tcsetpgrp(STDIN_FILENO, getpgrp());
}

static lk_status begin(struct runner *r, const lk_probe_settings *settings, char **words, lk_error *err) {
	int ends[2], code = 0;
	if (pipe2(ends, O_CLOEXEC) != 0) return lk_fail(err, LK_ERR_IO, words[0], "no pipe: %s", strerror(errno));
	r->child = fork();
	if (r->child == 0) become(r, settings, words, ends[1]);
	code = errno;
	close(ends[1]);
	if (r->child < 0) {
		close(ends[0]);
		return lk_fail(err, LK_ERR_IO, words[0], "cannot start a process: %s", strerror(code));
	}
	setpgid(r->child, r->child);
	hand_over_terminal(r->child);
	ssize_t got;
	while ((got = read(ends[0], &code, sizeof code)) < 0 && errno == EINTR) {
	}
	close(ends[0]);
	if (got != (ssize_t)sizeof code) return LK_OK;
	waitpid(r->child, NULL, 0);
	take_back_terminal(r);
	return refused(words[0], code, err);
}

/* ---- the end ---- */

static bool ended(struct runner *r) {
	int status;
	if (waitpid(r->child, &status, WNOHANG) != r->child) return false;
	r->out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

static pid_t parent_of(pid_t process) {
	char path[40], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0) close(fd);
	text[size > 0 ? size : 0] = '\0';
	const char *name_ends = strrchr(text, ')'); /* "12 (a name) S 7 ..." */
	return name_ends && strlen(name_ends) > 4 ? (pid_t)strtol(name_ends + 3, NULL, 10) : 0;
}

/* What the command has started, in groups of their own too: launchers take their time to pass signals on. */
static void signal_descendants(pid_t ancestor, int signal) {
	enum { DEEPEST = 64 };
	DIR *dir = opendir("/proc");
	for (struct dirent *e; dir && (e = readdir(dir));) {
		pid_t process = (pid_t)strtol(e->d_name, NULL, 10), at = process;
		if (process <= 1 || process == ancestor) continue;
		for (int i = 0; i < DEEPEST && at > 1 && at != ancestor; i++) at = parent_of(at);
		if (at == ancestor) kill(process, signal);
	}
	if (dir) closedir(dir);
}

static void ask_to_end(struct runner *r, lk_record_end why) {
	signal_descendants(r->child, SIGTERM);
	kill(-r->child, SIGTERM);
	kill(-r->child, SIGCONT);
	r->asked = now();
	r->out->end = why;
}

/* Once steps are known, the next look is when the last one is due, a little earlier while that is far. */
static void count_steps(struct runner *r, double at) {
	double step_s = 0;
	int left = r->request->steps - lk_record_steps_so_far(r->folder, r->request->as_rank, &step_s);
	if (left <= 0) {
		ask_to_end(r, LK_RECORD_STEPS_DONE);
		return;
	}
	double took = now() - at, due = left * step_s, pause = took / LOOK_SHARE > LOOK_S ? took / LOOK_SHARE : LOOK_S;
	if (left < r->request->steps) pause = due > NEAR_S ? NEARLY * due : due - took;
	r->next_look = now() + (pause > took ? pause : took);
}

static void look(struct runner *r) {
	const lk_record_request *q = r->request;
	double at = now();
	if (r->asked > 0) {
		if (at - r->asked > GRACE_S) kill(-r->child, SIGKILL);
		return;
	}
	if (q->time_limit > 0 && at - r->begin >= q->time_limit) {
		ask_to_end(r, LK_RECORD_TIME_OVER);
	} else if (q->steps > 0 && at >= r->next_look) {
		count_steps(r, at);
	}
}

/* Until the next signal, or the next moment at which something is to be looked at. */
static struct timespec pause_of(const struct runner *r) {
	double wait = r->request->steps > 0 || r->asked > 0 ? LOOK_S : 1, left = r->begin + r->request->time_limit - now();
	double due = r->next_look - now();
	if (r->request->steps > 0 && r->asked == 0 && due < wait) wait = due > 0.001 ? due : 0.001;
	if (r->request->time_limit > 0 && r->asked == 0 && left < wait) wait = left > 0.001 ? left : 0.001;
	return (struct timespec){(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};
}

static void wait_for_end(struct runner *r) {
	while (!ended(r)) {
		struct timespec pause = pause_of(r);
		int signal = sigtimedwait(&r->watched, NULL, &pause);
		if (signal > 0 && signal != SIGCHLD) kill(-r->child, signal);
		look(r);
	}
	/* what a command that was stopped left running */
	if (r->out->end != LK_RECORD_ENDED) kill(-r->child, SIGKILL);
}

static lk_status run(struct runner *r, const lk_probe_settings *settings, char **words, lk_error *err) {
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGTTOU};
	sigemptyset(&r->watched);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&r->watched, signals[i]);
	sigprocmask(SIG_BLOCK, &r->watched, &r->before);
	sigdelset(&r->watched, SIGTTOU);
	r->begin = now();
	r->next_look = r->begin + LOOK_S;
	lk_status status = begin(r, settings, words, err);
	if (status == LK_OK) {
		wait_for_end(r);
		take_back_terminal(r);
	}
	r->out->wall_s = now() - r->begin;
	sigprocmask(SIG_SETMASK, &r->before, NULL);
	return status;
}

lk_status lk_record_command(const lk_record_request *request, const lk_probe_settings *settings, const char *folder,
                            lk_run_end *out, lk_error *err) {
	struct runner r = {.request = request, .folder = folder, .out = out};
	char **words = calloc((size_t)request->words + 1, sizeof *words);
	*out = (lk_run_end){.end = LK_RECORD_ENDED};
	if (!words) return lk_oom(err);
	for (int i = 0; i < request->words; i++) words[i] = (char *)(uintptr_t)request->command[i];
	lk_status status = run(&r, settings, words, err);
	free(words);
	return status;
}
