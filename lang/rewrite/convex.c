/* convex.c: convex sets, which can run as one: no path leaves them and comes back, neither through
 * values nor through the memory of a state, whose readers must finish before it is overwritten. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

struct search {
	const lc_program *p;
	const uint8_t *set;
	int *through; /* [values] outside and after the set: the first outside value on the path; -1 */
	int *joined;  /* [bundles] the same: a bundle is after the set as soon as a part of it is */
};

static int behind_joined(const struct search *search, int bundle) {
	return bundle < 0 ? -1 : search->joined[bundle];
}

static int convex_behind(const struct search *search, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < search->p->nodes.count);
	const lc_node *node = &search->p->nodes.at[id];
	if (search->set[id]) return -1;
	if (search->through[id] >= 0) return search->through[id];
	int through = behind_joined(search, node->fuse);
	if (through < 0) through = behind_joined(search, node->overlap);
	return through >= 0 ? through : behind_joined(search, node->bucket);
}

/* Mark a bundle as after the set; returns whether that is new. */
static bool convex_join(const struct search *search, int bundle, int through) {
	if (bundle < 0 || through < 0 || search->joined[bundle] >= 0) return false;
	search->joined[bundle] = through;
	return true;
}

/* The first outside value on a path from the set to a reader of the version that update `id`
 * overwrites; -1. */
static int readers_before(const struct search *search, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < search->p->nodes.count);
	int version = search->p->nodes.at[id].in[0];
	for (int i = version + 1; i < id; i++) {
		const lc_node *node = &search->p->nodes.at[i];
		for (int k = lc_first_read(node); k < node->inputs; k++)
			if (node->in[k] == version && convex_behind(search, i) >= 0)
				return convex_behind(search, i);
	}
	return -1;
}

static int convex_waits_for(const struct search *search, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < search->p->nodes.count);
	const lc_node *node = &search->p->nodes.at[id];
	for (int k = 0; k < node->inputs; k++)
		if (convex_behind(search, node->in[k]) >= 0) return convex_behind(search, node->in[k]);
	return node->op == LC_UPDATE ? readers_before(search, id) : -1;
}

static bool reads_set(const struct search *search, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < search->p->nodes.count);
	const lc_node *node = &search->p->nodes.at[id];
	for (int k = 0; k < node->inputs; k++)
		if (search->set[node->in[k]]) return true;
	if (node->op != LC_UPDATE) return false;
	for (int i = node->in[0] + 1; i < id; i++)
		for (int k = lc_first_read(&search->p->nodes.at[i]); k < search->p->nodes.at[i].inputs; k++)
			if (search->p->nodes.at[i].in[k] == node->in[0] && search->set[i]) return true;
	return false;
}

static int convex_pass(struct search *search, bool *more) {
	*more = false;
	for (int i = 0; i < (int)search->p->nodes.count; i++) {
		const lc_node *node = &search->p->nodes.at[i];
		int outside = convex_waits_for(search, i);
		if (search->set[i] && outside >= 0) return outside;
		if (search->set[i]) continue;
		if (outside >= 0) search->through[i] = outside;
		else if (reads_set(search, i)) search->through[i] = i;
		else search->through[i] = -1;
		*more |= convex_join(search, node->fuse, search->through[i]);
		*more |= convex_join(search, node->overlap, search->through[i]);
		*more |= convex_join(search, node->bucket, search->through[i]);
	}
	return -1;
}

/* A bundle found to be after the set may begin earlier in the program, so the values are traversed
 * again. */
static int convex_find(struct search *search) {
	int outside;
	bool more;
	do outside = convex_pass(search, &more);
	while (outside < 0 && more);
	return outside;
}

lk_status lc_check_convex(const lc_program *program, const uint8_t *set,
                          const lc_directive *directive, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct search s = {program, set, LK_ARRAY(&arena, int, program->nodes.count),
	                   LK_ARRAY(&arena, int, program->bundles.count)};
	bool room = s.through && s.joined;
	int through = -1;
	if (room) {
		memset(s.through, 0xff, sizeof *s.through * program->nodes.count);
		memset(s.joined, 0xff, sizeof *s.joined * program->bundles.count);
		through = convex_find(&s);
	}
	lk_arena_free(&arena);
	if (!room) return lk_oom(err);
	if (through < 0) return LK_OK;
	const char *name = lc_part_name(&program->nodes.at[through]);
	lc_wrong(program, directive->line, directive->column, err,
	         "what is %s depends on itself through %s, which is outside of it",
	         directive->kind == LC_FUSE     ? "fused"
	         : directive->kind == LC_BUCKET ? "put into one bucket"
	                                        : "overlapped",
	         name);
	return lk_hint(err, "add %s to the set, or %s less", name, lc_directive_names[directive->kind]);
}
