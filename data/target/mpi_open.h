/* ---- opening a run and closing it: communicators, memory ---- */

/* Memory of a value: offsets, and the steps between which it is in use. */
typedef struct rt_use {
	size_t begin, end;
	int first, last;
} rt_use;

/* Puts a value from `at` on, a large one on pages of its own, which processes copy from one another
 * faster, a small one on cache lines; a list's tensors lie end to end. Without memory they are only
 * counted. */
RT_FUNCTION int rt_place_value(rt_run *run, int value, char *memory, size_t at, size_t *end,
                               char error[RT_ERROR]) {
	size_t bytes = 0;
	for (int64_t item = 0; item < rt_items(run, value); item++)
		if (__builtin_add_overflow(bytes, rt_size(&run->part[value][item]), &bytes))
			return rt_wrong(error, "the tensors are too large together", NULL);
	const size_t line = bytes >= 65536 ? 4096 : 64;
	at = (at + line - 1) / line * line;
	if (__builtin_add_overflow(at, bytes, end) || __builtin_add_overflow(*end, line, end))
		return rt_wrong(error, "the tensors are too large together", NULL);
	*end = *end / line * line;
	for (int64_t item = 0; memory && item < rt_items(run, value); item++) {
		run->part[value][item].data = memory + at;
		at += rt_size(&run->part[value][item]);
	}
	return 0;
}

/* The lowest offset, a multiple of a page, where so many bytes touch no block that is in use at the
 * same time. Blocks are in the order of their begins. */
RT_FUNCTION size_t rt_find_room(const rt_use *blocks, int count, size_t bytes, int first,
                                int last) {
	size_t at = 0;
	for (int i = 0; i < count; i++) {
		const rt_use *other = &blocks[i];
		bool apart =
			first >= 0 && other->first >= 0 && (last < other->first || other->last < first);
		if (apart || other->end <= at) continue;
		if (other->begin >= at && other->begin - at >= bytes) break;
		at = (other->end + 4095) / 4096 * 4096;
	}
	return at;
}

/* Values whose memory is not in use at the same time may have the same. */
RT_FUNCTION int rt_place_parts(rt_run *run, bool lent, char *memory, char error[RT_ERROR]) {
	const rt_schedule *s = run->schedule;
	rt_use *blocks = malloc(((size_t)s->values + 1) * sizeof *blocks);
	size_t end = 0;
	int count = 0, wrong = blocks ? 0 : rt_wrong(error, "out of memory", NULL);
	run->bytes = 0;
	for (int i = 0; i < s->values && !wrong; i++) {
		const rt_value *v = &s->value[i];
		if (v->kind > RT_OWN || (v->kind < RT_OWN && lent)) continue;
		if ((wrong = rt_place_value(run, i, NULL, 0, &end, error))) break;
		int first = v->kind == RT_OWN ? v->first : -1, to = count;
		size_t at = rt_find_room(blocks, count, end, first, v->last);
		if ((wrong = rt_place_value(run, i, memory, at, &end, error))) break;
		while (to > 0 && blocks[to - 1].begin > at) blocks[to] = blocks[to - 1], to--;
		blocks[to] = (rt_use){at, end, first, v->last};
		count++;
		if (end > run->bytes) run->bytes = end;
	}
	free(blocks);
	return wrong;
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

RT_FUNCTION void rt_communicators(rt_mesh *m) {
	for (int a = 0; a < m->axes; a++)
		MPI_Comm_split(m->all, rt_first_along(m, a), m->at[a], &m->along[a]);
}

/* With `lent`, inputs and states get no memory: rt_lend sets it. */
RT_FUNCTION int rt_fill_open(rt_run *run, bool lent, MPI_Comm all, char error[RT_ERROR]) {
	int rank, size;
	MPI_Comm_rank(all, &rank);
	MPI_Comm_size(all, &size);
	run->mesh.all = all;
	int wrong = rt_mesh_open(run, rank, size, error);
	if (!wrong) rt_communicators(&run->mesh);
	for (int l = 0; run->program->list[l].name && !wrong; l++)
		if (run->sizes->items[l] < 1)
			wrong = rt_wrong(error, "this list has no tensors", run->program->list[l].name);
	const char *condition = wrong ? NULL : run->schedule->wrong(run->sizes, &run->mesh);
	if (condition) wrong = rt_wrong(error, "with these sizes it does not hold that", condition);
	if (!wrong) wrong = rt_shape_parts(run, error);
	if (!wrong) wrong = rt_place_parts(run, lent, NULL, error);
	if (!wrong) {
		run->memory = aligned_alloc(4096, (run->bytes + 4096) / 4096 * 4096);
		if (!run->memory) wrong = rt_wrong(error, "out of memory", NULL);
		else memset(run->memory, 0, run->bytes);
	}
	if (!wrong) rt_place_parts(run, lent, run->memory, error), rt_share_parts(run);
	return rt_agree(all, wrong, error);
}

RT_FUNCTION rt_run *rt_open(const rt_program *p, const rt_schedule *s, const rt_sizes *sizes,
                            bool lent, MPI_Comm all, char error[RT_ERROR]) {
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

RT_FUNCTION int rt_lend(rt_run *run, int value, int64_t item, const void *data) {
	memcpy(&run->part[value][item].data, &data, sizeof data); /* inputs are only read */
	return !data && run->part[value][item].count > 0;
}

RT_FUNCTION void rt_return(const rt_run *run, int value, int64_t item, void *out) {
	const rt_part *p = &run->part[value][item];
	if (out && p->count && out != p->data) memcpy(out, p->data, rt_size(p));
}
