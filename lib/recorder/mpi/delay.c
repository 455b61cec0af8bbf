/* delay.c: lengthens communication by a known time: the ground truth of tests.
 *
 *     blocking       the call waits for the delay, then calls the library
 *     non-blocking   complete no earlier than post + transfer + delay; the transfer is the time
 *                    that the library's own wait took
 *
 * So a delay is hidden by as much as the program does between post and wait. Persistent requests
 * are posted by their start. A test finds nothing done before post + delay. */
#include "recorder/mpi/library.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* Known requests in flight; one that finds no slot within PROBES is not delayed. A sleep may last
 * LATE longer. */
enum { REQUESTS = 1 << 14, PROBES = 64 };
static const int64_t LATE_NS = 120000;

static struct posted {
	uint64_t key; /* 0 free */
	int64_t ns;
} posted[REQUESTS];

static void sleep_until_ns(int64_t until) {
	int64_t left = until - LATE_NS - lp_now();
	struct timespec pause = {left / 1000000000, left % 1000000000};
	if (left > 0) nanosleep(&pause, NULL);
	while (lp_now() < until) sched_yield();
}

void lp_delay_call(const lp_mpi_call *call) {
	if (call->part == LK_PART_WHOLE && call->what != LK_WHAT_OTHER)
		sleep_until_ns(lp_now() + lp_state.delay_ns);
}

/* ---- requests in flight ---- */

static struct posted *posted_place(uint64_t key, int i) {
	return &posted[((key * UINT64_C(0x9e3779b97f4a7c15) >> 40) + (uint64_t)i) % REQUESTS];
}

static struct posted *find_posted(uint64_t key) {
	for (int i = 0; key && i < PROBES; i++)
		if (__atomic_load_n(&posted_place(key, i)->key, __ATOMIC_ACQUIRE) == key)
			return posted_place(key, i);
	return NULL;
}

void lp_delay_posted(uint64_t key, int64_t ns) {
	struct posted *known = find_posted(key);
	for (int i = 0; !known && i < PROBES; i++) {
		uint64_t free = 0;
		if (__atomic_compare_exchange_n(&posted_place(key, i)->key, &free, key, false,
		                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			known = posted_place(key, i);
	}
	if (known) known->ns = ns;
}

static bool is_request_late(lp_handle request) {
	const struct posted *known = find_posted(LP_KEY(request));
	return known && lp_now() < known->ns + lp_state.delay_ns;
}

void lp_delay_done(const uint64_t *keys, int count, int64_t transfer_ns) {
	int64_t until = 0;
	for (int i = 0; i < count; i++) {
		struct posted *known = find_posted(keys[i]);
		if (!known) continue;
		if (known->ns + transfer_ns + lp_state.delay_ns > until)
			until = known->ns + transfer_ns + lp_state.delay_ns;
		__atomic_store_n(&known->key, 0, __ATOMIC_RELEASE);
	}
	sleep_until_ns(until);
}

/* ---- tests, and waits for some of many ---- */

bool lp_delay_any_late(const lp_handle *all, int n) {
	int done;
	for (int i = 0; i < n; i++) {
		if (!is_request_late(all[i])) continue;
		lp_mpi_real.request_get_status(all[i], &done,
		                               LP_STATUS_IGNORE); /* the library makes progress, as in a
		                                                     test */
		return true;
	}
	return false;
}

enum { NO_MEMORY = 16 }; /* an error of every library */
typedef lp_handle shown_requests[LP_MOST_REQUESTS];

/* Show the requests that may be done, and hide the others; returns the number of hidden ones. */
static int hide_late_requests(const lp_handle *all, int n, lp_handle *shown) {
	LP_ASSERT(n <= LP_MOST_REQUESTS);
	int hidden = 0;
	for (int i = 0; i < n; i++) {
		bool late = is_request_late(all[i]);
		shown[i] = late ? lp_mpi_real.request_null : all[i];
		hidden += late;
	}
	return hidden;
}

int lp_delay_any(int n, lp_handle *all, int *which, int *flag, void *status, bool wait) {
	LP_TAKE(shown_requests, at, NO_MEMORY);
	lp_handle *shown = *at;
	for (;; sched_yield()) {
		int hidden = hide_late_requests(all, n, shown);
		int result = lp_mpi_real.testany(n, shown, which, flag, status);
		if (result != 0) return result;
		if (*flag && *which >= 0 && *which < n) {
			all[*which] = shown[*which];
			return 0;
		}
		if (*flag && !hidden) return 0; /* none is active */
		*flag = 0;
		if (!wait) return 0;
	}
}

int lp_delay_some(int n, lp_handle *all, int *count, int *which, void *statuses, bool wait) {
	LP_TAKE(shown_requests, at, NO_MEMORY);
	lp_handle *shown = *at;
	for (;; sched_yield()) {
		int hidden = hide_late_requests(all, n, shown);
		int result = lp_mpi_real.testsome(n, shown, count, which, statuses);
		if (result != 0) return result;
		for (int i = 0; i < *count; i++) all[which[i]] = shown[which[i]];
		if (*count > 0 || (*count == LP_UNDEFINED && !hidden)) return 0;
		*count = 0;
		if (!wait) return 0;
	}
}
