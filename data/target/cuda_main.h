/* ---- opening: a mesh, what a rank holds, memory -------------------------------------------------------------------- */

static int rt_mesh_open(rt_mesh *m, const rt_program *p, const rt_schedule *s, const rt_sizes *sizes, int rank, int size, char error[RT_ERROR]) {
	int64_t left[RT_AXES], product = 1;
	memset(m, 0, sizeof *m);
	m->rank = rank, m->size = size, m->axes = s->axes;
	for (int a = 0; p->axis[a].name; a++) {
		left[a] = sizes->axis[a];
		if (left[a] < 1 || left[a] > size || (product *= left[a]) > size) return rt_wrong(error, "the mesh has more ranks than are running", NULL);
		if (p->axis[a].number && p->axis[a].number != left[a]) return rt_wrong(error, "this axis has another number of ranks", p->axis[a].name);
	}
	if (product != size) return rt_wrong(error, "the mesh has fewer ranks than are running", NULL);
	for (int a = 0; a < s->axes; a++) {
		if (!s->ranks[a]) continue;
		if (left[s->axis[a]] % s->ranks[a]) return rt_wrong(error, "groups of ranks do not divide the axis", p->axis[s->axis[a]].name);
		left[s->axis[a]] /= s->ranks[a];
	}
	for (int a = 0; a < s->axes; a++) m->ranks[a] = s->ranks[a] ? s->ranks[a] : (int)left[s->axis[a]];
	for (int a = s->axes, rest = rank; a-- > 0; rest /= m->ranks[a]) m->at[a] = rest % m->ranks[a];
	return 0;
}

/* How far apart ranks are that differ by one along an axis. */
static int rt_below(const rt_mesh *m, int axis) {
	int below = 1;
	for (int b = axis + 1; b < m->axes; b++) below *= m->ranks[b];
	return below;
}

static void rt_communicators(rt_run *run, ncclComm_t all) {
	rt_mesh *m = &run->mesh;
	for (int a = 0; a < m->axes; a++)
		if (m->ranks[a] > 1) RT_NCCL(ncclCommSplit(all, m->rank - m->at[a] * rt_below(m, a), m->at[a], &m->along[a], NULL));
}

/* The part of this rank of a tensor whose whole extents are known. */
static int rt_cut(const rt_run *run, const rt_value *v, rt_part *p, char error[RT_ERROR]) {
	const rt_mesh *m = &run->mesh;
	int64_t all = rt_bytes[v->format];
	p->here = true, p->count = 1, p->format = v->format, p->rank = v->rank;
	for (int d = 0; d < v->rank; d++) {
		if (p->whole[d] < 1) return rt_wrong(error, "with these sizes a dim is no number of elements", v->name);
		if (p->whole[d] > INT64_MAX / all) return rt_wrong(error, "with these sizes a tensor is too large", v->name);
		all *= p->whole[d];
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
		p->begin[l->dim] = rt_slice_begin(p->whole[l->dim], ranks, slice);
		p->extent[l->dim] = rt_slice_length(p->whole[l->dim], ranks, slice);
	}
	for (int d = 0; d < v->rank; d++) {
		if (!p->here) p->extent[d] = 0;
		p->count *= p->extent[d];
	}
	if (!p->here) p->count = 0;
	return 0;
}

static int rt_shape_parts(rt_run *run, char error[RT_ERROR]) {
	const rt_schedule *s = run->schedule;
	run->part = (rt_part **)calloc((size_t)s->values + 1, sizeof *run->part);
	if (!run->part) return rt_wrong(error, "memory is out", NULL);
	for (int i = 0; i < s->values; i++) {
		int64_t items = rt_items(run, i);
		run->part[i] = (rt_part *)calloc((size_t)items, sizeof *run->part[i]);
		if (!run->part[i]) return rt_wrong(error, "memory is out", NULL);
		for (int64_t item = 0; item < items; item++) {
			s->shape(run->sizes, &run->mesh, i, item, run->part[i][item].whole);
			if (rt_cut(run, &s->value[i], &run->part[i][item], error)) return 1;
		}
	}
	return 0;
}

