/* emit_mpi_flow.c: OVERLAP steps in C and MPI as a pipeline of chunks: a table of parts, which the
 * runtime (data/target/mpi_flow.h) runs chunk by chunk, messages of some overlapping with the
 * computation of others.
 *
 * Parts are collectives, passes over a range of the cut dim, products of a range of rows, columns
 * or matrices, or, if they cannot be cut, whole steps, which wait for all chunks of what they read.
 * A ring is its reduce-scatter, its pass and its gathers. Parts that do not feed each other are one
 * chunk each; chunks of a list are its tensors. */
#include "lang/emit/emit_internal.h"

enum { PARTS = 32, READY = 4, CHOICES = 16 }; /* RT_FLOW_PARTS, RT_READY, RT_CHOICES */

typedef enum by { WHOLE, CUT, EACH } by;

struct part {
	lc_step step;       /* a MAP, CONTRACT, ROWS, or COMM of one value */
	const char *helper; /* in its functions' names */
	by by;
	uint32_t needs; /* bits of parts that it waits for */
	int value, cut; /* its result, and the cut dim of it; -1 */
	int ready;      /* of a product: the slot of its prepared right operand; -1 */
};

struct flow {
	lc_mpi *c;
	const lc_step *step;
	struct part parts[PARTS];
	int count, axis, list, slots;
	int64_t bucket;
	const char *why; /* why it cannot be done */
};

static bool flow_moves(const struct part *part) {
	return part->step.kind == LC_STEP_COMM;
}

static const char *move_of(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ALLREDUCE] = "RT_ALLREDUCE", [LC_REDUCESCATTER] = "RT_REDUCESCATTER",
		[LC_ALLGATHER] = "RT_ALLGATHER", [LC_ALLTOALL] = "RT_ALLTOALL",
		[LC_BROADCAST] = "RT_BROADCAST", [LC_REDUCE] = "RT_REDUCE",
		[LC_PERMUTE] = "RT_PERMUTE",     [LC_SEND] = "RT_SEND",
	};
	return names[op];
}

/* ---- steps as parts ---- */

static uint32_t flow_add_part(struct flow *flow, const lc_step *step, lc_step_kind kind, int *value,
                              const char *helper, uint32_t needs) {
	if (flow->count == PARTS) {
		flow->why = "it has too many parts";
		return 0;
	}
	struct part *part = &flow->parts[flow->count];
	*part = (struct part){
		.step = *step, .helper = helper, .needs = needs, .value = -1, .cut = -1, .ready = -1};
	part->step.kind = kind;
	if (value) part->step.values = (lc_ids){value, 1};
	if (kind == LC_STEP_MAP) part->value = step->space;
	else if (part->step.values.count) part->value = part->step.values.at[0];
	return UINT32_C(1) << flow->count++;
}

static uint32_t add_ring(struct flow *flow, lc_step *step, uint32_t needs) {
	uint32_t all = 0;
	if (step->scatter >= 0)
		all = flow_add_part(flow, step, LC_STEP_COMM, &step->scatter, "scatter", needs);
	all |= flow_add_part(flow, step, LC_STEP_MAP, NULL, "pass", needs | all);
	const uint32_t before = all;
	for (int i = 0; i < step->gathers.count; i++)
		all |=
			flow_add_part(flow, step, LC_STEP_COMM, &step->gathers.at[i], "gather", needs | before);
	return all;
}

static uint32_t add_step(struct flow *flow, lc_step *step, uint32_t needs) {
	uint32_t all = 0;
	if (step->bucket > flow->bucket) flow->bucket = step->bucket;
	if (step->kind == LC_STEP_RING) return add_ring(flow, step, needs);
	if (step->kind != LC_STEP_COMM && step->kind != LC_STEP_SEND)
		return flow_add_part(flow, step, step->kind, NULL, flow->c->helper, needs);
	for (int i = 0; i < step->values.count; i++)
		if (move_of(lc_node_at(flow->c->p, step->values.at[i])->op))
			all |= flow_add_part(flow, step, LC_STEP_COMM, &step->values.at[i], flow->c->helper,
			                     needs);
	return all;
}

static void flow_add_steps(struct flow *flow) {
	uint32_t of[PARTS] = {0};
	const lc_step *step = flow->step;
	if (step->part_count > PARTS) flow->why = "it has too many parts";
	for (int i = 0; i < step->part_count && !flow->why; i++) {
		uint32_t needs = 0;
		for (int k = 0; k < step->parts[i].after.count; k++)
			needs |= of[step->parts[i].after.at[k]];
		of[i] = add_step(flow, &step->parts[i], needs);
	}
}

/* ---- how parts are cut ---- */

