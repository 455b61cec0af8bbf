/* A block to a thread. */
template <int F, int G>
static __global__ void rt_block_kernel(typename rt_of<G>::in_memory *y,
                                       const typename rt_of<F>::in_memory *x, double *rooms,
                                       rt_block_batch b, int64_t threads) {
	RT_FOR(t, threads) {
		double *room = rooms + t * rt_block_room(&b);
		for (int64_t i = t; i < b.count; i += threads) {
			int64_t from = rt_block_begin(&b, i), to = b.kind <= RT_ARGSORT ? from : i * b.made;
			for (int64_t k = 0; k < b.rows * b.columns; k++)
				room[k] = (double)rt_of<F>::load(x[from + k * b.step]);
			const double *made = rt_block_make(&b, room);
			for (int64_t k = 0; k < b.made; k++)
				y[to + k * b.step] =
					rt_of<G>::store((typename rt_of<G>::in_register)made[k]);
		}
	}
}
template <int F>
static void rt_block_in(rt_run *run, const rt_part *x, rt_part *y, rt_block_batch b) {
	typedef typename rt_of<F>::in_memory T;
	int64_t threads = b.count < 4096 ? b.count : 4096;
	double *rooms = (double *)rt_scratch(run, threads * rt_block_room(&b) * (int64_t)sizeof(double));
	if (b.kind == RT_ARGSORT)
		RT_RUN((rt_block_kernel<F, RT_I32>), threads, (rt_of<RT_I32>::in_memory *)y->data,
		       (const T *)x->data, rooms, b, threads);
	else
		RT_RUN((rt_block_kernel<F, F>), threads, (T *)y->data, (const T *)x->data, rooms, b,
		       threads);
	rt_release(run, rooms);
}
static void rt_each_block(rt_run *run, const rt_part *x, rt_part *y, rt_block_kind kind, int d,
                     bool down) {
	if (y->here) RT_SWITCH(x->format, rt_block_in, run, x, y, rt_block_batch_of(x, kind, d, down))
}
