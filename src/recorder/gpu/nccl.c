/* nccl.c: records of NCCL: communicators as numbers that join the processes of a job, collectives
 * and messages on streams, groups of calls.
 *
 * A communicator that ranks make together has a name that all of them can work out: a hash of the
 * unique id, or of the parent's name, the number of the split, and the colour. Each member writes
 * its rank of the world into the file of that name, so that the reader knows the members without a
 * message being sent.
 *
 * Calls between ncclGroupStart and ncclGroupEnd reach the device together: they are one piece of
 * work of each stream. */
#include "recorder/gpu/gpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	GROUPS = 1 << 10,
	QUEUED = 256,
	MAKING = 64,
	IN_PROGRESS = 7,
	MOST_RANKS = 1 << 20,
	NO_COLOR = -1
};
enum {
	FREE_PLACE,
	TAKEN,
	LIVE
};

/* ---- the library below ---- */

static void *library; /* that the stand-in for libnccl.so.2 opened */

/* The library named libnccl.so.2 that stands in for the real one (nccl_shim.c) says which that is.
 */
void lockstep_probe_nccl_library(void *handle);
LP_EXPORT void lockstep_probe_nccl_library(void *handle) {
	library = handle;
}

void *lp_nccl_symbol(const char *name) {
	int code = errno;
	void *found = library ? dlsym(library, name) : dlsym(RTLD_NEXT, name);
	void *loaded = found || library ? NULL : dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
	if (loaded) found = dlsym(loaded, name), dlclose(loaded);
	dlerror();
	errno = code;
	return found;
}

static int element_bytes(int type) {
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

/* NCCL itself tells of its work (profiler.c); the wrappers are silent. */
static bool by_plugin(void) {
	static enum {
		UNKNOWN,
		YES,
		NO
	} known;
	if (known == UNKNOWN) {
		const char *said = getenv("LOCKSTEP_RECORD_NCCL_BY");
		known = said && strcmp(said, "plugin") == 0 ? YES : NO;
	}
	return known == YES;
}

/* ---- communicators ---- */

static lp_nccl_group groups[GROUPS];
static uint32_t group_count;
static bool world_from_nccl;

/* A communicator that a call is about to make. */
struct making {
	void **out;
	uint64_t hash;
	int32_t ranks, rank;
};

/* Of each thread: what waits for the end of a group. */
struct queue {
	uint32_t count, made;
	struct {
		lk_record_entry record;
		void *stream;
	} call[QUEUED];
	struct making making[MAKING];
};
static __thread int depth __attribute__((tls_model("initial-exec")));
static __thread struct queue *queued __attribute__((tls_model("initial-exec")));

static struct queue *own_queue(void) {
	if (queued) return queued;
	void *room =
		mmap(NULL, sizeof *queued, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return queued = room == MAP_FAILED ? NULL : room;
}

void lp_nccl_reset(void) {
	memset(groups, 0, sizeof groups);
	group_count = 0;
	world_from_nccl = false;
	depth = 0;
	if (queued) queued->count = queued->made = 0;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
	const unsigned char *at = bytes;
	for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}
static uint64_t hash_of(const void *bytes, size_t size) {
	return mix(UINT64_C(0xcbf29ce484222325), bytes, size);
}

static lp_nccl_group *find_group(const void *comm) {
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t state = __atomic_load_n(&groups[i].state, __ATOMIC_ACQUIRE);
		if (state == LIVE && groups[i].key == (uint64_t)(uintptr_t)comm) return &groups[i];
		if (i > group_count && state == FREE_PLACE) return NULL;
	}
	return NULL;
}

static lp_nccl_group *add_group(void *comm, const struct making *m) {
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t free = FREE_PLACE;
		lp_nccl_group *group = &groups[i];
		if (!__atomic_compare_exchange_n(&group->state, &free, TAKEN, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_RELAXED))
			continue;
		uint32_t number = LP_FIRST_GROUP + __atomic_add_fetch(&group_count, 1, __ATOMIC_RELAXED);
		*group = (lp_nccl_group){.key = (uint64_t)(uintptr_t)comm,
		                         .state = TAKEN,
		                         .number = number,
		                         .ranks = m->ranks,
		                         .rank = m->rank,
		                         .hash = m->hash};
		__atomic_store_n(&group->state, LIVE, __ATOMIC_RELEASE);
		return group;
	}
	return NULL;
}

