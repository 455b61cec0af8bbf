/* mpi.c: records of communication, communicators as numbers, and MPI calls that are no
 * communication: waiting, testing, starting, freeing. */
#include "recorder/mpi/library.h"

#include <stdio.h>
#include <string.h>

enum {
	GROUPS = 1 << 12,
	TRANSLATED = 512, /* ranks at a time */
	FEW = 8,          /* requests of a call that lie on the stack */
	LIST_MARGIN = 32,
	MOST_REQUESTS = LP_MOST_REQUESTS
};
#define KEY LP_KEY

const lp_mpi_mode *lp_mpi_mode_now;

int lp_mpi_size(lp_handle comm) {
	int size = 0, rank = 0, inter = 0;
	if (lp_mpi_real.ready && lp_mpi_mode_now && lp_mpi_mode_now->describe &&
	    lp_mpi_mode_now->describe(comm, &size, &rank, NULL, 0))
		return size;
	if (!lp_mpi_real.ready || lp_mpi_real.comm_test_inter(comm, &inter) != 0) return 0;
	if (inter ? lp_mpi_real.comm_remote_size(comm, &size) : lp_mpi_real.comm_size(comm, &size))
		return 0;
	return size;
}

/* Evaluated before lp_mpi_begin, and only if it will be used. */
#define SUM(counts, comm)                                                                      \
	lp_count sum = 0;                                                                          \
	int size =                                                                                 \
		(lp_state.on || lp_mpi_mode_now) && !lp_thread.busy && counts ? lp_mpi_size(comm) : 0; \
	for (int i = 0; i < size; i++) sum += counts[i];                                           \
	return sum;
lp_count lp_mpi_sum(const int *counts, lp_handle comm){SUM(counts, comm)} lp_count
	lp_mpi_sum_c(const lp_count *counts, lp_handle comm) {
	SUM(counts, comm)
}

/* ---- communicators ---- */

enum { FREE_PLACE, TAKEN, LIVE };

/* By handle, in order of appearance; a slot is reused after its communicator is freed. */
static struct group {
	uint64_t key;
	uint32_t state, number;
} groups[GROUPS];
static uint32_t group_count;
static lp_age age;

static void empty_groups(void) {
	memset(groups, 0, sizeof groups);
	group_count = 0;
	lp_renewed(&age);
}

static struct group *find_comm_entry(uint64_t key) {
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t state = __atomic_load_n(&groups[i].state, __ATOMIC_ACQUIRE);
		if (state == LIVE && groups[i].key == key) return &groups[i];
		if (i >= group_count + 1 && state == FREE_PLACE) return NULL;
	}
	return NULL;
}

/* "[0, 1, 2]": ranks of the world; a list that is too long ends in "...]". */
static void list_comm_ranks(lp_handle comm, int size, char *out, size_t room) {
	lp_handle group, world;
	lp_rank_list list = lp_rank_list_begin(out, room, LIST_MARGIN);
	if (lp_mpi_real.comm_group(comm, &group) != 0) return;
	if (lp_mpi_real.comm_group(lp_mpi_real.world, &world) != 0) return;
	struct translated {
		int own[TRANSLATED], of_world[TRANSLATED];
	};
	LP_TAKE(struct translated, at, );
	for (int from = 0; from < size; from += TRANSLATED) {
		int *own = at->own, *of_world = at->of_world;
		int n = size - from < TRANSLATED ? size - from : TRANSLATED;
		for (int i = 0; i < n; i++) own[i] = from + i;
		if (lp_mpi_real.group_translate_ranks(group, n, own, world, of_world) != 0) break;
		for (int i = 0; i < n; i++) lp_rank_list_add(&list, of_world[i]);
	}
	lp_rank_list_end(&list);
	lp_mpi_real.group_free(&group);
	lp_mpi_real.group_free(&world);
}

static void record_comm_group(lp_handle comm, uint32_t number) {
	LP_TAKE(lp_long_text, at, );
	char *ranks = *at;
	int inter = 0, rank = -1, size = lp_mpi_size(comm);
	*ranks = '\0';
	const lp_mpi_mode *mode = lp_mpi_mode_now;
	if (!mode || !mode->describe || !mode->describe(comm, &size, &rank, ranks, sizeof *at)) {
		lp_mpi_real.comm_test_inter(comm, &inter);
		lp_mpi_real.comm_rank(comm, &rank);
		if (!inter) list_comm_ranks(comm, size, ranks, sizeof *at);
	}
	lk_record_entry record = {
		.object = number, .start_ns = lp_now(), .comm = {.peer = size, .tag = rank}};
	if (mode && mode->add_to_record) mode->add_to_record(comm, &record);
	lp_text(&record, LK_RECORD_GROUP, ranks);
}

