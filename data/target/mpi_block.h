RT_FUNCTION double rt_get_double(const rt_part *p, int64_t i) {
	if (p->format == RT_F64) return ((const double *)p->data)[i];
	if (p->format < RT_I64) return (double)rt_get_float(p->format, p->data, i);
	int64_t whole = rt_get_whole(p->format, p->data, i);
	return p->format == RT_U64 ? (double)(uint64_t)whole : (double)whole;
}

RT_FUNCTION void rt_put_double(rt_part *p, int64_t i, double x) {
	float narrow = (float)x;
	if (p->format == RT_F64) ((double *)p->data)[i] = x;
	else if (p->format < RT_I64) rt_put_floats(p->format, p->data, i, 1, &narrow);
	else rt_put_whole(p->format, p->data, i, p->format == RT_U64 ? (int64_t)(uint64_t)x : (int64_t)x);
}

/* Each block of x, sorted or factored, is one of y. */
RT_FUNCTION void rt_each_block(rt_run *run, const rt_part *x, rt_part *y, rt_block_kind kind, int d,
                          bool down) {
	rt_block_batch b = rt_block_batch_of(x, kind, d, down);
	double *room = (double *)rt_scratch(run, 3, (size_t)rt_block_room(&b) * sizeof(double) + 1);
	for (int64_t i = 0; y->here && i < b.count; i++) {
		int64_t from = rt_block_begin(&b, i), to = kind <= RT_ARGSORT ? from : i * b.made;
		for (int64_t k = 0; k < b.rows * b.columns; k++)
			room[k] = rt_get_double(x, from + k * b.step);
		const double *made = rt_block_make(&b, room);
		for (int64_t k = 0; k < b.made; k++) rt_put_double(y, to + k * b.step, made[k]);
		rt_poke(run);
	}
}
