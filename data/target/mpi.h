/* ---- runtime: ranks, what they hold of tensors, collectives -------------------------------------------------------- */

enum { RT_RANK = 6 };

/* Ranks along each axis, the last axis fastest; where this one stands; a communicator along each. */
typedef struct rt_mesh {
	int axes, ranks[RT_AXES], at[RT_AXES], rank, size;
	MPI_Comm along[RT_AXES], all;
} rt_mesh;

/* What a rank holds of one tensor, in row-major order. */
typedef struct rt_part {
	void *data;
	rt_format format;
	int rank;
	bool here;              /* false: another group or root has it */
	int64_t whole[RT_RANK], begin[RT_RANK], extent[RT_RANK], count;
} rt_part;

typedef struct rt_run rt_run;

/* One way to run the program. */
struct rt_schedule {
	const char *name;
	int axes;
	const int *axis;        /* of each axis: the program's axis that it is part of */
	const int *ranks;       /* of each axis: how many, 0: what is left of the program's axis */
	int values;
	const rt_value *value;
	const int *passes;      /* values that passes over memory read and write, -1 ends */
	/* Extents of a whole tensor; negative ones do not exist. */
	void (*shape)(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t item, int64_t whole[RT_RANK]);
	const char *(*wrong)(const rt_sizes *sizes, const rt_mesh *mesh); /* a condition that does not hold, or NULL */
	int64_t (*bound)(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t item); /* of drawn whole numbers */
	void (*run)(rt_run *run);
	const int *results;     /* outputs, then states; -1 ends */
};

enum { RT_SCRATCHES = 5, RT_SUMS = 64 };

struct rt_run {
	const rt_program *program;
	const rt_schedule *schedule;
	const rt_sizes *sizes;
	rt_mesh mesh;
	rt_part **part;         /* [values][items] */
	char *memory;           /* of all values of their own */
	size_t bytes;
	void *scratch[RT_SCRATCHES];
	size_t room[RT_SCRATCHES];
	void *sum[RT_SUMS];     /* of reductions, while a pass runs */
	int64_t sums[RT_SUMS];
	MPI_Op op[RT_FORMATS][3];
	int64_t sent[RT_AXES];  /* bytes that left this rank along each axis */
};

RT_FUNCTION int64_t rt_slice_begin(int64_t n, int64_t ranks, int64_t r) {
	int64_t more = n % ranks;
	return n / ranks * r + (r < more ? r : more);
}

RT_FUNCTION int64_t rt_slice_length(int64_t n, int64_t ranks, int64_t r) {
	return rt_slice_begin(n, ranks, r + 1) - rt_slice_begin(n, ranks, r);
}

/* Elements along dims from .. to - 1. */
RT_FUNCTION int64_t rt_product(const rt_part *p, int from, int to) {
	int64_t product = 1;
	for (int d = from; d < to; d++) product *= p->extent[d];
	return product;
}

RT_FUNCTION int64_t rt_whole_product(const rt_part *p, int from, int to) {
	int64_t product = 1;
	for (int d = from; d < to; d++) product *= p->whole[d];
	return product;
}

/* Where the first element of a slice lies in what holds it. */
RT_FUNCTION int64_t rt_view(const rt_part *slice, const rt_part *holder) {
	int64_t at = 0;
	for (int d = 0; d < slice->rank; d++) at = at * holder->extent[d] + slice->begin[d] - holder->begin[d];
	return at;
}

/* The index of the first element in the whole tensor. */
RT_FUNCTION uint64_t rt_place(const rt_part *p) {
	uint64_t at = 0;
	for (int d = 0; d < p->rank; d++) at = at * (uint64_t)p->whole[d] + (uint64_t)p->begin[d];
	return at;
}

RT_FUNCTION size_t rt_size(const rt_part *p) { return (size_t)p->count * (size_t)rt_bytes[p->format]; }

RT_FUNCTION int64_t rt_items(const rt_run *run, int value) {
	int list = run->schedule->value[value].list;
	return list < 0 ? 1 : run->sizes->items[list];
}