/* The number of a communicator; 0 if the table is full. */
static uint32_t comm_number_of(lp_handle comm) {
	LP_ASSERT(lp_thread.busy && lp_mpi_real.ready);
	if (lp_is_stale(&age)) empty_groups();
	struct group *known = find_comm_entry(KEY(comm));
	if (known) return known->number;
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t free = FREE_PLACE;
		if (!__atomic_compare_exchange_n(&groups[i].state, &free, TAKEN, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_RELAXED))
			continue;
		uint32_t number = __atomic_add_fetch(&group_count, 1, __ATOMIC_RELAXED);
		groups[i].key = KEY(comm);
		groups[i].number = number;
		record_comm_group(comm, number);
		__atomic_store_n(&groups[i].state, LIVE, __ATOMIC_RELEASE);
		return number;
	}
	return 0;
}

static void forget_comm(lp_handle comm) {
	if (lp_mpi_real.ready && lp_mpi_mode_now && lp_mpi_mode_now->forget)
		lp_mpi_mode_now->forget(comm);
	struct group *known = lp_state.on ? find_comm_entry(KEY(comm)) : NULL;
	if (known) __atomic_store_n(&known->state, FREE_PLACE, __ATOMIC_RELEASE);
}

/* ---- records ---- */

static uint32_t number_of_call_name(const lp_mpi_call *call) {
	static uint32_t names;
	if (*call->epoch != lp_state.epoch) {
		*call->number = __atomic_add_fetch(&names, 1, __ATOMIC_RELAXED);
		lk_record_entry record = {.object = *call->number};
		lp_text(&record, LK_RECORD_NAME, call->name);
		*call->epoch = lp_state.epoch;
	}
	return *call->number;
}

/* From here to lp_mpi_end the thread belongs to the probe: calls made by the library are not the
 * program's. */
void lp_mpi_begin(lp_mpi_call *call) {
	call->own = lp_mpi_real.ready && !lp_thread.busy;
	call->on = call->own && lp_enter();
	if (call->own) lp_thread.busy = true; /* also without recording: a mode applies all the same */
	if (!call->on) return;
	lp_thread.communicates = true;
	call->start = lp_now();
	lp_record_processor(call->start, LP_AT_COMM);
}

/* The caller's status or `room`. An exchange with a given rank needs none: only the source would be
 * taken from it. */
void *lp_mpi_status_of(lp_mpi_call *call, void *status, lp_mpi_status *room) {
	bool known = call->what == LK_WHAT_SENDRECV && call->from != LP_ANY_SOURCE;
	if (call->on && !known && lp_mpi_ignores(status)) status = room;
	call->status = call->on ? status : NULL;
	call->answer = status;
	return status;
}

static int32_t resolve_peer(const lp_mpi_call *call, int32_t peer) {
	if (peer == LP_NO_PEER) return -1;
	if (peer == LP_PROC_NULL && (call->what == LK_WHAT_SEND || call->what == LK_WHAT_RECV ||
	                             call->what == LK_WHAT_SENDRECV))
		return -2;
	if (peer != LP_ANY_SOURCE) return peer < 0 ? -1 : peer;
	return call->status ? ((const int *)call->status)[LP_SOURCE_WORD] : -1;
}

/* The result of a receive; a mode's own statuses contain what it made up. */
struct arrival {
	int32_t peer, tag;
	int64_t bytes;
};

static struct arrival arrival_of(const void *status) {
	const int *words = status;
	if (!status || lp_mpi_mode_now || words[LP_SOURCE_WORD] < 0)
		return (struct arrival){-1, -1, -1};
	return (struct arrival){words[LP_SOURCE_WORD], words[LP_SOURCE_WORD + 1],
	                        lp_mpi_status_bytes(status)};
}

