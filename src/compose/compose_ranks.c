/* compose_ranks.c: chooses the recorded rank that stands in for each rank of the job.
 *
 * A recorded rank q can stand in for r if everything fits: each message that q sends or receives,
 * translated to r, has a counterpart at its peer; every communicator that q uses, translated to r,
 * has members that do the same in it. What does not fit is removed until nothing changes any more
 * (arc consistency); of the remaining ones the nearest recorded rank below r is taken, else the
 * nearest above. If these do not fit one another, they are chosen one after another, and what each
 * choice rules out is removed before the next.
 *
 * Translation. A communicator's ranks are known if the recordings hold the division that it came
 * from (which has the other parts of a split). Otherwise the recorded ranks' own pattern is
 * extrapolated: size n, stride s, first rank a multiple of n s plus the remainder below s. A peer
 * keeps its distance in the communicator; around its end only if the recorded rank shifts, that is,
 * receives from one side what it sends to the other: otherwise the ends of a pipeline would be
 * taken for a ring. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "compose/compose.h"
#include "base/stats.h"

/* What q exchanges with one peer: all messages of one direction. */
struct edge {
	uint32_t group;
	int32_t peer; /* in the communicator */
	bool sends;
	bool around;   /* a shift: what goes to one side comes from the other, so that it may wrap
	                  around */
	uint64_t what; /* hash of sizes and tags, in any order */
};

/* What q does in one communicator with all its members. */
struct duty {
	uint32_t group;
	uint64_t what; /* hash, in order */
};

struct doings {
	LK_VEC(struct edge) edges;
	LK_VEC(struct duty) duties;
};

struct searcher {
	lk_composer *composer;
	struct doings *doings; /* [recorded] */
	bool *fits;            /* [world * recorded] */
	uint32_t count;        /* recorded */
	/* cached answers about communicators in this round, by hash */
	struct answer {
		const int32_t *ranks;
		uint64_t what;
		uint8_t known; /* 1 all members can, 2 not */
	} answer[1 << 14];
};

/* ---- communicators ---- */

static lk_status find_or_add_division(lk_composer *composer, uint64_t division,
                                      lk_job_division **out) {
	for (size_t i = 0; i < composer->divisions.count; i++)
		if (composer->divisions.at[i].division == division) {
			*out = &composer->divisions.at[i];
			return LK_OK;
		}
	if (!lk_push(&composer->divisions)) return lk_oom(composer->err);
	*out = lk_last(&composer->divisions);
	**out = (lk_job_division){division, LK_ARRAY(&composer->arena, lk_job_member, composer->world)};
	return (*out)->member ? LK_OK : lk_oom(composer->err);
}

/* List all parts of all recorded divisions. */
static lk_status list_recorded_divisions(lk_composer *composer) {
	lk_job_division *division = NULL;
	for (size_t q = 0; q < composer->recorded.count; q++) {
		const lk_emulated_step *step = &composer->recorded.at[q]->step;
		for (size_t g = 0; g < step->groups.count; g++) {
			const lk_emulated_group *group = &step->groups.at[g];
			LK_TRY(find_or_add_division(composer, group->division, &division));
			for (int32_t i = 0; i < group->size; i++)
				if (!division->member[group->ranks[i]].ranks)
					division->member[group->ranks[i]] =
						(lk_job_member){group->ranks, group->size, i};
		}
	}
	return LK_OK;
}

/* The ranks first, first + stride, ...: the same list for the same arguments. */
static lk_status find_or_add_pattern(lk_composer *composer, const lk_emulated_group *group,
                                     int32_t first, int32_t stride, const int32_t **out) {
	for (size_t i = 0; i < composer->patterns.count; i++)
		if (composer->patterns.at[i].of == group && composer->patterns.at[i].first == first) {
			*out = composer->patterns.at[i].ranks;
			return LK_OK;
		}
	int32_t *ranks = LK_ARRAY(&composer->arena, int32_t, group->size);
	if (!ranks || !lk_push(&composer->patterns)) return lk_oom(composer->err);
	for (int32_t i = 0; i < group->size; i++) ranks[i] = first + i * stride;
	*lk_last(&composer->patterns) = (lk_job_pattern){group, first, ranks};
	*out = ranks;
	return LK_OK;
}