/* What cannot go on, on one rank, ends all. */
RT_FUNCTION void rt_abort(const rt_run *run, const char *what) {
	fprintf(stderr, "%s: rank %d: %s\n", run->program->name, run->mesh.rank, what);
	MPI_Abort(run->mesh.all, 1);
	abort();
}

/* Memory between steps; what it held before is lost. */
RT_FUNCTION void *rt_scratch(rt_run *run, int which, size_t bytes) {
	if (bytes > run->room[which]) {
		free(run->scratch[which]);
		run->room[which] = bytes;
		run->scratch[which] = malloc(bytes);
		if (!run->scratch[which]) rt_abort(run, "memory is out");
	}
	return run->scratch[which];
}

/* Sums of 8 bytes each; they last over the calls of one pass. */
RT_FUNCTION void *rt_sums(rt_run *run, int which, int64_t count) {
	if (count > run->sums[which]) {
		free(run->sum[which]);
		run->sums[which] = count;
		run->sum[which] = calloc((size_t)count, 8);
		if (!run->sum[which]) rt_abort(run, "memory is out");
	}
	return run->sum[which];
}

/* ---- opening: shapes, parts, memory ---- */

enum { RT_ERROR = 256 };

RT_FUNCTION int rt_wrong(char error[RT_ERROR], const char *what, const char *which) {
	snprintf(error, RT_ERROR, "%.110s%s%.130s", what, which ? ": " : "", which ? which : "");
	return 1;
}

RT_FUNCTION int rt_mesh_open(rt_mesh *m, const rt_program *p, const rt_schedule *s, const rt_sizes *sizes, MPI_Comm all,
							 char error[RT_ERROR]) {
	int64_t left[RT_AXES], product = 1;
	MPI_Comm_rank(all, &m->rank);
	MPI_Comm_size(all, &m->size);
	m->all = all, m->axes = s->axes;
	for (int a = 0; p->axis[a].name; a++) {
		left[a] = sizes->axis[a];
		if (left[a] < 1 || left[a] > m->size || (product *= left[a]) > m->size) return rt_wrong(error, "the mesh has more ranks than are running", NULL);
		if (p->axis[a].number && p->axis[a].number != left[a]) return rt_wrong(error, "this axis has another number of ranks", p->axis[a].name);
	}
	if (product != m->size) return rt_wrong(error, "the mesh has fewer ranks than are running", NULL);
	for (int a = 0; a < s->axes; a++) {
		if (!s->ranks[a]) continue;
		if (left[s->axis[a]] % s->ranks[a]) return rt_wrong(error, "groups of ranks do not divide the axis", p->axis[s->axis[a]].name);
		left[s->axis[a]] /= s->ranks[a];
	}
	for (int a = 0; a < s->axes; a++) m->ranks[a] = s->ranks[a] ? s->ranks[a] : (int)left[s->axis[a]];
	for (int a = s->axes, rest = m->rank; a-- > 0; rest /= m->ranks[a]) m->at[a] = rest % m->ranks[a];
	for (int a = 0; a < s->axes; a++) {
		int below = 1;
		for (int b = a + 1; b < s->axes; b++) below *= m->ranks[b];
		MPI_Comm_split(all, m->rank - m->at[a] * below, m->at[a], &m->along[a]);
	}
	return 0;
}

