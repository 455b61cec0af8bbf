/* hierarchy_plan.c: `plan --tree`: its options, and the answer. */
#include <math.h>
#include <stddef.h>

#include "plan/plan.h"
#include "plan/hierarchy.h"

/* The tree, and the words of --aggregate with --tree. */
struct lk_hierarchy_asked {
	lk_hierarchy tree;
	double deadline_s, traffic; /* 0: any */
	double busy, bits, take, most;
};

static const lk_number_word words[] = {
	{"deadline", "h", offsetof(struct lk_hierarchy_asked, deadline_s), 1e-3, 1e9, 3600, false},
	{"traffic", "GB", offsetof(struct lk_hierarchy_asked, traffic), 1e-6, 1e15, 1e9, false},
	{"busy", "%", offsetof(struct lk_hierarchy_asked, busy), 1, 99.99, 0.01, false},
	{"bits", "", offsetof(struct lk_hierarchy_asked, bits), 4, 32, 1, true},
	{"take", "%", offsetof(struct lk_hierarchy_asked, take), 1, 100, 0.01, false},
	{"spread", "%", offsetof(struct lk_hierarchy_asked, tree.spread), 0, 100, 0.01, false},
	{"drop", "%", offsetof(struct lk_hierarchy_asked, tree.drop), 0, 99, 0.01, false},
	{"skew", "", offsetof(struct lk_hierarchy_asked, tree.skew), 0, 1e6, 1, false},
	{"most", "", offsetof(struct lk_hierarchy_asked, most), 1, 1e6, 1, true},
};
static const lk_word_list tree_words = {
	"--aggregate", words, sizeof words / sizeof *words,
	"with --tree give words as deadline=72h traffic=500GB bits=16 take=80% spread=10% drop=5% "
	"skew=0.01 most=500, or busy=95% instead of deadline"};

lk_status lk_hierarchy_take(const lk_plan_request *request, lk_arena *arena,
                            struct lk_hierarchy_asked **out, lk_error *err) {
	struct lk_hierarchy_asked *asked = *out = LK_NEW(arena, struct lk_hierarchy_asked);
	const char *over;
	if (!asked) return lk_oom(err);
	lk_stream *in;
	LK_TRY(lk_stream_open(request->tree, &in, err));
	lk_status status = lk_hierarchy_read(in, arena, &asked->tree, err);
	lk_stream_close(in);
	LK_TRY(status);
	if (request->aggregate) {
		LK_TRY(lk_number_words_read(&tree_words, request->aggregate, asked, &over, err));
		if (over)
			return lk_number_words_refuse(&tree_words, "over", "is for sites, not for a tree", err);
	}
	if (asked->busy > 0 && asked->deadline_s > 0)
		return lk_number_words_refuse(&tree_words, "busy", "is what the deadline decides", err);
	if ((asked->deadline_s > 0 || asked->traffic > 0) && !(request->tokens > 0))
		return lk_number_words_refuse(&tree_words, asked->deadline_s > 0 ? "deadline" : "traffic",
		                              "is of a training: say --tokens", err);
	if (asked->bits != 0 && asked->bits != 4 && asked->bits != 8 && asked->bits != 16 &&
	    asked->bits != 32)
		return lk_number_words_refuse(&tree_words, "bits", "is not 32, 16, 8 or 4", err);
	if (asked->busy == 0 && asked->deadline_s == 0) asked->busy = 0.95;
	if (asked->bits == 0) asked->bits = 16;
	if (asked->take == 0) asked->take = 1;
	if (asked->most == 0) asked->most = 10000;
	return LK_OK;
}

static lk_status tree_plan_put_levels(const lk_hierarchy_walk *walk, lk_arena *arena,
                                      lk_plan_tree *out, lk_error *err) {
	const lk_hierarchy *tree = walk->tree;
	lk_plan_tree_level *levels = LK_ARRAY(arena, lk_plan_tree_level, (size_t)tree->levels);
	if (!levels) return lk_oom(err);
	for (int n = 0; n < tree->count; n++) {
		const lk_hierarchy_node *node = &tree->nodes[n];
		if (!node->children || !walk->active[n]) continue;
		levels[node->level].nodes++;
		levels[node->level].children += walk->active[n];
	}
	for (int l = 0; l < tree->levels; l++) {
		levels[l].every = walk->way.every[l];
		levels[l].rounds = walk->way.rounds[l];
		levels[l].bytes = walk->levels[l].bytes / levels[l].every;
		if (l > 0) levels[l].bytes += walk->levels[l].bytes_up / levels[l - 1].every;
	}
	out->levels = levels;
	out->level_count = tree->levels;
	return LK_OK;
}

