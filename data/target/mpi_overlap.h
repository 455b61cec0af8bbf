/* ---- products beside a ring ---- */

enum { RT_PANELS = 8 };

/* Rows of a product that are made before their message leaves: the longer the sums, the less there
 * is to send beside them, and the fewer panels hide it. A product of few rows packs the right
 * matrix anew for little work: with 128 rows that costs 14 to 22 %, with 256 4 to 11 %, with 512 up
 * to 5 %. Panels of columns cost more than those of rows. */
RT_FUNCTION int64_t rt_panel_rows(const rt_part *a) {
	int64_t k = a->extent[a->rank - 1];
	return k / 4 > 256 ? k / 4 : 256;
}

/* How many of them a chunk of the product's rows is made in. */
RT_FUNCTION int64_t rt_panels(const rt_part *a, int64_t rows, int64_t ranks) {
	int64_t panels = rows / ranks / rt_panel_rows(a);
	return panels < 2 ? 2 : panels > RT_PANELS ? RT_PANELS : panels;
}

RT_FUNCTION void rt_poke_ring(void *ring) { rt_ring_poke(ring); }

/* Rows first .. first + rows - 1 of y = a b, all batches' rows counted through. */
RT_FUNCTION void rt_matmul_rows(rt_run *run, rt_ring *ring, const rt_part *a, const rt_part *b,
                                bool tb, rt_part *y, int64_t first, int64_t rows) {
	int64_t m = y->extent[y->rank - 2], n = y->extent[y->rank - 1], k = a->extent[a->rank - 1];
	run->poke = rt_poke_ring, run->poked = ring;
	for (int64_t count; rows > 0; first += count, rows -= count) {
		int64_t batch = first / m, row = first % m;
		count = rows < m - row ? rows : m - row;
		rt_multiply_poking(run, rt_from(rt_matrix_of(a, rt_batch(y, a, batch), false), row, 0),
		                   rt_matrix_of(b, rt_batch(y, b, batch), tb), y, (batch * m + row) * n,
		                   count, n, k);
	}
	run->poke = NULL;
}
