/* ---- parts: what a rank holds of tensors, and where it lies; C and C++, the same for all targets
 * ------------------ */

#ifndef RT_HOST_FUNCTION
#define RT_HOST_FUNCTION RT_FUNCTION
#endif

/* Of n elements over `ranks` slices, the first n % ranks are one longer. */
RT_FUNCTION int64_t rt_slice_begin(int64_t n, int64_t ranks, int64_t r) {
	int64_t more = n % ranks;
	return n / ranks * r + (r < more ? r : more);
}

RT_FUNCTION int64_t rt_slice_length(int64_t n, int64_t ranks, int64_t r) {
	return n / ranks + (r < n % ranks);
}

/* Elements along dims from .. to - 1. */
RT_HOST_FUNCTION int64_t rt_extents(const int64_t *extent, int from, int to) {
	int64_t product = 1;
	for (int d = from; d < to; d++) product *= extent[d];
	return product;
}

RT_HOST_FUNCTION int64_t rt_product(const rt_part *p, int from, int to) {
	return rt_extents(p->extent, from, to);
}

RT_HOST_FUNCTION int64_t rt_whole_product(const rt_part *p, int from, int to) {
	return rt_extents(p->whole, from, to);
}

/* Where the first element of a slice lies in what holds it. */
RT_HOST_FUNCTION int64_t rt_view(const rt_part *slice, const rt_part *holder) {
	int64_t at = 0;
	for (int d = 0; d < slice->rank; d++)
		at = at * holder->extent[d] + slice->begin[d] - holder->begin[d];
	return at;
}

/* The index of the first element in the whole tensor. */
RT_HOST_FUNCTION uint64_t rt_place(const rt_part *p) {
	uint64_t at = 0;
	for (int d = 0; d < p->rank; d++) at = at * (uint64_t)p->whole[d] + (uint64_t)p->begin[d];
	return at;
}

RT_HOST_FUNCTION size_t rt_size(const rt_part *p) {
	return (size_t)p->count * (size_t)rt_bytes[p->format];
}

RT_HOST_FUNCTION int64_t rt_items(const rt_run *run, int value) {
	int list = run->schedule->value[value].list;
	return list < 0 ? 1 : run->sizes->items[list];
}

/* Where parts lie that follow one another in memory, as those of a list do; else NULL. */
RT_HOST_FUNCTION char *rt_together(rt_part *const *parts, int count) {
	char *begin = NULL, *end = NULL;
	for (int i = 0; i < count; i++) {
		if (parts[i]->count == 0 && count > 1) continue;
		if (end && (char *)parts[i]->data != end) return NULL;
		if (!end) begin = (char *)parts[i]->data;
		end = (char *)parts[i]->data + rt_size(parts[i]);
	}
	return begin;
}

/* Where slices along dim d lie one behind the other already: of one tensor, or of a list that is cut
 * across its tensors. Else NULL. */
RT_HOST_FUNCTION char *rt_in_order(rt_part *const *parts, int count, int d) {
	int64_t all = 0;
	for (int i = 0; i < count; i++) {
		if (rt_product(parts[i], 0, d) > 1) return NULL;
		all += parts[i]->extent[d];
	}
	return count == 1 || all == parts[0]->all[d] ? rt_together(parts, count) : NULL;
}

/* ---- opening: a mesh, what a rank holds ---- */

RT_HOST_FUNCTION int rt_wrong(char error[RT_ERROR], const char *what, const char *which) {
	snprintf(error, RT_ERROR, "%.110s%s%.130s", what, which ? ": " : "", which ? which : "");
	return 1;
}

