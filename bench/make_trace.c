/* make_trace.c: writes the trace of one rank as PyTorch's profiler (Kineto) would of a transformer
 * in training: operations with shapes, Python functions, calls of the CUDA runtime, kernels with
 * all their arguments, flows between them, NCCL kernels with theirs. Nothing is measured; sizes,
 * mix and form are those of real traces, so that readers can be timed.
 *
 *     make_trace [-s BYTES[k|M|G]] [-r RANKS] [-k RANK] [-l LAYERS] [-x SEED] [-P]   > rank0.json
 *
 * Steps are written until BYTES are reached, one at least. Ranks of one SEED have the same
 * operations and the same collectives: each starts when a rank's device reaches it and ends for all
 * at the same time. -P leaves out Python functions. The same options give the same bytes. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MOST_RANKS = 16384,
	LISTED_RANKS = 256, /* of a larger group of all ranks PyTorch's empty list is written */
	HIDDEN = 4096,
	FFN = 14336,
	TOKENS = 8192,
	PROCESS = 20000
};

struct options {
	uint64_t bytes, seed;
	int ranks, rank, layers;
	bool python;
};

/* Clocks of a rank, ns. */
struct clocks {
	int64_t host, compute, comm;
};

struct writer {
	struct options o;
	struct clocks rank[MOST_RANKS];
	uint64_t draws; /* how often all ranks drew a random number */
	uint64_t written;
	uint32_t correlation, external, sequence, python_id;
	bool first;
};

static uint64_t mix(uint64_t x) {
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* A time around `mean` ns, from 0.75 to 1.25 of it; another one for every rank and draw. */
static int64_t about(const struct writer *w, int rank, int64_t mean) {
	uint64_t u = mix(mix(w->o.seed * 1000003 + (uint64_t)rank) ^ w->draws) >> 40;
	return mean * 3 / 4 + (int64_t)((double)u / (1 << 24) * (double)(mean / 2));
}

#define PUT(...) (w->written += (uint64_t)printf(__VA_ARGS__))
#define US(ns)   (ns) / 1000, (int)((ns) % 1000)

static void begin(struct writer *w, char ph, const char *category, const char *name, int pid,
                  int tid, int64_t start, int64_t dur) {
	PUT("%s\n  {\n    \"ph\": \"%c\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": "
	    "%d,\n",
	    w->first ? "" : ",", ph, category, name, pid, tid);
	PUT("    \"ts\": %" PRId64 ".%03d, \"dur\": %" PRId64 ".%03d,\n    \"args\": {\n      ",
	    US(start), US(dur));
	w->first = false;
}

static void end(struct writer *w) {
	PUT("\n    }\n  }");
}

static void python_function(struct writer *w, const char *file, int line, const char *name,
                            int64_t start, int64_t dur) {
	char text[200];
	if (!w->o.python) return;
	snprintf(text, sizeof text, "%s(%d): %s", file, line, name);
	begin(w, 'X', "python_function", text, PROCESS + w->o.rank, PROCESS + w->o.rank, start, dur);
	PUT("\"Python parent id\": %u, \"Python id\": %u, \"Ev Idx\": %u", w->python_id,
	    w->python_id + 1, w->external);
	w->python_id++;
	end(w);
}

static void cpu_op(struct writer *w, const char *name, const char *dims, const char *types,
                   int64_t start, int64_t dur) {
	begin(w, 'X', "cpu_op", name, PROCESS + w->o.rank, PROCESS + w->o.rank, start, dur);
	w->external++;
	PUT("\"External id\": %u,\"Record function id\": %u, \"Concrete Inputs\": [\"\", \"\", \"\"], "
	    "\"Input type\": %s, "
	    "\"Input Dims\": %s, "
	    "\"Sequence number\": %u, \"Fwd thread id\": 0, \"Ev Idx\": %u",
	    w->external, w->external + 1000, types, dims, w->sequence, w->external);
	end(w);
}

static void flow(struct writer *w, char ph, int pid, int tid, int64_t at) {
	PUT(",\n  {\n    \"ph\": \"%c\", \"id\": %u, \"pid\": %d, \"tid\": %d, \"ts\": %" PRId64
	    ".%03d,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"%s\n  }",
	    ph, w->correlation, pid, tid, US(at), ph == 'f' ? ", \"bp\": \"e\"" : "");
}