/* Rank and size of the world: as the launcher says it (torchrun's names), else those of the largest
 * communicator. */
static void learn_world(int ranks, int rank) {
	lk_recording_head *head = lp_state.recorder.head;
	const char *of = getenv("WORLD_SIZE"), *own = getenv("RANK");
	long world = of ? strtol(of, NULL, 10) : 0, number = own ? strtol(own, NULL, 10) : -1;
	if (lp_nccl_poses()) world = lp_mode.world, number = lp_mode.rank;
	__atomic_fetch_or(&head->seen, LK_RECORDED_NCCL, __ATOMIC_RELAXED);
	if (head->rank >= 0 && !world_from_nccl) return;
	bool said = world >= ranks && world <= MOST_RANKS && number >= 0 && number < world;
	if (!said && ranks <= head->world) return;
	head->rank = said ? (int32_t)number : rank, head->world = said ? (int32_t)world : ranks;
	world_from_nccl = !said;
}

/* Own place in the file of the members. */
static void write_member(uint64_t hash, int rank) {
	char path[PATH_MAX];
	int32_t number = lp_state.recorder.head->rank + 1;
	if (rank < 0 || rank >= MOST_RANKS || number <= 0) return;
	int length = snprintf(path, sizeof path, "%s/%016llx" LK_GROUP_ENDING, lp_state.folder,
	                      (unsigned long long)hash);
	if (length >= (int)sizeof path) return;
	int fd =
		(int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) return;
	long wrote =
		syscall(SYS_pwrite64, fd, &number, sizeof number, (off_t)rank * (off_t)sizeof number);
	if (wrote != sizeof number) lp_state.recorder.head->dropped++;
	syscall(SYS_close, fd);
}

void lp_nccl_tell_group(uint32_t number, uint64_t hash, int ranks, int rank) {
	char name[32];
	learn_world(ranks, rank);
	write_member(hash, rank);
	snprintf(name, sizeof name, "#%016llx", (unsigned long long)hash);
	lk_record_entry record = {
		.object = number, .start_ns = lp_now(), .comm = {.peer = ranks, .tag = rank}};
	lp_text(&record, LK_RECORD_GROUP, name);
}

static int ask(const char *name, void *comm) {
	int (*real)(void *, int *) = (int (*)(void *, int *))(uintptr_t)lp_nccl_symbol(name);
	int value = -1;
	return real && real(comm, &value) == 0 ? value : -1;
}

/* When it is first used: of one that is not yet complete (non-blocking) nothing could be asked
 * before. */
static void tell_group(lp_nccl_group *group, void *comm) {
	char ranks[LK_TEXT_MOST];
	if (group->told) return;
	group->told = true;
	if (group->ranks < 0) group->ranks = ask("ncclCommCount", comm);
	if (group->rank < 0) group->rank = ask("ncclCommUserRank", comm);
	lp_nccl_posed *posed = lp_nccl_posed_find(comm);
	if (!posed || !posed->stride) {
		lp_nccl_tell_group(group->number, group->hash, group->ranks, group->rank);
		return;
	}
	learn_world(group->ranks, group->rank);
	lp_nccl_posed_list(posed, ranks, sizeof ranks);
	lk_record_entry record = {.object = group->number,
	                          .start_ns = lp_now(),
	                          .comm = {.peer = group->ranks, .tag = group->rank}};
	lp_text(&record, LK_RECORD_GROUP, ranks);
}

