/* graph_chakra.c: a step graph as Chakra's execution traces (MLCommons, et_def.proto), one file per
 * rank, for ASTRA-sim and other simulators: length-prefixed protobuf records, a GlobalMetadata and
 * then a Node per operation.
 *
 * Process groups are numbered from 1, as ASTRA-sim requires, and comm_group.json lists the members
 * of each, including the group of all ranks: some versions know no members of "0". A simulator
 * starts ready nodes in the order of ids; so that no two ranks start collectives in different
 * order, each waits for the previous one on its rank (control dependencies). Every node of work has
 * num_ops and tensor_size of at least one: a roofline divides by the first and omits a node without
 * the second. Communication has at least one byte for each of the pieces into which system.json
 * cuts a collective: no simulator completes empty pieces.
 *
 * Other dependencies are data dependencies, those of graph_export.c. Durations are those that the
 * graph states (measured, or host work), or the modelled ones, in whole microseconds: the rounding
 * error is carried to the next node of the stream, so that sums are right. For other nodes a
 * simulator uses num_ops and tensor_size.
 *
 * Repetitions of an operation on a rank, micro-batch after micro-batch, differ only in their
 * number, dependencies and rounded duration: the rest is encoded once (struct form). Ranks are
 * written on all threads. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/parallel.h"
#include "io/protobuf.h"
#include "graph/graph_internal.h"

/* Chakra's numbers */
enum {
	NODE_ID = 1,
	NODE_NAME,
	NODE_TYPE,
	NODE_CONTROL,
	NODE_DATA,
	NODE_START,
	NODE_DURATION,
	NODE_ATTRIBUTE = 10
};
enum { TYPE_COMP = 4, TYPE_SEND, TYPE_RECV, TYPE_COLLECTIVE };
enum {
	ATTRIBUTE_NAME = 1,
	ATTRIBUTE_INT32 = 7,
	ATTRIBUTE_INT64 = 9,
	ATTRIBUTE_UINT64 = 13,
	ATTRIBUTE_BOOL = 27,
	ATTRIBUTE_TEXT = 29
};
enum { METADATA_VERSION = 1 };

static const char version[] = "0.0.4";

enum { FLUSH = 1 << 16 };
/* Common bytes of all nodes of an operation, in `bytes` of a writer's `forms`. */
struct form {
	size_t begin;
	uint32_t head; /* bytes from there: name and type */
	uint32_t tail; /* bytes after these: attributes; 0: not encoded yet */
};
/* State for one rank. */
struct writer {
	const lk_chakra_options *options;
	lk_sink *sink;
	lk_proto_out out;
	lk_proto_out middle; /* bytes of a node between head and tail */
	struct form *form;   /* [operations of the graph], or one that is rebuilt for each node */
	bool keeps;          /* whether forms are kept */
	lk_proto_out forms;
	double carried[LK_STREAMS]; /* rounding errors of durations, us */
	uint64_t collective;        /* the last collective's node; 0: none */
};

/* ---- attributes ---- */

static void chakra_put_whole(lk_proto_out *out, unsigned form, const char *name, uint64_t value) {
	size_t attribute = lk_proto_begin(out, NODE_ATTRIBUTE);
	lk_proto_put_text(out, ATTRIBUTE_NAME, name);
	lk_proto_put_integer(out, form, value);
	lk_proto_end(out, attribute);
}

static void chakra_put_text(lk_proto_out *out, const char *name, const char *text) {
	size_t attribute = lk_proto_begin(out, NODE_ATTRIBUTE);
	lk_proto_put_text(out, ATTRIBUTE_NAME, name);
	lk_proto_put_text(out, ATTRIBUTE_TEXT, text);
	lk_proto_end(out, attribute);
}

/* Bytes of a message, or of a collective as stated on a rank. */
static void chakra_put_size(lk_proto_out *out, double real) {
	uint64_t bytes = lk_export_whole(real);
	chakra_put_whole(out, ATTRIBUTE_INT64, "comm_size",
	                 bytes < LK_EXPORT_PIECES ? LK_EXPORT_PIECES : bytes);
}