static void runtime(struct writer *w, const char *name, int cbid, int64_t start, int64_t dur) {
	begin(w, 'X', "cuda_runtime", name, PROCESS + w->o.rank, PROCESS + w->o.rank, start, dur);
	PUT("\"External id\": %u, \"cbid\": %d, \"correlation\": %u", w->external, cbid,
	    w->correlation);
	end(w);
	flow(w, 's', PROCESS + w->o.rank, PROCESS + w->o.rank, start);
}

static void kernel(struct writer *w, const char *name, int stream, int blocks, int threads,
                   const char *more, int64_t start, int64_t dur) {
	int device = w->o.rank % 8;
	begin(w, 'X', "kernel", name, device, stream, start, dur);
	PUT("\"External id\": %u, \"queued\": 0, \"device\": %d, \"context\": 1, \"stream\": %d, "
	    "\"correlation\": %u, "
	    "\"registers per thread\": %d, "
	    "\"shared memory\": %d, \"blocks per SM\": %.6f, \"warps per SM\": %.6f, \"grid\": [%d, 1, "
	    "1], \"block\": [%d, "
	    "1, 1], "
	    "\"est. achieved occupancy %%\": %d%s",
	    w->external, device, stream, w->correlation, 32 + blocks % 200, blocks % 7 * 16384,
	    blocks / 132.0, blocks * (threads / 32) / 132.0, blocks, threads, blocks % 100, more);
	end(w);
	flow(w, 'f', device, stream, start);
}

/* Every rank's host and device go on by about these times; the rank that is written gives start and
 * duration of both.
 */
static void advance(struct writer *w, int64_t host, int64_t device, struct clocks *start,
                    struct clocks *dur) {
	w->draws++;
	for (int r = 0; r < w->o.ranks; r++) {
		struct clocks *clocks = &w->rank[r];
		struct clocks s = *clocks, d = {about(w, r, host), about(w, r, device), 0};
		if (clocks->compute < clocks->host + d.host) clocks->compute = clocks->host + d.host;
		s.compute = clocks->compute;
		clocks->host += d.host;
		clocks->compute += d.compute;
		if (r == w->o.rank) {
			*start = s;
			*dur = d;
		}
	}
}

struct work {
	const char *op, *inner, *kernel, *dims, *types, *file;
	int64_t host, device;
	int blocks;
};

/* An operation of the framework, what it calls inside, and the kernel that it launches. */
static void run(struct writer *w, const struct work *work, int layer) {
	struct clocks start, dur;
	advance(w, work->host, work->device, &start, &dur);
	int64_t at = start.host, whole = dur.host;
	w->sequence++;
	w->correlation += 3;
	python_function(w, work->file, 100 + layer, "forward", at, whole - 100);
	python_function(w, "torch/nn/modules/module.py", 1527, "_call_impl", at + 200, whole - 400);
	python_function(w, "<built-in method linear of type object at 0x7f3e5c8d1a40>", 0, "", at + 300,
	                whole - 700);
	cpu_op(w, work->op, work->dims, work->types, at + 400, whole - 900);
	cpu_op(w, work->inner, work->dims, work->types, at + 700, whole - 1500);
	runtime(w, "cudaLaunchKernel", 211, at + whole / 2, whole / 5);
	kernel(w, work->kernel, 7, work->blocks, 256, "", start.compute, dur.compute);
}

/* "[0, 1, ...]", as the arguments write it: the first 16 at most. */
static void rank_list(const struct writer *w, char *out, size_t size) {
	size_t used = (size_t)snprintf(out, size, "[");
	for (int r = 0; r < w->o.ranks && r < 16; r++)
		used += (size_t)snprintf(out + used, size - used, "%s%d", r ? ", " : "", r);
	snprintf(out + used, size - used, "%s]", w->o.ranks > 16 ? ", ..." : "");
}

/* Each rank's communication stream comes to the collective behind its compute stream; all leave it
 * together. */
static void meet(struct writer *w, int64_t device, int64_t *start, int64_t *dur) {
	int64_t last = 0;
	for (int r = 0; r < w->o.ranks; r++) {
		struct clocks *clocks = &w->rank[r];
		if (clocks->comm < clocks->compute) clocks->comm = clocks->compute;
		if (clocks->comm > last) last = clocks->comm;
	}
	*start = w->rank[w->o.rank].comm;
	last += about(w, 0, device);
	*dur = last - *start;
	for (int r = 0; r < w->o.ranks; r++) w->rank[r].comm = last;
}

/* A collective of all ranks: the operation that enqueues it, its annotation, the launch, the
 * kernel. */