static int64_t mpi_call_bytes(const lp_mpi_call *call, int *element) {
	int64_t bytes;
	*element = 0;
	if (call->count <= 0 || call->type == lp_mpi_real.type_null ||
	    lp_mpi_real.type_size(call->type, element) != 0)
		return 0;
	int64_t times = call->all ? lp_mpi_size(call->comm) : 1;
	bool over = __builtin_mul_overflow(call->count, (int64_t)*element, &bytes) ||
	            __builtin_mul_overflow(bytes, times, &bytes);
	return over ? 0 : bytes;
}

static void record_mpi_call(const lp_mpi_call *call, const lp_handle *request, int64_t end) {
	int element;
	uint32_t group = comm_number_of(call->comm), name = number_of_call_name(call);
	int64_t bytes = mpi_call_bytes(call, &element);
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = group;
	record->start_ns = call->start;
	record->end_ns = end;
	record->bytes = bytes;
	record->comm.request = request ? KEY(*request) : 0;
	record->comm.peer = resolve_peer(call, call->peer);
	record->comm.from = resolve_peer(call, call->from);
	record->comm.tag = call->tag;
	if (call->what == LK_WHAT_RECV && call->part == LK_PART_WHOLE) {
		struct arrival got = arrival_of(call->status);
		record->comm.from = got.bytes;
		if (got.tag >= 0) record->comm.tag = got.tag;
		if (!call->count && got.bytes > 0) record->bytes = got.bytes; /* of a matched probe */
	}
	record->comm.part = call->part;
	record->comm.what = call->what;
	record->comm.element_bytes = (uint16_t)(element < UINT16_MAX ? element : 0);
	record->comm.call = name;
	lp_publish(record, LK_RECORD_COMM);
	lp_record_processor(end, LP_AT_COMM);
}

void lp_mpi_end(lp_mpi_call *call, int result, const lp_handle *request) {
	if (call->on && result == 0) {
		record_mpi_call(call, request, lp_now());
		if (lp_state.delay_ns && call->part == LK_PART_POST && !call->replaced)
			lp_delay_posted(KEY(*request), call->start);
	}
	if (call->own) lp_leave();
}

/* ---- waiting and starting ---- */

/* Handles change during the call, so they are saved before; those that do not fit are counted as
 * lost. */
struct lp_waits {
	uint64_t *key;
	int count;
	int64_t start;
	bool on;
	const char *statuses; /* of the finished requests, in order; NULL: unknown */
	char *own;            /* statuses, where the program ignores them */
	uint64_t few[FEW];
	char few_own[FEW * LP_STATUS_BYTES];
	lp_room room; /* of more than FEW */
};

struct many_waits {
	uint64_t key[MOST_REQUESTS];
	char own[MOST_REQUESTS * LP_STATUS_BYTES];
};

/* Where keys and statuses of `count` requests are kept; false: nowhere. */
static bool place_waits(struct lp_waits *waits, int count) {
	waits->key = waits->few;
	waits->own = waits->few_own;
	if (count <= FEW) return true;
	struct many_waits *many = lp_room_take(&waits->room, sizeof *many);
	if (!many) return false;
	waits->key = many->key;
	waits->own = many->own;
	return true;
}

/* Where the library puts `count` statuses: at the program's, else where they can be read. */
static void *take_statuses(struct lp_waits *waits, void *statuses, int count) {
	waits->statuses = NULL;
	if (!waits->on) return statuses;
	if (!lp_mpi_ignores(statuses)) waits->statuses = statuses;
	else if (count >= 0 && count <= MOST_REQUESTS) waits->statuses = statuses = waits->own;
	return statuses;
}

static void begin_waiting(struct lp_waits *waits, const lp_handle *requests, int count,
                          lk_comm_part part) {
	const lp_mpi_mode *mode = lp_mpi_mode_now;
	if (part == LK_PART_START && mode && mode->start && !lp_thread.busy)
		mode->start(requests, count);
	waits->room = (lp_room){0};
	waits->count = count < MOST_REQUESTS ? count : MOST_REQUESTS;
	if (waits->count < 0) waits->count = 0;
	waits->on = lp_mpi_real.ready && place_waits(waits, waits->count) && lp_enter();
	if (!waits->on) return;
	for (int i = 0; i < waits->count; i++) waits->key[i] = KEY(requests[i]);
	if (count > MOST_REQUESTS)
		__atomic_fetch_add(&lp_state.recorder.head->dropped, (uint64_t)(count - MOST_REQUESTS),
		                   __ATOMIC_RELAXED);
	lp_thread.communicates = true;
	waits->start = lp_now();
	lp_record_processor(waits->start, LP_AT_COMM);
}

