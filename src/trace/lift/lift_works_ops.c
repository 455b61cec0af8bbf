/* lift_works_ops.c: operations, streams and communications of execution traces in the graph: shared
 * by lifting by shapes and by dependencies. */
#include "base/check.h"
#include "trace/lift/lift_internal.h"

/* Beyond the streams of a graph, threads share the last one; beyond this many they are all treated
 * as one. */
enum { MOST_THREADS = 256 };

/* Threads and streams in one list: a stream's number is odd. */
static int64_t works_key_of(bool device, int64_t thread) {
	return (int64_t)((uint64_t)thread * 2 + device);
}

bool lk_lift_add_stream(lk_lifter *lifter, bool device, int64_t thread, uint8_t *stream) {
	int64_t key = works_key_of(device, thread);
	for (size_t i = lifter->threads.count; i-- > 0;)
		if (lifter->threads.at[i] == key) {
			*stream = lifter->stream_of.at[i];
			return true;
		}
	if (lifter->threads.count >= MOST_THREADS) {
		*stream = LK_STREAMS - 1;
		return true;
	}
	if (!lk_push(&lifter->threads) || !lk_push(&lifter->stream_of)) return false;
	lk_program *program = &lifter->graph->programs.at[lifter->rank];
	/* The first thread gets the host stream, the first device stream the compute stream; others
	 * take a free one. */
	bool first = true;
	for (size_t i = 0; i + 1 < lifter->threads.count; i++)
		first &= (lifter->threads.at[i] & 1) != device;
	if (first) {
		if (device) *stream = LK_STREAM_COMPUTE;
		else *stream = LK_STREAM_HOST;
	} else if (lifter->streams < LK_STREAMS - 1) *stream = lifter->streams++;
	else *stream = LK_STREAMS - 1;
	*lk_last(&lifter->threads) = key;
	LK_ASSERT(*stream < LK_STREAMS && lifter->threads.count == lifter->stream_of.count);
	*lk_last(&lifter->stream_of) = *stream;
	char name[48];
	snprintf(name, sizeof name, "%s %lld", device ? "stream" : "thread", (long long)thread);
	program->stream_names[*stream] = lk_intern_id(lifter->graph->names, name);
	if (!device) program->threads |= LK_JOIN(*stream);
	return program->stream_names[*stream] != UINT32_MAX;
}

bool lk_lifter_depend(lk_lifter *lifter, uint32_t op) {
	LK_ASSERT(op < lifter->graph->ops.count);
	if (!lk_push(&lifter->deps)) return false;
	*lk_last(&lifter->deps) = op;
	return true;
}

uint32_t lk_lifter_add(lk_lifter *lifter, lk_op *op) {
	op->deps = lifter->deps.at;
	op->dep_count = (uint32_t)lifter->deps.count;
	lifter->deps.count = 0;
	return lk_graph_add(lifter->graph, op);
}

/* nccl-tests count the larger side of a rank: the result of an all-gather, the input of a
 * reduce-scatter. */
static double works_message(const lk_comm_note *note) {
	int64_t elements =
		note->in_elements > note->out_elements ? note->in_elements : note->out_elements;
	return elements > 0 ? (double)elements * (note->element_bytes ? note->element_bytes : 1) : 0;
}

bool lk_lift_comm(const lk_lifter *lifter, const lk_work_comm *comm, lk_op *op) {
	LK_ASSERT(comm >= lifter->w->comms.at && comm < lifter->w->comms.at + lifter->w->comms.count);
	uint32_t index = lifter->team_of[lifter->rank][comm - lifter->w->comms.at];
	if (index == LK_NONE || comm->note.kind >= LK_OP_COUNT) return false;
	op->kind = comm->note.kind;
	op->group = lk_op_is_collective(op->kind) ? LK_GROUP_TEAM : LK_GROUP_PP;
	op->channel = (int32_t)index;
	op->bytes = works_message(&comm->note);
	return true;
}

bool lk_lift_unpriced(lk_lifter *lifter, uint32_t work) {
	uint32_t name =
		lk_intern_id(lifter->graph->names, lk_works_text(lifter->w, lifter->w->name[work]));
	if (name == UINT32_MAX) return false;
	while (lifter->unpriced.count <= name)
		if (!lk_push(&lifter->unpriced)) return false;
	lifter->unpriced.at[name]++;
	lifter->report->unpriced++;
	return true;
}