static void chakra_put_collective(lk_proto_out *out, const lk_export *export, const lk_op *op) {
	static const uint8_t types[] = {
		/* CollectiveCommType */
		[LK_OP_ALLREDUCE - LK_OP_ALLREDUCE] = 0,     [LK_OP_ALLGATHER - LK_OP_ALLREDUCE] = 2,
		[LK_OP_REDUCESCATTER - LK_OP_ALLREDUCE] = 7, [LK_OP_ALLTOALL - LK_OP_ALLREDUCE] = 6,
		[LK_OP_BROADCAST - LK_OP_ALLREDUCE] = 5,
	};
	char number[32];
	uint64_t ranks = lk_export_group_size(export->graph, op);
	/* for an all-gather a rank's own share, for the others a rank's whole input */
	bool share = op->kind == LK_OP_ALLGATHER && ranks > 1;
	snprintf(number, sizeof number, "%u", lk_export_group(export, op));
	chakra_put_whole(out, ATTRIBUTE_INT64, "comm_type", types[op->kind - LK_OP_ALLREDUCE]);
	chakra_put_size(out, share ? op->bytes / (double)ranks : op->bytes);
	chakra_put_text(out, "pg_name", number);
	chakra_put_whole(out, ATTRIBUTE_INT64, "pg_size", ranks);
}

static void put_message(lk_proto_out *out, const lk_export *export, const lk_op *op) {
	lk_export_message to = lk_export_peer(export, op);
	bool sends = op->kind == LK_OP_SEND;
	chakra_put_size(out, op->bytes);
	chakra_put_whole(out, ATTRIBUTE_INT32, "comm_src", sends ? export->rank : to.peer);
	chakra_put_whole(out, ATTRIBUTE_INT32, "comm_dst", sends ? to.peer : export->rank);
	chakra_put_whole(out, ATTRIBUTE_INT32, "comm_tag", to.tag);
}

/* Bytes of device memory. Pooled lookups state a shape instead of bytes: m samples look up k rows
 * of n values in each of `batch` tables and write their sum; backward updates the rows. */
static double chakra_traffic(const lk_op *op) {
	static const double single = 4;
	if (op->kind != LK_OP_EMBEDDING || !(op->k > 0)) return op->bytes;
	double rows = op->phase == LK_PHASE_BACKWARD ? 2 * op->k : op->k;
	return single * op->m * op->batch * op->n * (rows + 1);
}

static void chakra_put_attributes(lk_proto_out *out, const lk_export *export,
                                  const lk_export_node *node) {
	const lk_op *op = node->op;
	chakra_put_whole(out, ATTRIBUTE_BOOL, "is_cpu_op", node->host);
	chakra_put_whole(out, ATTRIBUTE_INT64, node->host ? "tid" : "stream", op->stream);
	if (lk_op_is_collective(op->kind)) chakra_put_collective(out, export, op);
	else if (op->kind == LK_OP_SEND || op->kind == LK_OP_RECV) put_message(out, export, op);
	else {
		uint64_t flops = lk_export_whole(op->flops), bytes = lk_export_whole(chakra_traffic(op));
		chakra_put_whole(out, ATTRIBUTE_INT64, "num_ops", flops > 0 ? flops : 1);
		chakra_put_whole(out, ATTRIBUTE_UINT64, "tensor_size", bytes > 0 ? bytes : 1);
	}
}

static uint64_t node_type(unsigned kind) {
	if (lk_op_is_collective(kind)) return TYPE_COLLECTIVE;
	if (kind == LK_OP_SEND) return TYPE_SEND;
	if (kind == LK_OP_RECV) return TYPE_RECV;
	return TYPE_COMP;
}

