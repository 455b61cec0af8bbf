/* nccl_comms.c: calls of NCCL that create and destroy communicators. */
#include "recorder/gpu/gpu.h"

#include <string.h>
#include <unistd.h>

enum { NO_COLOR = -1 };

/* ---- making communicators ---- */

/* NCCL's own reads and runtime calls during its initialisation are not recorded. */
struct beginning {
	bool was;
	int64_t start;
};

static struct beginning begin_comm_making(void) {
	lp_arm();
	struct beginning b = {lp_thread.busy, lp_state.on ? lp_now() : 0};
	lp_thread.busy = true;
	return b;
}

static void end_comm_making(struct beginning b, lp_nccl_making m, int result, uint32_t *number,
                            uint32_t *epoch, const char *name) {
	lp_thread.busy = b.was;
	if ((result != 0 && result != LP_NCCL_IN_PROGRESS) || lp_nccl_by_plugin() || !lp_enter())
		return;
	lp_nccl_queue *queue = lp_nccl_depth ? lp_nccl_own_queue() : NULL;
	if (queue && queue->made < LP_NCCL_MAKING) queue->making[queue->made++] = m;
	else if (!lp_nccl_depth) lp_nccl_keep_made(&m);
	lp_nccl_group *group = !lp_nccl_depth && *m.out ? lp_nccl_find_group(*m.out) : NULL;
	if (group && group->ranks > 0 && group->rank >= 0) lp_nccl_record_group(group, *m.out);
	lp_nccl_record_management(number, epoch, name, group, b.start);
	lp_leave();
}

/* As-rank: return a communicator unknown to the library. */
static int give_emulated_comm(void **out, void *made_one) {
	*out = made_one;
	return made_one ? 0 : LP_NCCL_ABSENT;
}

