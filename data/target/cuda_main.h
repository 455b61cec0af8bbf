/* ---- opening: communicators, memory ---- */

static void rt_communicators(rt_run *run, ncclComm_t all) {
	rt_mesh *m = &run->mesh;
	for (int a = 0; a < m->axes; a++)
		if (m->ranks[a] > 1)
			RT_NCCL(ncclCommSplit(all, rt_first_along(m, a), m->at[a], &m->along[a], NULL));
}

static bool rt_is_shared(const rt_run *run, int value) {
	for (const rt_reached *r = run->schedule->reached; r->value >= 0; r++)
		if (r->value == value) return true;
	return false;
}

/* Values of their own one behind the other, aligned as cudaMalloc does, a list's tensors end to end;
 * with memory NULL only counted. */
static int rt_own_parts(rt_run *run, char *memory, char error[RT_ERROR]) {
	size_t used = 0, line = 256;
	bool windows = run->ring && run->ring->backend == RT_WINDOWS;
	for (int i = 0; i < run->schedule->values; i++) {
		const rt_value *v = &run->schedule->value[i];
		if (v->kind > RT_OWN || (run->library && v->kind != RT_OWN) ||
		    (windows && rt_is_shared(run, i)))
			continue;
		for (int64_t item = 0; item < rt_items(run, i); item++) {
			rt_part *p = &run->part[i][item];
			if (memory) p->data = memory + used;
			if (rt_size(p) > SIZE_MAX / 4 - used)
				return rt_wrong(error, "the tensors are too large together", NULL);
			used += rt_size(p);
		}
		used = (used + line - 1) / line * line;
	}
	run->bytes = used;
	return 0;
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
				rt_fail(run, "--backend windows",
				        "ranks along an axis do not reach each other's memory; take --backend host",
				        __LINE__);
		}
		if (w->window[r->value]) continue;
		w->window[r->value] =
			(ncclWindow_t *)calloc((size_t)rt_items(run, r->value), sizeof **w->window);
		for (int64_t item = 0; item < rt_items(run, r->value); item++) {
			rt_part *p = &run->part[r->value][item];
			size_t bytes =
				((size_t)p->count * (size_t)rt_bytes[p->format] / NCCL_WIN_REQUIRED_ALIGNMENT + 1) *
				NCCL_WIN_REQUIRED_ALIGNMENT;
			RT_NCCL(ncclMemAlloc((void **)&p->data, bytes));
			RT_NCCL(ncclCommWindowRegister(run->mesh.along[axis], p->data, bytes,
			                               &w->window[r->value][item], NCCL_WIN_COLL_SYMMETRIC));
			if (!w->window[r->value][item])
				rt_fail(run, "--backend windows",
				        "memory cannot be registered; take --backend host", __LINE__);
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
		if (w->there[r->axis])
			RT_NCCL(ncclDevCommDestroy(run->mesh.along[r->axis], &w->comm[r->axis]));
		w->there[r->axis] = false;
	}
	if (w) free(w->window);
	free(w);
}
#else
static void rt_open_windows(rt_run *run) {
	rt_fail(run, "--backend windows", "built without NCCL's device API; take --backend host",
	        __LINE__);
}
static void rt_close_windows(rt_run *) {
}
#endif

