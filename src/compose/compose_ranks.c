/* compose_ranks.c: which recorded rank stands in for which rank of the job.
 *
 * A recorded rank q can stand in for r where everything fits: each message that q sends or receives, translated to r, has a
 * counterpart at its peer; every communicator that q communicates in, translated to r, has members that do the same in it.
 * What does not fit is left out until nothing changes any more (arc consistency); of those that are left the nearest
 * recorded rank below r is taken, else the nearest above. Where these do not fit one another, they are chosen one after
 * another, and what each choice rules out is left out before the next.
 *
 * Translating. A communicator's ranks are known where the recordings hold the division that it came from (the other parts of
 * a split are told in it). Else the recorded ranks' own pattern goes on: size n, stride s, first rank a multiple of n s plus
 * what is below s. A peer keeps its distance in the communicator; around its end only where the recorded rank shifts, that
 * is, receives from one side what it sends to the other: else the ends of a pipeline would be taken for a ring. */
#include <stdlib.h>
#include <string.h>

#include "compose/compose.h"
#include "base/stats.h"

/* What q does with one peer: all messages of one direction. */
struct edge {
	uint32_t group;
	int32_t peer;            /* in the communicator */
	bool sends;
	bool around;             /* a shift: what goes to one side comes from the other, so that it may go around the end */
	uint64_t what;           /* of sizes and tags, whatever their order */
};

/* What q does in one communicator with all its members. */
struct duty {
	uint32_t group;
	uint64_t what;           /* in order */
};

struct doings {
	LK_VEC(struct edge) edges;
	LK_VEC(struct duty) duties;
};

struct searcher {
	lk_composer *c;
	struct doings *doings;          /* [recorded] */
	bool *fits;              /* [world * recorded] */
	uint32_t count;          /* recorded */
	/* answers about communicators in this round, by hash */
	struct answer {
		const int32_t *ranks;
		uint64_t what;
		uint8_t known;       /* 1 all members can, 2 not */
	} answer[1 << 14];
};

/* ---- communicators ---- */

static lk_status division_of(lk_composer *c, uint64_t division, lk_job_division **out) {
	for (size_t i = 0; i < c->divisions.count; i++)
		if (c->divisions.at[i].division == division) return *out = &c->divisions.at[i], LK_OK;
	if (!lk_push(&c->divisions)) return lk_oom(c->err);
	*out = lk_last(&c->divisions);
	**out = (lk_job_division){division, LK_ARRAY(&c->arena, lk_job_member, c->world)};
	return (*out)->member ? LK_OK : lk_oom(c->err);
}

/* All parts of all divisions that the recordings tell of. */
static lk_status list_divisions(lk_composer *c) {
	lk_job_division *d = NULL;
	for (size_t q = 0; q < c->recorded.count; q++) {
		const lk_posed_step *step = &c->recorded.at[q]->step;
		for (size_t g = 0; g < step->groups.count; g++) {
			const lk_posed_group *group = &step->groups.at[g];
			LK_TRY(division_of(c, group->division, &d));
			for (int32_t i = 0; i < group->size; i++)
				if (!d->member[group->ranks[i]].ranks)
					d->member[group->ranks[i]] = (lk_job_member){group->ranks, group->size, i};
		}
	}
	return LK_OK;
}

/* The ranks first, first + stride, ...: the same list whenever it is asked for. */
static lk_status pattern_from(lk_composer *c, const lk_posed_group *g, int32_t first, int32_t stride, const int32_t **out) {
	for (size_t i = 0; i < c->patterns.count; i++)
		if (c->patterns.at[i].of == g && c->patterns.at[i].first == first) return *out = c->patterns.at[i].ranks, LK_OK;
	int32_t *ranks = LK_ARRAY(&c->arena, int32_t, g->size);
	if (!ranks || !lk_push(&c->patterns)) return lk_oom(c->err);
	for (int32_t i = 0; i < g->size; i++) ranks[i] = first + i * stride;
	*lk_last(&c->patterns) = (lk_job_pattern){g, first, ranks};
	*out = ranks;
	return LK_OK;
}