RT_HOST_FUNCTION int rt_mesh_open(rt_run *run, int rank, int size, char error[RT_ERROR]) {
	const rt_program *p = run->program;
	const rt_schedule *s = run->schedule;
	rt_mesh *m = &run->mesh;
	int64_t left[RT_AXES], product = 1;
	m->rank = rank, m->size = size, m->axes = s->axes;
	for (int a = 0; p->axis[a].name; a++) {
		left[a] = run->sizes->axis[a];
		if (left[a] < 1 || left[a] > size || (product *= left[a]) > size)
			return rt_wrong(error, "the mesh has more ranks than are running", NULL);
		if (p->axis[a].number && p->axis[a].number != left[a])
			return rt_wrong(error, "this axis has another number of ranks", p->axis[a].name);
	}
	if (product != size) return rt_wrong(error, "the mesh has fewer ranks than are running", NULL);
	for (int a = 0; a < s->axes; a++) {
		if (!s->ranks[a]) continue;
		if (left[s->axis[a]] % s->ranks[a])
			return rt_wrong(error, "groups of ranks do not divide the axis",
			                p->axis[s->axis[a]].name);
		left[s->axis[a]] /= s->ranks[a];
	}
	for (int a = 0; a < s->axes; a++)
		m->ranks[a] = s->ranks[a] ? s->ranks[a] : (int)left[s->axis[a]];
	for (int a = s->axes, rest = rank; a-- > 0; rest /= m->ranks[a]) m->at[a] = rest % m->ranks[a];
	return 0;
}

/* How far apart ranks are that differ by one along an axis; the rank at its begin. */
RT_HOST_FUNCTION int rt_below(const rt_mesh *m, int axis) {
	int below = 1;
	for (int b = axis + 1; b < m->axes; b++) below *= m->ranks[b];
	return below;
}

RT_HOST_FUNCTION int rt_first_along(const rt_mesh *m, int axis) {
	return m->rank - m->at[axis] * rt_below(m, axis);
}

/* What of the places [from, from + length) a tensor has whose own are [at, at + extent). */
RT_FUNCTION int64_t rt_within(int64_t from, int64_t length, int64_t at, int64_t extent,
                              int64_t *begin) {
	int64_t to = from + length - at;
	*begin = from < at ? 0 : from - at < extent ? from - at : extent;
	if (to > extent) to = extent;
	return to > *begin ? to - *begin : 0;
}

/* Slice r of a rank's part along dim d: the elements from *begin on; returns how many. */
RT_FUNCTION int64_t rt_slice(const rt_part *p, int d, int64_t ranks, int64_t r, int64_t *begin) {
	int64_t all = p->all[d] ? p->all[d] : p->extent[d];
	return rt_within(rt_slice_begin(all, ranks, r), rt_slice_length(all, ranks, r), p->ahead[d],
	                 p->extent[d], begin);
}

/* The part of this rank of a tensor whose whole extents are known. Along dims across, `ahead` and
 * `all` are those of whole tensors, and become those of parts. */
RT_HOST_FUNCTION int rt_cut(const rt_run *run, const rt_value *v, rt_part *p,
                            char error[RT_ERROR]) {
	const rt_mesh *m = &run->mesh;
	int64_t all = rt_bytes[v->format];
	p->here = true, p->count = 1, p->format = v->format, p->rank = v->rank;
	for (int d = 0; d < v->rank; d++) {
		if (p->whole[d] < 1)
			return rt_wrong(error, "with these sizes a dim is not a number of elements", v->name);
		if (p->whole[d] > INT64_MAX / all)
			return rt_wrong(error, "with these sizes a tensor is too large", v->name);
		all *= p->whole[d];
		p->begin[d] = 0, p->extent[d] = p->all[d] ? p->all[d] : p->whole[d];
	}
	if (v->group >= 0) {
		int64_t at = (v->index >= 0 ? run->sizes->index[v->index] : 0) + v->offset;
		if (at < 0 || at >= m->ranks[v->group])
			return rt_wrong(error, "there is no such group of ranks", v->name);
		p->here = at == m->at[v->group];
	}
	for (int a = 0; a < m->axes; a++) {
		const rt_layout *l = &v->layout[a];
		int ranks = m->ranks[a], slice = ((m->at[a] - l->turn) % ranks + ranks) % ranks;
		if (l->way == RT_ROOT && l->turn >= ranks)
			return rt_wrong(error, "there is no such rank for the root", v->name);
		if (l->way == RT_ROOT && l->turn != m->at[a]) p->here = false;
		if (l->way != RT_S) continue;
		int64_t left = p->extent[l->dim]; /* by axes before this one */
		p->begin[l->dim] += rt_slice_begin(left, ranks, slice);
		p->extent[l->dim] = rt_slice_length(left, ranks, slice);
	}
	for (int d = 0; d < v->rank; d++) {
		int64_t from = p->begin[d], at = p->ahead[d];
		if (p->all[d]) {
			p->all[d] = p->extent[d], p->ahead[d] = at > from ? at - from : 0;
			p->extent[d] = rt_within(from, p->all[d], at, p->whole[d], &p->begin[d]);
			if (p->ahead[d] > p->all[d]) p->ahead[d] = p->all[d];
		}
		if (!p->here) p->extent[d] = 0;
		p->count *= p->extent[d];
	}
	if (!p->here) p->count = 0;
	return 0;
}