/* With `lent`, inputs and states get no memory: rt_lend sets it. */
static int rt_fill(rt_run *run, ncclComm_t all, int rank, int size, char error[RT_ERROR]) {
	if (rt_mesh_open(run, rank, size, error)) return 1;
	const char *condition = run->schedule->wrong(run->sizes, &run->mesh);
	if (condition) return rt_wrong(error, "with these sizes it does not hold that", condition);
	if (rt_shape_parts(run, error)) return 1;
	rt_communicators(run, all);
	if (run->ring && run->ring->backend == RT_WINDOWS) rt_open_windows(run);
	if (rt_own_parts(run, NULL, error)) return 1;
	if (cudaMalloc((void **)&run->memory, run->bytes + 1) != cudaSuccess)
		return rt_wrong(error, "memory of the device is out", NULL);
	RT_CUDA(cudaMemsetAsync(run->memory, 0, run->bytes + 1, run->stream));
	rt_own_parts(run, run->memory, error);
	rt_share_parts(run);
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
	while (run->kept) {
		rt_kept *kept = run->kept;
		run->kept = kept->next;
		RT_CUDA(cudaFree(kept->device));
		free(kept);
	}
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

/* One rank of a run: its device is set, `all` has all ranks. NULL, and why, where sizes do not fit.
 */
static rt_run *rt_open(const rt_program *p, const rt_schedule *s, const rt_sizes *sizes,
                       rt_ring *ring, ncclComm_t all, int rank, int size, cudaStream_t stream,
                       bool lent, char error[RT_ERROR]) {
	rt_run *run = (rt_run *)calloc(1, sizeof *run);
	if (!run) return rt_wrong(error, "out of memory", NULL), (rt_run *)NULL;
	run->program = p, run->schedule = s, run->sizes = sizes, run->ring = ring;
	run->stream = run->main_stream = stream, run->library = lent;
	if (rt_fill(run, all, rank, size, error) == 0 && !run->error[0]) return run;
	if (run->error[0]) rt_wrong(error, run->error, NULL);
	rt_close(run);
	return NULL;
}

/* ---- for other programs: their memory as inputs, states and outputs ---- */

static rt_run *rt_open_lent(const rt_program *p, const rt_schedule *s, const rt_sizes *sizes,
                            ncclComm_t all, cudaStream_t stream, char error[RT_ERROR]) {
	int rank, size;
	if (ncclCommUserRank(all, &rank) != ncclSuccess || ncclCommCount(all, &size) != ncclSuccess)
		return rt_wrong(error, "this is no communicator", NULL), (rt_run *)NULL;
	return rt_open(p, s, sizes, NULL, all, rank, size, stream, true, error);
}
static int rt_lend(rt_run *run, int value, int64_t item, const void *data) {
	run->part[value][item].data = (char *)data; /* inputs are only read */
	return !data && run->part[value][item].count > 0;
}
static void rt_return(rt_run *run, int value, int64_t item, void *out) {
	const rt_part *p = &run->part[value][item];
	if (out && p->count && out != p->data)
		RT_CUDA(cudaMemcpyAsync(out, p->data, (size_t)p->count * (size_t)rt_bytes[p->format],
		                        cudaMemcpyDeviceToDevice, run->stream));
}

#ifndef LOCKSTEP_NO_MAIN

/* ---- main: ranks are threads of this process, each with a device of its own ---- */

#include <thread>

/* -DLOCKSTEP_VIRTUAL: all ranks on one device. NCCL refuses that: link something that has its
 * calls. */
#ifdef LOCKSTEP_VIRTUAL
enum { RT_VIRTUAL = 1 };
#else
enum { RT_VIRTUAL = 0 };
#endif

/* What the threads share. */
typedef struct rt_world {
	const rt_program *program;
	const rt_options *options;
	const rt_sizes *sizes;
	enum rt_backend backend;
	int ranks;
	rt_team *all;
	ncclUniqueId id;
	rt_run *run[RT_RANKS];
	rt_ring ring[RT_RANKS];
	float time[RT_RANKS];
	int wrong[RT_RANKS];
	char error[RT_RANKS][RT_ERROR];
} rt_world;

/* Whether it went wrong anywhere. */
static bool rt_any_wrong(rt_world *w) {
	rt_meet(w->all);
	bool any = false;
	for (int r = 0; r < w->ranks; r++) any |= w->wrong[r] != 0;
	rt_meet(w->all);
	return any;
}

/* Tells every rank who its peers along each axis are, and makes the flags that their kernels wait
 * for. */
static void rt_open_ring(rt_world *w, rt_run *run) {
	rt_ring *ring = run->ring;
	rt_mesh *m = &run->mesh;
	w->run[m->rank] = run;
	ring->virtual_ranks = RT_VIRTUAL;
	RT_CUDA(cudaEventCreateWithFlags(&ring->ready, cudaEventDisableTiming));
	RT_CUDA(cudaEventCreateWithFlags(&ring->over, cudaEventDisableTiming));
	for (int a = 0; a < m->axes; a++) {
		size_t bytes = sizeof(unsigned) * RT_RING_BLOCKS * (size_t)m->ranks[a];
		RT_CUDA(cudaMalloc((void **)&ring->flags[a], bytes));
		RT_CUDA(cudaMemsetAsync(ring->flags[a], 0, bytes, run->stream));
		ring->epoch[a] = 0;
		ring->peers[a] = (rt_run **)calloc((size_t)m->ranks[a], sizeof(rt_run *));
		if (m->at[a] == 0) ring->team[a] = new rt_team(m->ranks[a]);
	}
	RT_CUDA(cudaStreamSynchronize(run->stream));
	rt_meet(w->all);
	for (int a = 0; a < m->axes; a++) {
		int first = rt_first_along(m, a);
		for (int p = 0; p < m->ranks[a]; p++)
			ring->peers[a][p] = w->run[first + p * rt_below(m, a)];
		if (m->at[a] != 0) ring->team[a] = w->run[first]->ring->team[a];
	}
	rt_meet(w->all);
}
static void rt_close_ring(rt_world *w, rt_run *run) {
	rt_ring *ring = run->ring;
	rt_meet(w->all);
	for (int a = 0; a < run->mesh.axes; a++) {
		if (run->mesh.at[a] == 0) delete ring->team[a];
		RT_CUDA(cudaFree(ring->flags[a]));
		free(ring->peers[a]);
	}
	RT_CUDA(cudaEventDestroy(ring->ready));
	RT_CUDA(cudaEventDestroy(ring->over));
	rt_meet(w->all);
}

static void rt_draw_all(rt_run *run, uint64_t seed) {
	for (int i = 0; i < run->schedule->values; i++)
		for (int64_t item = 0; item < rt_items(run, i) && run->schedule->value[i].kind <= RT_STATE;
		     item++) {
			rt_part *p = &run->part[i][item];
			char *device = p->data;
			size_t bytes = (size_t)p->count * (size_t)rt_bytes[p->format];
			std::vector<char> host(bytes + 1);
			p->data = host.data();
			rt_draw_part(run, i, item, seed);
			p->data = device;
			if (bytes)
				RT_CUDA(cudaMemcpyAsync(device, host.data(), bytes, cudaMemcpyHostToDevice,
				                        run->stream));
			RT_CUDA(cudaStreamSynchronize(run->stream));
		}
}

static int rt_dump(rt_run *run, const char *directory, char error[RT_ERROR]) {
	char name[1024];
	if (snprintf(name, sizeof name, "%s/%s.%d", directory, run->schedule->name, run->mesh.rank) >=
	    (int)sizeof name)
		return rt_wrong(error, "the name of the directory is too long", NULL);
	FILE *file = fopen(name, "wb");
	if (!file) return rt_wrong(error, "cannot be written", name);
	for (const int *value = run->schedule->results; *value >= 0; value++)
		for (int64_t item = 0; item < rt_items(run, *value); item++) {
			rt_part p = run->part[*value][item];
			std::vector<char> host((size_t)p.count * (size_t)rt_bytes[p.format] + 1);
			if (p.count)
				RT_CUDA(cudaMemcpyAsync(host.data(), p.data, host.size() - 1,
				                        cudaMemcpyDeviceToHost, run->stream));
			RT_CUDA(cudaStreamSynchronize(run->stream));
			p.data = host.data();
			fwrite(&p.count, sizeof p.count, 1, file);
			for (int64_t i = 0; i < p.count; i++) {
				double x = rt_get(&p, i);
				fwrite(&x, sizeof x, 1, file);
			}
		}
	bool bad = ferror(file);
	return fclose(file) || bad ? rt_wrong(error, "could not be written in full", name) : 0;
}

/* Times of the slowest rank, by events on its stream, as a line of JSON. */
static void rt_measure(rt_world *w, rt_run *run, int repeat) {
	cudaEvent_t begin, end;
	bool first = run->mesh.rank == 0;
	RT_CUDA(cudaEventCreate(&begin));
	RT_CUDA(cudaEventCreate(&end));
	static const char *const backends[] = {"host", "pointers", "windows"};
	if (first)
		printf("{\"program\":\"%s\",\"schedule\":\"%s\",\"ranks\":%d,\"virtual\":%s,\"backend\":\"%"
		       "s\",\"seconds\":[",
		       w->program->name, run->schedule->name, w->ranks, RT_VIRTUAL ? "true" : "false",
		       backends[w->backend]);
	for (int i = 0; i < repeat; i++) {
		rt_meet(w->all);
		RT_CUDA(cudaEventRecord(begin, run->stream));
		run->schedule->run(run);
		RT_CUDA(cudaEventRecord(end, run->stream));
		RT_CUDA(cudaStreamSynchronize(run->stream));
		RT_CUDA(cudaEventElapsedTime(&w->time[run->mesh.rank], begin, end));
		rt_meet(w->all);
		float longest = 0;
		for (int r = 0; r < w->ranks; r++) longest = w->time[r] > longest ? w->time[r] : longest;
		if (first) printf("%s%.9g", i ? "," : "", longest * 1e-3);
	}
	if (first) printf("]}\n");
	RT_CUDA(cudaEventDestroy(begin));
	RT_CUDA(cudaEventDestroy(end));
}

static void rt_run_schedule(rt_world *w, const rt_schedule *s, int rank, ncclComm_t all,
                            cudaStream_t stream) {
	rt_ring *ring = &w->ring[rank];
	memset((void *)ring, 0, sizeof *ring);
	ring->backend = w->backend;
	rt_run *run =
		rt_open(w->program, s, w->sizes, ring, all, rank, w->ranks, stream, false, w->error[rank]);
	w->wrong[rank] = !run;
	if (rt_any_wrong(w)) {
		rt_close(run);
		return;
	}
	rt_open_ring(w, run);
	rt_draw_all(run, w->options->seed);
	rt_meet(w->all);
	if (w->options->repeat) rt_measure(w, run, w->options->repeat);
	else run->schedule->run(run);
	RT_CUDA(cudaStreamSynchronize(run->stream));
	if (w->options->dump) w->wrong[rank] = rt_dump(run, w->options->dump, w->error[rank]);
	rt_close_ring(w, run);
	rt_close(run);
}

static void rt_rank(rt_world *w, int rank) {
	ncclComm_t all;
	cudaStream_t stream;
	rt_run none, *run = &none; /* whose errors end the program */
	memset((void *)&none, 0, sizeof none);
	none.program = w->program, none.mesh.rank = rank;
	RT_CUDA(cudaSetDevice(RT_VIRTUAL ? 0 : rank));
	for (int p = 0; p < w->ranks && !RT_VIRTUAL && w->backend == RT_POINTERS; p++) {
		int can = 0;
		if (p == rank) continue;
		RT_CUDA(cudaDeviceCanAccessPeer(&can, rank, p));
		if (!can)
			rt_fail(run, "--backend pointers",
			        "devices do not reach each other's memory; take --backend host", __LINE__);
		else RT_CUDA(cudaDeviceEnablePeerAccess(p, 0));
	}
	RT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	RT_NCCL(ncclCommInitRank(&all, w->ranks, w->id, rank));
	for (int i = 0; i < w->program->schedules && !rt_any_wrong(w); i++) {
		const char *chosen = w->options->schedule;
		const rt_schedule *s = &w->program->schedule[i];
		if (!chosen || strcmp(chosen, "all") == 0 || strcmp(chosen, s->name) == 0)
			rt_run_schedule(w, s, rank, all, stream);
	}
	RT_NCCL(ncclCommDestroy(all));
	RT_CUDA(cudaStreamDestroy(stream));
}

static bool rt_schedule_there(const rt_program *p, const char *name) {
	for (int i = 0; i < p->schedules; i++)
		if (strcmp(p->schedule[i].name, name) == 0) return true;
	return strcmp(name, "all") == 0;
}

/* How many ranks: as --sizes says; an axis that it leaves out gets what devices are left. */
static int rt_count_ranks(const rt_program *p, const rt_options *o, rt_sizes *z, int *ranks,
                          char error[RT_ERROR]) {
	int devices = 0;
	if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 1)
		return rt_wrong(error, "no device is found", NULL);
	int room = RT_VIRTUAL ? RT_RANKS : devices < RT_RANKS ? devices : RT_RANKS;
	if (rt_read_sizes(p, o->sizes, z, error) || rt_complete(p, z, RT_VIRTUAL ? 4 : room, error) ||
	    rt_scalars(p, o, z, error))
		return 1;
	int64_t product = 1;
	for (int a = 0; p->axis[a].name; a++)
		if (z->axis[a] > room || (product *= z->axis[a]) > room)
			return rt_wrong(error, "the mesh has more ranks than there are devices",
			                p->axis[a].name);
	*ranks = (int)product;
	return o->schedule && !rt_schedule_there(p, o->schedule)
	           ? rt_wrong(error, "there is no such schedule", o->schedule)
	           : 0;
}

