/* emit_mpi_flow.c: OVERLAP steps in C and MPI as a pipeline of chunks: a table of parts, which the runtime
 * (data/target/mpi_flow.h) runs chunk by chunk, messages of some under way beside the computing of others.
 *
 * Parts are collectives, passes over a range of the dim that is cut, products of a range of rows, columns or matrices, or,
 * what cannot be cut, whole steps, which wait for all chunks of what they read. A ring is its reduce-scatter, its pass and
 * its gathers. What does not feed each other is one chunk each; of a list, chunks are its tensors.
 */
#include "lang/emit/emit_internal.h"

enum { PARTS = 32, READY = 4, CHOICES = 16 }; /* RT_FLOW_PARTS, RT_READY, RT_CHOICES */

typedef enum by { WHOLE, CUT, EACH } by;

struct part {
	lc_step step;          /* a MAP, CONTRACT, ROWS, or COMM of one value */
	const char *helper;    /* of its functions' names */
	by by;
	uint32_t needs;        /* bits of parts */
	int value, cut;        /* what it leaves, and its dim that is cut; -1 */
	int ready;             /* of a product: the slot in which its right operand is ready; -1 */
};

struct flow {
	lc_mpi *c;
	const lc_step *step;
	struct part parts[PARTS];
	int count, axis, list, slots;
	int64_t bucket;
	const char *why;       /* it cannot be done */
};

static const lc_node *node(const struct flow *f, int id) { return &f->c->p->nodes.at[id]; }
static bool moves(const struct part *p) { return p->step.kind == LC_STEP_COMM; }

static const char *move_of(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ALLREDUCE] = "RT_ALLREDUCE", [LC_REDUCESCATTER] = "RT_REDUCESCATTER", [LC_ALLGATHER] = "RT_ALLGATHER",
		[LC_ALLTOALL] = "RT_ALLTOALL", [LC_BROADCAST] = "RT_BROADCAST", [LC_REDUCE] = "RT_REDUCE", [LC_PERMUTE] = "RT_PERMUTE",
		[LC_SEND] = "RT_SEND",
	};
	return names[op];
}

/* ---- steps as parts ---- */

static uint32_t add_part(struct flow *f, const lc_step *s, lc_step_kind kind, int *value, const char *helper, uint32_t needs) {
	if (f->count == PARTS) {
		f->why = "it has too many parts";
		return 0;
	}
	struct part *p = &f->parts[f->count];
	*p = (struct part){.step = *s, .helper = helper, .needs = needs, .value = -1, .cut = -1, .ready = -1};
	p->step.kind = kind;
	if (value) p->step.values = (lc_ids){value, 1};
	if (kind == LC_STEP_MAP) p->value = s->space;
	else if (p->step.values.count) p->value = p->step.values.at[0];
	return UINT32_C(1) << f->count++;
}

static uint32_t add_ring(struct flow *f, lc_step *s, uint32_t needs) {
	uint32_t all = 0;
	if (s->scatter >= 0) all = add_part(f, s, LC_STEP_COMM, &s->scatter, "scatter", needs);
	all |= add_part(f, s, LC_STEP_MAP, NULL, "pass", needs | all);
	const uint32_t before = all;
	for (int i = 0; i < s->gathers.count; i++) all |= add_part(f, s, LC_STEP_COMM, &s->gathers.at[i], "gather", needs | before);
	return all;
}

static uint32_t add_step(struct flow *f, lc_step *s, uint32_t needs) {
	uint32_t all = 0;
	if (s->bucket > f->bucket) f->bucket = s->bucket;
	if (s->kind == LC_STEP_RING) return add_ring(f, s, needs);
	if (s->kind != LC_STEP_COMM && s->kind != LC_STEP_SEND) return add_part(f, s, s->kind, NULL, f->c->helper, needs);
	for (int i = 0; i < s->values.count; i++)
		if (move_of(node(f, s->values.at[i])->op)) all |= add_part(f, s, LC_STEP_COMM, &s->values.at[i], f->c->helper, needs);
	return all;
}

static void add_steps(struct flow *f) {
	uint32_t of[PARTS] = {0};
	const lc_step *s = f->step;
	if (s->part_count > PARTS) f->why = "it has too many parts";
	for (int i = 0; i < s->part_count && !f->why; i++) {
		uint32_t needs = 0;
		for (int k = 0; k < s->parts[i].after.count; k++) needs |= of[s->parts[i].after.at[k]];
		of[i] = add_step(f, &s->parts[i], needs);
	}
}