static lk_status tree_plan_put_clients(const lk_hierarchy_walk *walk, lk_arena *arena,
                                       lk_plan_tree *out, lk_error *err) {
	const lk_hierarchy *tree = walk->tree;
	const char **names = LK_ARRAY(arena, const char *, (size_t)tree->count);
	double slowest_s = 0;
	if (!names) return lk_oom(err);
	for (int n = 0; n < tree->count; n++) {
		if (tree->nodes[n].children) continue;
		if (walk->out[n]) {
			names[out->left_out_count++] = tree->nodes[n].name;
			continue;
		}
		out->clients++;
		slowest_s = fmax(slowest_s, tree->nodes[n].step_s);
	}
	out->left_out = names;
	out->utilisation = slowest_s / out->step_s;
	return LK_OK;
}

/* The requirement that the fastest way misses. */
static const char *tree_plan_misses(const lk_hierarchy_cost *cost, lk_hierarchy_wish wish,
                                    bool deadline) {
	wish.bytes = INFINITY;
	if (lk_hierarchy_keeps(cost, &wish)) return "traffic";
	return deadline ? "deadline" : "rate";
}

/* Fill in clients that state no step or batch from the plan; returns the rate of all at the
 * slowest's pace. */
static double tree_plan_settle(lk_hierarchy *tree, const lk_hierarchy_training *training) {
	double slowest_s = 0, batch = 0;
	for (int n = 0; n < tree->count; n++) {
		lk_hierarchy_node *node = &tree->nodes[n];
		if (node->children) continue;
		if (node->step_s == 0) node->step_s = training->step_s;
		if (node->batch == 0) node->batch = training->batch;
		slowest_s = fmax(slowest_s, node->step_s);
		batch += node->batch;
	}
	return batch * (1 - tree->drop) / slowest_s;
}

lk_status lk_hierarchy_answer(struct lk_hierarchy_asked *asked,
                              const lk_hierarchy_training *training, const lk_cutoff *cutoff,
                              lk_arena *arena, const lk_plan_tree **out, const char **cut_off,
                              lk_error *err) {
	lk_hierarchy *tree = &asked->tree;
	lk_hierarchy_walk walk;
	lk_plan_tree *answer = LK_NEW(arena, lk_plan_tree);
	if (!answer) return lk_oom(err);
	double unhindered = tree_plan_settle(tree, training);
	tree->bytes = training->parameters * asked->bits / 8;
	double samples = training->tokens / training->tokens_of_sample;
	const lk_hierarchy_wish wish = {
		.rate = asked->deadline_s > 0 ? samples / asked->deadline_s : asked->busy * unhindered,
		.bytes = asked->traffic > 0 ? asked->traffic / samples : INFINITY,
		.take = asked->take,
		.most = (int)asked->most,
	};
	LK_TRY(lk_hierarchy_walk_make(tree, arena, &walk, err));
	lk_hierarchy_cost cost = lk_hierarchy_choose(&walk, &wish, cutoff, &answer->keeps, cut_off);
	if (!answer->keeps) answer->misses = tree_plan_misses(&cost, wish, asked->deadline_s > 0);
	answer->bits = asked->bits;
	answer->step_s = cost.step_s;
	answer->bytes = cost.bytes;
	answer->drift = cost.drift;
	answer->tokens_per_s = cost.samples / cost.step_s * training->tokens_of_sample;
	answer->hours = training->tokens / answer->tokens_per_s / 3600;
	answer->total_bytes = samples / cost.samples * cost.bytes;
	LK_TRY(tree_plan_put_levels(&walk, arena, answer, err));
	LK_TRY(tree_plan_put_clients(&walk, arena, answer, err));
	*out = answer;
	return LK_OK;
}
