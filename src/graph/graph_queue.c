/* graph_queue.c: CUDA_DEVICE_MAX_CONNECTIONS=1. All streams of a device then share one hardware
 * queue: on any stream, nothing starts before earlier issued operations have started.
 *
 * In the graph: a WAIT with all its dependencies precedes each operation off the compute stream,
 * and the next compute operation of the block (or the block's end) waits for that WAIT. Operations
 * that the next compute operation joins anyway need none. The order within streams and "not before
 * the preceding compute operation has started" are unchanged; both engines run the result like any
 * other graph. */
#include "base/arena.h"
#include "graph/graph.h"
#include "base/check.h"

enum { MOST = 32 }; /* operations off the compute stream between two compute operations */

struct queue {
	const lk_graph *from;
	lk_graph *to;
	uint32_t *place; /* of the block's operations in the new block */
	uint32_t waits[MOST];
	uint32_t count; /* WAITs that the compute stream still has to join */
};

/* Whether the following compute operation joins this one's stream. */
static bool queue_joined(const lk_ops *ops, uint32_t op, uint32_t end) {
	LK_ASSERT(op < ops->count);
	for (uint32_t i = op + 1; i < end; i++)
		if (ops->stream[i] == LK_STREAM_COMPUTE) return ops->join[i] >> ops->stream[op] & 1;
	return false;
}

static void catch_up(struct queue *queue, uint8_t phase) {
	lk_op wait = {.kind = LK_OP_WAIT,
	              .stream = LK_STREAM_COMPUTE,
	              .phase = phase,
	              .name = "queue",
	              .deps = queue->waits,
	              .dep_count = queue->count};
	if (queue->count) lk_graph_add(queue->to, &wait);
	queue->count = 0;
}

static void queue_copy_op(struct queue *queue, lk_arena *arena, const lk_block *block, uint32_t i) {
	lk_op op = lk_graph_op(queue->from, i);
	uint32_t *deps = LK_ARRAY(arena, uint32_t, op.dep_count);
	if (!deps) {
		queue->to->failed = true;
		return;
	}
	for (uint32_t d = 0; d < op.dep_count; d++) deps[d] = queue->place[op.deps[d]];
	op.deps = deps;
	if (op.stream == LK_STREAM_COMPUTE) {
		catch_up(queue, op.phase);
	} else if (op.stream != LK_STREAM_HOST && op.kind != LK_OP_WAIT &&
	           !queue_joined(&queue->from->ops, i, block->end)) {
		lk_op wait = {.kind = LK_OP_WAIT,
		              .stream = op.stream,
		              .phase = op.phase,
		              .join = op.join,
		              .wait = op.wait,
		              .name = "queue",
		              .deps = deps,
		              .dep_count = op.dep_count};
		if (queue->count == MOST) catch_up(queue, op.phase);
		queue->waits[queue->count++] = lk_graph_add(queue->to, &wait);
	}
	queue->place[i - block->begin] = lk_graph_add(queue->to, &op);
}

static lk_status queue_copy_block(struct queue *queue, const lk_block *block, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	uint32_t id;
	queue->count = 0;
	queue->place = LK_ARRAY(&arena, uint32_t, block->end - block->begin);
	lk_graph_begin_block(queue->to, lk_intern_text(queue->from->names, block->name));
	if (!queue->place) queue->to->failed = true;
	for (uint32_t i = block->begin; i < block->end && !queue->to->failed; i++)
		queue_copy_op(queue, &arena, block, i);
	if (queue->count) catch_up(queue, queue->from->ops.phase[block->end - 1]);
	lk_arena_free(&arena);
	return lk_graph_end_block(queue->to, &id, err);
}

/* Only operations and blocks change: they are rebuilt in a graph that borrows the names, and
 * swapped in. */
lk_status lk_graph_one_queue(lk_graph *graph, lk_error *err) {
	if (graph->traced)
		return lk_fail(err, LK_ERR_INPUT, "one hardware queue",
		               "a lifted trace holds the queues that it ran with");
	lk_graph *to = lk_graph_new();
	if (!to) return lk_oom(err);
	lk_intern *own = to->names;
	to->names = graph->names;
	struct queue q = {.from = graph, .to = to};
	lk_status status = LK_OK;
	for (size_t b = 0; status == LK_OK && b < graph->blocks.count; b++)
		status = queue_copy_block(&q, &graph->blocks.at[b], err);
	to->names = own;
	if (status == LK_OK) {
		lk_graph before = *graph;
		graph->ops = to->ops;
		graph->blocks = to->blocks;
		to->ops = before.ops;
		to->blocks = before.blocks;
	}
	lk_graph_free(to);
	return status;
}