/* The pattern of a group, gone on with. */
static lk_status go_on(lk_composer *c, const lk_posed_group *g, int32_t rank, lk_job_member *out) {
	int32_t n = g->size, stride = n > 1 ? g->ranks[1] - g->ranks[0] : 1;
	*out = (lk_job_member){.at = -1};
	if (stride < 1 || (int64_t)n * stride > c->world) return LK_OK;
	for (int32_t i = 0; i < n; i++) {
		int32_t block = n * stride, expected = g->ranks[0] / block * block + g->ranks[0] % stride + i * stride;
		if (g->ranks[i] != expected) return LK_OK;
	}
	int32_t first = rank / (n * stride) * (n * stride) + rank % stride;
	if (first + (n - 1) * stride >= c->world) return LK_OK;
	*out = (lk_job_member){.size = n, .at = (rank - first) / stride};
	return pattern_from(c, g, first, stride, &out->ranks);
}

lk_status lk_compose_member(lk_composer *c, uint32_t recorded, uint32_t group, int32_t rank, lk_job_member *out) {
	const lk_posed_group *g = &c->recorded.at[recorded]->step.groups.at[group];
	lk_job_division *d = NULL;
	if (c->recorded.at[recorded]->step.rank == rank) return *out = (lk_job_member){g->ranks, g->size, g->own}, LK_OK;
	LK_TRY(division_of(c, g->division, &d));
	*out = d->member[rank];
	return out->ranks ? LK_OK : go_on(c, g, rank, out);
}

int32_t lk_compose_peer(const lk_composer *c, uint32_t recorded, uint32_t group, const lk_job_member *member, int32_t peer) {
	const lk_posed_group *g = &c->recorded.at[recorded]->step.groups.at[group];
	if (member->at < 0 || peer < 0 || peer >= g->size) return -1;
	int32_t at = member->at + (peer - g->own);
	if (at < 0 || at >= member->size) at = ((at % member->size) + member->size) % member->size;
	return member->ranks[at];
}

static int32_t peer_of(const struct searcher *s, uint32_t q, const struct edge *e, const lk_job_member *member) {
	int32_t at = member->at + e->peer - s->c->recorded.at[q]->step.groups.at[e->group].own;
	if (!e->around && (at < 0 || at >= member->size)) return -1;
	return lk_compose_peer(s->c, q, e->group, member, e->peer);
}

/* ---- what recorded ranks do ---- */

static lk_status add_message(struct searcher *s, struct doings *d, const lk_posed_item *item, int32_t peer, bool sends) {
	uint64_t what = lk_hash64((uint64_t)item->bytes ^ lk_hash64((uint64_t)(uint32_t)item->tag));
	if (peer == -2) return LK_OK; /* MPI_PROC_NULL */
	for (size_t i = 0; i < d->edges.count; i++) {
		struct edge *e = &d->edges.at[i];
		if (e->group != item->group || e->peer != peer || e->sends != sends) continue;
		e->what += what;
		return LK_OK;
	}
	if (!lk_push(&d->edges)) return lk_oom(s->c->err);
	*lk_last(&d->edges) = (struct edge){item->group, peer, sends, false, what};
	return LK_OK;
}

static lk_status add_duty(struct searcher *s, struct doings *d, const lk_posed_item *item) {
	uint64_t what = lk_hash64((uint64_t)item->what << 32 | (uint32_t)item->peer);
	for (size_t i = 0; i < d->duties.count; i++) {
		if (d->duties.at[i].group != item->group) continue;
		d->duties.at[i].what = lk_hash64(d->duties.at[i].what ^ what);
		return LK_OK;
	}
	if (!lk_push(&d->duties)) return lk_oom(s->c->err);
	*lk_last(&d->duties) = (struct duty){item->group, what};
	return LK_OK;
}

