/* ---- runtime: ranks, what they hold of tensors, memory ------------------------------------------------------------- */

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

enum { RT_READY = 4, RT_SCRATCHES = 4 + RT_READY, RT_SUMS = 64 };

/* Two ways to run an overlap: beside each other, or one after the other. Which is faster depends on the network and on
 * what computes; it is tried in the first runs. */
#ifndef RT_FIRST_WAY
#define RT_FIRST_WAY 0
#endif
enum { RT_BESIDE, RT_AFTER, RT_WAYS, RT_TRIALS = 3, RT_CHOICES = 16 };
typedef struct rt_choice {
	double best[RT_WAYS];
	int runs;
} rt_choice;

/* Memory that grows as it is asked for. */
typedef struct rt_room {
	void *at;
	size_t size;
} rt_room;

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
	rt_choice choice[RT_CHOICES]; /* of overlaps */
	rt_room *rooms;         /* of messages under way: rt_room_at */
	int room_count;
	rt_part ready[RT_READY]; /* rt_make_ready */
	void (*poke)(void *poked); /* looks at the messages that are under way beside a product; NULL: there are none */
	void *poked;
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

/* The same for messages, of which there are as many as are asked for. */
RT_FUNCTION void *rt_room_at(rt_run *run, int which, size_t bytes) {
	if (which >= run->room_count) {
		rt_room *more = realloc(run->rooms, ((size_t)which + 1) * sizeof *more);
		if (!more) rt_abort(run, "memory is out");
		run->rooms = more;
		while (run->room_count <= which) run->rooms[run->room_count++] = (rt_room){NULL, 0};
	}
	rt_room *room = &run->rooms[which];
	if (bytes > room->size) {
		free(room->at);
		room->size = bytes, room->at = malloc(bytes);
		if (!room->at) rt_abort(run, "memory is out");
	}
	return room->at;
}

/* The way that a run goes; each is tried in turn. */
RT_FUNCTION int rt_way_of(const rt_choice *c) {
	if (c->runs < RT_WAYS * RT_TRIALS) return (c->runs + RT_FIRST_WAY) % RT_WAYS;
	return c->best[RT_AFTER] < c->best[RT_BESIDE] ? RT_AFTER : RT_BESIDE;
}

RT_FUNCTION void rt_took(rt_choice *c, int way, double seconds) {
	if (c->runs >= RT_WAYS * RT_TRIALS) return;
	if (c->runs < RT_WAYS || seconds < c->best[way]) c->best[way] = seconds;
	c->runs++;
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
	for (int i = 0; i < run->room_count; i++) free(run->rooms[i].at);
	free(run->rooms);
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