static lp_nccl_group *group_of(void *comm) {
	lp_nccl_group *group = comm ? find_group(comm) : NULL;
	/* made before recording began */
	if (!group && comm)
		group = add_group(
			comm, &(struct making){.hash = hash_of(&comm, sizeof comm), .ranks = -1, .rank = -1});
	if (group) tell_group(group, comm);
	return group;
}

/* ---- collectives and messages ---- */

static int64_t bytes_of(const lp_nccl_call *call) {
	int64_t bytes,
		times = call->all && call->group && call->group->ranks > 0 ? call->group->ranks : 1;
	if (call->count > INT64_MAX ||
	    __builtin_mul_overflow((int64_t)call->count, (int64_t)call->element, &bytes) ||
	    __builtin_mul_overflow(bytes, times, &bytes))
		return 0;
	return bytes;
}

bool lp_nccl_begin(lp_nccl_call *call) {
	call->on = !by_plugin() && lp_enter();
	if (!call->on) return false;
	call->element = element_bytes(call->type);
	call->group = group_of(call->comm);
	call->bytes = bytes_of(call);
	call->on_stream = lp_gpu_stream(call->stream);
	if (depth == 0 && call->on_stream) {
		call->serial = lp_gpu_serial();
		call->begin = lp_marks_begin(call->on_stream, call->stream);
	}
	call->start = lp_now();
	if (depth == 0) lp_cupti_push(call->serial);
	bool done = lp_nccl_stands_in(call);
	if (!done && depth == 0) lp_nccl_hold(call->stream);
	return done;
}

static void fill(const lp_nccl_call *call, lk_record_entry *entry, uint32_t name, int64_t end) {
	*entry = (lk_record_entry){.thread = lp_thread.place.thread,
	                           .object = call->group ? call->group->number : 0,
	                           .start_ns = call->start,
	                           .end_ns = end,
	                           .bytes = call->bytes};
	entry->comm.request = call->serial;
	entry->comm.peer = call->peer, entry->comm.from = -1;
	entry->comm.tag = call->on_stream ? (int32_t)call->on_stream->number : 0;
	entry->comm.part = LK_PART_ENQUEUE, entry->comm.what = call->what;
	entry->comm.element_bytes = (uint16_t)call->element;
	entry->comm.call = name;
}

static void publish(const lk_record_entry *filled) {
	lk_record_entry *record = lp_next();
	if (!record) return;
	uint16_t thread = record->thread;
	memcpy((char *)record + sizeof record->kind, (const char *)filled + sizeof record->kind,
	       sizeof *record - sizeof record->kind);
	record->thread = thread;
	lp_publish(record, LK_RECORD_COMM);
}

void lp_nccl_end(lp_nccl_call *call) {
	lk_record_entry record;
	if (!call->on) return;
	int code = errno;
	uint32_t name = lp_name(call->number, call->epoch, call->name);
	fill(call, &record, name, lp_now());
	if (depth == 0) lp_cupti_pop();
	struct queue *queue = depth ? own_queue() : NULL;
	if (call->begin)
		lp_marks_end(call->on_stream, call->stream, call->begin, LK_DEVICE_COMM, call->serial,
		             call->bytes);
	if (call->result == 0 && !depth) publish(&record);
	else if (call->result == 0 && queue && queue->count < QUEUED) {
		queue->call[queue->count].record = record;
		queue->call[queue->count++].stream = call->stream;
	} else if (call->result == 0)
		__atomic_fetch_add(&lp_state.recorder.head->dropped, 1, __ATOMIC_RELAXED);
	lp_leave();
	errno = code;
}

/* ---- groups of calls ---- */

enum {
	MOST_STREAMS = 16
};

/* The streams of a group's calls: one piece of work each. */
struct together {
	int count;
	struct {
		lp_stream *stream;
		void *handle, *begin;
		uint64_t serial;
		int64_t bytes;
	} at[MOST_STREAMS];
	int64_t start;
	bool on;
};