static lk_status unknown_peer(struct searcher *s, uint32_t q) {
	const lk_posed_rank *recorded = s->c->recorded.at[q];
	lk_fail(s->c->err, LK_ERR_INPUT, recorded->path, "receives from MPI_ANY_SOURCE: from whom is not known to a process alone");
	return lk_hint(s->c->err, "let the program name the sender; it cannot be composed otherwise");
}

static void find_shifts(struct searcher *s, uint32_t q) {
	struct doings *d = &s->doings[q];
	for (size_t i = 0; i < d->edges.count; i++) {
		struct edge *e = &d->edges.at[i];
		int32_t own = s->c->recorded.at[q]->step.groups.at[e->group].own;
		for (size_t k = 0; k < d->edges.count; k++) {
			const struct edge *other = &d->edges.at[k];
			e->around = e->around || (other->group == e->group && other->sends != e->sends && other->peer - own == own - e->peer);
		}
	}
}

static lk_status add_doings(struct searcher *s, uint32_t q) {
	const lk_posed_step *step = &s->c->recorded.at[q]->step;
	for (size_t i = 0; i < step->items.count; i++) {
		const lk_posed_item *item = &step->items.at[i];
		bool sends = item->what == LK_WHAT_SEND || item->what == LK_WHAT_SENDRECV;
		bool receives = item->what == LK_WHAT_RECV || item->what == LK_WHAT_SENDRECV;
		int32_t from = item->what == LK_WHAT_SENDRECV ? item->from : item->peer;
		if (item->device || item->part == LK_PART_DONE) continue;
		if (receives && from == -1) return unknown_peer(s, q);
		if (sends) LK_TRY(add_message(s, &s->doings[q], item, item->peer, true));
		if (receives) LK_TRY(add_message(s, &s->doings[q], item, from, false));
		if (!sends && !receives) LK_TRY(add_duty(s, &s->doings[q], item));
	}
	find_shifts(s, q);
	return LK_OK;
}

/* ---- what fits ---- */

static bool *fit(const struct searcher *s, int32_t rank, uint32_t q) { return &s->fits[(size_t)rank * s->count + q]; }

/* Whether q, standing in for `peer`, has the other end of an edge of `rank`. */
static lk_status answers_as(struct searcher *s, int32_t peer, uint32_t q, int32_t rank, const struct edge *wanted, bool *out) {
	const struct doings *d = &s->doings[q];
	*out = false;
	for (size_t i = 0; i < d->edges.count && !*out; i++) {
		const struct edge *e = &d->edges.at[i];
		lk_job_member member;
		if (e->sends == wanted->sends || e->what != wanted->what) continue;
		LK_TRY(lk_compose_member(s->c, q, e->group, peer, &member));
		*out = member.at >= 0 && peer_of(s, q, e, &member) == rank;
	}
	return LK_OK;
}

/* Whether some stand-in of `peer` has it. */
static lk_status answers(struct searcher *s, int32_t peer, int32_t rank, const struct edge *wanted, bool *out) {
	*out = false;
	for (uint32_t q = 0; q < s->count && !*out; q++)
		if (*fit(s, peer, q)) LK_TRY(answers_as(s, peer, q, rank, wanted, out));
	return LK_OK;
}

/* Whether some stand-in of a rank does this in the communicator. */
static lk_status takes_part(struct searcher *s, int32_t rank, const lk_job_member *comm, uint64_t what, bool *out) {
	*out = false;
	for (uint32_t q = 0; q < s->count && !*out; q++) {
		const struct doings *d = &s->doings[q];
		if (!*fit(s, rank, q)) continue;
		for (size_t i = 0; i < d->duties.count && !*out; i++) {
			lk_job_member own;
			if (d->duties.at[i].what != what) continue;
			LK_TRY(lk_compose_member(s->c, q, d->duties.at[i].group, rank, &own));
			*out = own.at >= 0 && own.size == comm->size &&
			       (own.ranks == comm->ranks || memcmp(own.ranks, comm->ranks, (size_t)own.size * sizeof *own.ranks) == 0);
		}
	}
	return LK_OK;
}

