/* emulate_group.c: groups of the emulated world: the probe's own handles for lists of the world's
 * ranks. */
#include "recorder/emulate/emulate.h"

#include <stdlib.h>
#include <string.h>

/* The same in Open MPI and MPICH. */
enum { MOST_GROUPS = 4096, IDENTICAL = 0, SIMILAR = 2, UNEQUAL = 3 };
#ifdef LP_MPI_NUMBERS
/* No handle kind of MPICH begins with these bits, so the library never returns one. */
enum { FIRST_HANDLE = 0x08700000 };
#endif
#define UNDEFINED LP_UNDEFINED
#define PROC_NULL LP_PROC_NULL

static lp_emulated_group groups[MOST_GROUPS];
static unsigned char taken[MOST_GROUPS];

/* ---- handles ---- */

static lp_handle group_handle_at(int place) {
#ifdef LP_MPI_NUMBERS
	return FIRST_HANDLE + place;
#else
	return &groups[place];
#endif
}

static int group_index_of(lp_handle group) {
#ifdef LP_MPI_NUMBERS
	int place = group - FIRST_HANDLE;
	return place >= 0 && place < MOST_GROUPS ? place : -1;
#else
	uintptr_t at = (uintptr_t)group, first = (uintptr_t)groups;
	return at >= first && at < first + sizeof groups ? (int)((at - first) / sizeof *groups) : -1;
#endif
}

int lp_emulate_new_group(int *ranks, int size, lp_handle *out) {
	LP_ASSERT(size >= 0 && ranks != NULL);
	for (int i = 0; i < MOST_GROUPS; i++) {
		unsigned char no = 0;
		if (!__atomic_compare_exchange_n(&taken[i], &no, 1, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_RELAXED))
			continue;
		groups[i] = (lp_emulated_group){size, ranks};
		*out = group_handle_at(i);
		return 0;
	}
	lp_emulate_give_up("more than %d groups are in use", MOST_GROUPS);
}

/* The library's own groups are empty (MPI_GROUP_EMPTY), or of a communicator that is not
 * emulated. */
const lp_emulated_group *lp_emulate_group_of(lp_handle group) {
	static const lp_emulated_group empty;
	int (*size_of)(lp_handle, int *) =
		(int (*)(lp_handle, int *))(uintptr_t)lp_symbol("PMPI_Group_size");
	int place = group_index_of(group), size = 0;
	if (place >= 0 && taken[place]) return &groups[place];
	if (size_of(group, &size) == 0 && size == 0) return &empty;
	lp_emulate_give_up(
		"a group of the MPI library itself is mixed with those of the emulated world");
}

/* ---- algebra ---- */

static int find_rank_in_group(const lp_emulated_group *group, int rank) {
	for (int i = 0; i < group->size; i++)
		if (group->ranks[i] == rank) return i;
	return -1;
}

/* Mark the world's ranks in a group, for the algebra of large ones. */
static unsigned char *mark_group_members(const lp_emulated_group *group) {
	unsigned char *in = calloc((size_t)lp_emulated.world + 1, 1);
	if (!in) lp_emulate_give_up("out of memory");
	for (int i = 0; i < group->size; i++) in[group->ranks[i]] = 1;
	return in;
}

/* Ranks of `a`, then of `b`, selected by the bits of `wanted`: 1 only in a, 2 in both, 4 only in
 * b. */
static int combine_groups(lp_handle first, lp_handle second, unsigned wanted, lp_handle *out) {
	const lp_emulated_group *a = lp_emulate_group_of(first), *b = lp_emulate_group_of(second);
	unsigned char *in_a = mark_group_members(a), *in_b = mark_group_members(b);
	int *ranks = lp_emulate_new_ints(a->size + b->size), count = 0;
	for (int i = 0; i < a->size; i++)
		if (wanted & (in_b[a->ranks[i]] ? 2u : 1u)) ranks[count++] = a->ranks[i];
	for (int i = 0; i < b->size && wanted & 4; i++)
		if (!in_a[b->ranks[i]]) ranks[count++] = b->ranks[i];
	free(in_a);
	free(in_b);
	return lp_emulate_new_group(ranks, count, out);
}

static int pick_group_ranks(const lp_emulated_group *group, const unsigned char *in, bool wanted,
                            lp_handle *out) {
	int *ranks = lp_emulate_new_ints(group->size), count = 0;
	for (int i = 0; i < group->size; i++)
		if (in[i] == wanted) ranks[count++] = group->ranks[i];
	return lp_emulate_new_group(ranks, count, out);
}

static int include_in_group(const lp_emulated_group *group, int n, const int *which,
                            lp_handle *out) {
	int *ranks = lp_emulate_new_ints(n);
	for (int i = 0; i < n; i++) {
		if (which[i] < 0 || which[i] >= group->size)
			lp_emulate_give_up("rank %d does not exist in a group of %d", which[i], group->size);
		ranks[i] = group->ranks[which[i]];
	}
	return lp_emulate_new_group(ranks, n, out);
}

static int exclude_from_group(const lp_emulated_group *group, int n, const int *which,
                              lp_handle *out) {
	unsigned char *in = calloc((size_t)group->size + 1, 1);
	if (!in) lp_emulate_give_up("out of memory");
	for (int i = 0; i < n; i++)
		if (which[i] >= 0 && which[i] < group->size) in[which[i]] = 1;
	int result = pick_group_ranks(group, in, false, out);
	free(in);
	return result;
}