/* ---- how each part is cut ---- */

static bool made_here(const struct flow *f, int id) {
	for (int i = 0; i < f->count; i++)
		for (int k = 0; k < f->parts[i].step.values.count; k++)
			if (lc_mpi_root(f->c, f->parts[i].step.values.at[k]) == lc_mpi_root(f->c, id)) return true;
	return false;
}

static lk_status cut_part(struct flow *f, struct part *p) {
	const lc_node *n = p->value >= 0 ? node(f, p->value) : NULL;
	bool can = false;
	if (!n) return LK_OK;
	int list = p->step.kind == LC_STEP_COMM ? n->list : p->step.list, cut = f->c->steps->cut[p->value];
	if (f->step->chunk_dim < 0 && list >= 0 && (f->list < 0 || f->list == list)) p->by = EACH, f->list = list;
	if (f->step->chunk_dim < 0 || list >= 0 || cut < 0) return LK_OK;
	if (p->step.kind == LC_STEP_MAP) LK_TRY(lc_mpi_cuts(f->c, &p->step, cut, &can));
	else can = moves(p) || (p->step.kind == LC_STEP_CONTRACT && n->op == LC_MATMUL);
	if (!can) return LK_OK;
	p->by = CUT, p->cut = cut;
	bool product = p->step.kind == LC_STEP_CONTRACT && cut < n->rank - 1;
	if (product && f->slots < READY && !made_here(f, n->in[1])) p->ready = f->slots++;
	return LK_OK;
}

struct sides {
	bool slices[LC_AXES], others[LC_AXES]; /* what has slices of the dim that is cut, and what has all of it */
};

static void see_value(struct flow *f, int id, int cut, struct sides *x) {
	const lc_node *n = node(f, id);
	for (int a = 0; a < f->c->p->axis_count; a++) {
		bool slices = n->layout[a].kind == LC_S && n->layout[a].dim == cut;
		x->slices[a] |= slices;
		x->others[a] |= !slices && n->layout[a].kind != LC_L;
		if (slices && f->axis >= 0 && a > f->axis) f->why = "the dim that is cut is sliced over two axes";
	}
}

static void see_values(struct flow *f, struct sides *x) {
	for (int i = 0; i < f->count; i++) {
		const struct part *p = &f->parts[i];
		if (p->by != CUT) continue;
		see_value(f, p->value, p->cut, x);
		if (moves(p)) see_value(f, node(f, p->value)->in[0], p->cut, x);
	}
}

/* The axis over which some values have slices of the dim that is cut, and others have all of it. */
static void find_axis(struct flow *f) {
	struct sides x = {{false}, {false}};
	see_values(f, &x);
	for (int a = 0; a < f->c->p->axis_count; a++) {
		if (!x.slices[a] || !x.others[a]) continue;
		if (f->axis >= 0) f->why = "its collectives cut along two axes";
		f->axis = a;
	}
	see_values(f, &x);
}

/* ---- text ---- */

static lk_status put_product(struct flow *f, const struct part *p, const char *name) {
	const lc_node *n = node(f, p->value);
	char a[160], b[160], y[160];
	lc_mpi_part(f->c, n->in[0], a, sizeof a), lc_mpi_part(f->c, n->in[1], b, sizeof b), lc_mpi_part(f->c, p->value, y, sizeof y);
	if (p->ready >= 0) snprintf(b, sizeof b, "&run->ready[%d]", p->ready);
	fprintf(f->c->out, "static void %s(rt_run *run, int64_t item, int64_t from, int64_t to) {\n\t(void)item%s;\n", name,
	        p->by == EACH ? ", (void)from, (void)to" : "");
	fprintf(f->c->out, "\trt_matmul_range(run, %s, %s, %s, %s, %s, %d, from, to);\n}\n\n", a, n->ta ? "true" : "false", b, n->tb ? "true" : "false",
	        y, p->by == EACH ? -1 : p->cut);
	return LK_OK;
}

/* A product of another kind, of one tensor of a list. */
static lk_status put_tensor(struct flow *f, struct part *p, const char *name) {
	fprintf(f->c->out, "static void %s(rt_run *run, int64_t item, int64_t from, int64_t to) {\n\t(void)from, (void)to;\n", name);
	lc_mpi_contraction(f->c, p->value, 1);
	fputs("}\n\n", f->c->out);
	return LK_OK;
}

