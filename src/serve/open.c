/* open.c: starts a browser. $BROWSER is a list of commands, separated by ':'; the first that can be
 * started is used. The address replaces %s in a command, or follows it. */
#include "serve/serve_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/process.h"
#include "base/text.h"

enum { WORDS = 16, COMMAND_SIZE = 1024, NAME_SIZE = 3 * LK_FOLDER_SIZE };

/* ---- the page that redirects to the server ---- */

static bool write_redirect_page(const char *folder, const char *url, char path[LK_FOLDER_SIZE]) {
	int length = snprintf(path, LK_FOLDER_SIZE, "%s/open.html", folder);
	if (length < 0 || length >= LK_FOLDER_SIZE) return false;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!out) return false;
	fprintf(out,
	        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" "
	        "content=\"no-referrer\">\n"
	        "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n<title>lockstep</title>\n<a "
	        "href=\"%s\">lockstep</a>\n",
	        url, url);
	return fclose(out) == 0;
}

/* "file:///tmp/lockstep-serve-x/open.html" */
static void format_file_url(const char *path, char name[NAME_SIZE]) {
	lk_text url = lk_text_begin(name, NAME_SIZE);
	lk_text_add(&url, "file://");
	for (const char *p = path; *p; p++) {
		unsigned char c = (unsigned char)*p;
		bool plain = isalnum(c) || strchr("/._-~", c);
		lk_text_add(&url, plain ? "%c" : "%%%02X", c);
	}
}

/* ---- the command ---- */

/* Replaces this process by the command; returns if it cannot. */
static void exec_browser_command(const char *command, size_t length, const char *name) {
	char text[COMMAND_SIZE], *words[WORDS + 2], *rest = text;
	int count = 0;
	bool named = false;
	if (length >= sizeof text) return;
	memcpy(text, command, length);
	text[length] = '\0';
	for (char *word; count < WORDS && (word = strsep(&rest, " \t"));) {
		if (!*word) continue;
		bool here = strcmp(word, "%s") == 0;
		words[count++] = here ? (char *)name : word;
		named |= here;
	}
	if (count == 0) return;
	if (!named) words[count++] = (char *)name;
	words[count] = NULL;
	execvp(words[0], words);
}

static void exec_browser(const char *name) {
	const char *list = getenv("BROWSER");
	for (const char *p = list ? list : ""; *p;) {
		size_t length = strcspn(p, ":");
		exec_browser_command(p, length, name);
		p += length + (p[length] == ':');
	}
	exec_browser_command("xdg-open", strlen("xdg-open"), name);
}

/* Starts the command detached from the terminal: its messages do not appear there, and Ctrl-C
 * reaches only the server. */
static void start_detached_browser(const char *name, const sigset_t *mask, int result_fd) {
	int nothing = open("/dev/null", O_RDWR);
	setsid();
	if (fork() != 0) _exit(0);
	for (int fd = 0; fd < 3 && nothing >= 0; fd++) dup2(nothing, fd);
	dup2(result_fd, 3);
	fcntl(3, F_SETFD, FD_CLOEXEC);
	lk_process_close_from(4);
	sigprocmask(SIG_SETMASK, mask, NULL);
	exec_browser(name);
	(void)!write(3, "", 1);
	_exit(1);
}

bool lk_open_browser(const char *folder, const char *url, const sigset_t *mask) {
	char path[LK_FOLDER_SIZE], name[NAME_SIZE], said;
	int ends[2];
	ssize_t n;
	if (!write_redirect_page(folder, url, path) || pipe2(ends, O_CLOEXEC) != 0) return false;
	format_file_url(path, name);
	pid_t child = fork();
	if (child == 0) start_detached_browser(name, mask, ends[1]);
	close(ends[1]);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
	/* The pipe closes once a command has been started. */
	do n = child > 0 ? read(ends[0], &said, 1) : 1;
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	return n == 0;
}