static bool rt_is_shared(const rt_run *run, int value) {
	for (const rt_reached *r = run->schedule->reached; r->value >= 0; r++)
		if (r->value == value) return true;
	return false;
}

/* Parts of their own one behind the other, aligned as cudaMalloc does; with memory NULL only counted. */
static void rt_own_parts(rt_run *run, char *memory) {
	size_t used = 0, line = 256;
	bool windows = run->ring && run->ring->backend == RT_WINDOWS;
	for (int i = 0; i < run->schedule->values; i++) {
		const rt_value *v = &run->schedule->value[i];
		for (int64_t item = 0; item < rt_items(run, i); item++) {
			rt_part *p = &run->part[i][item];
			if (v->kind > RT_OWN || p->data || (windows && rt_is_shared(run, i))) continue;
			size_t bytes = ((size_t)p->count * (size_t)rt_bytes[p->format] + line - 1) / line * line;
			if (memory) p->data = memory + used;
			used += bytes;
		}
	}
	run->bytes = used;
}

static void rt_follow_parts(rt_run *run) {
	for (int i = 0; i < run->schedule->values; i++) {
		const rt_value *v = &run->schedule->value[i];
		for (int64_t item = 0; item < rt_items(run, i) && (v->kind == RT_SHARED || v->kind == RT_VIEW); item++) {
			rt_part *p = &run->part[i][item], *of = &run->part[v->of][item];
			if (p->here && of->here) p->data = of->data + (v->kind == RT_VIEW ? rt_view(p, of) * rt_bytes[p->format] : 0);
		}
	}
}

#ifdef RT_DEVICE_API
/* Symmetric memory and a device communicator for every axis along which kernels reach others. */
static void rt_open_windows(rt_run *run) {
	rt_windows *w = run->ring->windows = (rt_windows *)calloc(1, sizeof(rt_windows));
	w->window = (ncclWindow_t **)calloc((size_t)run->schedule->values + 1, sizeof *w->window);
	for (const rt_reached *r = run->schedule->reached; r->value >= 0; r++) {
		int axis = r->axis;
		if (run->mesh.ranks[axis] == 1) continue;
		if (!w->there[axis]) {
			ncclDevCommRequirements needs;
			memset(&needs, 0, sizeof needs);
			needs.lsaBarrierCount = RT_RING_BLOCKS;
			RT_NCCL(ncclDevCommCreate(run->mesh.along[axis], &needs, &w->comm[axis]));
			w->there[axis] = true;
			if (w->comm[axis].lsaSize != run->mesh.ranks[axis])
				rt_fail(run, "--backend windows", "ranks along an axis do not reach each other's memory; take --backend host", __LINE__);
		}
		if (w->window[r->value]) continue;
		w->window[r->value] = (ncclWindow_t *)calloc((size_t)rt_items(run, r->value), sizeof **w->window);
		for (int64_t item = 0; item < rt_items(run, r->value); item++) {
			rt_part *p = &run->part[r->value][item];
			size_t bytes = ((size_t)p->count * (size_t)rt_bytes[p->format] / NCCL_WIN_REQUIRED_ALIGNMENT + 1) * NCCL_WIN_REQUIRED_ALIGNMENT;
			RT_NCCL(ncclMemAlloc((void **)&p->data, bytes));
			RT_NCCL(ncclCommWindowRegister(run->mesh.along[axis], p->data, bytes, &w->window[r->value][item], NCCL_WIN_COLL_SYMMETRIC));
			if (!w->window[r->value][item]) rt_fail(run, "--backend windows", "memory cannot be registered; take --backend host", __LINE__);
		}
	}
}
static void rt_close_windows(rt_run *run) {
	rt_windows *w = run->ring->windows;
	for (const rt_reached *r = run->schedule->reached; w && r->value >= 0; r++) {
		for (int64_t item = 0; w->window[r->value] && item < rt_items(run, r->value); item++) {
			RT_NCCL(ncclCommWindowDeregister(run->mesh.along[r->axis], w->window[r->value][item]));
			RT_NCCL(ncclMemFree(run->part[r->value][item].data));
		}
		free(w->window[r->value]);
		w->window[r->value] = NULL;
		if (w->there[r->axis]) RT_NCCL(ncclDevCommDestroy(run->mesh.along[r->axis], &w->comm[r->axis]));
		w->there[r->axis] = false;
	}
	if (w) free(w->window);
	free(w);
}
#else
static void rt_open_windows(rt_run *run) { rt_fail(run, "--backend windows", "built without NCCL's device API; take --backend host", __LINE__); }
static void rt_close_windows(rt_run *) {}
#endif