static bool made_here(const struct flow *flow, int id) {
	for (int i = 0; i < flow->count; i++)
		for (int k = 0; k < flow->parts[i].step.values.count; k++)
			if (lc_mpi_root(flow->c, flow->parts[i].step.values.at[k]) == lc_mpi_root(flow->c, id))
				return true;
	return false;
}

static lk_status flow_cut_part(struct flow *flow, struct part *part) {
	const lc_node *value = part->value >= 0 ? lc_node_at(flow->c->p, part->value) : NULL;
	bool can = false;
	if (!value) return LK_OK;
	int list = part->step.kind == LC_STEP_COMM ? value->list : part->step.list,
		cut = flow->c->steps->cut[part->value];
	if (flow->step->chunk_dim < 0 && list >= 0 && (flow->list < 0 || flow->list == list)) {
		part->by = EACH;
		flow->list = list;
	}
	if (flow->step->chunk_dim < 0 || list >= 0 || cut < 0) return LK_OK;
	if (part->step.kind == LC_STEP_MAP) LK_TRY(lc_mpi_cuts(flow->c, &part->step, cut, &can));
	else can = flow_moves(part) || (part->step.kind == LC_STEP_CONTRACT && value->op == LC_MATMUL);
	if (!can) return LK_OK;
	part->by = CUT;
	part->cut = cut;
	bool product = part->step.kind == LC_STEP_CONTRACT && cut < value->rank - 1;
	if (product && flow->slots < READY && !made_here(flow, value->in[1]))
		part->ready = flow->slots++;
	return LK_OK;
}

struct sides {
	bool slices[LC_AXES],
		others[LC_AXES]; /* values with slices of the cut dim, and with all of it */
};

static void see_value(struct flow *flow, int id, int cut, struct sides *sides) {
	const lc_node *value = lc_node_at(flow->c->p, id);
	for (int a = 0; a < flow->c->p->axis_count; a++) {
		bool slices = value->layout[a].kind == LC_S && value->layout[a].dim == cut;
		sides->slices[a] |= slices;
		sides->others[a] |= !slices && value->layout[a].kind != LC_L;
		if (slices && flow->axis >= 0 && a > flow->axis)
			flow->why = "the dim that is cut is sliced over two axes";
	}
}

static void see_values(struct flow *flow, struct sides *sides) {
	for (int i = 0; i < flow->count; i++) {
		const struct part *part = &flow->parts[i];
		if (part->by != CUT) continue;
		see_value(flow, part->value, part->cut, sides);
		if (flow_moves(part))
			see_value(flow, lc_node_at(flow->c->p, part->value)->in[0], part->cut, sides);
	}
}

/* Find the axis over which some values have slices of the cut dim, and others have all of it. */
static void flow_find_axis(struct flow *flow) {
	struct sides x = {{false}, {false}};
	see_values(flow, &x);
	for (int a = 0; a < flow->c->p->axis_count; a++) {
		if (!x.slices[a] || !x.others[a]) continue;
		if (flow->axis >= 0) flow->why = "its collectives cut along two axes";
		flow->axis = a;
	}
	see_values(flow, &x);
}

/* ---- text ---- */

static lk_status flow_put_product(struct flow *flow, const struct part *part, const char *name) {
	const lc_node *value = lc_node_at(flow->c->p, part->value);
	char a[160], b[160], y[160];
	lc_mpi_part(flow->c, value->in[0], a, sizeof a);
	lc_mpi_part(flow->c, value->in[1], b, sizeof b);
	lc_mpi_part(flow->c, part->value, y, sizeof y);
	if (part->ready >= 0) snprintf(b, sizeof b, "&run->ready[%d]", part->ready);
	fprintf(
		flow->c->out,
		"static void %s(rt_run *run, int64_t item, int64_t from, int64_t to) {\n\t(void)item%s;\n",
		name, part->by == EACH ? ", (void)from, (void)to" : "");
	fprintf(flow->c->out, "\trt_matmul_range(run, %s, %s, %s, %s, %s, %d, from, to);\n}\n\n", a,
	        lk_bool_text(value->ta), b, lk_bool_text(value->tb), y,
	        part->by == EACH ? -1 : part->cut);
	return LK_OK;
}

/* A product of another kind, for one tensor of a list. */
static lk_status put_tensor(struct flow *flow, struct part *part, const char *name) {
	fprintf(flow->c->out,
	        "static void %s(rt_run *run, int64_t item, int64_t from, int64_t to) {\n\t(void)from, "
	        "(void)to;\n",
	        name);
	lc_mpi_contraction(flow->c, &part->step, 1);
	fputs("}\n\n", flow->c->out);
	return LK_OK;
}

