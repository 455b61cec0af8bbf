/* nccl_emulate.c: one process that runs as one rank of many, for NCCL.
 *
 * Communicators are entries of a table. Which ranks are in a part of the world depends on the
 * colours of the others, and copies of a process that uses a device cannot be run to find them. So
 * they are inferred from the usual elements of layouts: blocks of neighbours, and rows of ranks at
 * equal distance.
 *
 *     by size and rank       the block, else the row, in which this rank has that place
 *     colour of a split      rank / size = colour: a block; rank % distance = colour: a row. Of
 *                            several that fit, the one that divides the parent wholly, together
 *                            with the parts made before
 *
 * If that is ambiguous (rank 0 fits everywhere), LOCKSTEP_RECORD_SPLITS decides, with one item per
 * split in the order in which the program makes them: "2,/2" is blocks of 2, then every second
 * rank. The choice is in the recording. */
#include "recorder/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MOST = 1024,
	SOFTWARE = 70,
	MOST_LISTED = 1 << 10, /* longer lists use first:last:stride */
	LIST_MARGIN = 32
};

static lp_nccl_emulated table[MOST];
static uint32_t count;
static int splits; /* so far */

lp_nccl_emulated *lp_nccl_find_emulated(const void *comm) {
	uintptr_t at = (uintptr_t)comm, first = (uintptr_t)table;
	return at >= first && at < first + sizeof table ? &table[(at - first) / sizeof *table] : NULL;
}

static void *add_emulated_comm(lp_nccl_emulated what) {
	uint32_t at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
	if (at >= MOST) return NULL;
	what.product = 1;
	table[at] = what;
	return &table[at];
}

static _Noreturn void give_up_on_split(const lp_nccl_emulated *parent, int color) {
	char text[200];
	int length = snprintf(text, sizeof text,
	                      "lockstep: as rank %d of %d: which of %d ranks have colour %d in split "
	                      "%d is not known; give it with --splits\n",
	                      lp_mode.rank, lp_mode.world, parent->ranks, color, splits);
	if (syscall(SYS_write, 2, text, (size_t)length) < 0) _exit(SOFTWARE);
	_exit(SOFTWARE);
}

/* ---- parts ---- */

/* Blocks of `size` and rows at `distance` of `ranks` ranks, as parts of a parent. */
static lp_nccl_emulated block_of_ranks(const lp_nccl_emulated *of, int size) {
	LP_ASSERT(size > 0);
	int first = of->rank / size * size;
	return (lp_nccl_emulated){size, of->rank - first, of->first + first * of->stride, of->stride,
	                          1};
}
static lp_nccl_emulated row_of_ranks(const lp_nccl_emulated *of, int distance) {
	LP_ASSERT(distance > 0 && distance <= of->ranks);
	return (lp_nccl_emulated){of->ranks / distance, of->rank / distance,
	                          of->first + of->rank % distance * of->stride, of->stride * distance,
	                          1};
}

void *lp_nccl_emulate_comm(int ranks, int rank) {
	lp_nccl_emulated world = {lp_mode.world, lp_mode.rank, 0, 1, 1},
					 unknown = {ranks, rank, 0, 0, 1};
	if (ranks < 1 || rank < 0 || rank >= ranks) return NULL;
	if (ranks > world.ranks || world.ranks % ranks) return add_emulated_comm(unknown);
	lp_nccl_emulated near = block_of_ranks(&world, ranks),
					 far = row_of_ranks(&world, world.ranks / ranks);
	if (near.rank == rank) return add_emulated_comm(near);
	return add_emulated_comm(far.rank == rank ? far : unknown);
}

/* Item `at` of LOCKSTEP_RECORD_SPLITS; 0 none, negative: a distance. */
static int split_setting_at(int at) {
	const char *list = getenv("LOCKSTEP_RECORD_SPLITS");
	for (; list && at > 1; at--) {
		list = strchr(list, ',');
		if (list) list++;
	}
	bool far = list && *list == '/';
	long value = list ? strtol(list + far, NULL, 10) : 0;
	if (value < 1 || value > lp_mode.world) return 0;
	return (int)(far ? -value : value);
}

/* Infer the only part that fits, or the only one of those that divide the parent wholly. */
static bool infer_part(const lp_nccl_emulated *parent, int color, lp_nccl_emulated *out) {
	int fits = 0, whole = 0;
	for (int size = 1; size <= parent->ranks; size++) {
		bool divides = parent->product > 1 && (int64_t)parent->product * size == parent->ranks;
		if (parent->ranks % size) continue;
		for (int far = 0; far < 2 && !(far && (size == 1 || size == parent->ranks)); far++) {
			int distance = parent->ranks / size;
			if ((far ? parent->rank % distance : parent->rank / size) != color) continue;
			if (divides ? whole == 0 : whole + fits == 0)
				*out = far ? row_of_ranks(parent, distance) : block_of_ranks(parent, size);
			fits++;
			whole += divides;
		}
	}
	return whole ? whole == 1 : fits == 1;
}