/* The part of this rank of a tensor whose whole extents are known. */
RT_FUNCTION int rt_cut(const rt_run *run, const rt_value *v, rt_part *p, char error[RT_ERROR]) {
	const rt_mesh *m = &run->mesh;
	int64_t all = rt_bytes[v->format];
	p->here = true, p->count = 1, p->format = v->format, p->rank = v->rank;
	for (int d = 0; d < v->rank; d++) {
		if (p->whole[d] < 1) return rt_wrong(error, "with these sizes a dim is no number of elements", v->name);
		if (__builtin_mul_overflow(all, p->whole[d], &all)) return rt_wrong(error, "with these sizes a tensor is too large", v->name);
		p->begin[d] = 0, p->extent[d] = p->whole[d];
	}
	if (v->group >= 0) {
		int64_t at = (v->index >= 0 ? run->sizes->index[v->index] : 0) + v->offset;
		if (at < 0 || at >= m->ranks[v->group]) return rt_wrong(error, "there is no such group of ranks", v->name);
		p->here = at == m->at[v->group];
	}
	for (int a = 0; a < m->axes; a++) {
		const rt_layout *l = &v->layout[a];
		int ranks = m->ranks[a], slice = ((m->at[a] - l->turn) % ranks + ranks) % ranks;
		if (l->way == RT_ROOT && l->turn >= ranks) return rt_wrong(error, "there is no such rank for the root", v->name);
		if (l->way == RT_ROOT && l->turn != m->at[a]) p->here = false;
		if (l->way != RT_S) continue;
		int64_t all_of_it = p->extent[l->dim]; /* what axes before this one have left */
		p->begin[l->dim] += rt_slice_begin(all_of_it, ranks, slice);
		p->extent[l->dim] = rt_slice_length(all_of_it, ranks, slice);
	}
	for (int d = 0; d < v->rank; d++) {
		if (!p->here) p->extent[d] = 0;
		p->count *= p->extent[d];
	}
	if (!p->here) p->count = 0;
	return 0;
}

RT_FUNCTION int rt_shape_parts(rt_run *run, char error[RT_ERROR]) {
	const rt_schedule *s = run->schedule;
	run->part = calloc((size_t)s->values + 1, sizeof *run->part);
	if (!run->part) return rt_wrong(error, "memory is out", NULL);
	for (int i = 0; i < s->values; i++) {
		int64_t items = rt_items(run, i);
		run->part[i] = calloc((size_t)items, sizeof *run->part[i]);
		if (!run->part[i]) return rt_wrong(error, "memory is out", NULL);
		for (int64_t item = 0; item < items; item++) {
			s->shape(run->sizes, &run->mesh, i, item, run->part[i][item].whole);
			if (rt_cut(run, &s->value[i], &run->part[i][item], error)) return 1;
		}
	}
	return 0;
}

/* Parts of their own lie one behind the other, large ones on pages of their own, which processes copy from one another
 * faster, small ones on cache lines. Without memory they are only counted. */
RT_FUNCTION int rt_place_parts(rt_run *run, bool lent, char *memory, char error[RT_ERROR]) {
	size_t used = 0;
	for (int i = 0; i < run->schedule->values; i++) {
		rt_kind kind = run->schedule->value[i].kind;
		for (int64_t item = 0; item < rt_items(run, i) && (kind == RT_OWN || (kind < RT_OWN && !lent)); item++) {
			rt_part *p = &run->part[i][item];
			const size_t line = rt_size(p) >= 65536 ? 4096 : 64;
			used = (used + line - 1) / line * line;
			if (memory) p->data = memory + used;
			if (__builtin_add_overflow(used, (rt_size(p) + line) / line * line, &used))
				return rt_wrong(error, "the tensors are too large together", NULL);
		}
	}
	run->bytes = used;
	return 0;
}

RT_FUNCTION void rt_share_parts(rt_run *run) {
	for (int i = 0; i < run->schedule->values; i++) {
		const rt_value *v = &run->schedule->value[i];
		for (int64_t item = 0; item < rt_items(run, i) && (v->kind == RT_SHARED || v->kind == RT_VIEW); item++) {
			rt_part *p = &run->part[i][item];
			const rt_part *of = &run->part[v->of][item];
			if (!p->here || !of->here) continue;
			p->data = (char *)of->data + (v->kind == RT_VIEW ? rt_view(p, of) * rt_bytes[p->format] : 0);
		}
	}
}

RT_FUNCTION void rt_ops_open(rt_run *run);
RT_FUNCTION void rt_ops_close(rt_run *run);