/* Extrapolate the pattern of a group. */
static lk_status extend_group_pattern(lk_composer *composer, const lk_emulated_group *group,
                                      int32_t rank, lk_job_member *out) {
	int32_t n = group->size, stride = n > 1 ? group->ranks[1] - group->ranks[0] : 1;
	*out = (lk_job_member){.at = -1};
	if (stride < 1 || (int64_t)n * stride > composer->world) return LK_OK;
	for (int32_t i = 0; i < n; i++) {
		int32_t block = n * stride,
				expected = group->ranks[0] / block * block + group->ranks[0] % stride + i * stride;
		if (group->ranks[i] != expected) return LK_OK;
	}
	int32_t first = rank / (n * stride) * (n * stride) + rank % stride;
	if (first + (n - 1) * stride >= composer->world) return LK_OK;
	*out = (lk_job_member){.size = n, .at = (rank - first) / stride};
	return find_or_add_pattern(composer, group, first, stride, &out->ranks);
}

lk_status lk_compose_member(lk_composer *composer, uint32_t recorded, uint32_t group, int32_t rank,
                            lk_job_member *out) {
	LK_ASSERT(recorded < composer->recorded.count && rank >= 0 && rank < composer->world);
	const lk_emulated_group *group_of_stand_in =
		&composer->recorded.at[recorded]->step.groups.at[group];
	lk_job_division *division = NULL;
	if (composer->recorded.at[recorded]->step.rank == rank)
		return *out = (lk_job_member){group_of_stand_in->ranks, group_of_stand_in->size,
		                              group_of_stand_in->own},
		       LK_OK;
	LK_TRY(find_or_add_division(composer, group_of_stand_in->division, &division));
	*out = division->member[rank];
	return out->ranks ? LK_OK : extend_group_pattern(composer, group_of_stand_in, rank, out);
}

int32_t lk_compose_peer(const lk_composer *composer, uint32_t recorded, uint32_t group,
                        const lk_job_member *member, int32_t peer) {
	LK_ASSERT(recorded < composer->recorded.count && member->at < member->size);
	const lk_emulated_group *group_of_stand_in =
		&composer->recorded.at[recorded]->step.groups.at[group];
	if (member->at < 0 || peer < 0 || peer >= group_of_stand_in->size) return -1;
	int32_t at = member->at + (peer - group_of_stand_in->own);
	if (at < 0 || at >= member->size) at = ((at % member->size) + member->size) % member->size;
	return member->ranks[at];
}

static int32_t find_edge_peer(const struct searcher *searcher, uint32_t q, const struct edge *edge,
                              const lk_job_member *member) {
	int32_t at = member->at + edge->peer -
	             searcher->composer->recorded.at[q]->step.groups.at[edge->group].own;
	if (!edge->around && (at < 0 || at >= member->size)) return -1;
	return lk_compose_peer(searcher->composer, q, edge->group, member, edge->peer);
}

/* ---- behaviour of recorded ranks ---- */

static lk_status add_message_edge(struct searcher *searcher, struct doings *doings,
                                  const lk_emulated_item *item, int32_t peer, bool sends) {
	uint64_t what = lk_hash64((uint64_t)item->bytes ^ lk_hash64((uint64_t)(uint32_t)item->tag));
	if (peer == LK_PEER_NOBODY) return LK_OK; /* MPI_PROC_NULL */
	for (size_t i = 0; i < doings->edges.count; i++) {
		struct edge *edge = &doings->edges.at[i];
		if (edge->group != item->group || edge->peer != peer || edge->sends != sends) continue;
		edge->what += what;
		return LK_OK;
	}
	if (!lk_push(&doings->edges)) return lk_oom(searcher->composer->err);
	*lk_last(&doings->edges) = (struct edge){item->group, peer, sends, false, what};
	return LK_OK;
}

static lk_status add_collective_duty(struct searcher *searcher, struct doings *doings,
                                     const lk_emulated_item *item) {
	uint64_t what = lk_hash64((uint64_t)item->what << 32 | (uint32_t)item->peer);
	for (size_t i = 0; i < doings->duties.count; i++) {
		if (doings->duties.at[i].group != item->group) continue;
		doings->duties.at[i].what = lk_hash64(doings->duties.at[i].what ^ what);
		return LK_OK;
	}
	if (!lk_push(&doings->duties)) return lk_oom(searcher->composer->err);
	*lk_last(&doings->duties) = (struct duty){item->group, what};
	return LK_OK;
}

static void mark_ring_shifts(struct searcher *searcher, uint32_t q) {
	struct doings *doings = &searcher->doings[q];
	for (size_t i = 0; i < doings->edges.count; i++) {
		struct edge *edge = &doings->edges.at[i];
		int32_t own = searcher->composer->recorded.at[q]->step.groups.at[edge->group].own;
		for (size_t k = 0; k < doings->edges.count; k++) {
			const struct edge *other = &doings->edges.at[k];
			edge->around =
				edge->around || (other->group == edge->group && other->sends != edge->sends &&
			                     other->peer - own == own - edge->peer);
		}
	}
}