static lk_status put_function(struct flow *f, struct part *p, const char *name) {
	if (moves(p)) return LK_OK;
	if (p->by == WHOLE) return lc_mpi_any(f->c, &p->step);
	if (p->step.kind == LC_STEP_MAP) return lc_mpi_range(f->c, &p->step, name, p->cut);
	return node(f, p->value)->op == LC_MATMUL ? put_product(f, p, name) : put_tensor(f, p, name);
}

static void put_row(struct flow *f, const struct part *p, const char *name) {
	static const char *const ways[] = {[WHOLE] = "RT_WHOLE", [CUT] = "RT_CUT", [EACH] = "RT_EACH"};
	FILE *out = f->c->out;
	char to[LC_IDENTIFIER], from[LC_IDENTIFIER];
	const char *between = ", .needs = ";
	fprintf(out, "\t\t{.by = %s", ways[p->by]);
	for (int i = 0; i < f->count; i++) {
		if (!(p->needs >> i & 1)) continue;
		fprintf(out, "%s1 << %d", between, i);
		between = " | ";
	}
	if (moves(p)) {
		const lc_node *n = node(f, p->value);
		fprintf(out, ", .move = %s, .how = ", move_of(n->op));
		lc_put_settings(f->c, n);
		fprintf(out, ", .from = %s, .to = %s", lc_mpi_number(f->c, n->in[0], from), lc_mpi_number(f->c, p->value, to));
	} else {
		fprintf(out, p->by == WHOLE ? ", .whole = %s" : ", .range = %s", name);
		if (p->by == CUT) fprintf(out, ", .to = %s", lc_mpi_number(f->c, p->value, to));
	}
	if (p->by == CUT) fprintf(out, ", .cut = %d", p->cut);
	fputs("},\n", out);
}

static lk_status each_part(struct flow *f, bool rows) {
	const char *before = f->c->helper;
	char name[LC_IDENTIFIER];
	lk_status status = LK_OK;
	for (int i = 0; i < f->count && status == LK_OK; i++) {
		f->c->helper = f->parts[i].helper;
		lc_mpi_function(f->c, &f->parts[i].step, name);
		if (rows) put_row(f, &f->parts[i], name);
		else status = put_function(f, &f->parts[i], name);
	}
	f->c->helper = before;
	return status;
}

static bool cut_any(const struct flow *f) {
	for (int i = 0; i < f->count; i++)
		if (f->parts[i].by == CUT) return true;
	return false;
}

static lk_status put_flow(struct flow *f) {
	FILE *out = f->c->out;
	char name[LC_IDENTIFIER], right[160];
	LK_TRY(each_part(f, false));
	fprintf(out, "static void %s(rt_run *run) {\n\tconst rt_flow_part parts[] = {\n", lc_mpi_function(f->c, f->step, name));
	LK_TRY(each_part(f, true));
	fputs("\t};\n\trt_flow flow = {.run = run, .part = parts, ", out);
	fprintf(out, ".parts = %d, .axis = %d, .list = %d", f->count, f->axis, f->list);
	if (f->step->chunks) fprintf(out, ", .chunks = INT64_C(%lld)", (long long)f->step->chunks);
	if (f->bucket) fprintf(out, ", .bucket = INT64_C(%lld)", (long long)f->bucket);
	if (cut_any(f) && f->c->choices < CHOICES) fprintf(out, ", .choice = &run->choice[%d]", f->c->choices++);
	fputs("};\n", out);
	for (int i = 0; i < f->count; i++) {
		if (f->parts[i].ready < 0) continue;
		lc_mpi_part(f->c, node(f, f->parts[i].value)->in[1], right, sizeof right);
		fprintf(out, "\trt_make_ready(run, %d, %s);\n", f->parts[i].ready, right);
	}
	fputs("\trt_flow_run(&flow);\n}\n\n", out);
	return LK_OK;
}

lk_status lc_mpi_flow(lc_mpi *c, const lc_step *s, bool *done) {
	struct flow f = {.c = c, .step = s, .axis = -1, .list = -1};
	add_steps(&f);
	for (int i = 0; i < f.count && !f.why; i++) LK_TRY(cut_part(&f, &f.parts[i]));
	if (!f.why) find_axis(&f);
	if (f.why) {
		fprintf(c->out, "/* One after another, for %s. */\n", f.why);
		return LK_OK;
	}
	*done = true;
	return put_flow(&f);
}
