/* explain_stalls.c: what costs a step its time, ranked. Each stall has the time that it costs per
 * step (mean over ranks), the figures that show it, and what people do about it. The times of
 * stalls are disjoint parts of the step. */
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "explain/explain.h"
#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"

/* Smaller shares of a step are noise, or too small for a remedy to pay. */
static const double LEAST_SHARE = 0.005;
/* A rank is a straggler if a third of all exposed waiting is for it; the rest is skew. */
static const double STRAGGLER_SHARE = 1.0 / 3;
/* ... and it is last at a fifth of its collectives: being last now and then is chance. */
static const double STRAGGLER_LAST = 0.2;
/* Devices of one kind differ by a few per cent in speed; one beyond this ratio is slow. */
static const double SLOW_RATIO = 1.03;

static lk_status stalls_add(lk_explain_work *work, lk_error *err, const char *kind, int subject,
                            double lost_s, const char *what, const char *evidence,
                            const char *remedy) {
	double share = lost_s / work->result.step_s;
	if (!(share >= LEAST_SHARE)) return LK_OK;
	if (!what || !evidence || !remedy || !lk_push(&work->stalls)) return lk_oom(err);
	*lk_last(&work->stalls) = (lk_explain_stall){kind,   what, subject, lost_s, share, evidence,
	                                             remedy, NAN,  lost_s,  "",     NAN};
	return LK_OK;
}

/* Analysed rank-steps: sums over ranks and steps divided by this are per step and rank. */
static double stalls_rank_steps(const lk_explain_work *work) {
	double count = 0;
	for (int r = 0; r < work->result.rank_count; r++) count += work->result.ranks[r].steps;
	return count;
}

static char *ms(double seconds, char out[32]) {
	return lk_format_seconds(seconds, out, 32);
}

/* A time over the ranks shown: its mean per step in seconds, and the rank with most. */
struct spread {
	double mean_s, most_s;
	const lk_rank_work *most;
};

static struct spread spread_of(const lk_explain_work *work, size_t time) {
	struct spread s = {0};
	for (uint32_t r = 0; r < work->count; r++) {
		const lk_rank_work *rank = &work->rank[r];
		if (!rank->shown) continue;
		LK_ASSERT(rank->result.steps > 0 && lk_rank_time(&rank->result, time) >= 0);
		double here = (double)lk_rank_time(&rank->result, time) * 1e-9;
		s.mean_s += here;
		here /= rank->result.steps;
		if (!s.most || here > s.most_s) {
			s.most = rank;
			s.most_s = here;
		}
	}
	s.mean_s /= stalls_rank_steps(work);
	return s;
}

/* "; most on rank 3: 12 ms", if ranks differ. Out of memory gives "": the sentence around it fails
 * as well. */
static const char *worst(lk_explain_work *work, const struct spread *spread) {
	char time[32];
	if (work->result.rank_count < 2 || spread->most_s < 1.1 * spread->mean_s) return "";
	const char *text = lk_arena_printf(&work->arena, "; most on rank %d: %s a step",
	                                   spread->most->result.rank, ms(spread->most_s, time));
	return text ? text : "";
}

