/* ---- views: elements at other places; C and C++, the same for all targets ---- */

/* Where each element of a result lies in its operand: `shift` and a step along each dim of the
 * result. Along dim `cut` elements begin .. end - 1 are there, others are 0, or stay what they are.
 */
typedef struct rt_route {
	int rank, cut;
	int64_t extent[RT_RANK], step[RT_RANK], shift, begin, end;
	bool stay;
} rt_route;

RT_HOST_FUNCTION rt_route rt_route_of(const rt_part *x, const rt_part *y, int repeated) {
	rt_route route = {y->rank, -1, {0}, {0}, 0, 0, 0, false};
	int of = 0;
	for (int d = 0; d < y->rank; d++) {
		route.extent[d] = y->extent[d];
		if (d == repeated) continue;
		route.step[d] = rt_product(x, ++of, x->rank);
	}
	return route;
}

RT_HOST_FUNCTION rt_route rt_route_turned(const rt_part *x, const rt_part *y, int d, int e) {
	rt_route route = rt_route_of(x, y, -1);
	route.step[d] = rt_product(x, e + 1, x->rank);
	route.step[e] = rt_product(x, d + 1, x->rank);
	return route;
}

/* `before`: so many zeros come first; below 0: so many elements of x are left out. */
RT_HOST_FUNCTION rt_route rt_route_cut(const rt_part *x, const rt_part *y, int d, int64_t before) {
	rt_route route = rt_route_of(x, y, -1);
	int64_t end = before + x->extent[d];
	route.cut = d;
	route.begin = before > 0 ? before : 0;
	route.end = end < y->extent[d] ? end : y->extent[d];
	route.shift = -before * route.step[d];
	return route;
}

/* The element of the operand for element i of the result; -1: none. */
RT_FUNCTION int64_t rt_route_at(const rt_route *route, int64_t i) {
	int64_t from = route->shift;
	for (int d = route->rank; d-- > 0; i /= route->extent[d]) {
		int64_t at = i % route->extent[d];
		if (d == route->cut && (at < route->begin || at >= route->end)) return -1;
		from += at * route->step[d];
	}
	return from;
}

RT_HOST_FUNCTION void rt_go(rt_run *run, const rt_part *x, rt_part *y, rt_route route);

RT_HOST_FUNCTION void rt_transpose(rt_run *run, const rt_part *x, rt_part *y, int d, int e) {
	if (y->here) rt_go(run, x, y, rt_route_turned(x, y, d, e));
}
RT_HOST_FUNCTION void rt_spread(rt_run *run, const rt_part *x, rt_part *y, int d) {
	if (y->here) rt_go(run, x, y, rt_route_of(x, y, d));
}
RT_HOST_FUNCTION void rt_first(rt_run *run, const rt_part *x, rt_part *y, int d) {
	if (y->here) rt_go(run, x, y, rt_route_cut(x, y, d, 0));
}
RT_HOST_FUNCTION void rt_last(rt_run *run, const rt_part *x, rt_part *y, int d) {
	if (y->here) rt_go(run, x, y, rt_route_cut(x, y, d, y->extent[d] - x->extent[d]));
}
RT_HOST_FUNCTION void rt_concat(rt_run *run, const rt_part *a, const rt_part *b, rt_part *y,
                                int d) {
	rt_route second = rt_route_cut(b, y, d, a->extent[d]);
	second.stay = true;
	if (!y->here) return;
	rt_go(run, a, y, rt_route_cut(a, y, d, 0));
	rt_go(run, b, y, second);
}
/* Other dims of the same elements in the same order. */
RT_HOST_FUNCTION void rt_parts(rt_run *run, const rt_part *x, rt_part *y, int d) {
	rt_part flat[2] = {*x, *y};
	(void)d;
	for (int i = 0; i < 2; i++) flat[i].rank = 1, flat[i].extent[0] = flat[i].count;
	if (y->here) rt_go(run, &flat[0], &flat[1], rt_route_of(&flat[0], &flat[1], -1));
}
RT_HOST_FUNCTION void rt_join(rt_run *run, const rt_part *x, rt_part *y, int d) {
	rt_parts(run, x, y, d);
}
