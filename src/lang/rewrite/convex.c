/* convex.c: sets that can run as one: no path leaves them and comes back, neither through values nor through the memory
 * of a state, whose readers must be done before it is overwritten. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

struct search {
	const lc_program *p;
	const uint8_t *set;
	int *through;    /* [values] outside, and behind the set: the first value outside on the way; -1 */
	int *joined;     /* [bundles] the same: what runs together is behind the set as soon as a part of it is */
};

static int behind_joined(const struct search *s, int bundle) { return bundle < 0 ? -1 : s->joined[bundle]; }

static int behind(const struct search *s, int id) {
	const lc_node *n = &s->p->nodes.at[id];
	if (s->set[id]) return -1;
	if (s->through[id] >= 0) return s->through[id];
	int through = behind_joined(s, n->fuse);
	if (through < 0) through = behind_joined(s, n->overlap);
	return through >= 0 ? through : behind_joined(s, n->bucket);
}

/* Whether it was not known before. */
static bool join(const struct search *s, int bundle, int through) {
	if (bundle < 0 || through < 0 || s->joined[bundle] >= 0) return false;
	s->joined[bundle] = through;
	return true;
}

/* The first value outside that stands between the set and what `id` must wait for; -1. */
static int readers_before(const struct search *s, int id) {
	int version = s->p->nodes.at[id].in[0];
	for (int i = version + 1; i < id; i++) {
		const lc_node *n = &s->p->nodes.at[i];
		for (int k = lc_first_read(n); k < n->inputs; k++)
			if (n->in[k] == version && behind(s, i) >= 0) return behind(s, i);
	}
	return -1;
}

static int waits_for(const struct search *s, int id) {
	const lc_node *n = &s->p->nodes.at[id];
	for (int k = 0; k < n->inputs; k++)
		if (behind(s, n->in[k]) >= 0) return behind(s, n->in[k]);
	return n->op == LC_UPDATE ? readers_before(s, id) : -1;
}

static bool reads_set(const struct search *s, int id) {
	const lc_node *n = &s->p->nodes.at[id];
	for (int k = 0; k < n->inputs; k++)
		if (s->set[n->in[k]]) return true;
	if (n->op != LC_UPDATE) return false;
	for (int i = n->in[0] + 1; i < id; i++)
		for (int k = lc_first_read(&s->p->nodes.at[i]); k < s->p->nodes.at[i].inputs; k++)
			if (s->p->nodes.at[i].in[k] == n->in[0] && s->set[i]) return true;
	return false;
}

static int pass(struct search *s, bool *more) {
	*more = false;
	for (int i = 0; i < (int)s->p->nodes.count; i++) {
		const lc_node *n = &s->p->nodes.at[i];
		int outside = waits_for(s, i);
		if (s->set[i] && outside >= 0) return outside;
		if (s->set[i]) continue;
		s->through[i] = outside >= 0 ? outside : reads_set(s, i) ? i : -1;
		*more |= join(s, n->fuse, s->through[i]);
		*more |= join(s, n->overlap, s->through[i]);
		*more |= join(s, n->bucket, s->through[i]);
	}
	return -1;
}

/* A bundle that turns out to be behind the set may begin before it, so the values are gone through again. */
static int find(struct search *s) {
	int outside;
	bool more;
	do outside = pass(s, &more);
	while (outside < 0 && more);
	return outside;
}

lk_status lc_check_convex(const lc_program *p, const uint8_t *set, const lc_directive *d, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct search s = {p, set, LK_ARRAY(&arena, int, p->nodes.count), LK_ARRAY(&arena, int, p->bundles.count)};
	bool room = s.through && s.joined;
	int through = -1;
	if (room) {
		memset(s.through, 0xff, sizeof *s.through * p->nodes.count);
		memset(s.joined, 0xff, sizeof *s.joined * p->bundles.count);
		through = find(&s);
	}
	lk_arena_free(&arena);
	if (!room) return lk_oom(err);
	if (through < 0) return LK_OK;
	const char *name = lc_part_name(&p->nodes.at[through]);
	lc_wrong(p, d->line, d->column, err, "what is %s depends on itself through %s, which is outside of it",
	         d->kind == LC_FUSE ? "fused" : d->kind == LC_BUCKET ? "put into one bucket" : "overlapped", name);
	return lk_hint(err, "add %s to the set, or %s less", name, lc_directive_names[d->kind]);
}