static const struct form *node_form(struct writer *writer, const lk_export *export,
                                    const lk_export_node *node) {
	struct form *form = &writer->form[writer->keeps ? node->at : 0];
	lk_proto_out *out = &writer->forms;
	if (writer->keeps && form->tail) return form;
	if (!writer->keeps) out->bytes.count = 0;
	form->begin = out->bytes.count;
	lk_proto_put_text(out, NODE_NAME, node->op->name);
	lk_proto_put_integer(out, NODE_TYPE, node_type(node->op->kind));
	form->head = (uint32_t)(out->bytes.count - form->begin);
	chakra_put_attributes(out, export, node);
	form->tail = (uint32_t)(out->bytes.count - form->begin - form->head);
	return form;
}

/* ---- nodes ---- */

static double micros(const struct writer *writer, const lk_export *export,
                     const lk_export_node *node) {
	const lk_chakra_options *options = writer->options;
	const lk_op *op = node->op;
	if (op->measured_ps > 0) return (double)op->measured_ps * 1e-6;
	if (op->kind == LK_OP_HOST) return op->m * 1e6;
	if (!options->time || op->kind == LK_OP_SEND || op->kind == LK_OP_RECV) return 0;
	return options->time(options->context, export->stage, export->chain, node->at) * 1e-6;
}

/* Whole microseconds of a node. */
static uint64_t put_duration(struct writer *writer, const lk_export *export,
                             const lk_export_node *node) {
	double *carried = &writer->carried[node->op->stream];
	double us = micros(writer, export, node) + (writer->options->time ? *carried : 0);
	uint64_t whole = lk_export_whole(us);
	*carried = us - (double)whole;
	return whole;
}

static lk_status flush(struct writer *writer, size_t above, lk_error *err) {
	if (writer->out.lost) return lk_oom(err);
	if (writer->out.bytes.count <= above) return LK_OK;
	LK_TRY(lk_sink_write(writer->sink, writer->out.bytes.at, writer->out.bytes.count, err));
	writer->out.bytes.count = 0;
	return LK_OK;
}

static void chakra_put_deps(lk_proto_out *out, const lk_export_node *node) {
	if (!node->dep_count) return;
	size_t list = lk_proto_begin(out, NODE_DATA);
	for (size_t i = 0; i < node->dep_count; i++) lk_proto_put_varint(out, node->deps[i]);
	lk_proto_end(out, list);
}

static void chakra_put_order(struct writer *writer, uint64_t id) {
	if (writer->collective) {
		size_t list = lk_proto_begin(&writer->middle, NODE_CONTROL);
		lk_proto_put_varint(&writer->middle, writer->collective);
		lk_proto_end(&writer->middle, list);
	}
	writer->collective = id;
}

/* A record: its length, the number, the form's head, the middle, the form's tail. */
static void put_parts(lk_proto_out *out, uint64_t id, const unsigned char *bytes,
                      const struct form *form, const lk_proto_out *middle) {
	unsigned char number[2 * LK_PROTO_VARINT];
	size_t begin = lk_proto_encode(number, NODE_ID << 3 | LK_WIRE_VARINT);
	begin += lk_proto_encode(number + begin, id);
	lk_proto_put_varint(out, begin + form->head + middle->bytes.count + form->tail);
	lk_proto_put_bytes(out, number, begin);
	lk_proto_put_bytes(out, bytes, form->head);
	lk_proto_put_bytes(out, middle->bytes.at, middle->bytes.count);
	lk_proto_put_bytes(out, bytes + form->head, form->tail);
}

static lk_status put_node(lk_export *export, const lk_export_node *node) {
	struct writer *writer = export->context;
	const struct form *form = node_form(writer, export, node);
	lk_proto_out *middle = &writer->middle;
	middle->bytes.count = 0;
	if (lk_op_is_collective(node->op->kind)) chakra_put_order(writer, node->id);
	chakra_put_deps(middle, node);
	uint64_t duration = put_duration(writer, export, node);
	if (duration) lk_proto_put_integer(middle, NODE_DURATION, duration);
	if (writer->forms.lost || middle->lost) return lk_oom(export->err);
	put_parts(&writer->out, node->id, writer->forms.bytes.at + form->begin, form, middle);
	return flush(writer, FLUSH, export->err);
}