static int place_of(struct together *together, void *handle) {
	int i = 0;
	lp_stream *stream = lp_gpu_stream(handle);
	while (i < together->count && together->at[i].stream != stream) i++;
	if (!stream || i == MOST_STREAMS) return -1;
	if (i < together->count) return i;
	together->count++;
	together->at[i].stream = stream, together->at[i].handle = handle;
	together->at[i].serial = lp_gpu_serial();
	together->at[i].begin = lp_marks_begin(stream, handle);
	lp_nccl_hold(handle);
	return i;
}

static void begin_together(struct together *together) {
	*together = (struct together){.on = depth == 1 && queued && (queued->count || queued->made) &&
	                                    lp_enter()};
	for (uint32_t i = 0; together->on && i < queued->count; i++) {
		int at = place_of(together, queued->call[i].stream);
		if (at < 0) continue;
		queued->call[i].record.comm.request = together->at[at].serial;
		together->at[at].bytes += queued->call[i].record.bytes;
	}
	together->start = together->on ? lp_now() : 0;
	if (together->on) lp_cupti_push(together->count ? together->at[0].serial : 0);
}

static void made(struct making *m) {
	if (*m->out && !find_group(*m->out)) add_group(*m->out, m);
}

static void end_together(struct together *together, int result) {
	if (!together->on) return;
	lp_cupti_pop();
	for (int i = 0; i < together->count; i++)
		if (together->at[i].begin)
			lp_marks_end(together->at[i].stream, together->at[i].handle, together->at[i].begin,
			             LK_DEVICE_COMM, together->at[i].serial, together->at[i].bytes);
	bool good = result == 0 || result == IN_PROGRESS;
	for (uint32_t i = 0; good && i < queued->count; i++) publish(&queued->call[i].record);
	for (uint32_t i = 0; good && i < queued->made; i++) made(&queued->making[i]);
	queued->count = queued->made = 0;
	lp_leave();
}

static void tell_call(uint32_t *number, uint32_t *epoch, const char *name,
                      const lp_nccl_group *group, int64_t start) {
	uint32_t called = lp_name(number, epoch, name);
	publish(&(lk_record_entry){
		.object = group ? group->number : 0,
		.start_ns = start,
		.end_ns = lp_now(),
		.comm = {
			.peer = -1, .from = -1, .part = LK_PART_WHOLE, .what = LK_WHAT_OTHER, .call = called}});
}

static int group_end(int (*real)(void), const char *name) {
	static uint32_t number, epoch;
	struct together t;
	begin_together(&t);
	int result = real ? real() : LP_NCCL_ABSENT;
	if (t.on) tell_call(&number, &epoch, name, NULL, t.start);
	end_together(&t, result);
	if (depth) depth--;
	return result;
}

#define BOTH(kind, name, ...) kind(nccl##name, __VA_ARGS__) kind(pnccl##name, __VA_ARGS__)
#define STARTS(name, ...)                            \
	int name(void);                                  \
	LP_EXPORT int name(void) {                       \
		LP_NCCL_REAL(name)                           \
		int result = real ? real() : LP_NCCL_ABSENT; \
		depth += result == 0;                        \
		return result;                               \
	}
#define ENDS(name, ...)                         \
	int name(void);                             \
	LP_EXPORT int name(void) {                  \
		LP_NCCL_REAL(name)                      \
		return group_end(real, "ncclGroupEnd"); \
	}
BOTH(STARTS, GroupStart, 0)
BOTH(ENDS, GroupEnd, 0)

#define SIMULATES(name, ...)                                                   \
	int name(void *info);                                                      \
	LP_EXPORT int name(void *info) {                                           \
		LP_NCCL_REAL(name)                                                     \
		if (depth && --depth == 0 && queued) queued->count = queued->made = 0; \
		return real ? real(info) : LP_NCCL_ABSENT;                             \
	}