void *lp_nccl_emulate_part(lp_nccl_emulated *parent, int color, int key) {
	lp_nccl_emulated part;
	int size = split_setting_at(++splits);
	(void)key; /* orders the ranks; here they keep their own order */
	if (size && parent->ranks % size) give_up_on_split(parent, color);
	if (size) part = size < 0 ? row_of_ranks(parent, -size) : block_of_ranks(parent, size);
	else if (!infer_part(parent, color, &part)) give_up_on_split(parent, color);
	if (parent->product <= parent->ranks / part.ranks) parent->product *= part.ranks;
	return add_emulated_comm(part);
}

void *lp_nccl_emulate_rest(const lp_nccl_emulated *parent, const int *without, int left_out) {
	int before = 0;
	for (int i = 0; i < left_out; i++) before += without[i] < parent->rank;
	return add_emulated_comm(
		(lp_nccl_emulated){parent->ranks - left_out, parent->rank - before, 0, 0, 1});
}

/* The ranks of a communicator. */
void lp_nccl_list_emulated(const lp_nccl_emulated *comm, char *out, size_t room) {
	if (comm->ranks > MOST_LISTED) {
		snprintf(out, room, "[%d:%d:%d]", comm->first,
		         comm->first + (comm->ranks - 1) * comm->stride, comm->stride);
		return;
	}
	lp_rank_list list = lp_rank_list_begin(out, room, LIST_MARGIN);
	for (int i = 0; i < comm->ranks; i++) lp_rank_list_add(&list, comm->first + i * comm->stride);
	lp_rank_list_end(&list);
}

/* ---- queries of communicators ---- */

#define ASKS(name, parameters, arguments, answer)              \
	int name parameters;                                       \
	LP_EXPORT int name parameters {                            \
		LP_NCCL_REAL(name)                                     \
		lp_nccl_emulated *known = lp_nccl_find_emulated(comm); \
		if (known) {                                           \
			answer;                                            \
			return 0;                                          \
		}                                                      \
		return real ? real arguments : LP_NCCL_ABSENT;         \
	}
BOTH(ASKS, CommCount, (const void *comm, int *out), (comm, out), *out = known->ranks)
BOTH(ASKS, CommUserRank, (const void *comm, int *out), (comm, out), *out = known->rank)
BOTH(ASKS, CommCuDevice, (const void *comm, int *out), (comm, out), *out = 0)
BOTH(ASKS, CommGetAsyncError, (void *comm, int *out), (comm, out), *out = 0)
BOTH(ASKS, CommFinalize, (void *comm), (comm), (void)known)
BOTH(ASKS, CommRevoke, (void *comm, int flags), (comm, flags), (void)known)
BOTH(ASKS, CommRegister, (void *comm, void *buffer, size_t size, void **out),
     (comm, buffer, size, out), *out = buffer)
BOTH(ASKS, CommDeregister, (void *comm, void *handle), (comm, handle), (void)known)
BOTH(ASKS, CommWindowRegister, (void *comm, void *buffer, size_t size, void **out, int flags),
     (comm, buffer, size, out, flags), *out = buffer)
BOTH(ASKS, CommWindowDeregister, (void *comm, void *window), (comm, window), (void)known)
BOTH(ASKS, RedOpCreatePreMulSum, (int *op, void *scalar, int type, int where, void *comm),
     (op, scalar, type, where, comm), *op = 0)
BOTH(ASKS, RedOpDestroy, (int op, void *comm), (op, comm), (void)known)

/* The real one would look for a network. */
#define GIVES_ID(name, ...)                                                    \
	int name(lp_nccl_id *out);                                                 \
	LP_EXPORT int name(lp_nccl_id *out) {                                      \
		static uint32_t given;                                                 \
		LP_NCCL_REAL(name)                                                     \
		if (!lp_nccl_is_emulating()) return real ? real(out) : LP_NCCL_ABSENT; \
		memset(out, 0, sizeof *out);                                           \
		uint32_t number = __atomic_add_fetch(&given, 1, __ATOMIC_RELAXED);     \
		memcpy(out->bytes, &number, sizeof number);                            \
		return 0;                                                              \
	}
BOTH(GIVES_ID, GetUniqueId, 0)
