/* record_run.c: runs a command in a process group of its own: starts it, waits, and ends it early
 * if needed. Signals are waited for, not handled, so that no global state is needed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"
#include "record/record.h"
#include "base/check.h"

/* Least time between two counts of steps; share of the time that counting may take; time that a
 * command may take to end after SIGTERM. */
static const double LOOK_S = 0.25, LOOK_SHARE = 0.02, GRACE_S = 5;
/* Share of the time until the next step that passes before the next look, while it is further away
 * than NEAR_S. */
static const double NEARLY = 0.6, NEAR_S = 0.1;

struct runner {
	const lk_record_request *request;
	const char *folder;
	pid_t child;
	sigset_t watched, before;     /* signals */
	struct sigaction child_ended; /* the caller's handling of SIGCHLD */
	double begin, asked;          /* asked: when it got SIGTERM; 0 not yet */
	double next_look;             /* for counting steps */
	lk_run_end *out;
};

/* ---- the start ---- */

/* Close the input, and redirect output to a file. */
static bool redirect_standard_streams(const char *output) {
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC),
		out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) == 0 && dup2(out, STDOUT_FILENO) == 1 &&
	       dup2(out, STDERR_FILENO) == 2;
}

/* The child: never returns. Errors are written to the pipe. */
static _Noreturn void exec_command(const struct runner *runner, const lk_record_settings *settings,
                                   char **words, int pipe) {
	LK_ASSERT(words[0] != NULL && pipe >= 0);
	const char *const *more = runner->request->settings;
	setpgid(0, 0);
	sigaction(SIGCHLD, &runner->child_ended, NULL);
	sigprocmask(SIG_SETMASK, &runner->before, NULL);
	bool set = true; /* without every setting the command would run unrecorded */
	for (; more && *more; more++) set = set && putenv((char *)(uintptr_t)*more) == 0;
	for (size_t i = 0; i < settings->count; i++)
		set = set && setenv(settings->at[i].name, settings->at[i].value, 1) == 0;
	if (set && (!runner->request->output || redirect_standard_streams(runner->request->output)))
		execvp(words[0], words);
	int code = errno;
	if (write(pipe, &code, sizeof code) != sizeof code) _exit(126);
	_exit(127);
}

static lk_status fail_start(const char *command, int code, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, command, "cannot be started: %s", strerror(code));
	return code == ENOENT
	           ? lk_hint(err, "give the command after --, as in lockstep record -- ./train")
	           : err->status;
}

/* Give the terminal to the group, like a shell. */
static void hand_over_terminal(pid_t group) {
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetpgrp(STDIN_FILENO, group);
}

static void take_back_terminal(const struct runner *runner) {
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == runner->child)
		tcsetpgrp(STDIN_FILENO, getpgrp());
}

static lk_status start_command(struct runner *runner, const lk_record_settings *settings,
                               char **words, lk_error *err) {
	int ends[2], code = 0;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return lk_fail(err, LK_ERR_IO, words[0], "no pipe: %s", strerror(errno));
	runner->child = fork();
	if (runner->child == 0) exec_command(runner, settings, words, ends[1]);
	code = errno;
	close(ends[1]);
	if (runner->child < 0) {
		close(ends[0]);
		return lk_fail(err, LK_ERR_IO, words[0], "cannot start a process: %s", strerror(code));
	}
	setpgid(runner->child, runner->child);
	hand_over_terminal(runner->child);
	ssize_t got;
	while ((got = read(ends[0], &code, sizeof code)) < 0 && errno == EINTR) {
	}
	close(ends[0]);
	if (got != (ssize_t)sizeof code) return LK_OK;
	waitpid(runner->child, NULL, 0);
	take_back_terminal(runner);
	return fail_start(words[0], code, err);
}

/* ---- the end ---- */

static bool reap_command(struct runner *runner) {
	int status;
	if (waitpid(runner->child, &status, WNOHANG) != runner->child) return false;
	runner->out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

static pid_t parent_of_process(pid_t process) {
	char path[40], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0) close(fd);
	text[size > 0 ? size : 0] = '\0';
	const char *name_ends = strrchr(text, ')'); /* "12 (a name) S 7 ..." */
	return name_ends && strlen(name_ends) > 4 ? (pid_t)strtol(name_ends + 3, NULL, 10) : 0;
}

/* Signal the command's descendants, also those in their own groups: launchers are slow to pass
 * signals on. */