BOTH(SIMULATES, GroupSimulateEnd, 0)

/* ---- making communicators ---- */

/* What NCCL reads and asks of the runtime while it begins is its own affair. */
struct beginning {
	bool was;
	int64_t start;
};

static struct beginning begin_making(void) {
	lp_arm();
	struct beginning b = {lp_thread.busy, lp_state.on ? lp_now() : 0};
	lp_thread.busy = true;
	return b;
}

static void end_making(struct beginning b, struct making m, int result, uint32_t *number,
                       uint32_t *epoch, const char *name) {
	lp_thread.busy = b.was;
	if ((result != 0 && result != IN_PROGRESS) || by_plugin() || !lp_enter()) return;
	struct queue *queue = depth ? own_queue() : NULL;
	if (queue && queue->made < MAKING) queue->making[queue->made++] = m;
	else if (!depth) made(&m);
	lp_nccl_group *group = !depth && *m.out ? find_group(*m.out) : NULL;
	if (group && group->ranks > 0 && group->rank >= 0) tell_group(group, *m.out);
	tell_call(number, epoch, name, group, b.start);
	lp_leave();
}

/* As-rank: a communicator that is none of the library's. */
static int posed(void **out, void *made_one) {
	*out = made_one;
	return made_one ? 0 : LP_NCCL_ABSENT;
}