static lk_status collect_rank_duties(struct searcher *searcher, uint32_t q) {
	const lk_emulated_step *step = &searcher->composer->recorded.at[q]->step;
	for (size_t i = 0; i < step->items.count; i++) {
		const lk_emulated_item *item = &step->items.at[i];
		bool sends = item->what == LK_WHAT_SEND || item->what == LK_WHAT_SENDRECV;
		bool receives = item->what == LK_WHAT_RECV || item->what == LK_WHAT_SENDRECV;
		int32_t from = item->what == LK_WHAT_SENDRECV ? item->from : item->peer;
		if (item->device || item->part == LK_PART_DONE) continue;
		if (receives && from == LK_PEER_ANY) {
			const lk_emulated_rank *recorded = searcher->composer->recorded.at[q];
			lk_fail(searcher->composer->err, LK_ERR_INPUT, recorded->path,
			        "receives from MPI_ANY_SOURCE: the sender is not known to a single process");
			return lk_hint(searcher->composer->err, "let the program name the sender");
		}
		if (sends) LK_TRY(add_message_edge(searcher, &searcher->doings[q], item, item->peer, true));
		if (receives) LK_TRY(add_message_edge(searcher, &searcher->doings[q], item, from, false));
		if (!sends && !receives) LK_TRY(add_collective_duty(searcher, &searcher->doings[q], item));
	}
	mark_ring_shifts(searcher, q);
	return LK_OK;
}

/* ---- what fits ---- */

static bool *stand_in_flag(const struct searcher *searcher, int32_t rank, uint32_t q) {
	LK_ASSERT(rank >= 0 && rank < searcher->composer->world && q < searcher->count);
	return &searcher->fits[(size_t)rank * searcher->count + q];
}

/* Whether q, standing in for `peer`, has the other end of an edge of `rank`. */
static lk_status has_other_end_as(struct searcher *searcher, int32_t peer, uint32_t q, int32_t rank,
                                  const struct edge *wanted, bool *out) {
	const struct doings *doings = &searcher->doings[q];
	*out = false;
	for (size_t i = 0; i < doings->edges.count && !*out; i++) {
		const struct edge *edge = &doings->edges.at[i];
		lk_job_member member;
		if (edge->sends == wanted->sends || edge->what != wanted->what) continue;
		LK_TRY(lk_compose_member(searcher->composer, q, edge->group, peer, &member));
		*out = member.at >= 0 && find_edge_peer(searcher, q, edge, &member) == rank;
	}
	return LK_OK;
}

/* Whether some stand-in of `peer` has it. */
static lk_status has_other_end(struct searcher *searcher, int32_t peer, int32_t rank,
                               const struct edge *wanted, bool *out) {
	*out = false;
	for (uint32_t q = 0; q < searcher->count && !*out; q++)
		if (*stand_in_flag(searcher, peer, q))
			LK_TRY(has_other_end_as(searcher, peer, q, rank, wanted, out));
	return LK_OK;
}

/* Whether some stand-in of a rank does the same in the communicator. */
static lk_status rank_takes_part(struct searcher *searcher, int32_t rank, const lk_job_member *comm,
                                 uint64_t what, bool *out) {
	*out = false;
	for (uint32_t q = 0; q < searcher->count && !*out; q++) {
		const struct doings *doings = &searcher->doings[q];
		if (!*stand_in_flag(searcher, rank, q)) continue;
		for (size_t i = 0; i < doings->duties.count && !*out; i++) {
			lk_job_member own;
			if (doings->duties.at[i].what != what) continue;
			LK_TRY(
				lk_compose_member(searcher->composer, q, doings->duties.at[i].group, rank, &own));
			*out = own.at >= 0 && own.size == comm->size &&
			       (own.ranks == comm->ranks ||
			        memcmp(own.ranks, comm->ranks, (size_t)own.size * sizeof *own.ranks) == 0);
		}
	}
	return LK_OK;
}