static int rt_run_all(const rt_program *p, const rt_options *o, enum rt_backend backend,
                      rt_sizes *z, char error[RT_ERROR]) {
	rt_world *w = new rt_world();
	int wrong = rt_count_ranks(p, o, z, &w->ranks, error);
	if (!wrong) {
		std::vector<std::thread> threads;
		w->program = p, w->options = o, w->sizes = z, w->backend = backend;
		w->all = new rt_team(w->ranks);
		if (ncclGetUniqueId(&w->id) != ncclSuccess)
			wrong = rt_wrong(error, "NCCL does not start", NULL);
		for (int r = 0; r < w->ranks && !wrong; r++) threads.emplace_back(rt_rank, w, r);
		for (std::thread &t : threads) t.join();
		for (int r = w->ranks; r-- > 0;)
			if (w->wrong[r]) wrong = rt_wrong(error, w->error[r], NULL);
		delete w->all;
	}
	delete w;
	return wrong;
}

static void rt_usage(const rt_program *p) {
	printf("usage: %s --sizes NAME=N,... [--seed N] [--set NAME=X,...] [--schedule NAME|all] "
	       "[--repeat N]\n"
	       "       [--dump DIRECTORY] [--backend host|pointers|windows] [--list] [--help]\n"
	       "  --sizes     ranks of axes, dims, indices of groups: dp=4,N=1000; of a list's dim "
	       "N=3:5:7 or N=@FILE. A "
	       "rank is a\n"
	       "              device of this machine\n"
	       "  --seed      of inputs, states and scalars, which are drawn\n"
	       "  --set       values of scalars\n"
	       "  --schedule  which way to run it; all of them by default\n"
	       "  --repeat    how many times; times as JSON, a line for each schedule\n"
	       "  --dump      what every rank holds of the results: DIRECTORY/SCHEDULE.RANK\n"
	       "  --backend   how fused steps communicate: by NCCL's collectives beside their kernel "
	       "(host), inside it "
	       "by pointers\n"
	       "              to the other devices' memory (pointers), inside it by NCCL's windows "
	       "(windows)\n"
	       "  --list      the schedules\n",
	       p->name);
}