/* First, last, stride, as in MPI. */
static int *expand_rank_ranges(const lp_emulated_group *group, int n, const int (*range)[3],
                               int *count) {
	int *all = lp_emulate_new_ints(group->size);
	*count = 0;
	for (int i = 0; i < n; i++) {
		int stride = range[i][2];
		if (!stride) lp_emulate_give_up("a range of ranks has stride 0");
		for (int r = range[i][0]; stride > 0 ? r <= range[i][1] : r >= range[i][1]; r += stride) {
			if (*count == group->size)
				lp_emulate_give_up("ranges of ranks are longer than their group");
			all[(*count)++] = r;
		}
	}
	return all;
}

static int apply_rank_ranges(lp_handle group, int n, const int (*range)[3], bool in,
                             lp_handle *out) {
	const lp_emulated_group *of = lp_emulate_group_of(group);
	int count, *which = expand_rank_ranges(of, n, range, &count);
	int result =
		in ? include_in_group(of, count, which, out) : exclude_from_group(of, count, which, out);
	free(which);
	return result;
}

static int compare_groups(const lp_emulated_group *a, const lp_emulated_group *b) {
	if (a->size != b->size) return UNEQUAL;
	if (!a->size || memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0)
		return IDENTICAL;
	unsigned char *in = mark_group_members(a);
	int result = SIMILAR;
	for (int i = 0; i < b->size; i++)
		if (!in[b->ranks[i]]) result = UNEQUAL;
	free(in);
	return result;
}

/* Map each rank of one group to its rank in another. */
static int translate_group_ranks(lp_handle from, int n, const int *which, lp_handle to, int *out) {
	const lp_emulated_group *a = lp_emulate_group_of(from), *b = lp_emulate_group_of(to);
	int *at = lp_emulate_new_ints(lp_emulated.world);
	for (int i = 0; i < lp_emulated.world; i++) at[i] = UNDEFINED;
	for (int i = 0; i < b->size; i++) at[b->ranks[i]] = i;
	for (int i = 0; i < n; i++) {
		if (which[i] != PROC_NULL && (which[i] < 0 || which[i] >= a->size))
			lp_emulate_give_up("rank %d does not exist in a group of %d", which[i], a->size);
		out[i] = which[i] == PROC_NULL ? PROC_NULL : at[a->ranks[which[i]]];
	}
	free(at);
	return 0;
}

static int free_emulated_group(lp_handle *group) {
	int place = group_index_of(*group);
	int (*release)(lp_handle *) = (int (*)(lp_handle *))(uintptr_t)lp_symbol("PMPI_Group_free");
	if (place < 0) return release(group);
	free(groups[place].ranks);
	groups[place] = (lp_emulated_group){0, NULL};
	__atomic_store_n(&taken[place], 0, __ATOMIC_RELEASE);
#ifdef LP_MPI_NUMBERS
	*group = 0x08000000; /* MPI_GROUP_NULL */
#else
	*group = lp_variable("ompi_mpi_group_null");
#endif
	return 0;
}

static int own_rank_in_group(const lp_emulated_group *group) {
	int at = find_rank_in_group(group, lp_emulated.rank);
	return at < 0 ? UNDEFINED : at;
}

/* ---- the calls ---- */

#define EMULATED_GROUP(name, parameters, arguments, answer)   \
	int name parameters;                                      \
	LP_EXPORT int name parameters {                           \
		LP_REAL(name)                                         \
		return lp_is_emulating() ? (answer) : real arguments; \
	}

EMULATED_GROUP(MPI_Group_size, (lp_handle group, int *size), (group, size),
               (*size = lp_emulate_group_of(group)->size, 0))
EMULATED_GROUP(MPI_Group_rank, (lp_handle group, int *rank), (group, rank),
               (*rank = own_rank_in_group(lp_emulate_group_of(group)), 0))
EMULATED_GROUP(MPI_Group_translate_ranks,
               (lp_handle a, int n, const int *which, lp_handle b, int *out), (a, n, which, b, out),
               translate_group_ranks(a, n, which, b, out))
EMULATED_GROUP(MPI_Group_compare, (lp_handle a, lp_handle b, int *result), (a, b, result),
               (*result = compare_groups(lp_emulate_group_of(a), lp_emulate_group_of(b)), 0))
EMULATED_GROUP(MPI_Group_union, (lp_handle a, lp_handle b, lp_handle *out), (a, b, out),
               combine_groups(a, b, 1 | 2 | 4, out))
EMULATED_GROUP(MPI_Group_intersection, (lp_handle a, lp_handle b, lp_handle *out), (a, b, out),
               combine_groups(a, b, 2, out))
EMULATED_GROUP(MPI_Group_difference, (lp_handle a, lp_handle b, lp_handle *out), (a, b, out),
               combine_groups(a, b, 1, out))
EMULATED_GROUP(MPI_Group_incl, (lp_handle group, int n, const int *which, lp_handle *out),
               (group, n, which, out), include_in_group(lp_emulate_group_of(group), n, which, out))
EMULATED_GROUP(MPI_Group_excl, (lp_handle group, int n, const int *which, lp_handle *out),
               (group, n, which, out),
               exclude_from_group(lp_emulate_group_of(group), n, which, out))
EMULATED_GROUP(MPI_Group_range_incl, (lp_handle group, int n, int (*range)[3], lp_handle *out),
               (group, n, range, out),
               apply_rank_ranges(group, n, (const int (*)[3])range, true, out))
EMULATED_GROUP(MPI_Group_range_excl, (lp_handle group, int n, int (*range)[3], lp_handle *out),
               (group, n, range, out),
               apply_rank_ranges(group, n, (const int (*)[3])range, false, out))
EMULATED_GROUP(MPI_Group_free, (lp_handle * group), (group), free_emulated_group(group))