RT_FUNCTION void rt_close(rt_run *run) {
	if (!run) return;
	for (int i = 0; run->part && i < run->schedule->values; i++) free(run->part[i]);
	for (int i = 0; i < RT_SCRATCHES; i++) free(run->scratch[i]);
	for (int i = 0; i < RT_SUMS; i++) free(run->sum[i]);
	for (int a = 0; a < run->mesh.axes; a++)
		if (run->mesh.along[a] != MPI_COMM_NULL) MPI_Comm_free(&run->mesh.along[a]);
	rt_ops_close(run);
	free(run->part);
	free(run->memory);
	free(run);
}

/* Whether it went wrong anywhere; every rank then says so. */
RT_FUNCTION int rt_agree(MPI_Comm all, int wrong, char error[RT_ERROR]) {
	int any;
	MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, all);
	if (any && !wrong) rt_wrong(error, "another rank has no memory, or other sizes", NULL);
	return any;
}

/* With `lent`, inputs and states get no memory: rt_lend sets it. */
RT_FUNCTION int rt_fill_open(rt_run *run, bool lent, MPI_Comm all, char error[RT_ERROR]) {
	int wrong = rt_mesh_open(&run->mesh, run->program, run->schedule, run->sizes, all, error);
	for (int l = 0; run->program->list[l].name && !wrong; l++)
		if (run->sizes->items[l] < 1) wrong = rt_wrong(error, "this list has no tensors", run->program->list[l].name);
	const char *condition = wrong ? NULL : run->schedule->wrong(run->sizes, &run->mesh);
	if (condition) wrong = rt_wrong(error, "with these sizes it does not hold that", condition);
	if (!wrong) wrong = rt_shape_parts(run, error);
	if (!wrong) wrong = rt_place_parts(run, lent, NULL, error);
	if (!wrong) {
		run->memory = aligned_alloc(4096, (run->bytes + 4096) / 4096 * 4096);
		if (!run->memory) wrong = rt_wrong(error, "memory is out", NULL);
		else memset(run->memory, 0, run->bytes);
	}
	if (!wrong) rt_place_parts(run, lent, run->memory, error), rt_share_parts(run);
	return rt_agree(all, wrong, error);
}

RT_FUNCTION rt_run *rt_open(const rt_program *p, const rt_schedule *s, const rt_sizes *sizes, bool lent, MPI_Comm all,
							char error[RT_ERROR]) {
	rt_run *run = calloc(1, sizeof *run);
	if (rt_agree(all, !run, error)) {
		free(run);
		return NULL;
	}
	run->program = p, run->schedule = s, run->sizes = sizes;
	for (int a = 0; a < RT_AXES; a++) run->mesh.along[a] = MPI_COMM_NULL;
	rt_ops_open(run);
	if (rt_fill_open(run, lent, all, error) == 0) return run;
	rt_close(run);
	return NULL;
}

/* ---- for other programs: their memory as inputs, states and outputs ---- */

RT_FUNCTION void rt_sizes_close(rt_sizes *z) {
	for (int d = 0; d < RT_DIMS; d++) free(z->each[d]);
	free(z->scalar);
}

RT_FUNCTION int rt_copy_each(const int64_t *from, int64_t count, int64_t **to) {
	if (count < 1 || !from) return 1;
	*to = malloc((size_t)count * sizeof **to);
	if (*to) memcpy(*to, from, (size_t)count * sizeof **to);
	return !*to;
}

RT_FUNCTION int rt_lend(rt_run *run, int value, int64_t item, const void *data) {
	memcpy(&run->part[value][item].data, &data, sizeof data); /* inputs are only read */
	return !data && run->part[value][item].count > 0;
}

RT_FUNCTION void rt_return(const rt_run *run, int value, int64_t item, void *out) {
	const rt_part *p = &run->part[value][item];
	if (out && p->count && out != p->data) memcpy(out, p->data, rt_size(p));
}

