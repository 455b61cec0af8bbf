/* measure_calls.c: the cost of a call: of a function, the system, the clock, another thread, all
 * cores. The start of all cores corresponds to a kernel launch on a GPU: it becomes the device's
 * `call_us`. */
#include <math.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/clock.h"
#include "calibrate/host/meter.h"

enum { CALLS = 100000, SYSTEM_CALLS = 10000, WAKES = 50, STARTS = 5, RUNS = 20 };

/* ---- functions, the system, the clock ---- */

static int add_one(int x) {
	return x + 1;
}

static double time_function(void *unused) {
	(void)unused;
	int (*volatile called)(int) = add_one; /* volatile: it may change, so the call stays one */
	int x = 0;
	double start = lk_clock_s();
	for (int i = 0; i < CALLS; i++) x = called(x);
	double taken = lk_clock_s() - start;
	return x == CALLS ? taken : NAN;
}

static double time_system(void *unused) {
	(void)unused;
	long sum = 0;
	double start = lk_clock_s();
	for (int i = 0; i < SYSTEM_CALLS; i++) sum += syscall(SYS_getppid);
	double taken = lk_clock_s() - start;
	return sum >= 0 ? taken : NAN;
}

static double time_clock(void *unused) {
	(void)unused;
	double sum = 0, start = lk_clock_s();
	for (int i = 0; i < SYSTEM_CALLS; i++) sum += lk_clock_s();
	double taken = lk_clock_s() - start;
	return sum > 0 ? taken : NAN;
}

/* ---- threads ---- */

static void *end_at_once(void *argument) {
	return argument;
}

static double time_threads(void *unused) {
	(void)unused;
	double start = lk_clock_s();
	for (int i = 0; i < STARTS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, end_at_once, NULL) != 0) return NAN;
		pthread_join(thread, NULL);
	}
	return lk_clock_s() - start;
}

/* Two threads that hand a turn back and forth. */
struct table_tennis {
	pthread_mutex_t lock;
	pthread_cond_t turned;
	int turn; /* even: the caller's */
};

static void play(struct table_tennis *tennis, int side) {
	pthread_mutex_lock(&tennis->lock);
	for (int i = 0; i < WAKES; i++) {
		while (tennis->turn % 2 != side) pthread_cond_wait(&tennis->turned, &tennis->lock);
		tennis->turn++;
		pthread_cond_signal(&tennis->turned);
	}
	pthread_mutex_unlock(&tennis->lock);
}

static void *play_back(void *argument) {
	play(argument, 1);
	return NULL;
}

static double time_wakes(void *unused) {
	(void)unused;
	struct table_tennis t = {.lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER};
	pthread_t other;
	if (pthread_create(&other, NULL, play_back, &t) != 0) return NAN;
	double start = lk_clock_s();
	play(&t, 0);
	pthread_join(other, NULL);
	return lk_clock_s() - start;
}

static void calls_nothing(void *context, int thread, int threads) {
	(void)context;
	(void)thread;
	(void)threads;
}

static double time_team(void *context) {
	double start = lk_clock_s();
	for (int i = 0; i < RUNS; i++) lk_team_run(context, calls_nothing, NULL);
	return lk_clock_s() - start;
}

/* ---- clock rate ---- */

enum { ADDS = 1000000 };

/* Additions that wait for one another take a cycle each. What is added is in a register: some
 * processors add constants while they rename registers, in no time. */
static double time_adds(void *unused) {
	(void)unused;
	unsigned long x = 1, y = 3;
	double start = lk_clock_s();
	for (int i = 0; i < ADDS / 8; i++) {
#define ADD \
	x += y; \
	__asm__ volatile("" : "+r"(x), "+r"(y));
		ADD ADD ADD ADD ADD ADD ADD ADD
#undef ADD
	}
	double taken = lk_clock_s() - start;
	return x ? taken : NAN;
}

lk_status lk_measure_calls(lk_meter *meter, double seconds) {
	const struct {
		const char *name, *unit;
		lk_trial *trial;
		double calls, scale;
	} kinds[] = {
		{"function", "ns", time_function, CALLS, 1e-9},
		{"clock_gettime", "ns", time_clock, SYSTEM_CALLS, 1e-9},
		{"system call", "ns", time_system, SYSTEM_CALLS, 1e-9},
		{"waking a thread", "us", time_wakes, 2 * WAKES, 1e-6},
		{"starting and ending a thread", "us", time_threads, STARTS, 1e-6},
	};
	const int count = sizeof kinds / sizeof *kinds;
	lk_meter_say(meter, "calls");
	for (int i = 0; i < count; i++) {
		lk_sample s = lk_repeat(kinds[i].trial, NULL, seconds / (count + 2), 3);
		LK_TRY(lk_meter_time(meter, "call", kinds[i].name, kinds[i].unit, kinds[i].calls,
		                     kinds[i].scale, &s));
	}
	lk_sample team = lk_repeat(time_team, meter->team, seconds / (count + 2), 3);
	meter->host->device.call_s = team.low / RUNS;
	LK_TRY(lk_meter_time(meter, "call", "starting work on all cores", "us", RUNS, 1e-6, &team));
	lk_sample s = lk_repeat(time_adds, NULL, seconds / (count + 2), 5);
	meter->host->device.clock_hz = ADDS / s.low;
	return lk_meter_rate(meter, "processor", "clock, by dependent additions", "MHz", ADDS, 1e6, &s);
}