/* Strip the prefix of autograd's operations. */
static const char *without_prefix(const char *name) {
	static const char prefix[] = "autograd::engine::evaluate_function: ";
	return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

/* "Optimizer.step#SGD.step 41 %, ## forward ## 12 %" */
static const char *places(lk_explain_work *work, const lk_rank_work *rank,
                          const lk_rank_places *rank_places, int64_t all) {
	const char *text = "";
	for (int i = 0; text && i < LK_PLACES && rank_places->ns[i] > 0; i++) {
		double share = 100.0 * (double)rank_places->ns[i] / (double)all;
		if (i && share < 5) break;
		const char *name = without_prefix(lk_capture_text(rank->capture, rank_places->name[i]));
		text = lk_arena_printf(&work->arena, "%s%s%.60s %.0f %%", text, i ? ", " : "", name, share);
	}
	return text;
}

/* "; in: Optimizer.step#SGD.step 41 %; at: aten::add_ 12 %" */
static const char *where(lk_explain_work *work, const lk_rank_work *rank,
                         const lk_rank_blame *blame, int64_t all) {
	const char *notes = places(work, rank, &blame->notes, all),
			   *ops = places(work, rank, &blame->ops, all);
	if (!notes || !ops) return NULL;
	if (*notes && *ops) return lk_arena_printf(&work->arena, "; in: %s; at: %s", notes, ops);
	if (*notes) return lk_arena_printf(&work->arena, "; in: %s", notes);
	if (*ops) return lk_arena_printf(&work->arena, "; at: %s", ops);
	return "";
}

/* ---- the idle device ---- */

static lk_status data_loading(lk_explain_work *work, lk_error *err) {
	char time[32];
	struct spread idle = spread_of(work, offsetof(lk_explain_rank, idle_data_ns)),
				  all = spread_of(work, offsetof(lk_explain_rank, data_loading_ns));
	if (work->result.processors) {
		const char *evidence = lk_arena_printf(
			&work->arena, "the main thread reads, or waits for what loads, %s a step%s",
			ms(all.mean_s, time), worst(work, &idle));
		return stalls_add(
			work, err, "data loading", -1, idle.mean_s, "reading", evidence,
			"read ahead in separate threads or processes (num_workers), in larger pieces");
	}
	const char *evidence = lk_arena_printf(
		&work->arena, "the device idles while the host is in the data loader, %s a step%s",
		ms(all.mean_s, time), worst(work, &idle));
	return stalls_add(work, err, "data loading", -1, idle.mean_s, "data loader", evidence,
	                  "more workers (num_workers), prefetch_factor, persistent_workers; cheaper or "
	                  "earlier decoding");
}

/* The idle time of the rows: offsetof(lk_explain_rank, idle_one_off_ns) and others. */
struct host_stall {
	lk_host_cause cause;
	size_t idle;
	const char *kind, *what, *evidence, *remedy;
};

static const struct host_stall host_stalls[] = {
	{LK_HOST_ONE_OFF, offsetof(lk_explain_rank, idle_one_off_ns), "one-off", "work done once",
     "the device idles during what a warm run lacks: compilation, loading of modules, first "
     "launches and allocations, graph capture",
     "nothing in a long run, it vanishes when warm: profile after some warm-up steps; a cache of "
     "compiled kernels shortens the start"},
	{LK_HOST_ALLOCATION, offsetof(lk_explain_rank, idle_allocation_ns), "allocation",
     "memory of the driver", "the device idles while the driver allocates or frees its memory",
     "a caching allocator or memory pool, reused buffers: PyTorch's is off with "
     "PYTORCH_NO_CUDA_MEMORY_CACHING=1, and empty_cache() in the loop defeats it"},
	{LK_HOST_SAVING, offsetof(lk_explain_rank, idle_saving_ns), "checkpoint", "written in the step",
     "the device idles while the host writes a checkpoint",
     "asynchronous checkpoints (torch.distributed.checkpoint.async_save), every rank its own "
     "shard, "
     "less often"},
	{LK_HOST_COLLECTING, offsetof(lk_explain_rank, idle_collecting_ns), "garbage collection",
     "of Python", "the device idles while Python collects garbage",
     "gc.freeze() after start-up, gc.disable() and gc.collect() at the same step on all ranks"},
	{LK_HOST_COMPUTING, offsetof(lk_explain_rank, idle_computing_ns), "host",
     "operations on the CPU",
     "the device idles while the host is in long operations that launch nothing",
     "tensors and optimizer on the device, or that work ahead, in other threads"},
	{LK_HOST_PREPARING, offsetof(lk_explain_rank, idle_preparing_ns), "preprocessing",
     "inputs on the host", "the device idles while the host prepares inputs",
     "prepare inputs ahead, in other threads or processes, or on the device; cheaper decoding"},
};

static lk_status stalls_host(lk_explain_work *work, const struct host_stall *stall, lk_error *err) {
	char time[32];
	struct spread idle = spread_of(work, stall->idle);
	const char *names = "";
	const lk_rank_places *places = idle.most ? &idle.most->host_places[stall->cause] : NULL;
	for (int i = 0; names && places && i < LK_PLACES && places->ns[i] > 0; i++)
		names = lk_arena_printf(&work->arena, "%s%s%.80s %s", names, i ? ", " : "; in: ",
		                        lk_capture_text(idle.most->capture, places->name[i]),
		                        ms((double)places->ns[i] * 1e-9 / idle.most->result.steps, time));
	if (!names) return lk_oom(err);
	return stalls_add(
		work, err, stall->kind, -1, idle.mean_s, stall->what,
		lk_arena_printf(&work->arena, "%s%s%s", stall->evidence, names, worst(work, &idle)),
		stall->remedy);
}

static lk_status synchronisation(lk_explain_work *work, lk_error *err) {
	struct spread idle = spread_of(work, offsetof(lk_explain_rank, idle_sync_ns));
	const lk_rank_work *rank_work = idle.most;
	if (!rank_work || !rank_work->result.idle_sync_ns) return LK_OK;
	const char *at = where(work, rank_work, &rank_work->sync, rank_work->result.idle_sync_ns),
			   *most = worst(work, &idle);
	if (!at) return lk_oom(err);
	const char *evidence = lk_arena_printf(
		&work->arena, "%.1f calls a step wait for the device, which is then left without work%s%s",
		(double)rank_work->sync_calls / rank_work->result.steps, at, most);
	return stalls_add(
		work, err, "sync", -1, idle.mean_s, "host waits for device", evidence,
		"no .item(), .cpu() or print of tensors in the loop; copies with non_blocking=True "
		"from pinned memory");
}

/* On processors: opening, closing, writing, waiting for other threads. */
static lk_status other_calls(lk_explain_work *work, const struct spread *idle, const char *at,
                             lk_error *err) {
	const lk_rank_work *rank_work = idle->most;
	const char *evidence = lk_arena_printf(
		&work->arena,
		"%.0f times a step the main thread is in calls that neither read nor communicate%s%s",
		(double)rank_work->late.gaps / rank_work->result.steps, at, worst(work, idle));
	return stalls_add(work, err, "other calls", -1, idle->mean_s, "files and waiting", evidence,
	                  "open files once, not in steps; checkpoints written by a separate thread; "
	                  "fewer locks");
}

static lk_status launching(lk_explain_work *work, lk_error *err) {
	char call[32], kernel[32];
	struct spread idle = spread_of(work, offsetof(lk_explain_rank, idle_host_ns));
	const lk_rank_work *rank_work = idle.most;
	if (!rank_work || !rank_work->result.idle_host_ns) return LK_OK;
	const lk_explain_launch *launch = &rank_work->launch;
	const char *at = where(work, rank_work, &rank_work->late, rank_work->result.idle_host_ns),
			   *most = worst(work, &idle);
	if (!at) return lk_oom(err);
	if (work->result.processors) return other_calls(work, &idle, at, err);
	struct spread optimizer = spread_of(work, offsetof(lk_explain_rank, idle_optimizer_ns)),
				  outside = spread_of(work, offsetof(lk_explain_rank, idle_outside_ns));
	LK_TRY(stalls_add(
		work, err, "optimizer", -1, optimizer.mean_s, "one launch after another",
		lk_arena_printf(&work->arena,
	                    "gaps ended by a late launch of the optimizer: a kernel or more per "
	                    "parameter%s",
	                    worst(work, &optimizer)),
		"a fused optimizer (fused=True, or foreach=True), zero_grad(set_to_none=True)"));
	LK_TRY(stalls_add(
		work, err, "host", -1, outside.mean_s, "outside of operations",
		lk_arena_printf(&work->arena,
	                    "the device idles in long gaps while the host is in no operation and no "
	                    "call: it reads or prepares something, or waits%s",
	                    worst(work, &outside)),
		"see what it does (with_stack=True, annotations), and do that ahead, in other threads or "
		"processes"));
	idle.mean_s -= optimizer.mean_s + outside.mean_s;
	const char *evidence =
		lk_arena_printf(&work->arena,
	                    "gaps ended by a late launch: %.0f a step; launch call %s and kernel %s "
	                    "(medians), %.0f %% of kernels shorter "
	                    "than their launch%s%s",
	                    (double)rank_work->late.gaps / rank_work->result.steps,
	                    ms(launch->cpu_duration.median_ns * 1e-9, call),
	                    ms(launch->gpu_duration.median_ns * 1e-9, kernel),
	                    launch->cpu_duration.count ? 100.0 * (double)launch->short_kernels /
	                                                     (double)launch->cpu_duration.count
	                                               : 0,
	                    at, most);
	return stalls_add(
		work, err, "launch", -1, idle.mean_s, "host launches too late", evidence,
		"CUDA graphs or torch.compile, fused optimizers and layers, larger micro-batches");
}

static lk_status stalls_device_gaps(lk_explain_work *work, lk_error *err) {
	struct spread idle = spread_of(work, offsetof(lk_explain_rank, idle_other_ns));
	if (!idle.most || !idle.most->device.count) return LK_OK;
	const char *evidence =
		lk_arena_printf(&work->arena,
	                    "work was launched but had not begun: it waited for another stream, or "
	                    "for its launch to arrive%s",
	                    worst(work, &idle));
	return stalls_add(work, err, "gaps", -1, idle.mean_s, "between kernels", evidence,
	                  work->result.processors
	                      ? "look for what the main thread waits for"
	                      : "fewer, larger kernels; CUDA graphs; look for events between streams");
}

static lk_status copying(lk_explain_work *work, lk_error *err) {
	char time[32];
	struct spread h2d = spread_of(work, offsetof(lk_explain_rank, h2d_exposed_ns)),
				  all = spread_of(work, offsetof(lk_explain_rank, h2d_ns)),
				  pinned = spread_of(work, offsetof(lk_explain_rank, pinned_exposed_ns)),
				  pageable = spread_of(work, offsetof(lk_explain_rank, pageable_exposed_ns)),
				  both = spread_of(work, offsetof(lk_explain_rank, pageable_h2d_ns)),
				  any = spread_of(work, offsetof(lk_explain_rank, exposed_memory_ns));
	const char *evidence = lk_arena_printf(
		&work->arena, "copies from the host take %s a step, %.0f %% of it while nothing computes%s",
		ms(all.mean_s, time), 100 * h2d.mean_s / all.mean_s, worst(work, &h2d));
	LK_TRY(stalls_add(
		work, err, "copies", -1, h2d.mean_s - both.mean_s, "host to device", evidence,
		2 * pinned.mean_s > h2d.mean_s
			? "keep on the device what comes again, or prefetch it on a separate stream while "
			  "something computes; its memory is page-locked already"
			: "pin_memory and non_blocking=True, on a separate stream, one batch ahead"));
	evidence = lk_arena_printf(&work->arena,
	                           "copies from and to pageable memory while nothing computes: the "
	                           "driver copies twice, and the host waits%s",
	                           worst(work, &pageable));
	LK_TRY(stalls_add(work, err, "copies", -1, pageable.mean_s, "pageable memory", evidence,
	                  "pinned memory (pin_memory) and non_blocking=True: copies are faster, run "
	                  "in both directions at once and while something computes"));
	evidence =
		lk_arena_printf(&work->arena, "other copies and fills of memory, while nothing computes%s",
	                    worst(work, &any));
	any.mean_s -= h2d.mean_s + pageable.mean_s - both.mean_s;
	return stalls_add(work, err, "copies", -1, any.mean_s, "other", evidence,
	                  "avoid .cpu(), .contiguous() and zero-filling in the loop");
}

/* ---- slow kernels ---- */

/* Kernels that stay this far below their roof are slow; good ones reach the second share. Kernels
 * shorter than 20 us take what a launch takes, whatever they do. */
static const struct {
	double slow, good;
} roofs[] = {{0.35, 0.7 /* of products */}, {0.5, 0.8 /* of the bandwidth of memory */}};
static const double SHORT_KERNEL_NS = 20000;
/* The share of a step from which one is worth looking at. */
static const double LEAST_SLOW = 0.02;

/* The part of kernels' time that the device computes, as kernels may overlap. */
static double stalls_kernel_share(const lk_explain_work *work) {
	double compute = 0, kernels = 0;
	for (int i = 0; i < work->result.rank_count; i++)
		compute += (double)work->result.ranks[i].compute_ns;
	for (int i = 0; i < work->result.kernel_count; i++)
		if (work->result.kernel[i].type == LK_WORK_COMPUTATION)
			kernels += work->result.kernel[i].time.total_ns;
	return kernels > compute ? compute / kernels : 1;
}

static lk_status slow_kernel(lk_explain_work *work, const lk_explain_shaped *shaped,
                             lk_error *err) {
	/* of other operations it is less sure what a good kernel reads, writes and computes */
	const char *sure = shaped->memory_bound ? "elementwise" : "gemm";
	double mean = shaped->count ? shaped->total_ns / (double)shaped->count : 0;
	if (isnan(shaped->roof) || mean < SHORT_KERNEL_NS || strcmp(shaped->kind, sure) != 0 ||
	    shaped->roof >= roofs[shaped->memory_bound].slow)
		return LK_OK;
	double lost = shaped->total_ns * (1 - shaped->roof / roofs[shaped->memory_bound].good) *
	              stalls_kernel_share(work) * 1e-9 / stalls_rank_steps(work);
	if (lost < LEAST_SLOW * work->result.step_s) return LK_OK;
	char time[32];
	const char *evidence =
		lk_arena_printf(&work->arena,
	                    "%s of %.120s takes %s on average, %.0f %% of what the %s of the %s "
	                    "allows; longest kernel: %.80s",
	                    shaped->operation, shaped->shapes, ms(mean * 1e-9, time),
	                    100 * shaped->roof, shaped->memory_bound ? "memory bandwidth" : "peak",
	                    work->result.held_against, shaped->kernel);
	return stalls_add(work, err, "slow kernel", -1, lost,
	                  lk_arena_strdup(&work->arena, shaped->operation), evidence,
	                  shaped->memory_bound
	                      ? "contiguous tensors of one layout (strides, .contiguous() once), or a "
	                        "kernel that reads and writes less"
	                      : "shapes that are multiples of 64, a lower precision (TF32, bf16), or "
	                        "another kernel");
}

/* Products in fp32 on a device that has TF32, which frameworks leave off: kernels of plain fp32
 * have sgemm in their names, those of TF32 the instruction (m16n8k8) or the format too; AMD's are
 * Tensile's Cijk_..._SB_, and S_MX with TF32. Half of what the peaks promise is taken for lost. */
static bool is_plain_product(const lk_explain_kernel *kernel) {
	if (kernel->type != LK_WORK_COMPUTATION) return false;
	if (strncmp(kernel->name, "Cijk_", 5) == 0) return strstr(kernel->name, "_SB_") != NULL;
	return strcasestr(kernel->name, "sgemm") && !strcasestr(kernel->name, "tf32") &&
	       !strcasestr(kernel->name, "s1688") && !strcasestr(kernel->name, "tensorop");
}

static lk_status plain_products(lk_explain_work *work, lk_error *err) {
	char time[32];
	double ns = 0;
	const lk_explain_kernel *longest = NULL;
	for (int i = 0; i < work->result.kernel_count; i++) {
		const lk_explain_kernel *kernel = &work->result.kernel[i];
		if (!is_plain_product(kernel) || kernel->time.mean_ns < SHORT_KERNEL_NS) continue;
		ns += kernel->time.total_ns;
		if (!longest) longest = kernel;
	}
	double each = ns * stalls_kernel_share(work) * 1e-9 / stalls_rank_steps(work),
		   lost = work->tf32_speedup > 2 ? each * (1 - 2 / work->tf32_speedup) : 0;
	if (!longest || lost < LEAST_SLOW * work->result.step_s) return LK_OK;
	for (size_t i = 0; i < work->stalls.count; i++) /* these products may be among them */
		if (strcmp(work->stalls.at[i].kind, "slow kernel") == 0) return LK_OK;
	const char *evidence = lk_arena_printf(
		&work->arena,
		"products in fp32 take %s a step; in TF32 the %s has %.0f times the peak; "
		"longest: %.80s",
		ms(each, time), work->result.held_against, work->tf32_speedup, longest->name);
	return stalls_add(work, err, "slow kernel", -1, lost, "products in fp32", evidence,
	                  "TF32 (torch.set_float32_matmul_precision(\"high\"), "
	                  "torch.backends.cudnn.allow_tf32) or bf16");
}

/* ---- communication ---- */

static const char *comm_remedy(const char *kind, bool processors) {
	if (strcmp(kind, "all_to_all") == 0)
		return "overlap it with dense layers (two micro-batches in turn), smaller types, experts "
			   "or tables nearer";
	if (strcmp(kind, "all_gather") == 0)
		return "prefetch the next layer's weights earlier; larger sharding units";
	if (strcmp(kind, "send") == 0 || strcmp(kind, "recv") == 0)
		return "more micro-batches, or an interleaved schedule";
	return processors ? "begin earlier and overlap with the backward pass: non-blocking calls, "
	                    "smaller first buckets"
	                  : "begin earlier and overlap with the backward pass: smaller first buckets, "
	                    "a separate stream";
}

static lk_status stalls_communication(lk_explain_work *work, const lk_explain_comm *comm,
                                      lk_error *err) {
	char all[32], size[32], often[80];
	double steps = stalls_rank_steps(work),
		   shown = (double)(comm->exposed_ns - comm->exposed_wait_ns) * 1e-9 / steps,
		   overlapped = comm->kernel_ns
	                        ? 100 - 100.0 * (double)comm->exposed_ns / (double)comm->kernel_ns
	                        : 0;
	lk_text text = lk_text_begin(often, sizeof often);
	lk_text_add(&text, "%.1f a step", (double)comm->count / steps);
	if (!isnan(comm->bytes))
		lk_text_add(&text, " of %s",
		            lk_format_bytes(comm->bytes / (double)comm->count, size, sizeof size));
	ms((double)comm->kernel_ns * 1e-9 / steps, all);
	const char *what = *comm->group
	                       ? lk_arena_printf(&work->arena, "%s of %.80s", comm->kind, comm->group)
	                       : comm->kind;
	const char *evidence =
		comm->matched
			? lk_arena_printf(&work->arena,
	                          "%s, %s a step and rank, %.0f %% overlapped with computation; "
	                          "waiting for late ranks is not counted",
	                          often, all, overlapped)
			: lk_arena_printf(&work->arena,
	                          "%s, %s a step and rank, %.0f %% overlapped with computation; "
	                          "waiting for other ranks is counted too",
	                          often, all, overlapped);
	return stalls_add(work, err, "communication", (int)(comm - work->result.comm), shown, what,
	                  evidence, comm_remedy(comm->kind, work->result.processors));
}

static lk_status host_communication(lk_explain_work *work, const lk_explain_comm *comm,
                                    lk_error *err) {
	double steps = stalls_rank_steps(work);
	const char *what = *comm->group
	                       ? lk_arena_printf(&work->arena, "%s of %.80s", comm->kind, comm->group)
	                       : comm->kind;
	const char *evidence = lk_arena_printf(
		&work->arena, "%.1f a step on the host; what runs at the same time is not in the trace",
		(double)comm->count / steps);
	return stalls_add(work, err, "communication", (int)(comm - work->result.comm),
	                  (double)comm->exposed_ns * 1e-9 / steps, what, evidence,
	                  "fewer, larger messages; NCCL where the job has GPUs");
}

static lk_status straggler(lk_explain_work *work, const lk_explain_straggler *explain_straggler,
                           lk_error *err) {
	char late[32];
	bool slow = explain_straggler->compute_ratio > SLOW_RATIO;
	const char *what = lk_arena_printf(&work->arena, "rank %d", explain_straggler->rank);
	const char *evidence = lk_arena_printf(
		&work->arena,
		"arrives last at %.0f %% of %.0f %s, %s late on average; computes %.3f times as long as "
		"the "
		"median rank",
		100.0 * (double)explain_straggler->last / (double)explain_straggler->collectives,
		(double)explain_straggler->collectives,
		lk_noun((double)explain_straggler->collectives, "collective", "collectives"),
		ms((double)explain_straggler->late_ns * 1e-9 / (double)explain_straggler->last, late),
		explain_straggler->compute_ratio);
	const char *remedy;
	if (!slow) remedy = "its host: CPU binding, data loading, other load on the node";
	else if (work->result.processors)
		remedy = "its share of the work, or its processor: clocks, other load, binding";
	else remedy = "its share of the work, or its device: clocks, power limit, temperature, ECC";
	return stalls_add(work, err, "straggler", explain_straggler->rank,
	                  (double)explain_straggler->caused_ns * 1e-9 / stalls_rank_steps(work), what,
	                  evidence, remedy);
}

static lk_status stalls_stragglers(lk_explain_work *work, lk_error *err) {
	const lk_explanation *explanation = &work->result;
	double all = 0, left = 0, lasts = 0, most = 0;
	for (int i = 0; i < explanation->straggler_count; i++)
		all += (double)explanation->stragglers[i].caused_ns;
	for (int i = 0; i < explanation->straggler_count; i++) {
		const lk_explain_straggler *explain_straggler = &explanation->stragglers[i];
		if (explain_straggler->last &&
		    (double)explain_straggler->last >=
		        STRAGGLER_LAST * (double)explain_straggler->collectives &&
		    (double)explain_straggler->caused_ns > STRAGGLER_SHARE * all) {
			LK_TRY(straggler(work, explain_straggler, err));
			continue;
		}
		left += (double)explain_straggler->caused_ns;
		lasts += explain_straggler->last > 0;
		if ((double)explain_straggler->caused_ns > most)
			most = (double)explain_straggler->caused_ns;
	}
	const char *evidence = lk_arena_printf(
		&work->arena, "%.0f %s last at times; the worst one causes %.0f %% of the waiting", lasts,
		lk_noun(lasts, "rank is", "ranks are"), left > 0 ? 100 * most / left : 0);
	return stalls_add(work, err, "arrival skew", -1, left * 1e-9 / stalls_rank_steps(work),
	                  "ranks arrive at different times", evidence,
	                  "balance the work (sequence lengths, tables); bind processes to cores");
}

static int stalls_by_loss(const void *a, const void *b) {
	const lk_explain_stall *x = a, *y = b;
	if (x->lost_s != y->lost_s) return x->lost_s > y->lost_s ? -1 : 1;
	return strcmp(x->what, y->what);
}

/* Without a device: what the host says of itself. */
static lk_status on_hosts(lk_explain_work *work, lk_error *err) {
	char time[32];
	struct spread all = spread_of(work, offsetof(lk_explain_rank, data_loading_ns));
	const char *evidence =
		lk_arena_printf(&work->arena, "the main thread is in the data loader for %s a step%s",
	                    ms(all.mean_s, time), worst(work, &all));
	LK_TRY(stalls_add(work, err, "data loading", -1, all.mean_s, "data loader", evidence,
	                  "more workers (num_workers), prefetch_factor"));
	for (int i = 0; i < work->result.comm_count; i++)
		LK_TRY(host_communication(work, &work->result.comm[i], err));
	return LK_OK;
}

static bool on_processors(const lk_explain_work *work) {
	bool all = work->count > 0;
	for (uint32_t r = 0; r < work->count; r++)
		all &= !work->rank[r].shown || work->rank[r].capture->processor;
	return all;
}

lk_status lk_explain_stalls(lk_explain_work *work, lk_error *err) {
	work->result.processors = on_processors(work);
	if (work->result.kernels) {
		LK_TRY(data_loading(work, err));
		for (size_t i = 0; i < sizeof host_stalls / sizeof *host_stalls; i++)
			LK_TRY(stalls_host(work, &host_stalls[i], err));
		LK_TRY(synchronisation(work, err));
		LK_TRY(launching(work, err));
		LK_TRY(stalls_device_gaps(work, err));
		LK_TRY(copying(work, err));
		for (int i = 0; i < work->result.shaped_count; i++)
			LK_TRY(slow_kernel(work, &work->result.shaped[i], err));
		LK_TRY(plain_products(work, err));
		for (int i = 0; i < work->result.comm_count; i++)
			LK_TRY(stalls_communication(work, &work->result.comm[i], err));
		LK_TRY(stalls_stragglers(work, err));
	} else {
		LK_TRY(on_hosts(work, err));
	}
	lk_sort(work->stalls.at, work->stalls.count, sizeof *work->stalls.at, stalls_by_loss);
	return LK_OK;
}