RT_FUNCTION int64_t rt_describe(const rt_run *run, int value, int64_t item, int64_t begin[RT_RANK], int64_t extent[RT_RANK]) {
	if (item < 0 || item >= rt_items(run, value)) return -1;
	const rt_part *p = &run->part[value][item];
	memcpy(begin, p->begin, sizeof p->begin);
	memcpy(extent, p->extent, sizeof p->extent);
	return p->count;
}

/* ---- reductions of formats that MPI does not know ---- */

#define RT_REDUCTION(name, type, from, to, join)                                  \
	static void rt_op_##name(void *in, void *into, int *count, MPI_Datatype *t) { \
		const type *restrict a = in;                                              \
		type *restrict b = into;                                                  \
		(void)t;                                                                  \
		for (int i = 0; i < *count; i++) {                                        \
			float x = from(a[i]), y = from(b[i]);                                 \
			b[i] = to(join);                                                      \
		}                                                                         \
	}
#define RT_REDUCTIONS(name, type, from, to)             \
	RT_REDUCTION(name##_sum, type, from, to, x + y)     \
	RT_REDUCTION(name##_max, type, from, to, x > y ? x : y) \
	RT_REDUCTION(name##_min, type, from, to, x < y ? x : y)
RT_REDUCTIONS(f16, uint16_t, rt_from_f16, rt_to_f16)
RT_REDUCTIONS(bf16, uint16_t, rt_from_bf16, rt_to_bf16)
RT_REDUCTIONS(f8, uint8_t, rt_from_f8, rt_to_f8)

enum { RT_SUM, RT_MAX, RT_MIN };

RT_FUNCTION void rt_ops_open(rt_run *run) {
	static MPI_User_function *const own[3][3] = {
		{rt_op_f16_sum, rt_op_f16_max, rt_op_f16_min}, {rt_op_bf16_sum, rt_op_bf16_max, rt_op_bf16_min},
		{rt_op_f8_sum, rt_op_f8_max, rt_op_f8_min},
	};
	for (int f = 0; f < RT_FORMATS; f++) {
		run->op[f][RT_SUM] = f == RT_BOOL ? MPI_MAX : MPI_SUM;
		run->op[f][RT_MAX] = MPI_MAX, run->op[f][RT_MIN] = MPI_MIN;
	}
	for (int f = RT_F16; f <= RT_F8; f++)
		for (int op = 0; op < 3; op++) MPI_Op_create(own[f - RT_F16][op], 1, &run->op[f][op]);
}

RT_FUNCTION void rt_ops_close(rt_run *run) {
	for (int f = RT_F16; f <= RT_F8; f++)
		for (int op = 0; op < 3; op++) MPI_Op_free(&run->op[f][op]);
}

RT_FUNCTION MPI_Datatype rt_type(rt_format f) {
	switch (f) {
	case RT_F64: return MPI_DOUBLE;
	case RT_F32: return MPI_FLOAT;
	case RT_F16: case RT_BF16: case RT_U16: return MPI_UINT16_T;
	case RT_I64: return MPI_INT64_T;
	case RT_I32: return MPI_INT32_T;
	case RT_I16: return MPI_INT16_T;
	case RT_I8: return MPI_INT8_T;
	case RT_U64: return MPI_UINT64_T;
	case RT_U32: return MPI_UINT32_T;
	default: return MPI_UINT8_T;
	}
}

/* ---- messages: MPI counts in int, so that what is longer goes in pieces, or is refused ---- */

enum { RT_PIECE = 1 << 30 };

RT_FUNCTION int rt_piece(int64_t left) { return left < RT_PIECE ? (int)left : RT_PIECE; }

RT_FUNCTION int rt_count(const rt_run *run, int64_t count) {
	if (count > INT_MAX) rt_abort(run, "a message has more than 2^31 - 1 elements, which MPI's counts do not hold; use more ranks, or smaller sizes");
	return (int)count;
}

/* Slices of a dim, packed one behind the other: elements begin .. begin + length - 1 along d to `packed`, or back.
 * Returns the bytes. */
RT_FUNCTION size_t rt_pack(const rt_part *p, int d, int64_t begin, int64_t length, char *packed, bool back) {
	size_t inner = (size_t)(rt_product(p, d + 1, p->rank) * rt_bytes[p->format]), row = inner * (size_t)p->extent[d];
	size_t bytes = inner * (size_t)length, rows = (size_t)rt_product(p, 0, d);
	char *data = (char *)p->data + inner * (size_t)begin;
	for (size_t i = 0; i < rows && bytes; i++) {
		if (back) memcpy(data + i * row, packed + i * bytes, bytes);
		else memcpy(packed + i * bytes, data + i * row, bytes);
	}
	return bytes * rows;
}

/* Tensors that go in one message. */
typedef struct rt_pairs {
	rt_part **from, **to;
	int count;
} rt_pairs;

typedef struct rt_collective {
	int axis, reduce, d, e, root, shift;
} rt_collective;

RT_FUNCTION int64_t rt_elements(rt_part *const *parts, int count) {
	int64_t all = 0;
	for (int i = 0; i < count; i++) all += parts[i]->count;
	return all;
}

/* All of the parts behind each other, or back. */
RT_FUNCTION void rt_pack_all(rt_part *const *parts, int count, char *packed, bool back) {
	for (int i = 0; i < count; i++) {
		if (rt_size(parts[i]) == 0) continue;
		if (back) memcpy(parts[i]->data, packed, rt_size(parts[i]));
		else memcpy(packed, parts[i]->data, rt_size(parts[i]));
		packed += rt_size(parts[i]);
	}
}

/* One part: its own memory; several: scratch, which they are packed into. */
RT_FUNCTION char *rt_joined(rt_run *run, rt_part *const *parts, int count, int scratch, bool fill) {
	if (count == 1) return parts[0]->data;
	char *packed = rt_scratch(run, scratch, (size_t)rt_elements(parts, count) * (size_t)rt_bytes[parts[0]->format] + 1);
	if (fill) rt_pack_all(parts, count, packed, false);
	return packed;
}

RT_FUNCTION void rt_allreduce_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->from[0]->format;
	int64_t count = rt_elements(x->from, x->count), ranks = run->mesh.ranks[c->axis];
	char *from = rt_joined(run, x->from, x->count, 0, true), *to = rt_joined(run, x->to, x->count, 0, false);
	for (int64_t done = 0; done < count; done += RT_PIECE) {
		int64_t at = done * rt_bytes[f];
		MPI_Allreduce(from == to ? MPI_IN_PLACE : from + at, to + at, rt_piece(count - done), rt_type(f), run->op[f][c->reduce],
		              run->mesh.along[c->axis]);
	}
	if (x->count > 1) rt_pack_all(x->to, x->count, to, true);
	run->sent[c->axis] += 2 * (ranks - 1) * count * rt_bytes[f] / ranks;
}

RT_FUNCTION void rt_reduce_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->from[0]->format;
	int64_t count = rt_elements(x->from, x->count);
	bool root = run->mesh.at[c->axis] == c->root;
	char *from = rt_joined(run, x->from, x->count, 0, true), *to = root ? rt_joined(run, x->to, x->count, 1, false) : NULL;
	for (int64_t done = 0; done < count; done += RT_PIECE) {
		int64_t at = done * rt_bytes[f];
		bool place = root && from == to;
		MPI_Reduce(place ? MPI_IN_PLACE : from + at, root ? to + at : NULL, rt_piece(count - done), rt_type(f), run->op[f][c->reduce],
		           c->root, run->mesh.along[c->axis]);
	}
	if (root && x->count > 1) rt_pack_all(x->to, x->count, to, true);
	if (!root) run->sent[c->axis] += count * rt_bytes[f];
}

RT_FUNCTION void rt_broadcast_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->to[0]->format;
	int64_t count = rt_elements(x->to, x->count), ranks = run->mesh.ranks[c->axis];
	bool root = run->mesh.at[c->axis] == c->root;
	char *to = rt_joined(run, x->to, x->count, 0, false);
	size_t at = 0;
	for (int i = 0; i < x->count && root; at += rt_size(x->to[i++]))
		if (x->to[i]->count && x->from[i]->data != to + at) memmove(to + at, x->from[i]->data, rt_size(x->to[i]));
	for (int64_t done = 0; done < count; done += RT_PIECE)
		MPI_Bcast(to + done * rt_bytes[f], rt_piece(count - done), rt_type(f), c->root, run->mesh.along[c->axis]);
	if (x->count > 1) rt_pack_all(x->to, x->count, to, true);
	if (root) run->sent[c->axis] += count * rt_bytes[f] * (ranks > 1);
}

