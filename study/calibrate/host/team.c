/* team.c: threads that wait for work. Each run has a number; a thread that sees a new number works
 * and counts itself as done. */
#include <pthread.h>
#include <stdlib.h>

#include "calibrate/host/meter.h"

struct lk_team {
	pthread_mutex_t lock;
	pthread_cond_t begin, done;
	pthread_t *thread;      /* [size - 1]: all but the caller */
	int size, left, joined; /* left: not done yet; joined: threads that took their number */
	unsigned long run;
	bool over;
	lk_team_work *work;
	void *context;
};

static void *wait_for_work(void *argument) {
	lk_team *team = argument;
	unsigned long seen = 0;
	pthread_mutex_lock(&team->lock);
	int me = ++team->joined;
	for (;;) {
		while (team->run == seen && !team->over) pthread_cond_wait(&team->begin, &team->lock);
		if (team->over) break;
		seen = team->run;
		int size = team->size;
		pthread_mutex_unlock(&team->lock);
		team->work(team->context, me, size);
		pthread_mutex_lock(&team->lock);
		if (--team->left == 0) pthread_cond_signal(&team->done);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

lk_team *lk_team_new(int threads) {
	lk_team *team = calloc(1, sizeof *team);
	if (!team) return NULL;
	team->thread = calloc((size_t)threads, sizeof *team->thread);
	team->size = 1;
	if (!team->thread || pthread_mutex_init(&team->lock, NULL) != 0) {
		free(team->thread);
		free(team);
		return NULL;
	}
	pthread_cond_init(&team->begin, NULL);
	pthread_cond_init(&team->done, NULL);
	pthread_mutex_lock(&team->lock);
	for (; team->size < threads; team->size++)
		if (pthread_create(&team->thread[team->size - 1], NULL, wait_for_work, team) != 0) break;
	pthread_mutex_unlock(&team->lock);
	return team;
}

int lk_team_size(const lk_team *team) {
	return team->size;
}

void lk_team_run(lk_team *team, lk_team_work *work, void *context) {
	pthread_mutex_lock(&team->lock);
	team->work = work;
	team->context = context;
	team->left = team->size - 1;
	team->run++;
	pthread_cond_broadcast(&team->begin);
	pthread_mutex_unlock(&team->lock);
	work(context, 0, team->size);
	pthread_mutex_lock(&team->lock);
	while (team->left > 0) pthread_cond_wait(&team->done, &team->lock);
	pthread_mutex_unlock(&team->lock);
}

void lk_team_free(lk_team *team) {
	if (!team) return;
	pthread_mutex_lock(&team->lock);
	team->over = true;
	pthread_cond_broadcast(&team->begin);
	pthread_mutex_unlock(&team->lock);
	for (int i = 0; i < team->size - 1; i++) pthread_join(team->thread[i], NULL);
	pthread_cond_destroy(&team->begin);
	pthread_cond_destroy(&team->done);
	pthread_mutex_destroy(&team->lock);
	free(team->thread);
	free(team);
}
