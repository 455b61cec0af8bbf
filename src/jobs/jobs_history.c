/* jobs_history.c: predicts a job's duration from those that have ended (Helios, arXiv 2109.01313):
 *
 *     service = GPUs (lambda P_R + (1 - lambda) P_M),   lambda = 0.1
 *
 * P_R, the rolling estimate, is the mean of the nearest group with ended jobs: the user's jobs of
 * the same name and GPUs, of the same name, all users' jobs of that name, then the same with the
 * numbers in names left out ("train_v2" and "train_v3" are one), the user's jobs, all jobs. Helios
 * compares names by difflib's ratio instead (HeliosArtifact). P_M, there a boosted regression, is
 * here the mean logarithm, shrunk towards the wider group at each step: all jobs, those with as
 * many GPUs, the user's, the user's of that name:
 *
 *     m = (sum of logarithms + k m_wider) / (n + k),   k = 2
 *
 * A job counts from its end on, never before. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/intern.h"
#include "jobs/jobs.h"

/* Groups of a job, the nearest first in each row. */
enum {
	OF_USER_NAME_GPUS,
	OF_USER_NAME,
	OF_NAME_GPUS,
	OF_NAME,
	OF_USER_FOLDED_GPUS,
	OF_USER_FOLDED,
	OF_FOLDED,
	OF_USER,
	OF_ALL,
	ROLLING, /* groups used for P_R */
	OF_GPUS = ROLLING,
	GROUPS
};

struct ended {
	double count, sum_s, sum_log;
};

struct lk_history {
	uint32_t (*groups)[GROUPS]; /* of every job of the list */
	struct ended *ended;        /* by group */
};

static const double LAMBDA = 0.1, SHRINKAGE = 2, SHORTEST_S = 1;

/* A name with every number replaced by '#'. */
static char *history_fold(lk_arena *arena, const char *name) {
	char *folded = lk_arena_strdup(arena, name), *to = folded;
	for (const char *from = folded; folded && *from;) {
		size_t digits = strspn(from, "0123456789");
		*to++ = digits ? '#' : *from;
		from += digits ? digits : 1;
	}
	if (folded) *to = '\0';
	return folded;
}

static lk_status history_group(const lk_jobs_job *job, lk_arena *scratch, lk_intern *names,
                               uint32_t *groups, lk_error *err) {
	const char *user = job->user ? job->user : "", *name = job->group ? job->group : job->name,
			   *folded = history_fold(scratch, name);
	if (!folded) return lk_oom(err);
	/* \x1f separates the fields; the first letter keeps kinds of groups apart. */
	const char *const texts[GROUPS] = {
		[OF_USER_NAME_GPUS] = lk_arena_printf(scratch, "a%s\x1f%s\x1f%d", user, name, job->gpus),
		[OF_USER_NAME] = lk_arena_printf(scratch, "b%s\x1f%s", user, name),
		[OF_NAME_GPUS] = lk_arena_printf(scratch, "c%s\x1f%d", name, job->gpus),
		[OF_NAME] = lk_arena_printf(scratch, "d%s", name),
		[OF_USER_FOLDED_GPUS] =
			lk_arena_printf(scratch, "e%s\x1f%s\x1f%d", user, folded, job->gpus),
		[OF_USER_FOLDED] = lk_arena_printf(scratch, "f%s\x1f%s", user, folded),
		[OF_FOLDED] = lk_arena_printf(scratch, "g%s", folded),
		[OF_USER] = lk_arena_printf(scratch, "h%s", user),
		[OF_ALL] = "i",
		[OF_GPUS] = lk_arena_printf(scratch, "j%d", job->gpus),
	};
	for (int g = 0; g < GROUPS; g++) {
		groups[g] = texts[g] ? lk_intern_id(names, texts[g]) : UINT32_MAX;
		if (groups[g] == UINT32_MAX) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status history_make(const lk_job_list *list, lk_intern *names, lk_arena *arena,
                              lk_history **out, lk_error *err) {
	lk_history *history = LK_NEW(arena, lk_history);
	if (!history) return lk_oom(err);
	history->groups = lk_arena_array(arena, list->count, sizeof *history->groups);
	if (!history->groups) return lk_oom(err);
	for (size_t i = 0; i < list->count; i++) {
		lk_arena scratch = LK_ARENA_INIT;
		lk_status status =
			history_group(&list->at[i].job, &scratch, names, history->groups[i], err);
		lk_arena_free(&scratch);
		if (status != LK_OK) return status;
	}
	history->ended = LK_ARRAY(arena, struct ended, (size_t)lk_intern_count(names) + 1);
	*out = history;
	return history->ended ? LK_OK : lk_oom(err);
}

lk_status lk_history_new(const lk_job_list *list, lk_arena *arena, lk_history **out,
                         lk_error *err) {
	lk_intern *names = lk_intern_new();
	lk_status status = names ? history_make(list, names, arena, out, err) : lk_oom(err);
	lk_intern_free(names);
	return status;
}

void lk_history_learn(lk_history *history, int job, double seconds) {
	for (int g = 0; g < GROUPS; g++) {
		struct ended *ended = &history->ended[history->groups[job][g]];
		ended->count++;
		ended->sum_s += seconds;
		ended->sum_log += log(fmax(seconds, SHORTEST_S));
	}
}

static double history_rolling(const lk_history *history, int job) {
	for (int g = 0; g < ROLLING; g++) {
		const struct ended *ended = &history->ended[history->groups[job][g]];
		if (ended->count > 0) return ended->sum_s / ended->count;
	}
	return 0;
}

static double history_shrunk(const lk_history *history, int job) {
	static const int chain[] = {OF_GPUS, OF_USER, OF_USER_NAME};
	const struct ended *all = &history->ended[history->groups[job][OF_ALL]];
	double mean = all->count > 0 ? all->sum_log / all->count : 0;
	for (size_t i = 0; i < sizeof chain / sizeof *chain; i++) {
		const struct ended *ended = &history->ended[history->groups[job][chain[i]]];
		mean = (ended->sum_log + SHRINKAGE * mean) / (ended->count + SHRINKAGE);
	}
	return exp(mean);
}

double lk_history_expect(const lk_history *history, int job) {
	return LAMBDA * history_rolling(history, job) + (1 - LAMBDA) * history_shrunk(history, job);
}
