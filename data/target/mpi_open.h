/* ---- opening a run and closing it: communicators, memory ---------------------------------------------------------- */

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
	for (int a = 0; a < m->axes; a++) MPI_Comm_split(m->all, rt_first_along(m, a), m->at[a], &m->along[a]);
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
		if (run->sizes->items[l] < 1) wrong = rt_wrong(error, "this list has no tensors", run->program->list[l].name);
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

RT_FUNCTION int rt_lend(rt_run *run, int value, int64_t item, const void *data) {
	memcpy(&run->part[value][item].data, &data, sizeof data); /* inputs are only read */
	return !data && run->part[value][item].count > 0;
}

RT_FUNCTION void rt_return(const rt_run *run, int value, int64_t item, void *out) {
	const rt_part *p = &run->part[value][item];
	if (out && p->count && out != p->data) memcpy(out, p->data, rt_size(p));
}