#define MAKES(name, parameters, arguments, ...)                                  \
	int name parameters;                                                         \
	LP_EXPORT int name parameters {                                              \
		static uint32_t number, epoch;                                           \
		LP_NCCL_REAL(name)                                                       \
		struct beginning b = begin_making();                                     \
		struct making m = __VA_ARGS__;                                           \
		int result = lp_nccl_poses() ? posed(out, lp_nccl_pose(m.ranks, m.rank)) \
		             : real          ? real arguments                            \
		                             : LP_NCCL_ABSENT;                                    \
		end_making(b, m, result, &number, &epoch, #name);                        \
		return result;                                                           \
	}
BOTH(MAKES, CommInitRank, (void **out, int ranks, lp_nccl_id id, int rank), (out, ranks, id, rank),
     {out, hash_of(&id, sizeof id), ranks, rank})
BOTH(MAKES, CommInitRankConfig, (void **out, int ranks, lp_nccl_id id, int rank, void *config),
     (out, ranks, id, rank, config), {out, hash_of(&id, sizeof id), ranks, rank})
BOTH(MAKES, CommInitRankScalable,
     (void **out, int ranks, int rank, int count, lp_nccl_id *ids, void *config),
     (out, ranks, rank, count, ids, config),
     {out, hash_of(ids, count > 0 ? sizeof *ids : 0), ranks, rank})

/* The part of a communicator: all members of the part know the key. */
static struct making part_of(void *comm, void **out, const void *key, size_t size) {
	lp_nccl_group *parent = lp_state.on ? find_group(comm) : NULL;
	struct making m = {out, 0, -1, -1};
	if (!parent) return m;
	uint32_t number = ++parent->children;
	m.hash = mix(parent->hash, &number, sizeof number);
	m.hash = mix(m.hash, key, size);
	return m;
}

/* What a posed communicator is asked; true: it was one. */
static bool pose_split(void *comm, int color, int key, struct making *m, int *result) {
	lp_nccl_posed *parent = lp_nccl_posed_find(comm), *child;
	if (!parent) return false;
	*m->out = NULL, *result = 0;
	if (color == NO_COLOR) return true;
	*result = posed(m->out, lp_nccl_pose_part(parent, color, key));
	if ((child = lp_nccl_posed_find(*m->out)) != NULL)
		m->ranks = child->ranks, m->rank = child->rank;
	return true;
}

static bool pose_shrink(void *comm, const int *without, int count, struct making *m, int *result) {
	lp_nccl_posed *parent = lp_nccl_posed_find(comm), *child;
	if (!parent) return false;
	*result = posed(m->out, lp_nccl_pose_rest(parent, without, count));
	if ((child = lp_nccl_posed_find(*m->out)) != NULL)
		m->ranks = child->ranks, m->rank = child->rank;
	return true;
}

#define SPLITS(name, ...)                                                          \
	int name(void *comm, int color, int key, void **out, void *config);            \
	LP_EXPORT int name(void *comm, int color, int key, void **out, void *config) { \
		static uint32_t number, epoch;                                             \
		LP_NCCL_REAL(name)                                                         \
		struct beginning b = begin_making();                                       \
		struct making m = part_of(comm, out, &color, sizeof color);                \
		int result;                                                                \
		if (!pose_split(comm, color, key, &m, &result))                            \
			result = real ? real(comm, color, key, out, config) : LP_NCCL_ABSENT;  \
		end_making(b, m, result, &number, &epoch, #name);                          \
		return result;                                                             \
	}
BOTH(SPLITS, CommSplit, 0)

#define SHRINKS(name, ...)                                                                         \
	int name(void *comm, int *without, int count, void **out, void *config, int flags);            \
	LP_EXPORT int name(void *comm, int *without, int count, void **out, void *config, int flags) { \
		static uint32_t number, epoch;                                                             \
		LP_NCCL_REAL(name)                                                                         \
		struct beginning b = begin_making();                                                       \
		struct making m =                                                                          \
			part_of(comm, out, without, count > 0 ? (size_t)count * sizeof *without : 0);          \
		int result;                                                                                \
		if (!pose_shrink(comm, without, count, &m, &result))                                       \
			result = real ? real(comm, without, count, out, config, flags) : LP_NCCL_ABSENT;       \
		end_making(b, m, result, &number, &epoch, #name);                                          \
		return result;                                                                             \
	}
BOTH(SHRINKS, CommShrink, 0)

/* All communicators of one process: each has a rank. */
#define MAKES_ALL(name, ...)                                                                 \
	int name(void **out, int count, const int *devices);                                     \
	LP_EXPORT int name(void **out, int count, const int *devices) {                          \
		static uint32_t number, epoch;                                                       \
		LP_NCCL_REAL(name)                                                                   \
		struct beginning b = begin_making();                                                 \
		int result = real ? real(out, count, devices) : LP_NCCL_ABSENT;                      \
		uint64_t own[2] = {(uint64_t)lk_monotonic_ns(), (uint64_t)getpid()},                 \
				 hash = hash_of(own, sizeof own);                                            \
		for (int i = 0; i < count && result == 0; i++)                                       \
			end_making(b, (struct making){out + i, hash, count, i}, result, &number, &epoch, \
			           #name);                                                               \
		lp_thread.busy = b.was;                                                              \
		return result;                                                                       \
	}
BOTH(MAKES_ALL, CommInitAll, 0)

/* ---- ending them ---- */

static void forget_group(void *comm) {
	lp_nccl_group *group = lp_state.on && comm ? find_group(comm) : NULL;
	if (group && lp_enter()) {
		lp_marks_cut_all();
		lp_marks_harvest();
		lp_leave();
		lp_cupti_end();
	}
	if (group) __atomic_store_n(&group->state, FREE_PLACE, __ATOMIC_RELEASE);
}

#define FREES(name, ...)                                 \
	int name(void *comm);                                \
	LP_EXPORT int name(void *comm) {                     \
		LP_NCCL_REAL(name)                               \
		bool was = lp_thread.busy;                       \
		forget_group(comm);                              \
		if (lp_nccl_posed_find(comm)) return 0;          \
		lp_thread.busy = true;                           \
		int result = real ? real(comm) : LP_NCCL_ABSENT; \
		lp_thread.busy = was;                            \
		return result;                                   \
	}
BOTH(FREES, CommDestroy, 0)
BOTH(FREES, CommAbort, 0)