/* Record request `at`, the `place`-th that is done. */
static void record_done_request(const struct lp_waits *waits, int at, int place, lk_comm_part part,
                                int64_t end) {
	struct arrival got =
		arrival_of(waits->statuses ? waits->statuses + (size_t)place * LP_STATUS_BYTES : NULL);
	lk_record_entry *record = at >= 0 && at < waits->count ? lp_next() : NULL;
	if (!record) return;
	record->start_ns = waits->start;
	record->end_ns = end;
	record->comm.request = waits->key[at];
	record->comm.part = (uint8_t)part;
	record->comm.peer = got.peer;
	record->comm.tag = got.tag;
	record->comm.from = got.bytes;
	lp_publish(record, LK_RECORD_COMM);
}

static void delay_requests(const struct lp_waits *waits, const int *which, int count,
                           lk_comm_part part) {
	int64_t transfer = lp_now() - waits->start;
	for (int i = 0; i < count; i++) {
		int at = which ? which[i] : i;
		if (at < 0 || at >= waits->count) continue;
		if (part == LK_PART_START) lp_delay_posted(waits->key[at], waits->start);
		else lp_delay_done(&waits->key[at], 1, which ? 0 : transfer);
	}
}

/* `which` NULL: the first `count`. */
static void end_waiting(struct lp_waits *waits, const int *which, int count, lk_comm_part part) {
	LP_ASSERT(!waits->on || lp_thread.busy);
	if (!waits->on) return lp_room_give(&waits->room);
	if (lp_state.delay_ns && part != LK_PART_FREE) delay_requests(waits, which, count, part);
	int64_t end = lp_now();
	for (int i = 0; i < count; i++) record_done_request(waits, which ? which[i] : i, i, part, end);
	lp_leave();
	lp_room_give(&waits->room);
}

/* `late` replaces the library's call if delays are requested. */
#define WAITS(name, parameters, call, requests, length, which, done, how, late) \
	WAITS_FOR(name, parameters, call, requests, length, which, done, how, late, (w.statuses = NULL))
#define WAITS_FOR(name, parameters, call, requests, length, which, done, how, late, status) \
	int name parameters;                                                                    \
	LP_EXPORT int name parameters {                                                         \
		LP_REAL(name)                                                                       \
		struct lp_waits w;                                                                  \
		begin_waiting(&w, requests, length, how);                                           \
		status;                                                                             \
		int result = wants_delay(&w, length) ? late : real call;                            \
		end_waiting(&w, which, result == 0 ? done : 0, how);                                \
		return result;                                                                      \
	}

static bool wants_delay(const struct lp_waits *waits, int count) {
	return lp_state.delay_ns && waits->on && count <= MOST_REQUESTS;
}

#define ALL_LATE(real, flag, all, n) (lp_delay_any_late(all, n) ? (*(flag) = 0) : (real))

WAITS_FOR(MPI_Wait, (lp_handle * request, void *status), (request, status), request, 1, NULL, 1,
          LK_PART_DONE, real(request, status), status = take_statuses(&w, status, 1))
WAITS_FOR(MPI_Test, (lp_handle * request, int *flag, void *status), (request, flag, status),
          request, 1, NULL, *flag ? 1 : 0, LK_PART_DONE,
          ALL_LATE(real(request, flag, status), flag, request, 1),
          status = take_statuses(&w, status, 1))
WAITS_FOR(MPI_Waitall, (int n, lp_handle *all, void *statuses), (n, all, statuses), all, n, NULL, n,
          LK_PART_DONE, real(n, all, statuses), statuses = take_statuses(&w, statuses, n))
WAITS_FOR(MPI_Testall, (int n, lp_handle *all, int *flag, void *statuses), (n, all, flag, statuses),
          all, n, NULL, *flag ? n : 0, LK_PART_DONE,
          ALL_LATE(real(n, all, flag, statuses), flag, all, n),
          statuses = take_statuses(&w, statuses, n))
WAITS_FOR(MPI_Waitany, (int n, lp_handle *all, int *which, void *status), (n, all, which, status),
          all, n, which, 1, LK_PART_DONE, lp_delay_any(n, all, which, &(int){0}, status, true),
          status = take_statuses(&w, status, 1))