static lk_status all_members_take_part(struct searcher *searcher, const lk_job_member *comm,
                                       uint64_t what, bool *out) {
	size_t places = sizeof searcher->answer / sizeof *searcher->answer;
	struct answer *known =
		&searcher->answer[lk_hash64((uint64_t)(uintptr_t)comm->ranks ^ what) % places];
	if (known->known && known->ranks == comm->ranks && known->what == what) {
		*out = known->known == 1;
		return LK_OK;
	}
	*out = true;
	for (int32_t i = 0; i < comm->size && *out; i++)
		LK_TRY(rank_takes_part(searcher, comm->ranks[i], comm, what, out));
	*known = (struct answer){comm->ranks, what, *out ? 1 : 2};
	return LK_OK;
}

static lk_status stand_in_still_fits(struct searcher *searcher, int32_t rank, uint32_t q,
                                     bool *out) {
	const struct doings *doings = &searcher->doings[q];
	lk_job_member member;
	*out = true;
	for (size_t i = 0; i < doings->edges.count && *out; i++) {
		LK_TRY(lk_compose_member(searcher->composer, q, doings->edges.at[i].group, rank, &member));
		int32_t peer =
			member.at < 0 ? -1 : find_edge_peer(searcher, q, &doings->edges.at[i], &member);
		*out = peer >= 0;
		if (*out) LK_TRY(has_other_end(searcher, peer, rank, &doings->edges.at[i], out));
	}
	for (size_t i = 0; i < doings->duties.count && *out; i++) {
		LK_TRY(lk_compose_member(searcher->composer, q, doings->duties.at[i].group, rank, &member));
		*out = member.at >= 0;
		if (*out) LK_TRY(all_members_take_part(searcher, &member, doings->duties.at[i].what, out));
	}
	return LK_OK;
}

/* The only stand-in that fits; LK_NONE: several, or none. */
static uint32_t only_stand_in_of(const struct searcher *searcher, int32_t rank) {
	uint32_t found = LK_NONE, count = 0;
	for (uint32_t q = 0; q < searcher->count; q++)
		if (*stand_in_flag(searcher, rank, q)) {
			found = q;
			count++;
		}
	return count == 1 ? found : LK_NONE;
}

/* What a rank certainly does with its peers, they must do with it. */
static lk_status constrain_peers(struct searcher *searcher, int32_t rank, bool *changed) {
	uint32_t own = only_stand_in_of(searcher, rank);
	if (own == LK_NONE) return LK_OK;
	for (size_t i = 0; i < searcher->doings[own].edges.count; i++) {
		const struct edge *edge = &searcher->doings[own].edges.at[i];
		lk_job_member member;
		LK_TRY(lk_compose_member(searcher->composer, own, edge->group, rank, &member));
		int32_t peer = member.at < 0 ? -1 : find_edge_peer(searcher, own, edge, &member);
		for (uint32_t q = 0; peer >= 0 && q < searcher->count; q++) {
			bool good = true;
			if (*stand_in_flag(searcher, peer, q))
				LK_TRY(has_other_end_as(searcher, peer, q, rank, edge, &good));
			if (!good) {
				*stand_in_flag(searcher, peer, q) = false;
				*changed = true;
			}
		}
	}
	return LK_OK;
}

static lk_status eliminate_stand_ins(struct searcher *searcher) {
	LK_ASSERT(searcher->count > 0);
	for (bool changed = true; changed;) {
		changed = false;
		memset(searcher->answer, 0, sizeof searcher->answer);
		for (int32_t rank = 0; rank < searcher->composer->world; rank++)
			for (uint32_t q = 0; q < searcher->count; q++) {
				bool good = true;
				if (*stand_in_flag(searcher, rank, q))
					LK_TRY(stand_in_still_fits(searcher, rank, q, &good));
				if (good) continue;
				*stand_in_flag(searcher, rank, q) = false;
				changed = true;
			}
		for (int32_t rank = 0; rank < searcher->composer->world; rank++)
			LK_TRY(constrain_peers(searcher, rank, &changed));
	}
	return LK_OK;
}

/* ---- the choice ---- */

static uint32_t nearest_stand_in(const struct searcher *searcher, int32_t rank) {
	uint32_t best = LK_NONE;
	for (uint32_t q = 0; q < searcher->count; q++) {
		if (!*stand_in_flag(searcher, rank, q)) continue;
		if (best == LK_NONE || searcher->composer->recorded.at[q]->step.rank <= rank) best = q;
	}
	return best;
}