static void collective(struct writer *w, const char *name, const char *title,
                       const char *kernel_name, int64_t elements, int64_t device) {
	struct clocks start, dur;
	char dims[64], more[700], ranks[128];
	int64_t at, lasts;
	advance(w, 30000, 500, &start, &dur);
	meet(w, device, &at, &lasts);
	rank_list(w, ranks, sizeof ranks);
	snprintf(dims, sizeof dims, "[[%" PRId64 "]]", elements);
	snprintf(more, sizeof more,
	         ", \"Collective name\": \"%s\", \"In msg nelems\": %" PRId64
	         ", \"Out msg nelems\": %" PRId64 ", \"Group size\": %d, "
	         "\"dtype\": \"BFloat16\", \"In split size\": \"[]\", \"Out split size\": \"[]\", "
	         "\"Process Group Name\": "
	         "\"0\", "
	         "\"Process Group Description\": \"default_pg\", \"Process Group Ranks\": \"%s\"",
	         name, elements, elements, w->o.ranks, ranks);
	w->correlation += 3;
	cpu_op(w, "record_param_comms", dims, "[\"c10::BFloat16\"]", start.host + 1000,
	       dur.host - 2000);
	begin(w, 'X', "user_annotation", title, PROCESS + w->o.rank, PROCESS + w->o.rank,
	      start.host + 2000, dur.host - 4000);
	PUT("\"External id\": %u, \"Record function id\": 0, \"Input Dims\": %s, \"Input type\": "
	    "[\"c10::BFloat16\"]",
	    w->external, dims);
	end(w);
	runtime(w, "cudaLaunchKernelExC", 430, start.host + dur.host / 2, dur.host / 5);
	kernel(w, kernel_name, 20, 24, 544, more, at, lasts);
}

/* What follows computes with the result: the compute stream waits. */
static void wait_for_comm(struct writer *w) {
	for (int r = 0; r < w->o.ranks; r++)
		if (w->rank[r].compute < w->rank[r].comm) w->rank[r].compute = w->rank[r].comm;
}

static const struct work layer_work[] = {
	{"aten::rms_norm", "aten::mul",
     "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
     "float>(int, float, "
     "c10::BFloat16 const*, c10::BFloat16 const*, "
     "c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
     "[[1, 8192, 4096], [4096], []]", "[\"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\"]",
     "torchtitan/models/llama/model.py", 9000, 60000, 8192},
	{"aten::linear", "aten::mm",
     "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
     "segment_k_off_kernel__5x_"
     "cublas",
     "[[8192, 4096], [6144, 4096], []]", "[\"c10::BFloat16\", \"c10::BFloat16\", \"\"]",
     "torchtitan/models/llama/model.py", 14000, 610000, 3072},
	{"aten::_scaled_dot_product_flash_attention", "aten::_flash_attention_forward",
     "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
     "cutlass::bfloat16_t, "
     "Flash_kernel_traits<128, 128, 64, 4, "
     "cutlass::bfloat16_t> >, false, true, false, false, false, true, false, "
     "false>(pytorch_flash::Flash_fwd_params)",
     "[[1, 32, 8192, 128], [1, 8, 8192, 128], [1, 8, 8192, 128], [], [], [], []]",
     "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", \"Scalar\", "
     "\"Scalar\", \"\"]",
     "torch/nn/functional.py", 22000, 900000, 2048},
	{"aten::linear", "aten::mm",
     "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_execute_"
     "segment_k_off_kernel__5x_"
     "cublas",
     "[[8192, 4096], [14336, 4096], []]", "[\"c10::BFloat16\", \"c10::BFloat16\", \"\"]",
     "torchtitan/models/llama/model.py", 13000, 1400000, 7168},
	{"aten::silu", "aten::silu",
     "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous "
     "namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() "
     "const::{lambda()#2}::operator()() const::{lambda(c10::BFloat16)#1}, at::detail::Array<char*, "
     "2> >(int, "
     "at::native::(anonymous namespace)::"
     "silu_kernel(at::TensorIteratorBase&), at::detail::Array<char*, 2>)",
     "[[1, 8192, 14336]]", "[\"c10::BFloat16\"]", "torch/nn/functional.py", 8000, 110000, 57344},
	{"aten::add", "aten::add_",
     "void at::native::vectorized_elementwise_kernel<4, "
     "at::native::CUDAFunctor_add<c10::BFloat16>, "
     "at::detail::Array<char*, 3> >"
     "(int, at::native::CUDAFunctor_add<c10::BFloat16>, at::detail::Array<char*, 3>)",
     "[[1, 8192, 4096], [1, 8192, 4096], []]", "[\"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\"]",
     "torchtitan/models/llama/model.py", 6000, 50000, 16384},
};