/* Blocks of every pair for each rank, by slices along dim d (of x->from or x->to), packed rank by rank, or back. Elements
 * per rank are put into counts, where they begin into begins. */
RT_FUNCTION int64_t rt_blocks(rt_run *run, const rt_collective *c, rt_part *const *parts, int pairs, int d, char *packed, bool back,
							  int *counts, int *begins) {
	int ranks = run->mesh.ranks[c->axis];
	int64_t done = 0;
	for (int r = 0; r < ranks; r++) {
		int64_t own = 0;
		for (int i = 0; i < pairs; i++) {
			const rt_part *p = parts[i];
			int64_t begin = rt_slice_begin(p->extent[d], ranks, r), length = rt_slice_length(p->extent[d], ranks, r);
			if (packed) packed += rt_pack(p, d, begin, length, packed, back);
			own += rt_product(p, 0, d) * length * rt_product(p, d + 1, p->rank);
		}
		counts[r] = rt_count(run, own), begins[r] = rt_count(run, done);
		done += own;
	}
	return done;
}

/* Whether slices along dim d lie one behind the other already. */
RT_FUNCTION bool rt_in_order(const rt_pairs *x, rt_part *const *parts, int d) {
	return x->count == 1 && rt_product(parts[0], 0, d) == 1;
}