static lk_status all_take_part(struct searcher *s, const lk_job_member *comm, uint64_t what, bool *out) {
	size_t places = sizeof s->answer / sizeof *s->answer;
	struct answer *known = &s->answer[lk_hash64((uint64_t)(uintptr_t)comm->ranks ^ what) % places];
	if (known->known && known->ranks == comm->ranks && known->what == what) return *out = known->known == 1, LK_OK;
	*out = true;
	for (int32_t i = 0; i < comm->size && *out; i++) LK_TRY(takes_part(s, comm->ranks[i], comm, what, out));
	*known = (struct answer){comm->ranks, what, *out ? 1 : 2};
	return LK_OK;
}

static lk_status still_fits(struct searcher *s, int32_t rank, uint32_t q, bool *out) {
	const struct doings *d = &s->doings[q];
	lk_job_member member;
	*out = true;
	for (size_t i = 0; i < d->edges.count && *out; i++) {
		LK_TRY(lk_compose_member(s->c, q, d->edges.at[i].group, rank, &member));
		int32_t peer = member.at < 0 ? -1 : peer_of(s, q, &d->edges.at[i], &member);
		*out = peer >= 0;
		if (*out) LK_TRY(answers(s, peer, rank, &d->edges.at[i], out));
	}
	for (size_t i = 0; i < d->duties.count && *out; i++) {
		LK_TRY(lk_compose_member(s->c, q, d->duties.at[i].group, rank, &member));
		*out = member.at >= 0;
		if (*out) LK_TRY(all_take_part(s, &member, d->duties.at[i].what, out));
	}
	return LK_OK;
}

/* The only one that fits; LK_NONE: there are more, or none. */
static uint32_t only(const struct searcher *s, int32_t rank) {
	uint32_t found = LK_NONE, count = 0;
	for (uint32_t q = 0; q < s->count; q++)
		if (*fit(s, rank, q)) found = q, count++;
	return count == 1 ? found : LK_NONE;
}

/* What a rank certainly does with its peers, they must do with it. */
static lk_status press(struct searcher *s, int32_t rank, bool *changed) {
	uint32_t own = only(s, rank);
	if (own == LK_NONE) return LK_OK;
	for (size_t i = 0; i < s->doings[own].edges.count; i++) {
		const struct edge *e = &s->doings[own].edges.at[i];
		lk_job_member member;
		LK_TRY(lk_compose_member(s->c, own, e->group, rank, &member));
		int32_t peer = member.at < 0 ? -1 : peer_of(s, own, e, &member);
		for (uint32_t q = 0; peer >= 0 && q < s->count; q++) {
			bool good = true;
			if (*fit(s, peer, q)) LK_TRY(answers_as(s, peer, q, rank, e, &good));
			if (!good) *fit(s, peer, q) = false, *changed = true;
		}
	}
	return LK_OK;
}

static lk_status leave_out(struct searcher *s) {
	for (bool changed = true; changed;) {
		changed = false;
		memset(s->answer, 0, sizeof s->answer);
		for (int32_t rank = 0; rank < s->c->world; rank++)
			for (uint32_t q = 0; q < s->count; q++) {
				bool good = true;
				if (*fit(s, rank, q)) LK_TRY(still_fits(s, rank, q, &good));
				if (good) continue;
				*fit(s, rank, q) = false;
				changed = true;
			}
		for (int32_t rank = 0; rank < s->c->world; rank++) LK_TRY(press(s, rank, &changed));
	}
	return LK_OK;
}

/* ---- the choice ---- */

static uint32_t nearest(const struct searcher *s, int32_t rank) {
	uint32_t best = LK_NONE;
	for (uint32_t q = 0; q < s->count; q++) {
		if (!*fit(s, rank, q)) continue;
		if (best == LK_NONE || s->c->recorded.at[q]->step.rank <= rank) best = q;
	}
	return best;
}