static void step(struct writer *w, int number) {
	char name[40];
	int64_t from = w->rank[w->o.rank].host;
	for (int layer = 0; layer < w->o.layers; layer++) {
		collective(w, "_allgather_base", "nccl:_all_gather_base",
		           "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		           (int64_t)HIDDEN * (HIDDEN + 3 * FFN) / w->o.ranks, 900000);
		for (int i = 0; i < 2; i++)
			for (size_t k = 0; k < sizeof layer_work / sizeof *layer_work; k++)
				run(w, &layer_work[k], layer);
		wait_for_comm(w);
		collective(w, "_reduce_scatter_base", "nccl:_reduce_scatter_base",
		           "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		           (int64_t)HIDDEN * (HIDDEN + 3 * FFN), 1100000);
	}
	collective(w, "allreduce", "nccl:all_reduce",
	           "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1,
	           40000);
	wait_for_comm(w);
	for (int r = 0; r < w->o.ranks; r++)
		if (w->rank[r].host < w->rank[r].compute) w->rank[r].host = w->rank[r].compute;
	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	begin(w, 'X', "user_annotation", name, PROCESS + w->o.rank, PROCESS + w->o.rank, from,
	      w->rank[w->o.rank].host - from);
	PUT("\"External id\": %u, \"Record function id\": 0, \"Ev Idx\": %u", w->external, w->external);
	end(w);
}

static void head(struct writer *w) {
	PUT("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [");
	for (int i = 0; i < 8; i++)
		PUT("%s\n    {\n      \"id\": %d, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": "
		    "85029158912,\n      "
		    "\"computeMajor\": 9, \"computeMinor\": 0,\n"
		    "      \"maxThreadsPerBlock\": 1024, \"warpSize\": 32, \"numSms\": 132\n    }",
		    i ? "," : "", i);
	PUT("\n  ],\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d, "
	    "\"pg_count\": 1, "
	    "\"pg_config\": [{\"pg_name\": \"0\", "
	    "\"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"pg_size\": %d, "
	    "\"ranks\": [",
	    w->o.rank, w->o.ranks, w->o.ranks);
	for (int r = 0; r < w->o.ranks && w->o.ranks <= LISTED_RANKS; r++)
		PUT("%s%d", r ? ", " : "", r);
	PUT("]}], \"nccl_version\": \"2.20.5\"},\n  \"record_shapes\": 1,\n  \"displayTimeUnit\": "
	    "\"ms\",\n  "
	    "\"baseTimeNanoseconds\": 1711964646000000000,\n"
	    "  \"traceEvents\": [");
	w->first = true;
}

static void usage(void) {
	fputs("usage: make_trace [-s BYTES[k|M|G]] [-r RANKS] [-k RANK] [-l LAYERS] [-x SEED] [-P] > "
	      "FILE\n",
	      stderr);
	exit(2);
}

static uint64_t size_of(const char *text) {
	char *unit;
	double size = strtod(text, &unit);
	return (uint64_t)(size * (*unit == 'k' ? 1e3 : *unit == 'M' ? 1e6 : *unit == 'G' ? 1e9 : 1));
}

static struct options read_words(int argc, char **argv) {
	struct options o = {.bytes = 1000000, .ranks = 1, .layers = 32, .seed = 1, .python = true};
	for (int option; (option = getopt(argc, argv, "s:r:k:l:x:P")) != -1;) {
		if (option == 's') o.bytes = size_of(optarg);
		else if (option == 'r') o.ranks = atoi(optarg);
		else if (option == 'k') o.rank = atoi(optarg);
		else if (option == 'l') o.layers = atoi(optarg);
		else if (option == 'x') o.seed = strtoull(optarg, NULL, 10);
		else if (option == 'P') o.python = false;
		else usage();
	}
	if (o.ranks < 1 || o.ranks > MOST_RANKS || o.rank < 0 || o.rank >= o.ranks || o.layers < 1 ||
	    optind != argc)
		usage();
	return o;
}

int main(int argc, char **argv) {
	static struct writer it;
	struct writer *w = &it;
	w->o = read_words(argc, argv);
	for (int r = 0; r < w->o.ranks; r++)
		w->rank[r] = (struct clocks){4458676000000000, 4458676000000000, 4458676000000000};
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	head(w);
	for (int number = 10; number == 10 || w->written < w->o.bytes; number++) step(w, number);
	PUT("\n  ],\n  \"traceName\": \"rank%d.json\"\n}\n", w->o.rank);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