static lk_status chakra_put_program(lk_export *export) {
	struct writer *writer = export->context;
	size_t head = lk_proto_begin(&writer->out, 0);
	lk_proto_put_text(&writer->out, METADATA_VERSION, version);
	lk_proto_end(&writer->out, head);
	LK_TRY(lk_export_rank(export));
	return flush(writer, 0, export->err);
}

/* ---- files ---- */

enum { PATH_ROOM = 4096 };

static lk_status name_rank(const lk_export *export, const char *dir, char path[PATH_ROOM]) {
	int length = snprintf(path, PATH_ROOM, "%s/lockstep.%u.et", dir, export->rank);
	if (length >= 0 && length < PATH_ROOM) return LK_OK;
	return lk_fail(export->err, LK_ERR_INPUT, "folder", "its name is too long");
}

static lk_status write_rank(lk_export *export, const char *dir) {
	struct writer *writer = export->context;
	char path[PATH_ROOM];
	LK_TRY(name_rank(export, dir, path));
	LK_TRY(lk_sink_open(path, &writer->sink, export->err));
	lk_status status = chakra_put_program(export);
	if (status == LK_OK) return lk_sink_commit(writer->sink, export->err);
	lk_sink_abandon(writer->sink);
	return status;
}

struct chakra_files {
	const lk_export *export;
	const lk_chakra_options *options;
	const char *dir;
	bool *written; /* [ranks] */
};

/* A job of lk_parallel: the index-th rank. A trace has one program per rank and runs nearly all
 * operations once. */
static lk_status write_turn(void *context, size_t index, lk_error *err) {
	struct chakra_files *files = context;
	struct writer writer = {.options = files->options, .keeps = !files->export->graph->traced};
	lk_export export = *files->export;
	export.context = &writer;
	export.err = err;
	lk_export_turn(&export, index);
	writer.form = calloc(writer.keeps ? export.graph->ops.count + 1 : 1, sizeof *writer.form);
	lk_status status = writer.form ? lk_export_enter(&export) : lk_oom(err);
	if (status == LK_OK) status = write_rank(&export, files->dir);
	files->written[index] = status == LK_OK;
	lk_export_leave(&export);
	free(writer.form);
	lk_vec_free(&writer.out.bytes);
	lk_vec_free(&writer.middle.bytes);
	lk_vec_free(&writer.forms.bytes);
	return status;
}

/* All ranks or none: remove the files already written. */
static void remove_files(lk_export *export, const char *dir, const bool *written) {
	char path[PATH_ROOM];
	for (uint64_t i = 0; i < export->groups.world; i++) {
		lk_export_turn(export, i);
		if (written[i] && name_rank(export, dir, path) == LK_OK) unlink(path);
	}
}

static lk_status write_files(lk_export *export, const lk_chakra_options *options, const char *dir) {
	size_t ranks = export->groups.world;
	struct chakra_files files = {export, options, dir, calloc(ranks, sizeof *files.written)};
	if (!files.written) return lk_oom(export->err);
	lk_status status = lk_parallel(ranks, 0, write_turn, &files, export->err);
	if (status == LK_OK)
		status = lk_chakra_write_machine(export->graph, &export->groups, !options->time, dir,
		                                 export->err);
	if (status != LK_OK) remove_files(export, dir, files.written);
	free(files.written);
	return status;
}

lk_status lk_graph_chakra_write(const lk_graph *graph, const lk_chakra_options *options,
                                const char *dir, lk_error *err) {
	lk_export export = {.graph = graph,
	                    .what = "Chakra traces",
	                    .host = options->host,
	                    .put = put_node,
	                    .err = err};
	bool made = false;
	lk_status status = lk_export_begin(&export);
	if (status == LK_OK) status = lk_export_folder(dir, &made, err);
	if (status == LK_OK) status = write_files(&export, options, dir);
	if (status != LK_OK && made) rmdir(dir);
	lk_export_end(&export);
	return status;
}
