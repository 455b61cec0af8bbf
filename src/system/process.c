/* process.c: fork, two pipes, poll with a deadline. The program is its own process group, which
 * gets SIGTERM (so that launchers end what they have started) and two seconds later SIGKILL: at the
 * deadline, and when the waiting thread is asked to stop. */
#include "system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/stop.h"

extern char **environ;

enum { GRACE = 2 }; /* seconds between SIGTERM and SIGKILL */

struct taken {
	int from;
	char *text;
	size_t size, limit;
};

/* Read available bytes; false at the end of the stream. */
static bool process_take(struct taken *taken) {
	char part[65536];
	ssize_t got = read(taken->from, part, sizeof part);
	if (got < 0) return errno == EINTR || errno == EAGAIN;
	size_t room = taken->limit - taken->size, kept = (size_t)got < room ? (size_t)got : room;
	if (kept) memcpy(taken->text + taken->size, part, kept);
	taken->size += kept;
	taken->text[taken->size] = '\0';
	return got > 0;
}

/* Until both streams have ended. What still runs at the deadline is ended. */
static void process_listen_to(pid_t pid, struct taken streams[2], double deadline, bool *late) {
	struct pollfd fds[2] = {{streams[0].from, POLLIN, 0}, {streams[1].from, POLLIN, 0}};
	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		bool asked = !*late && lk_stop_check(NULL) != LK_OK;
		double left = asked ? 0 : deadline - lk_clock_s();
		if (left <= 0) {
			if (*late) {
				kill(-pid, SIGKILL);
				return;
			}
			kill(-pid, SIGTERM);
			*late = true;
			deadline = lk_clock_s() + GRACE;
			continue;
		}
		if (poll(fds, 2, left > 1 ? 1000 : (int)(left * 1000) + 1) <= 0) continue;
		for (int i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !process_take(&streams[i])) fds[i].fd = -1;
	}
}

/* The streams have ended; the process itself may take longer. */
static int process_wait_for(pid_t pid, double deadline, bool *late) {
	int status;
	for (;;) {
		pid_t got = waitpid(pid, &status, *late || lk_clock_s() > deadline ? 0 : WNOHANG);
		if (got == pid) break;
		if (got < 0 && errno != EINTR) return 255;
		if (lk_clock_s() > deadline && !*late) {
			kill(-pid, SIGKILL);
			*late = true;
		}
		nanosleep(&(struct timespec){0, 2000000}, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char **environment(const char *const *settings) {
	size_t count = 0, more = 0, used = 0;
	while (environ[count]) count++;
	while (settings && settings[more]) more++;
	char **all = malloc((count + more + 1) * sizeof *all);
	if (!all) return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t name = strcspn(environ[i], "=") + 1;
		bool replaced = false;
		for (size_t k = 0; k < more; k++) replaced |= strncmp(environ[i], settings[k], name) == 0;
		if (!replaced) all[used++] = environ[i];
	}
	for (size_t k = 0; k < more; k++) all[used++] = (char *)settings[k];
	all[used] = NULL;
	return all;
}

/* In the child: execute the program, or report why not. It is its own process group and is asked to
 * end if this process is killed; also if the thread that started it ends, but that thread waits for
 * it. Allocates nothing. */
static void process_become(const lk_process *process, const int pipes[4], int why, pid_t parent,
                           char **all) {
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	int nothing = open("/dev/null", O_RDONLY);
	if (getppid() == parent && nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(pipes[1], 1) >= 0 &&
	    dup2(pipes[3], 2) >= 0)
		execvpe(process->arguments[0], (char *const *)process->arguments, all);
	int failed = errno;
	ssize_t written = write(why, &failed, sizeof failed);
	_exit(written == sizeof failed ? 127 : 126);
}

static lk_status process_start(const lk_process *process, const int pipes[4], pid_t *pid,
                               lk_error *err) {
	int why[2], failed = 0;
	char **all = environment(process->settings);
	if (!all) return lk_oom(err);
	pid_t parent = getpid();
	if (pipe2(why, O_CLOEXEC) != 0) {
		free(all);
		return lk_fail(err, LK_ERR_IO, "", "no pipe: %s", strerror(errno));
	}
	*pid = fork();
	if (*pid == 0) process_become(process, pipes, why[1], parent, all);
	if (*pid < 0) failed = errno;
	close(why[1]);
	free(all);
	ssize_t got = 0;
	do
		if (*pid > 0) got = read(why[0], &failed, sizeof failed);
	while (got < 0 && errno == EINTR);
	close(why[0]);
	if (got > 0) waitpid(*pid, NULL, 0);
	if (!failed) return LK_OK;
	return lk_fail(err, LK_ERR_IO, process->arguments[0], "could not be started: %s",
	               strerror(failed));
}

static bool open_pipes(int pipes[4]) {
	for (int i = 0; i < 4; i += 2)
		if (pipe2(pipes + i, O_CLOEXEC) != 0) return false;
	return true;
}

static void close_pipes(int pipes[4], int first, int step) {
	for (int i = first; i < 4; i += step)
		if (pipes[i] >= 0) {
			close(pipes[i]);
			pipes[i] = -1;
		}
}

lk_status lk_process_run(const lk_process *process, lk_process_end *end, lk_error *err) {
	*end =
		(lk_process_end){.out = malloc(process->limit + 1), .messages = malloc(process->limit + 1)};
	if (!end->out || !end->messages) return lk_oom(err);
	*end->out = *end->messages = '\0';
	int pipes[4] = {-1, -1, -1, -1};
	pid_t pid = 0;
	lk_status status = open_pipes(pipes)
	                       ? process_start(process, pipes, &pid, err)
	                       : lk_fail(err, LK_ERR_IO, "", "no pipe: %s", strerror(errno));
	close_pipes(pipes, 1, 2);
	if (status == LK_OK) {
		struct taken streams[2] = {{pipes[0], end->out, 0, process->limit},
		                           {pipes[2], end->messages, 0, process->limit}};
		double deadline = lk_clock_s() + process->seconds;
		process_listen_to(pid, streams, deadline, &end->late);
		end->code = process_wait_for(pid, deadline + GRACE, &end->late);
		if (end->late) status = lk_stop_check(err);
	}
	close_pipes(pipes, 0, 2);
	return status;
}

void lk_process_end_free(lk_process_end *end) {
	free(end->out);
	free(end->messages);
	*end = (lk_process_end){0};
}

bool lk_process_found(const char *name) {
	const char *path = getenv("PATH");
	char full[PATH_MAX];
	for (size_t part; path && *path; path += part + (path[part] == ':')) {
		part = strcspn(path, ":");
		if (snprintf(full, sizeof full, "%.*s/%s", (int)part, path, name) < (int)sizeof full &&
		    access(full, X_OK) == 0)
			return true;
	}
	return false;
}

void lk_process_close_from(int first) {
#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0) return;
#endif
	long end = sysconf(_SC_OPEN_MAX);
	for (long fd = first; fd < end; fd++) close((int)fd);
}