static void signal_descendants(pid_t ancestor, int signal) {
	enum { DEEPEST = 64 };
	DIR *dir = opendir("/proc");
	for (struct dirent *dirent; dir && (dirent = readdir(dir));) {
		pid_t process = (pid_t)strtol(dirent->d_name, NULL, 10), at = process;
		if (process <= 1 || process == ancestor) continue;
		for (int i = 0; i < DEEPEST && at > 1 && at != ancestor; i++) at = parent_of_process(at);
		if (at == ancestor) kill(process, signal);
	}
	if (dir) closedir(dir);
}

static void request_end(struct runner *runner, lk_record_end why) {
	LK_ASSERT(runner->asked <= 0 && why != LK_RECORD_ENDED);
	signal_descendants(runner->child, SIGTERM);
	kill(-runner->child, SIGTERM);
	kill(-runner->child, SIGCONT);
	runner->asked = lk_clock_s();
	runner->out->end = why;
}

/* Count steps. Once their time is known, the next look is when the last one is due, or a little
 * earlier while that is far. */
static void look_for_enough_steps(struct runner *runner, double at) {
	double step_s = 0;
	int left = runner->request->steps -
	           lk_record_steps_so_far(runner->folder, runner->request->as_rank, &step_s);
	if (left <= 0) {
		request_end(runner, LK_RECORD_STEPS_DONE);
		return;
	}
	double took = lk_clock_s() - at, due = left * step_s,
		   pause = took / LOOK_SHARE > LOOK_S ? took / LOOK_SHARE : LOOK_S;
	if (left < runner->request->steps) pause = due > NEAR_S ? NEARLY * due : due - took;
	runner->next_look = lk_clock_s() + (pause > took ? pause : took);
}

static void check_limits(struct runner *runner) {
	const lk_record_request *request = runner->request;
	double at = lk_clock_s();
	if (runner->asked > 0) {
		if (at - runner->asked > GRACE_S) kill(-runner->child, SIGKILL);
		return;
	}
	if (request->time_limit > 0 && at - runner->begin >= request->time_limit) {
		request_end(runner, LK_RECORD_TIME_OVER);
	} else if (request->steps > 0 && at >= runner->next_look) {
		look_for_enough_steps(runner, at);
	}
}

/* The time until the next thing to look at, unless a signal comes first. */
static struct timespec next_pause(const struct runner *runner) {
	double wait = runner->request->steps > 0 || runner->asked > 0 ? LOOK_S : 1,
		   left = runner->begin + runner->request->time_limit - lk_clock_s();
	double due = runner->next_look - lk_clock_s();
	if (runner->request->steps > 0 && runner->asked == 0 && due < wait)
		wait = due > 0.001 ? due : 0.001;
	if (runner->request->time_limit > 0 && runner->asked == 0 && left < wait)
		wait = left > 0.001 ? left : 0.001;
	return (struct timespec){(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};
}

static void wait_for_command(struct runner *runner) {
	while (!reap_command(runner)) {
		struct timespec pause = next_pause(runner);
		int signal = sigtimedwait(&runner->watched, NULL, &pause);
		if (signal > 0 && signal != SIGCHLD) kill(-runner->child, signal);
		check_limits(runner);
	}
	/* end what a stopped command left running */
	if (runner->out->end != LK_RECORD_ENDED) kill(-runner->child, SIGKILL);
}

static lk_status run_with_signals_blocked(struct runner *runner, const lk_record_settings *settings,
                                          char **words, lk_error *err) {
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGTTOU};
	sigemptyset(&runner->watched);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaddset(&runner->watched, signals[i]);
	sigprocmask(SIG_BLOCK, &runner->watched, &runner->before);
	/* If the caller ignored SIGCHLD, the command's end would never be reported. */
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &runner->child_ended);
	sigdelset(&runner->watched, SIGTTOU);
	runner->begin = lk_clock_s();
	runner->next_look = runner->begin + LOOK_S;
	lk_status status = start_command(runner, settings, words, err);
	if (status == LK_OK) {
		wait_for_command(runner);
		take_back_terminal(runner);
	}
	runner->out->wall_s = lk_clock_s() - runner->begin;
	sigaction(SIGCHLD, &runner->child_ended, NULL);
	sigprocmask(SIG_SETMASK, &runner->before, NULL);
	return status;
}

lk_status lk_record_command(const lk_record_request *request, const lk_record_settings *settings,
                            const char *folder, lk_run_end *out, lk_error *err) {
	LK_ASSERT(request->words > 0);
	struct runner r = {.request = request, .folder = folder, .out = out};
	char **words = calloc((size_t)request->words + 1, sizeof *words);
	*out = (lk_run_end){.end = LK_RECORD_ENDED};
	if (!words) return lk_oom(err);
	for (int i = 0; i < request->words; i++) words[i] = (char *)(uintptr_t)request->command[i];
	lk_status status = run_with_signals_blocked(&r, settings, words, err);
	free(words);
	return status;
}