static lk_status fail_no_stand_in(const struct searcher *searcher, int32_t rank) {
	bool recorded = false;
	for (uint32_t q = 0; q < searcher->count; q++)
		recorded = recorded || searcher->composer->recorded.at[q]->step.rank == rank;
	lk_fail(searcher->composer->err, LK_ERR_INPUT, searcher->composer->request->folder,
	        recorded ? "no recording has the peers of rank %d's communication, and they cannot be "
	                   "inferred"
	                 : "no recorded rank can represent rank %d: its messages or communicators "
	                   "would not match",
	        rank);
	return lk_hint(searcher->composer->err,
	               recorded ? "record its peers too, with the same --world"
	                        : "record it too: --ranks ...,%d",
	               rank);
}

static lk_status take_nearest_stand_ins(struct searcher *searcher) {
	int32_t first = -1;
	for (int32_t rank = searcher->composer->world; rank-- > 0;) {
		searcher->composer->stand_in[rank] = nearest_stand_in(searcher, rank);
		if (searcher->composer->stand_in[rank] == LK_NONE) first = rank;
	}
	return first < 0 ? LK_OK : fail_no_stand_in(searcher, first);
}

/* Whether the chosen stand-ins have the other ends of all their messages. */
static lk_status check_stand_in_choice(struct searcher *searcher, bool *out) {
	*out = true;
	for (int32_t rank = 0; rank < searcher->composer->world && *out; rank++) {
		uint32_t own = searcher->composer->stand_in[rank];
		for (size_t i = 0; i < searcher->doings[own].edges.count && *out; i++) {
			const struct edge *edge = &searcher->doings[own].edges.at[i];
			lk_job_member member;
			LK_TRY(lk_compose_member(searcher->composer, own, edge->group, rank, &member));
			int32_t peer = member.at < 0 ? -1 : find_edge_peer(searcher, own, edge, &member);
			*out = peer >= 0;
			if (*out)
				LK_TRY(has_other_end_as(searcher, peer, searcher->composer->stand_in[peer], rank,
				                        edge, out));
		}
	}
	return LK_OK;
}

static lk_status choose_stand_ins(struct searcher *searcher) {
	bool good;
	searcher->composer->stand_in =
		LK_ARRAY(&searcher->composer->arena, uint32_t, searcher->composer->world);
	if (!searcher->composer->stand_in) return lk_oom(searcher->composer->err);
	LK_TRY(take_nearest_stand_ins(searcher));
	LK_TRY(check_stand_in_choice(searcher, &good));
	for (int32_t rank = 0; rank < searcher->composer->world && !good; rank++) {
		if (only_stand_in_of(searcher, rank) != LK_NONE) continue;
		uint32_t chosen = nearest_stand_in(searcher, rank);
		for (uint32_t q = 0; q < searcher->count; q++)
			*stand_in_flag(searcher, rank, q) = q == chosen;
		LK_TRY(eliminate_stand_ins(searcher));
		LK_TRY(take_nearest_stand_ins(searcher));
		LK_TRY(check_stand_in_choice(searcher, &good));
	}
	return LK_OK;
}

static lk_status search_stand_ins(struct searcher *searcher) {
	LK_TRY(list_recorded_divisions(searcher->composer));
	for (uint32_t q = 0; q < searcher->count; q++) LK_TRY(collect_rank_duties(searcher, q));
	for (int32_t rank = 0; rank < searcher->composer->world; rank++) {
		for (uint32_t q = 0; q < searcher->count; q++) *stand_in_flag(searcher, rank, q) = true;
		for (uint32_t q = 0; q < searcher->count; q++) {
			if (searcher->composer->recorded.at[q]->step.rank != rank) continue;
			for (uint32_t other = 0; other < searcher->count; other++)
				*stand_in_flag(searcher, rank, other) = other == q;
		}
	}
	LK_TRY(eliminate_stand_ins(searcher));
	return choose_stand_ins(searcher);
}

lk_status lk_compose_stand_in(lk_composer *composer) {
	struct searcher *searcher = calloc(1, sizeof *searcher);
	if (!searcher) return lk_oom(composer->err);
	searcher->composer = composer;
	searcher->count = (uint32_t)composer->recorded.count;
	searcher->doings = calloc(searcher->count + 1, sizeof *searcher->doings);
	searcher->fits = calloc((size_t)composer->world * searcher->count + 1, sizeof *searcher->fits);
	lk_status status =
		searcher->doings && searcher->fits ? search_stand_ins(searcher) : lk_oom(composer->err);
	for (uint32_t q = 0; searcher->doings && q < searcher->count; q++) {
		lk_vec_free(&searcher->doings[q].edges);
		lk_vec_free(&searcher->doings[q].duties);
	}
	free(searcher->doings);
	free(searcher->fits);
	free(searcher);
	return status;
}