/* Takes --backend out of the arguments. */
static int rt_read_backend(int *argc, char **argv, enum rt_backend *out, char error[RT_ERROR]) {
	static const char *const names[] = {"host", "pointers", "windows"};
	for (int i = 1; i + 1 < *argc; i++) {
		int found = -1;
		if (strcmp(argv[i], "--backend") != 0) continue;
		for (int b = 0; b < 3; b++)
			if (strcmp(argv[i + 1], names[b]) == 0) found = b;
		if (found < 0)
			return rt_wrong(error, "--backend is host, pointers or windows", argv[i + 1]);
		*out = (enum rt_backend)found;
		memmove(&argv[i], &argv[i + 2], sizeof *argv * (size_t)(*argc - i - 2));
		*argc -= 2;
		break;
	}
	return 0;
}

static int rt_main(int argc, char **argv, const rt_program *p) {
	rt_options o;
	rt_sizes z;
	char error[RT_ERROR] = "";
	enum rt_backend backend = RT_HOST;
	memset(&o, 0, sizeof o);
	memset(&z, 0, sizeof z);
	int wrong = rt_read_backend(&argc, argv, &backend, error);
	if (!wrong) wrong = rt_arguments(argc, argv, &o, error);
	if (!wrong && o.help) rt_usage(p);
	for (int i = 0; i < p->schedules && !wrong && o.list; i++) printf("%s\n", p->schedule[i].name);
	if (!wrong && !o.help && !o.list) wrong = rt_run_all(p, &o, backend, &z, error);
	if (wrong) fprintf(stderr, "%s: %s\n", p->name, error);
	for (int d = 0; d < RT_DIMS; d++) free(z.each[d]);
	free(z.scalar);
	return wrong ? 2 : 0;
}
#endif