#define MAKES(name, parameters, arguments, ...)                                           \
	int name parameters;                                                                  \
	LP_EXPORT int name parameters {                                                       \
		static uint32_t number, epoch;                                                    \
		LP_NCCL_REAL(name)                                                                \
		struct beginning b = begin_comm_making();                                         \
		lp_nccl_making m = __VA_ARGS__;                                                   \
		int result = lp_nccl_is_emulating()                                               \
		                 ? give_emulated_comm(out, lp_nccl_emulate_comm(m.ranks, m.rank)) \
		             : real ? real arguments                                              \
		                    : LP_NCCL_ABSENT;                                             \
		end_comm_making(b, m, result, &number, &epoch, #name);                            \
		return result;                                                                    \
	}
BOTH(MAKES, CommInitRank, (void **out, int ranks, lp_nccl_id id, int rank), (out, ranks, id, rank),
     {out, lp_nccl_hash(&id, sizeof id), ranks, rank})
BOTH(MAKES, CommInitRankConfig, (void **out, int ranks, lp_nccl_id id, int rank, void *config),
     (out, ranks, id, rank, config), {out, lp_nccl_hash(&id, sizeof id), ranks, rank})
BOTH(MAKES, CommInitRankScalable,
     (void **out, int ranks, int rank, int count, lp_nccl_id *ids, void *config),
     (out, ranks, rank, count, ids, config),
     {out, lp_nccl_hash(ids, count > 0 ? sizeof *ids : 0), ranks, rank})

/* Describe a part of a communicator: all members of the part know the key. */
static lp_nccl_making describe_part(void *comm, void **out, const void *key, size_t size) {
	lp_nccl_group *parent = lp_state.on ? lp_nccl_find_group(comm) : NULL;
	lp_nccl_making m = {out, 0, -1, -1};
	if (!parent) return m;
	uint32_t number = ++parent->children;
	m.hash = lp_nccl_mix(parent->hash, &number, sizeof number);
	m.hash = lp_nccl_mix(m.hash, key, size);
	return m;
}

/* Answer for an emulated communicator; false: it is the library's. */
static bool emulate_split(void *comm, int color, int key, lp_nccl_making *making, int *result) {
	lp_nccl_emulated *parent = lp_nccl_find_emulated(comm), *child;
	if (!parent) return false;
	*making->out = NULL;
	*result = 0;
	if (color == NO_COLOR) return true;
	*result = give_emulated_comm(making->out, lp_nccl_emulate_part(parent, color, key));
	if ((child = lp_nccl_find_emulated(*making->out)) != NULL) {
		making->ranks = child->ranks;
		making->rank = child->rank;
	}
	return true;
}

static bool emulate_shrink(void *comm, const int *without, int count, lp_nccl_making *making,
                           int *result) {
	lp_nccl_emulated *parent = lp_nccl_find_emulated(comm), *child;
	if (!parent) return false;
	*result = give_emulated_comm(making->out, lp_nccl_emulate_rest(parent, without, count));
	if ((child = lp_nccl_find_emulated(*making->out)) != NULL) {
		making->ranks = child->ranks;
		making->rank = child->rank;
	}
	return true;
}

#define SPLITS(name, ...)                                                          \
	int name(void *comm, int color, int key, void **out, void *config);            \
	LP_EXPORT int name(void *comm, int color, int key, void **out, void *config) { \
		static uint32_t number, epoch;                                             \
		LP_NCCL_REAL(name)                                                         \
		struct beginning b = begin_comm_making();                                  \
		lp_nccl_making m = describe_part(comm, out, &color, sizeof color);         \
		int result;                                                                \
		if (!emulate_split(comm, color, key, &m, &result))                         \
			result = real ? real(comm, color, key, out, config) : LP_NCCL_ABSENT;  \
		end_comm_making(b, m, result, &number, &epoch, #name);                     \
		return result;                                                             \
	}
BOTH(SPLITS, CommSplit, 0)

#define SHRINKS(name, ...)                                                                         \
	int name(void *comm, int *without, int count, void **out, void *config, int flags);            \
	LP_EXPORT int name(void *comm, int *without, int count, void **out, void *config, int flags) { \
		static uint32_t number, epoch;                                                             \
		LP_NCCL_REAL(name)                                                                         \
		struct beginning b = begin_comm_making();                                                  \
		lp_nccl_making m =                                                                         \
			describe_part(comm, out, without, count > 0 ? (size_t)count * sizeof *without : 0);    \
		int result;                                                                                \
		if (!emulate_shrink(comm, without, count, &m, &result))                                    \
			result = real ? real(comm, without, count, out, config, flags) : LP_NCCL_ABSENT;       \
		end_comm_making(b, m, result, &number, &epoch, #name);                                     \
		return result;                                                                             \
	}
BOTH(SHRINKS, CommShrink, 0)

/* All communicators of one process: each has a rank. */
#define MAKES_ALL(name, ...)                                                                       \
	int name(void **out, int count, const int *devices);                                           \
	LP_EXPORT int name(void **out, int count, const int *devices) {                                \
		static uint32_t number, epoch;                                                             \
		LP_NCCL_REAL(name)                                                                         \
		struct beginning b = begin_comm_making();                                                  \
		int result = real ? real(out, count, devices) : LP_NCCL_ABSENT;                            \
		uint64_t own[2] = {(uint64_t)lk_monotonic_ns(), (uint64_t)getpid()},                       \
				 hash = lp_nccl_hash(own, sizeof own);                                             \
		for (int i = 0; i < count && result == 0; i++)                                             \
			end_comm_making(b, (lp_nccl_making){out + i, hash, count, i}, result, &number, &epoch, \
			                #name);                                                                \
		lp_thread.busy = b.was;                                                                    \
		return result;                                                                             \
	}
BOTH(MAKES_ALL, CommInitAll, 0)

/* ---- destroying them ---- */

static void forget_nccl_group(void *comm) {
	lp_nccl_group *group = lp_state.on && comm ? lp_nccl_find_group(comm) : NULL;
	if (group && lp_enter()) {
		lp_marks_cut_all();
		lp_marks_harvest();
		lp_leave();
		lp_cupti_end();
	}
	if (group) lp_nccl_forget_group(group);
}

#define FREES(name, ...)                                 \
	int name(void *comm);                                \
	LP_EXPORT int name(void *comm) {                     \
		LP_NCCL_REAL(name)                               \
		bool was = lp_thread.busy;                       \
		forget_nccl_group(comm);                         \
		if (lp_nccl_find_emulated(comm)) return 0;       \
		lp_thread.busy = true;                           \
		int result = real ? real(comm) : LP_NCCL_ABSENT; \
		lp_thread.busy = was;                            \
		return result;                                   \
	}
BOTH(FREES, CommDestroy, 0)
BOTH(FREES, CommAbort, 0)