/* A list's whole tensors end to end, along the dims where slices cut across them. */
RT_HOST_FUNCTION int rt_lay_out(const rt_value *v, rt_part *part, int64_t items,
                                char error[RT_ERROR]) {
	for (int d = 0; d < v->rank; d++) {
		int64_t all = 0;
		if (!(v->across >> d & 1)) continue;
		for (int64_t item = 0; item < items; item++) {
			part[item].ahead[d] = all;
			if (part[item].whole[d] > INT64_MAX / 8 - all)
				return rt_wrong(error, "with these sizes a list is too large", v->name);
			all += part[item].whole[d];
		}
		for (int64_t item = 0; item < items; item++) part[item].all[d] = all;
	}
	return 0;
}

RT_HOST_FUNCTION int rt_shape_parts(rt_run *run, char error[RT_ERROR]) {
	const rt_schedule *s = run->schedule;
	run->part = (rt_part **)calloc((size_t)s->values + 1, sizeof *run->part);
	if (!run->part) return rt_wrong(error, "out of memory", NULL);
	for (int i = 0; i < s->values; i++) {
		int64_t items = rt_items(run, i);
		run->part[i] = (rt_part *)calloc((size_t)items, sizeof *run->part[i]);
		if (!run->part[i]) return rt_wrong(error, "out of memory", NULL);
		for (int64_t item = 0; item < items; item++)
			s->shape(run->sizes, &run->mesh, i, item, run->part[i][item].whole);
		if (rt_lay_out(&s->value[i], run->part[i], items, error)) return 1;
		for (int64_t item = 0; item < items; item++)
			if (rt_cut(run, &s->value[i], &run->part[i][item], error)) return 1;
	}
	return 0;
}

RT_HOST_FUNCTION void rt_share_parts(rt_run *run) {
	for (int i = 0; i < run->schedule->values; i++) {
		const rt_value *v = &run->schedule->value[i];
		for (int64_t item = 0;
		     item < rt_items(run, i) && (v->kind == RT_SHARED || v->kind == RT_VIEW); item++) {
			rt_part *p = &run->part[i][item];
			const rt_part *of = &run->part[v->of][item];
			if (!p->here || !of->here) continue;
			p->data =
				(char *)of->data + (v->kind == RT_VIEW ? rt_view(p, of) * rt_bytes[p->format] : 0);
		}
	}
}

/* ---- for other programs ---- */

RT_HOST_FUNCTION void rt_sizes_close(rt_sizes *z) {
	for (int d = 0; d < RT_DIMS; d++) free(z->each[d]);
	free(z->scalar);
}

RT_HOST_FUNCTION int rt_copy_each(const int64_t *from, int64_t count, int64_t **to) {
	if (count < 1 || !from) return 1;
	*to = (int64_t *)malloc((size_t)count * sizeof **to);
	if (*to) memcpy(*to, from, (size_t)count * sizeof **to);
	return !*to;
}

RT_HOST_FUNCTION int64_t rt_describe(const rt_run *run, int value, int64_t item,
                                     int64_t begin[RT_RANK], int64_t extent[RT_RANK]) {
	if (item < 0 || item >= rt_items(run, value)) return -1;
	const rt_part *p = &run->part[value][item];
	memcpy(begin, p->begin, sizeof p->begin);
	memcpy(extent, p->extent, sizeof p->extent);
	return p->count;
}