RT_FUNCTION int *rt_counts(rt_run *run) {
	int most = 1;
	for (int a = 0; a < run->mesh.axes; a++) most = run->mesh.ranks[a] > most ? run->mesh.ranks[a] : most;
	return rt_scratch(run, 2, 4 * (size_t)most * sizeof(int));
}

RT_FUNCTION void rt_reducescatter_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->from[0]->format;
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], *counts = rt_counts(run);
	bool ordered = rt_in_order(x, x->from, c->d);
	size_t bytes = (size_t)(rt_elements(x->from, x->count) * rt_bytes[f]);
	char *from = ordered ? x->from[0]->data : rt_scratch(run, 0, bytes + 1);
	int64_t count = rt_blocks(run, c, x->from, x->count, c->d, ordered ? NULL : from, false, counts, counts + ranks);
	char *to = rt_joined(run, x->to, x->count, 1, false);
	MPI_Reduce_scatter(from, to, counts, rt_type(f), run->op[f][c->reduce], run->mesh.along[c->axis]);
	if (x->count > 1) rt_pack_all(x->to, x->count, to, true);
	run->sent[c->axis] += (count - counts[at]) * rt_bytes[f];
}

RT_FUNCTION void rt_allgather_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->to[0]->format;
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], *counts = rt_counts(run);
	bool ordered = rt_in_order(x, x->to, c->d);
	size_t bytes = (size_t)(rt_elements(x->to, x->count) * rt_bytes[f]);
	char *from = rt_joined(run, x->from, x->count, 1, true), *to = ordered ? x->to[0]->data : rt_scratch(run, 0, bytes + 1);
	rt_blocks(run, c, x->to, x->count, c->d, NULL, false, counts, counts + ranks);
	MPI_Allgatherv(from, counts[at], rt_type(f), to, counts, counts + ranks, rt_type(f), run->mesh.along[c->axis]);
	if (!ordered) rt_blocks(run, c, x->to, x->count, c->d, to, true, counts, counts + ranks);
	run->sent[c->axis] += (int64_t)counts[at] * (ranks - 1) * rt_bytes[f];
}

