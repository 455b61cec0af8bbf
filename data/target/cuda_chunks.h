/* ---- steps that overlap, chunk by chunk ---- */

/* Part p of a pipeline runs chunk k in wave k + p, behind chunk k of the parts that it needs; later
 * parts are issued first. What communicates is on the side stream, in the same order on all ranks.
 *
 * Chunk k of n of a tensor: where the rank holds what others have slices of, the k-th piece of
 * every slice, else the k-th piece. Of slices of which the first are one longer, these pieces are
 * again slices of which the first are one longer: a chunk is a smaller tensor of the same layout,
 * and collectives take it as it is. Pieces that do not lie together are packed into memory of their
 * own, and written back.
 */
/* RT_CHUNKS: where a schedule leaves it open */
enum { RT_CHUNK_PARTS = 16, RT_CHUNK_VALUES = 16, RT_CHUNKS = 4 };

typedef struct rt_chunked {
	int value, dim;      /* value -1 ends */
	bool joint, written; /* joint: all slices along the axis are here */
} rt_chunked;
typedef struct rt_chunk_part {
	void (*run)(rt_run *run);
	bool communicates;
	uint32_t needs; /* bits of parts */
	rt_chunked cut[RT_CHUNK_VALUES];
} rt_chunk_part;

/* A part while it stands for a chunk of itself. */
typedef struct rt_chunk {
	rt_part *part, whole;
	const rt_chunked *how;
	int64_t outer, inner; /* extents before and behind the dim */
	int ranks;
	bool packed;
} rt_chunk;

template <class T>
static __global__ void rt_chunk_kernel(T *packed, T *whole, int64_t outer, int64_t rows, int64_t n,
                                       int64_t inner, int ranks, int64_t k, int64_t chunks,
                                       bool back) {
	RT_FOR(i, outer * rows * inner) {
		int64_t o = i / inner / rows, row = i / inner % rows, p = rt_slice_of(rows, ranks, row);
		int64_t piece = rt_slice_begin(rt_slice_length(n, ranks, p), chunks, k);
		int64_t at = rt_slice_begin(n, ranks, p) + piece + row - rt_slice_begin(rows, ranks, p);
		T *there = whole + (o * n + at) * inner + i % inner;
		if (back) *there = packed[i];
		else packed[i] = *there;
	}
}
template <class T>
static void rt_pack(rt_run *run, const rt_chunk *c, int64_t k, int64_t chunks, bool back) {
	RT_RUN(rt_chunk_kernel<T>, c->part->count, (T *)c->part->data, (T *)c->whole.data, c->outer,
	       c->part->extent[c->how->dim], c->whole.extent[c->how->dim], c->inner, c->ranks, k,
	       chunks, back);
}
static void rt_pack_chunk(rt_run *run, const rt_chunk *c, int64_t k, int64_t chunks, bool back) {
	switch (rt_bytes[c->whole.format]) {
	case 1: rt_pack<rt_bytes1>(run, c, k, chunks, back); break;
	case 2: rt_pack<rt_bytes2>(run, c, k, chunks, back); break;
	case 4: rt_pack<uint32_t>(run, c, k, chunks, back); break;
	default: rt_pack<rt_bytes8>(run, c, k, chunks, back); break;
	}
}

static void rt_chunk_begin(rt_run *run, rt_chunk *c, const rt_chunked *how, int ranks, int64_t k,
                           int64_t chunks) {
	rt_part *p = run->part[how->value];
	int64_t n = p->extent[how->dim], rows = 0;
	*c = (rt_chunk){p,
	                *p,
	                how,
	                rt_extents(p->extent, 0, how->dim),
	                rt_extents(p->extent, how->dim + 1, p->rank),
	                how->joint ? ranks : 1,
	                false};
	for (int r = 0; r < c->ranks; r++)
		rows += rt_slice_length(rt_slice_length(n, c->ranks, r), chunks, k);
	p->extent[how->dim] = rows;
	p->count = c->outer * rows * c->inner;
	c->packed = c->outer > 1 || c->ranks > 1;
	if (!c->packed) {
		p->data += rt_slice_begin(n, chunks, k) * c->inner * rt_bytes[p->format];
		return;
	}
	p->data = (char *)rt_scratch(run, p->count * rt_bytes[p->format]);
	if (!how->written) rt_pack_chunk(run, c, k, chunks, false);
}
static void rt_chunk_end(rt_run *run, rt_chunk *c, int64_t k, int64_t chunks) {
	if (c->packed) {
		if (c->how->written) rt_pack_chunk(run, c, k, chunks, true);
		rt_release(run, c->part->data);
	}
	*c->part = c->whole;
}

static void rt_chunk_run(rt_run *run, const rt_chunk_part *part, int ranks, int64_t k,
                         int64_t chunks) {
	rt_chunk open[RT_CHUNK_VALUES];
	int count = 0;
	for (const rt_chunked *how = part->cut; how->value >= 0; how++)
		rt_chunk_begin(run, &open[count++], how, ranks, k, chunks);
	part->run(run);
	while (count-- > 0) rt_chunk_end(run, &open[count], k, chunks);
}

/* The streams have been forked before and are joined behind it. */
static void rt_chunks_run(rt_run *run, const rt_chunk_part *part, int parts, int ranks,
                          int64_t chunks) {
	cudaEvent_t over[RT_CHUNK_PARTS];
	for (int p = 0; p < parts; p++)
		RT_CUDA(cudaEventCreateWithFlags(&over[p], cudaEventDisableTiming));
	for (int64_t wave = 0; wave < chunks + parts - 1; wave++)
		for (int p = parts - 1; p >= 0; p--) {
			if (wave < p || wave - p >= chunks) continue;
			run->stream = part[p].communicates ? run->side_stream : run->main_stream;
			for (int need = 0; need < p; need++)
				if (part[p].needs >> need & 1)
					RT_CUDA(cudaStreamWaitEvent(run->stream, over[need], 0));
			rt_chunk_run(run, &part[p], ranks, wave - p, chunks);
			RT_CUDA(cudaEventRecord(over[p], run->stream));
		}
	for (int p = 0; p < parts; p++) RT_CUDA(cudaEventDestroy(over[p]));
}