/* Parts whose data is set already (given[value][item], NULL: none) keep it. */
static int rt_fill(rt_run *run, ncclComm_t all, void *const *const *given, int rank, int size, char error[RT_ERROR]) {
	if (rt_mesh_open(&run->mesh, run->program, run->schedule, run->sizes, rank, size, error)) return 1;
	const char *condition = run->schedule->wrong(run->sizes, &run->mesh);
	if (condition) return rt_wrong(error, "with these sizes it does not hold that", condition);
	if (rt_shape_parts(run, error)) return 1;
	rt_communicators(run, all);
	for (int i = 0; i < run->schedule->values && given; i++)
		for (int64_t item = 0; item < rt_items(run, i) && given[i]; item++) run->part[i][item].data = (char *)given[i][item];
	if (run->ring && run->ring->backend == RT_WINDOWS) rt_open_windows(run);
	rt_own_parts(run, NULL);
	RT_CUDA(cudaMalloc((void **)&run->memory, run->bytes + 1));
	RT_CUDA(cudaMemsetAsync(run->memory, 0, run->bytes + 1, run->stream));
	rt_own_parts(run, run->memory);
	rt_follow_parts(run);
	for (int i = 0; i < 2; i++) RT_CUDA(cudaMalloc((void **)&run->workspace[i], RT_WORKSPACE));
	RT_BLAS(cublasLtCreate(&run->blas));
	RT_CUDA(cudaEventCreateWithFlags(&run->fork, cudaEventDisableTiming));
	RT_CUDA(cudaStreamCreateWithFlags(&run->side_stream, cudaStreamNonBlocking));
	return 0;
}

static void rt_close(rt_run *run) {
	if (!run) return;
	if (run->stream) RT_CUDA(cudaStreamSynchronize(run->stream));
	if (run->ring && run->ring->backend == RT_WINDOWS) rt_close_windows(run);
	for (int i = 0; run->part && i < run->schedule->values; i++) free(run->part[i]);
	free(run->part);
	if (run->memory) RT_CUDA(cudaFree(run->memory));
	for (int i = 0; i < 2; i++)
		if (run->workspace[i]) RT_CUDA(cudaFree(run->workspace[i]));
	if (run->blas) RT_BLAS(cublasLtDestroy(run->blas));
	if (run->fork) RT_CUDA(cudaEventDestroy(run->fork));
	if (run->side_stream) RT_CUDA(cudaStreamDestroy(run->side_stream));
	for (int a = 0; a < run->mesh.axes; a++)
		if (run->mesh.along[a]) RT_NCCL(ncclCommDestroy(run->mesh.along[a]));
	free(run);
}

/* One rank of a run: its device is set, `all` has all ranks. NULL, and why, where sizes do not fit. */
static rt_run *rt_open(const rt_program *p, const rt_schedule *s, const rt_sizes *sizes, rt_ring *ring, ncclComm_t all, int rank, int size,
	cudaStream_t stream, void *const *const *given, char error[RT_ERROR]) {
	rt_run *run = (rt_run *)calloc(1, sizeof *run);
	if (!run) return rt_wrong(error, "memory is out", NULL), (rt_run *)NULL;
	run->program = p, run->schedule = s, run->sizes = sizes, run->ring = ring;
	run->stream = run->main_stream = stream, run->library = given != NULL;
	if (rt_fill(run, all, given, rank, size, error) == 0 && !run->error[0]) return run;
	if (run->error[0]) rt_wrong(error, run->error, NULL);
	rt_close(run);
	return NULL;
}

/* ---- ranks as threads of one process ------------------------------------------------------------------------------- */
#ifndef LOCKSTEP_NO_MAIN
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#endif