static lk_status nobody(const struct searcher *s, int32_t rank) {
	bool recorded = false;
	for (uint32_t q = 0; q < s->count; q++) recorded = recorded || s->c->recorded.at[q]->step.rank == rank;
	lk_fail(s->c->err, LK_ERR_INPUT, s->c->request->folder,
	        recorded ? "of what rank %d communicates, the other ends are in none of the recordings, nor can they be filled in"
	                 : "none of the recorded ranks can stand in for rank %d: its messages or communicators would not fit", rank);
	return lk_hint(s->c->err, recorded ? "record its peers too, with the same --world" : "record it too: --ranks ...,%d", rank);
}

static lk_status take_nearest(struct searcher *s) {
	int32_t first = -1;
	for (int32_t rank = s->c->world; rank-- > 0;) {
		s->c->stand_in[rank] = nearest(s, rank);
		if (s->c->stand_in[rank] == LK_NONE) first = rank;
	}
	return first < 0 ? LK_OK : nobody(s, first);
}

/* Whether the chosen ones have the other ends of all their messages. */
static lk_status check_choice(struct searcher *s, bool *out) {
	*out = true;
	for (int32_t rank = 0; rank < s->c->world && *out; rank++) {
		uint32_t own = s->c->stand_in[rank];
		for (size_t i = 0; i < s->doings[own].edges.count && *out; i++) {
			const struct edge *e = &s->doings[own].edges.at[i];
			lk_job_member member;
			LK_TRY(lk_compose_member(s->c, own, e->group, rank, &member));
			int32_t peer = member.at < 0 ? -1 : peer_of(s, own, e, &member);
			*out = peer >= 0;
			if (*out) LK_TRY(answers_as(s, peer, s->c->stand_in[peer], rank, e, out));
		}
	}
	return LK_OK;
}

static lk_status choose(struct searcher *s) {
	bool good;
	s->c->stand_in = LK_ARRAY(&s->c->arena, uint32_t, s->c->world);
	if (!s->c->stand_in) return lk_oom(s->c->err);
	LK_TRY(take_nearest(s));
	LK_TRY(check_choice(s, &good));
	for (int32_t rank = 0; rank < s->c->world && !good; rank++) {
		if (only(s, rank) != LK_NONE) continue;
		uint32_t chosen = nearest(s, rank);
		for (uint32_t q = 0; q < s->count; q++) *fit(s, rank, q) = q == chosen;
		LK_TRY(leave_out(s));
		LK_TRY(take_nearest(s));
		LK_TRY(check_choice(s, &good));
	}
	return LK_OK;
}

static lk_status search(struct searcher *s) {
	LK_TRY(list_divisions(s->c));
	for (uint32_t q = 0; q < s->count; q++) LK_TRY(add_doings(s, q));
	for (int32_t rank = 0; rank < s->c->world; rank++) {
		for (uint32_t q = 0; q < s->count; q++) *fit(s, rank, q) = true;
		for (uint32_t q = 0; q < s->count; q++) {
			if (s->c->recorded.at[q]->step.rank != rank) continue;
			for (uint32_t other = 0; other < s->count; other++) *fit(s, rank, other) = other == q;
		}
	}
	LK_TRY(leave_out(s));
	return choose(s);
}

lk_status lk_compose_stand_in(lk_composer *c) {
	struct searcher *s = calloc(1, sizeof *s);
	if (!s) return lk_oom(c->err);
	s->c = c, s->count = (uint32_t)c->recorded.count;
	s->doings = calloc(s->count + 1, sizeof *s->doings);
	s->fits = calloc((size_t)c->world * s->count + 1, sizeof *s->fits);
	lk_status status = s->doings && s->fits ? search(s) : lk_oom(c->err);
	for (uint32_t q = 0; s->doings && q < s->count; q++) {
		lk_vec_free(&s->doings[q].edges);
		lk_vec_free(&s->doings[q].duties);
	}
	free(s->doings);
	free(s->fits);
	free(s);
	return status;
}