WAITS_FOR(MPI_Testany, (int n, lp_handle *all, int *which, int *flag, void *status),
          (n, all, which, flag, status), all, n, which, *flag ? 1 : 0, LK_PART_DONE,
          lp_delay_any(n, all, which, flag, status, false), status = take_statuses(&w, status, 1))
WAITS_FOR(MPI_Waitsome, (int n, lp_handle *all, int *count, int *which, void *statuses),
          (n, all, count, which, statuses), all, n, which, *count, LK_PART_DONE,
          lp_delay_some(n, all, count, which, statuses, true),
          statuses = take_statuses(&w, statuses, n))
WAITS_FOR(MPI_Testsome, (int n, lp_handle *all, int *count, int *which, void *statuses),
          (n, all, count, which, statuses), all, n, which, *count, LK_PART_DONE,
          lp_delay_some(n, all, count, which, statuses, false),
          statuses = take_statuses(&w, statuses, n))
WAITS(MPI_Start, (lp_handle * request), (request), request, 1, NULL, 1, LK_PART_START,
      real(request))
WAITS(MPI_Startall, (int n, lp_handle *all), (n, all), all, n, NULL, n, LK_PART_START, real(n, all))
WAITS(MPI_Request_free, (lp_handle * request), (request), request, 1, NULL, 1, LK_PART_FREE,
      real(request))

/* Fortran's handles are numbers. */
static void begin_waiting_fortran(struct lp_waits *waits, const lp_fint *requests, int count,
                                  lk_comm_part part) {
	lp_handle few[FEW], *handles = few;
	LP_ROOM(room);
	int n = count < MOST_REQUESTS ? count : MOST_REQUESTS;
	if (n > FEW) handles = lp_room_take(&room, (size_t)n * sizeof *handles);
	if (!handles) n = 0;
	for (int i = 0; i < n; i++) handles[i] = lp_mpi_request_f(requests[i]);
	begin_waiting(waits, handles, n < 0 ? 0 : n, part);
}

#define WAITS_F(name, parameters, call, requests, length, done, how) \
	void name parameters;                                            \
	LP_EXPORT void name parameters {                                 \
		LP_REAL(name)                                                \
		struct lp_waits w;                                           \
		begin_waiting_fortran(&w, requests, length, how);            \
		w.statuses = NULL;                                           \
		real call;                                                   \
		end_waiting(&w, NULL, *error == 0 ? (done) : 0, how);        \
	}

WAITS_F(mpi_wait_, (lp_fint * request, lp_fint *status, lp_fint *error), (request, status, error),
        request, 1, 1, LK_PART_DONE)
WAITS_F(mpi_test_, (lp_fint * request, lp_fint *flag, lp_fint *status, lp_fint *error),
        (request, flag, status, error), request, 1, *flag ? 1 : 0, LK_PART_DONE)
WAITS_F(mpi_waitall_, (lp_fint * n, lp_fint *all, lp_fint *statuses, lp_fint *error),
        (n, all, statuses, error), all, *n, *n, LK_PART_DONE)
WAITS_F(mpi_start_, (lp_fint * request, lp_fint *error), (request, error), request, 1, 1,
        LK_PART_START)
WAITS_F(mpi_startall_, (lp_fint * n, lp_fint *all, lp_fint *error), (n, all, error), all, *n, *n,
        LK_PART_START)

/* Fortran counts from 1. */
void mpi_waitany_(lp_fint *n, lp_fint *all, lp_fint *index, lp_fint *status, lp_fint *error);
LP_EXPORT void mpi_waitany_(lp_fint *n, lp_fint *all, lp_fint *index, lp_fint *status,
                            lp_fint *error) {
	LP_REAL(mpi_waitany_)
	struct lp_waits w;
	begin_waiting_fortran(&w, all, *n, LK_PART_DONE);
	w.statuses = NULL;
	real(n, all, index, status, error);
	int which = *index - 1;
	end_waiting(&w, &which, *error == 0 ? 1 : 0, LK_PART_DONE);
}

/* ---- freeing communicators ---- */

#define FREES(name)                       \
	int name(lp_handle *comm);            \
	LP_EXPORT int name(lp_handle *comm) { \
		LP_REAL(name)                     \
		forget_comm(*comm);               \
		return real(comm);                \
	}
FREES(MPI_Comm_free)
FREES(MPI_Comm_disconnect)
