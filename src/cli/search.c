/* search.c: progress of searches on a terminal, and signals. Ctrl-C ends a search with the best
 * answer found so far; a second one ends the program. Calls that run programs are asked to stop by
 * every signal that ends this program. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "system/clock.h"
#include "cli/cli.h"

enum { BAR = 30 };
static const double SHOW_AFTER_S = 0.5;

/* For the signal handler; a program runs one search at a time. */
static lk_stop *ending;

static void search_interrupt(int signal) {
	(void)signal;
	lk_stop_search(ending);
}

void cli_search_begin(cli_search *search, const char *what) {
	struct sigaction act = {.sa_handler = search_interrupt, .sa_flags = SA_RESTART | SA_RESETHAND};
	LK_ASSERT(!ending && what);
	*search = (cli_search){.what = what, .stop = lk_stop_new()};
	search->start_s = lk_clock_s();
	if (!search->stop) return; /* without memory, Ctrl-C ends the program */
	ending = search->stop;
	lk_stop_watch(search->stop);
	sigemptyset(&act.sa_mask);
	sigaction(SIGINT, NULL, &search->before);
	search->catches = search->before.sa_handler != SIG_IGN;
	if (search->catches) sigaction(SIGINT, &act, NULL);
}

static void search_clear(cli_search *search) {
	if (search->shown) fputs("\r\x1b[K", stderr);
	search->shown = false;
}

void cli_search_show(void *context, int gpus, double done, double all) {
	cli_search *search = context;
	if (all > 0 && done >= all) return search_clear(search);
	if (lk_clock_s() - search->start_s < SHOW_AFTER_S || !isatty(STDERR_FILENO)) return;
	search->shown = true;
	fputc('\r', stderr);
	if (gpus > 0) fprintf(stderr, "%d GPUs ", gpus);
	if (all > 0) {
		int filled = (int)(BAR * done / all);
		fputc('[', stderr);
		for (int i = 0; i < BAR; i++) fputc(i < filled ? '#' : ' ', stderr);
		fprintf(stderr, "] %.0f of %.0f %s", done, all, search->what);
	} else {
		fprintf(stderr, "%.0f %s", done, search->what);
	}
	fputs("; Ctrl-C: the best so far \x1b[K", stderr);
}

void cli_doing_show(void *context, const char *doing, double share) {
	cli_search *search = context;
	search->shown = true;
	fprintf(stderr, "\r%3.0f %%  %s\x1b[K", 100 * share, doing);
}

void cli_search_end(cli_search *search) {
	search_clear(search);
	if (!search->stop) return;
	if (search->catches) sigaction(SIGINT, &search->before, NULL);
	lk_stop_watch(NULL);
	ending = NULL;
	lk_stop_free(search->stop);
	search->stop = NULL;
}

/* ---- calls that run other programs ---- */

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t stop_signal;

static void stop_by_signal(int signal) {
	stop_signal = signal;
	lk_stop_ask(ending);
}

void cli_stop_begin(cli_stop *stop) {
	struct sigaction act = {.sa_handler = stop_by_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
	LK_ASSERT(!ending);
	stop_signal = 0;
	if (!(stop->stop = lk_stop_new())) return;
	ending = stop->stop;
	lk_stop_watch(stop->stop);
	sigemptyset(&act.sa_mask);
	for (int i = 0; i < 3; i++) {
		sigaction(endings[i], NULL, &stop->before[i]);
		if (stop->before[i].sa_handler != SIG_IGN) sigaction(endings[i], &act, NULL);
	}
}

void cli_stop_end(cli_stop *stop) {
	if (!stop->stop) return;
	for (int i = 0; i < 3; i++) sigaction(endings[i], &stop->before[i], NULL);
	lk_stop_watch(NULL);
	ending = NULL;
	lk_stop_free(stop->stop);
	if (stop_signal) raise(stop_signal);
}