static lk_status flow_put_function(struct flow *flow, struct part *part, const char *name) {
	if (flow_moves(part)) return LK_OK;
	if (part->by == WHOLE) return flow->c->any(flow->c, &part->step);
	if (part->step.kind == LC_STEP_MAP) return lc_mpi_range(flow->c, &part->step, name, part->cut);
	return lc_node_at(flow->c->p, part->value)->op == LC_MATMUL ? flow_put_product(flow, part, name)
	                                                            : put_tensor(flow, part, name);
}

static void flow_put_row(struct flow *flow, const struct part *part, const char *name) {
	static const char *const ways[] = {[WHOLE] = "RT_WHOLE", [CUT] = "RT_CUT", [EACH] = "RT_EACH"};
	FILE *out = flow->c->out;
	char to[LC_IDENTIFIER], from[LC_IDENTIFIER];
	const char *between = ", .needs = ";
	fprintf(out, "\t\t{.by = %s", ways[part->by]);
	for (int i = 0; i < flow->count; i++) {
		if (!(part->needs >> i & 1)) continue;
		fprintf(out, "%s1 << %d", between, i);
		between = " | ";
	}
	if (flow_moves(part)) {
		const lc_node *value = lc_node_at(flow->c->p, part->value);
		fprintf(out, ", .move = %s, .how = ", move_of(value->op));
		lc_put_settings(flow->c, value);
		fprintf(out, ", .from = %s, .to = %s", lc_mpi_number(flow->c, value->in[0], from),
		        lc_mpi_number(flow->c, part->value, to));
	} else {
		fprintf(out, part->by == WHOLE ? ", .whole = %s" : ", .range = %s", name);
		if (part->by == CUT) fprintf(out, ", .to = %s", lc_mpi_number(flow->c, part->value, to));
	}
	if (part->by == CUT) fprintf(out, ", .cut = %d", part->cut);
	fputs("},\n", out);
}

static lk_status each_part(struct flow *flow, bool rows) {
	const char *before = flow->c->helper;
	char name[LC_IDENTIFIER];
	lk_status status = LK_OK;
	for (int i = 0; i < flow->count && status == LK_OK; i++) {
		flow->c->helper = flow->parts[i].helper;
		lc_mpi_function(flow->c, &flow->parts[i].step, name);
		if (rows) flow_put_row(flow, &flow->parts[i], name);
		else status = flow_put_function(flow, &flow->parts[i], name);
	}
	flow->c->helper = before;
	return status;
}

static bool cut_any(const struct flow *flow) {
	for (int i = 0; i < flow->count; i++)
		if (flow->parts[i].by == CUT) return true;
	return false;
}

static lk_status put_flow(struct flow *flow) {
	FILE *out = flow->c->out;
	char name[LC_IDENTIFIER], right[160];
	LK_TRY(each_part(flow, false));
	fprintf(out, "static void %s(rt_run *run) {\n\tconst rt_flow_part parts[] = {\n",
	        lc_mpi_function(flow->c, flow->step, name));
	LK_TRY(each_part(flow, true));
	fputs("\t};\n\trt_flow flow = {.run = run, .part = parts, ", out);
	fprintf(out, ".parts = %d, .axis = %d, .list = %d", flow->count, flow->axis, flow->list);
	if (flow->step->chunks)
		fprintf(out, ", .chunks = INT64_C(%lld)", (long long)flow->step->chunks);
	if (flow->bucket) fprintf(out, ", .bucket = INT64_C(%lld)", (long long)flow->bucket);
	if (cut_any(flow) && flow->c->choices < CHOICES)
		fprintf(out, ", .choice = &run->choice[%d]", flow->c->choices++);
	fputs("};\n", out);
	for (int i = 0; i < flow->count; i++) {
		if (flow->parts[i].ready < 0) continue;
		lc_mpi_part(flow->c, lc_node_at(flow->c->p, flow->parts[i].value)->in[1], right,
		            sizeof right);
		fprintf(out, "\trt_make_ready(run, %d, %s);\n", flow->parts[i].ready, right);
	}
	fputs("\trt_flow_run(&flow);\n}\n\n", out);
	return LK_OK;
}

lk_status lc_mpi_flow(lc_mpi *mpi, const lc_step *step, bool *done) {
	struct flow f = {.c = mpi, .step = step, .axis = -1, .list = -1};
	flow_add_steps(&f);
	for (int i = 0; i < f.count && !f.why; i++) LK_TRY(flow_cut_part(&f, &f.parts[i]));
	if (!f.why) flow_find_axis(&f);
	if (f.why) {
		fprintf(mpi->out, "/* One after another, for %s. */\n", f.why);
		return LK_OK;
	}
	*done = true;
	return put_flow(&f);
}