RT_FUNCTION void rt_alltoall_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->to[0]->format;
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], *counts = rt_counts(run), *other = counts + 2 * ranks;
	char *from = rt_scratch(run, 0, (size_t)(rt_elements(x->from, x->count) * rt_bytes[f]) + 1);
	char *to = rt_scratch(run, 1, (size_t)(rt_elements(x->to, x->count) * rt_bytes[f]) + 1);
	int64_t count = rt_blocks(run, c, x->from, x->count, c->e, from, false, counts, counts + ranks);
	rt_blocks(run, c, x->to, x->count, c->d, NULL, false, other, other + ranks);
	MPI_Alltoallv(from, counts, counts + ranks, rt_type(f), to, other, other + ranks, rt_type(f), run->mesh.along[c->axis]);
	rt_blocks(run, c, x->to, x->count, c->d, to, true, other, other + ranks);
	run->sent[c->axis] += (count - counts[at]) * rt_bytes[f];
}

/* To one rank and from another along an axis; either may be -1, nobody. */
RT_FUNCTION void rt_exchange(rt_run *run, int axis, const rt_part *from, int dest, const rt_part *to, int source) {
	MPI_Comm comm = run->mesh.along[axis];
	int64_t out = dest >= 0 ? (int64_t)rt_size(from) : 0, in = source >= 0 ? (int64_t)rt_size(to) : 0;
	for (int64_t done = 0; done < out || done < in; done += RT_PIECE) {
		MPI_Request request[2];
		int open = 0;
		if (done < in) MPI_Irecv((char *)to->data + done, rt_piece(in - done), MPI_BYTE, source, 1, comm, &request[open++]);
		if (done < out) MPI_Isend((char *)from->data + done, rt_piece(out - done), MPI_BYTE, dest, 1, comm, &request[open++]);
		MPI_Waitall(open, request, MPI_STATUSES_IGNORE);
	}
	if (dest != run->mesh.at[axis]) run->sent[axis] += out;
}

RT_FUNCTION void rt_permute_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], by = (c->shift % ranks + ranks) % ranks;
	for (int i = 0; i < x->count; i++)
		rt_exchange(run, c->axis, x->from[i], (at + by) % ranks, x->to[i], (at + ranks - by) % ranks);
}

/* From the ranks of one group to the equal ranks of another: d and e are the groups' places along the axis. */
RT_FUNCTION void rt_send_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	int at = run->mesh.at[c->axis];
	for (int i = 0; i < x->count; i++)
		rt_exchange(run, c->axis, x->from[i], at == c->d ? c->e : -1, x->to[i], at == c->e ? c->d : -1);
}

/* A collective of several values, each of `items` tensors. Messages join tensors up to `bucket` bytes; 0: one each. */
RT_FUNCTION void rt_collect(rt_run *run, void (*collective)(rt_run *, const rt_collective *, const rt_pairs *), rt_collective c,
							rt_part *const *from, rt_part *const *to, int values, int64_t items, int64_t bucket) {
	rt_part **all = malloc(2 * (size_t)(values * items) * sizeof *all);
	rt_pairs x = {all, all ? all + values * items : NULL, 0};
	int64_t bytes = 0;
	if (!all) rt_abort(run, "memory is out");
	for (int v = 0; v < values; v++)
		for (int64_t i = 0; i < items; i++) {
			/* What is whole has the same size on all ranks, so that they join alike. */
			int64_t size = rt_whole_product(&to[v][i], 0, to[v][i].rank) * rt_bytes[to[v][i].format];
			bool absent = collective == rt_broadcast_pairs ? !to[v][i].here : !from[v][i].here;
			if (collective == rt_send_pairs) absent &= !to[v][i].here;
			if (absent) continue;
			if (x.count && bytes + size > bucket) collective(run, &c, &x), x.count = 0, bytes = 0;
			x.from[x.count] = &from[v][i], x.to[x.count++] = &to[v][i];
			bytes += size;
		}
	if (x.count) collective(run, &c, &x);
	free(all);
}
