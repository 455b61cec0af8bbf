/* ---- overlaps: matrices row by row beside messages ------------------------------------------------------------------ */

/* Rows of a product that are made between two looks at the messages, and how many times a chunk's rows are cut. A product
 * of few rows packs the right matrix anew for little work: with 128 rows that costs a quarter, with 256 a tenth; large
 * chunks leave late, and the last one alone. */
enum { RT_PANEL = 256, RT_PANELS = 8 };

/* The right operand as it is multiplied, made ready once for all panels: row by row, in the format of the arithmetic. */
RT_FUNCTION rt_part rt_ready(rt_run *run, const rt_part *b, bool transposed) {
	rt_part ready = *b;
	rt_format f = b->format;
	int64_t rows = b->extent[b->rank - (transposed ? 1 : 2)], columns = b->extent[b->rank - (transposed ? 2 : 1)];
	bool direct = f == RT_F32 || f == RT_F64 || f == RT_I64 || f == RT_U64;
	if (b->count == 0 || (direct && !transposed)) return ready;
	ready.format = direct ? f : f < RT_I64 ? RT_F32 : RT_I64;
	ready.extent[b->rank - 2] = rows, ready.extent[b->rank - 1] = columns;
	size_t matrix = (size_t)(rows * columns * rt_bytes[ready.format]);
	char *to = ready.data = rt_scratch(run, 4, (size_t)b->count * (size_t)rt_bytes[ready.format]);
	for (int64_t at = 0; at < b->count; at += rows * columns, to += matrix) {
		const void *made = rt_matrix(b, at, rows, columns, transposed, to);
		if (made != to) memcpy(to, made, matrix);
	}
	return ready;
}

/* Rows of a panel: the longer the sums, the less there is to send beside them, and the fewer panels hide it. */
RT_FUNCTION int64_t rt_panel_rows(const rt_part *a) {
	int64_t k = a->extent[a->rank - 1];
	return k / 4 > RT_PANEL ? k / 4 : RT_PANEL;
}

/* Rows first .. first + rows - 1 of y = a b, all batches' rows counted through; `b` is ready. Between panels it pokes. */
RT_FUNCTION void rt_matmul_rows(rt_run *run, const rt_part *a, const rt_part *b, rt_part *y, int64_t first, int64_t rows,
								void (*poke)(void *), void *whom) {
	int64_t m = y->extent[y->rank - 2], n = y->extent[y->rank - 1], k = a->extent[a->rank - 1], panel = rt_panel_rows(a);
	for (int64_t count; rows > 0; first += count, rows -= count) {
		int64_t batch = first / m, row = first % m;
		count = rows < panel + panel / 2 ? rows : panel;
		if (count > m - row) count = m - row;
		rt_multiply(run, a, rt_batch(y, a, batch) + row * k, false, b, rt_batch(y, b, batch), false, y, (batch * m + row) * n, count, n, k);
		poke(whom);
	}
}

/* How many panels a chunk of `rows` rows of a product with `a` on the left is made in. */
RT_FUNCTION int64_t rt_panels(const rt_part *a, int64_t rows, int64_t ranks) {
	int64_t panels = rows / ranks / rt_panel_rows(a);
	return panels < 2 ? 2 : panels > RT_PANELS ? RT_PANELS : panels;
}

RT_FUNCTION void rt_poke_ring(void *ring) { rt_ring_poke(ring); }

/* ---- messages under way beside computing ---- */

typedef struct rt_away {
	MPI_Request *request;
	int count, room;
} rt_away;

RT_FUNCTION MPI_Request *rt_away_next(rt_run *run, rt_away *away) {
	if (away->count == away->room) {
		away->room = 2 * away->room + 8;
		away->request = realloc(away->request, (size_t)away->room * sizeof *away->request);
		if (!away->request) rt_abort(run, "memory is out");
	}
	return &away->request[away->count++];
}

RT_FUNCTION void rt_away_poke(void *away) {
	rt_away *x = away;
	int flag;
	if (x->count) MPI_Testall(x->count, x->request, &flag, MPI_STATUSES_IGNORE);
}

RT_FUNCTION void rt_away_wait(rt_away *away) {
	if (away->count) MPI_Waitall(away->count, away->request, MPI_STATUSES_IGNORE);
	free(away->request);
	*away = (rt_away){NULL, 0, 0};
}

/* A permute, begun. Several at once need tags of their own. */
RT_FUNCTION void rt_permute_begin(rt_run *run, rt_away *away, int axis, int shift, const rt_part *from, const rt_part *to, int tag) {
	int ranks = run->mesh.ranks[axis], at = run->mesh.at[axis], by = (shift % ranks + ranks) % ranks;
	MPI_Comm comm = run->mesh.along[axis];
	int64_t in = (int64_t)rt_size(to), out = (int64_t)rt_size(from);
	for (int64_t done = 0; done < in; done += RT_PIECE)
		MPI_Irecv((char *)to->data + done, rt_piece(in - done), MPI_BYTE, (at + ranks - by) % ranks, tag, comm, rt_away_next(run, away));
	for (int64_t done = 0; done < out; done += RT_PIECE)
		MPI_Isend((char *)from->data + done, rt_piece(out - done), MPI_BYTE, (at + by) % ranks, tag, comm, rt_away_next(run, away));
	if (by) run->sent[axis] += out;
}
