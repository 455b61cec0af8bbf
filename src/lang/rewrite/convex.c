/* convex.c: sets that can run as one: no path leaves them and comes back, neither through values nor through the memory
 * of a state, whose readers must be done before it is overwritten. */
#include <string.h>

#include "lang/rewrite/build.h"

typedef struct search {
	const lc_program *p;
	const uint8_t *set;
	int *through;    /* [values] outside, and behind the set: the first value outside on the way; -1 */
} search;

static int behind(const search *s, int id) { return s->set[id] ? -1 : s->through[id]; }

/* The first value outside that stands between the set and what `id` must wait for; -1. */
static int readers_before(const search *s, int id) {
	int version = s->p->nodes.at[id].in[0];
	for (int i = version + 1; i < id; i++) {
		const lc_node *n = &s->p->nodes.at[i];
		for (int k = lc_first_read(n); k < n->inputs; k++)
			if (n->in[k] == version && behind(s, i) >= 0) return behind(s, i);
	}
	return -1;
}

static int waits_for(const search *s, int id) {
	const lc_node *n = &s->p->nodes.at[id];
	for (int k = 0; k < n->inputs; k++)
		if (behind(s, n->in[k]) >= 0) return behind(s, n->in[k]);
	return n->op == LC_UPDATE ? readers_before(s, id) : -1;
}

static bool reads_set(const search *s, int id) {
	const lc_node *n = &s->p->nodes.at[id];
	for (int k = 0; k < n->inputs; k++)
		if (s->set[n->in[k]]) return true;
	if (n->op != LC_UPDATE) return false;
	for (int i = n->in[0] + 1; i < id; i++)
		for (int k = lc_first_read(&s->p->nodes.at[i]); k < s->p->nodes.at[i].inputs; k++)
			if (s->p->nodes.at[i].in[k] == n->in[0] && s->set[i]) return true;
	return false;
}

static int find(search *s) {
	for (int i = 0; i < (int)s->p->nodes.count; i++) {
		int outside = waits_for(s, i);
		s->through[i] = -1;
		if (s->set[i] && outside >= 0) return outside;
		if (!s->set[i]) s->through[i] = outside >= 0 ? outside : reads_set(s, i) ? i : -1;
	}
	return -1;
}

lk_status lc_check_convex(const lc_program *p, const uint8_t *set, const lc_directive *d, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	search s = {p, set, LK_ARRAY(&arena, int, p->nodes.count)};
	int through = s.through ? find(&s) : -1;
	bool room = s.through != NULL;
	lk_arena_free(&arena);
	if (!room) return lk_oom(err);
	if (through < 0) return LK_OK;
	const char *name = lc_part_name(&p->nodes.at[through]);
	lc_wrong(p, d->line, d->column, err, "what is %s depends on itself through %s, which is outside of it",
	         d->kind == LC_FUSE ? "fused" : "overlapped", name);
	return lk_hint(err, "add %s to the set, or %s less", name, lc_directive_names[d->kind]);
}
