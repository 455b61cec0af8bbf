/* test_chakra.c: Chakra's traces: what other programs wrote, as python decodes it; every type of
 * attribute; graphs written as traces and read again, by our reader and by python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/protobuf.h"
#include "trace/lift/lift.h"
#include "trace/read/read.h"
#include "data.h"
#include "rounds.h"
#include "scratch.h"
#include "works_read.h"

/* ---- python's opinion ---- */

/* The next column of a line. */
static char *column(char **line) {
	return strsep(line, "\t\n");
}

static long long attribute(const char *attributes, const char *name, long long none) {
	char key[64];
	snprintf(key, sizeof key, "%s=", name);
	for (const char *at = attributes; (at = strstr(at, key)); at++)
		if (at == attributes || at[-1] == ';') return strtoll(at + strlen(key), NULL, 10);
	return none;
}

/* Ids of a list that are nodes of the file. */
static void check_ids(const lk_works *works, uint32_t self, char *list, const uint32_t *begin,
                      const uint32_t *ids) {
	uint32_t at = begin[self];
	for (char *id; (id = strsep(&list, ",")) && *id;) {
		uint32_t found = lk_works_find(works, strtoll(id, NULL, 10));
		if (found == LK_NONE || found == self) continue;
		assert_true(at < begin[self + 1]);
		assert_int_equal(ids[at++], found);
	}
	assert_int_equal(at, begin[self + 1]);
}

static void check_node(const lk_works *works, uint32_t i, char *line) {
	assert_int_equal(strtoll(column(&line), NULL, 10), works->id[i]);
	assert_string_equal(column(&line), lk_works_text(works, works->name[i]));
	int type = atoi(column(&line));
	check_ids(works, i, column(&line), works->control_begin, works->control);
	check_ids(works, i, column(&line), works->data_begin, works->data);
	long long us = atoll(column(&line));
	assert_int_equal(works->duration_ns[i], us < 0 ? -1 : us * 1000);
	const char *attributes = column(&line);
	const lk_work_comm *comm = lk_works_comm(works, i);
	long long size = attribute(attributes, "comm_size", -1);
	assert_int_equal(comm ? comm->note.in_elements : -1, size);
	assert_true(type == 7 || !comm || comm->note.kind == LK_OP_SEND ||
	            comm->note.kind == LK_OP_RECV);
	assert_int_equal(works->kind[i] == LK_NODE_DEVICE, !attribute(attributes, "is_cpu_op", 0));
	assert_int_equal(works->record[i], attribute(attributes, "rf_id", 0));
	assert_int_equal(works->thread[i],
	                 attribute(attributes, "tid", attribute(attributes, "stream", -1)));
	assert_true(works->flops[i] == (double)attribute(attributes, "num_ops", 0));
}

static uint32_t compare_with_python(const char *path) {
	char *line = NULL;
	size_t room = 0;
	lk_works *works = read_works(path);
	FILE *python = works_by_python(path);
	for (uint32_t i = 0; i < works->count; i++) {
		if (getline(&line, &room, python) < 0) fail_msg("%s: python has %u nodes", path, i);
		check_node(works, i, line);
	}
	assert_true(getline(&line, &room, python) < 0);
	assert_int_equal(pclose(python), 0);
	uint32_t count = works->count;
	free(line);
	lk_works_free(works);
	return count;
}

static void test_python_agrees(void **state) {
	(void)state;
	if (judged_elsewhere() || system("python3 -c '' 2>/dev/null") != 0) skip();
	assert_int_equal(compare_with_python(need_data("traces/chakra/resnet50_ddp_rank0.et")), 3664);
	static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
	for (int i = 0; i < 16; i++) {
		char name[64];
		snprintf(name, sizeof name, "traces/chakra/%s/%s.%d.et", kinds[i / 4], kinds[i / 4], i % 4);
		assert_int_equal(compare_with_python(need_data(name)), 1);
	}
}

/* The JSON form was made from the same trace. */
static void test_json_form(void **state) {
	(void)state;
	lk_works *json = read_works(need_data("traces/chakra/chakra.0.json.gz")),
			 *wire = read_works(need_data("traces/chakra/resnet50_ddp_rank0.et"));
	assert_string_equal(json->format, "Chakra JSON");
	assert_int_equal(json->count, wire->count);
	assert_int_equal(json->comms.count, 7);
	for (uint32_t i = 0; i < json->count; i++) {
		assert_int_equal(json->id[i], wire->id[i]);
		assert_int_equal(json->kind[i], wire->kind[i]);
		assert_int_equal(json->duration_ns[i], wire->duration_ns[i]);
		assert_int_equal(json->data_begin[i + 1], wire->data_begin[i + 1]);
	}
	assert_memory_equal(json->data, wire->data, json->data_begin[json->count] * sizeof *json->data);
	lk_works_free(json);
	lk_works_free(wire);
}

/* ---- attributes ---- */

static void put_fixed32(lk_proto_out *out, unsigned field, uint32_t bits) {
	lk_proto_put_varint(out, field << 3 | LK_WIRE_FIXED32);
	for (int i = 0; i < 4; i++) {
		assert_true(lk_push(&out->bytes));
		*lk_last(&out->bytes) = (unsigned char)(bits >> 8 * i);
	}
}

/* 42, or true, in the encoding of AttributeProto's field `form`. */
static void put_value(lk_proto_out *out, unsigned field, unsigned form) {
	float real = 42;
	uint32_t bits;
	memcpy(&bits, &real, sizeof bits);
	if (form == 3) lk_proto_put_double(out, field, 42);
	else if (form == 21 || form == 25) lk_proto_put_fixed64(out, field, 42);
	else if (form == 5 || form == 19 || form == 23) put_fixed32(out, field, form == 5 ? bits : 42);
	else
		lk_proto_put_integer(out, field,
		                     form == 15 || form == 17 ? 84
		                     : form == 27             ? 1
		                                              : 42); /* 84: zigzag */
}

static void check_form(unsigned form, bool list) {
	lk_proto_out out = {0};
	lk_works *works;
	lk_error err = {0};
	size_t node = lk_proto_begin(&out, 0);
	lk_proto_put_integer(&out, 1, 5);
	lk_proto_put_integer(&out, 3, 7);
	size_t attr = lk_proto_begin(&out, 10);
	lk_proto_put_text(&out, 1, form == 27 ? "is_cpu_op" : "comm_size");
	size_t values = list ? lk_proto_begin(&out, form + 1) : 0;
	put_value(&out, list ? 1 : form, form);
	if (list) lk_proto_end(&out, values);
	lk_proto_end(&out, attr);
	lk_proto_end(&out, node);
	if (read_works_memory(out.bytes.at, out.bytes.count, "attr.et", NULL, &works, &err) != LK_OK)
		fail_msg("form %u: %s", form, err.what);
	assert_int_equal(works->count, 1);
	if (form == 27) assert_int_equal(works->kind[0], LK_NODE_OP);
	else if (!lk_works_comm(works, 0) || lk_works_comm(works, 0)->note.in_elements != 42)
		fail_msg("form %u%s", form, list ? ", list" : "");
	lk_works_free(works);
	lk_vec_free(&out.bytes);
}

static void test_attribute_types(void **state) {
	(void)state;
	for (unsigned form = 3; form <= 27; form += 2) {
		check_form(form, false);
		check_form(form, true);
	}
}

/* A packed list: proto3 writes numbers so. */
static void test_packed(void **state) {
	(void)state;
	lk_proto_out out = {0};
	size_t list = lk_proto_begin(&out, 5);
	for (uint64_t i = 0; i < 200; i++) lk_proto_put_varint(&out, i << (i % 60));
	lk_proto_end(&out, list);
	lk_proto proto = lk_proto_open(out.bytes.at, out.bytes.count);
	lk_proto_field field;
	uint64_t value;
	assert_true(lk_proto_next(&proto, &field) && field.number == 5 && field.type == LK_WIRE_BYTES);
	for (uint64_t i = 0; i < 200; i++) {
		assert_true(lk_proto_varint(&field.bytes, &value));
		assert_true(value == i << (i % 60));
	}
	assert_false(lk_proto_next(&proto, &field) || proto.broken);
	lk_vec_free(&out.bytes);
}

/* ---- graphs as traces ---- */

enum { STAGES = 2, CHAINS = 4 };

/* Two stages of four ranks: forward and backward with a message, a collective beside it, an event
 * between two calls. */
static lk_graph *made_graph(void) {
	lk_graph *graph = lk_graph_new();
	lk_error err;
	uint32_t id;
	assert_int_equal(lk_graph_set_programs(graph, STAGES, 2, &err), LK_OK);
	graph->ranks.chains = CHAINS;
	graph->ranks.world = STAGES * CHAINS;
	for (int i = 0; i < LK_GROUPS; i++)
		graph->ranks.group[i].size = graph->ranks.group[i].stride = 1;
	graph->ranks.group[LK_GROUP_TP].size = 2;
	graph->ranks.group[LK_GROUP_DP].size = 2;
	graph->ranks.group[LK_GROUP_DP].stride = 2;
	for (uint32_t s = 0; s < STAGES; s++) {
		uint32_t after = 1;
		lk_graph_begin_block(graph, "work");
		lk_graph_add(graph, &(lk_op){.kind = LK_OP_HOST,
		                             .stream = LK_STREAM_HOST,
		                             .name = "data \xff",
		                             .m = 12.4e-6});
		lk_graph_add(graph, &(lk_op){.kind = LK_OP_GEMM,
		                             .stream = LK_STREAM_COMPUTE,
		                             .name = "product",
		                             .m = 64,
		                             .n = 64,
		                             .k = 64,
		                             .batch = 1,
		                             .flops = 524288,
		                             .bytes = 24576,
		                             .signal = 1});
		lk_graph_add(graph, &(lk_op){.kind = LK_OP_ALLREDUCE,
		                             .stream = LK_STREAM_TP,
		                             .group = LK_GROUP_TP,
		                             .name = "sum",
		                             .bytes = 4096,
		                             .deps = &after,
		                             .dep_count = 1});
		lk_graph_add(graph, &(lk_op){.kind = s ? LK_OP_RECV : LK_OP_SEND,
		                             .stream = LK_STREAM_SEND_FORWARD,
		                             .name = "message",
		                             .bytes = 1e6,
		                             .channel = 0,
		                             .join = LK_JOIN(LK_STREAM_COMPUTE)});
		lk_graph_end_block(graph, &id, &err);
		lk_call call = {.block = id, .repeat = 3, .microbatch = -1, .layer = -1};
		assert_int_equal(lk_graph_call(graph, s, &call, &err), LK_OK);
		lk_graph_begin_block(graph, "end");
		lk_graph_add(graph, &(lk_op){.kind = LK_OP_ALLGATHER,
		                             .stream = LK_STREAM_DP,
		                             .group = LK_GROUP_DP,
		                             .name = "gather",
		                             .bytes = 8192,
		                             .wait = 1,
		                             .measured_ps = 7600000});
		lk_graph_add(graph, &(lk_op){.kind = LK_OP_WAIT,
		                             .stream = LK_STREAM_COMPUTE,
		                             .name = "join",
		                             .join = LK_JOIN(LK_STREAM_DP)});
		lk_graph_end_block(graph, &id, &err);
		call = (lk_call){.block = id, .repeat = 1, .microbatch = -1, .layer = -1};
		assert_int_equal(lk_graph_call(graph, s, &call, &err), LK_OK);
		graph->programs.at[s].events = 1;
	}
	lk_graph_wire(graph, 0, 0, 1, 0);
	lk_graph_wire(graph, 0, 1, 1, 1);
	return graph;
}

static void rank_path(uint32_t rank, char out[200]) {
	snprintf(out, 200, "%s/lockstep.%u.et", scratch, rank);
}

/* Ids are unique, dependencies lead back: no circles. */
static void check_order(const lk_works *works) {
	assert_int_equal(works->unresolved, 0);
	for (uint32_t i = 0; i < works->count; i++) {
		if (i) assert_true(works->id[i] > works->id[i - 1]);
		for (uint32_t d = works->data_begin[i]; d < works->data_begin[i + 1]; d++)
			assert_true(works->data[d] < i);
	}
}

static bool needs(const lk_works *works, uint32_t work, uint32_t on) {
	for (uint32_t d = works->data_begin[work]; d < works->data_begin[work + 1]; d++)
		if (works->data[d] == on) return true;
	return false;
}

static void check_rank(const lk_works *works, uint32_t rank) {
	char wanted[32];
	assert_int_equal(works->rank, rank);
	assert_int_equal(works->count, 3 * 4 + 2);
	check_order(works);
	for (uint32_t r = 0; r < 3; r++) {
		uint32_t at = r * 4;
		assert_string_equal(lk_works_text(works, works->name[at]), "data \xef\xbf\xbd");
		assert_int_equal(works->kind[at], LK_NODE_OP);
		assert_int_equal(works->duration_ns[at], 12000);
		assert_true(works->flops[at + 1] == 524288 && works->bytes[at + 1] == 24576);
		assert_true(needs(works, at + 1, at) && needs(works, at + 2, at + 1) &&
		            needs(works, at + 3, at + 1));
		if (r) assert_true(needs(works, at + 1, at - 3) && needs(works, at + 3, at - 1));
	}
	const lk_comm_note *sum = &lk_works_comm(works, 2)->note,
					   *gather = &lk_works_comm(works, 12)->note,
					   *message = &lk_works_comm(works, 3)->note;
	uint32_t stage = rank / CHAINS, chain = rank % CHAINS;
	assert_true(sum->kind == LK_OP_ALLREDUCE && sum->in_elements == 4096 && sum->group_size == 2);
	/* numbered as they are first seen: of a stage the first pair of tp, both of dp, the other pair
	 */
	snprintf(wanted, sizeof wanted, "%u", stage * 4 + (chain / 2 ? 4 : 1));
	assert_string_equal(lk_works_text(works, sum->group), wanted);
	snprintf(wanted, sizeof wanted, "%u", stage * 4 + (chain % 2 ? 3 : 2));
	assert_string_equal(lk_works_text(works, gather->group), wanted);
	assert_int_equal(gather->in_elements, 4096); /* a rank's own share, and all of it */
	assert_int_equal(gather->out_elements, 8192);
	for (uint32_t i = 0; i < works->count; i++)
		assert_true(lk_works_comm(works, i) || works->flops[i] >= 1);
	/* a rank's collectives are in one order */
	for (uint32_t i = 2; i < 13; i += i < 10 ? 4 : 2) {
		uint32_t begin = works->control_begin[i], end = works->control_begin[i + 1];
		assert_int_equal(end - begin, i > 2);
		if (i > 2) assert_int_equal(works->control[begin], i < 12 ? i - 4 : 10);
	}
	assert_int_equal(works->duration_ns[12], 8000);
	assert_true(needs(works, 12, 9) && needs(works, 13, 12) && needs(works, 13, 9));
	assert_int_equal(message->kind, stage ? LK_OP_RECV : LK_OP_SEND);
	assert_int_equal(message->peer, (rank + CHAINS) % (STAGES * CHAINS));
	assert_int_equal(lk_works_comm(works, 3)->sequence, 0);
}

static void test_written(void **state) {
	(void)state;
	bool python = system("python3 -c '' 2>/dev/null") == 0;
	lk_graph *graph = made_graph();
	lk_error err = {0};
	if (lk_graph_chakra_write(graph, &(lk_chakra_options){.host = true}, scratch, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	for (uint32_t rank = 0; rank < STAGES * CHAINS; rank++) {
		char path[200];
		rank_path(rank, path);
		lk_works *works = read_works(path);
		check_rank(works, rank);
		lk_works_free(works);
		if (python) assert_int_equal(compare_with_python(path), 14);
	}
	char path[200], *text;
	size_t size;
	snprintf(path, sizeof path, "%s/comm_group.json", scratch);
	assert_int_equal(lk_stream_slurp(path, 1 << 16, &text, &size, &err), LK_OK);
	assert_string_equal(text, "{\n  \"1\": [0, 1],\n  \"2\": [0, 2],\n  \"3\": [1, 3],\n"
	                          "  \"4\": [2, 3],\n  \"5\": [4, 5],\n  \"6\": [4, 6],\n"
	                          "  \"7\": [5, 7],\n  \"8\": [6, 7]\n}\n");
	free(text);
	assert_int_equal(
		lk_graph_chakra_write(graph, &(lk_chakra_options){.host = true}, "/nowhere/at/all", &err),
		LK_ERR_IO);
	lk_graph_free(graph);
}

/* A trace with times becomes a graph, and a trace again: durations, dependencies and collectives
 * are the same. */
static void test_there_and_back(void **state) {
	(void)state;
	char path[200];
	lk_works *works = read_works(need_data("traces/chakra/resnet50_ddp_rank0.et")), *again;
	lk_works_lifted report;
	lk_graph *graph;
	lk_error err = {0};
	int64_t sum = 0, lifted = 0, back = 0;
	if (lk_works_lift((const lk_works *const *)&works, 1, NULL, &graph, &report, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	assert_int_equal(graph->ops.count, works->count);
	assert_int_equal(report.timed, 3507);
	assert_int_equal(report.unpriced, 0);
	for (uint32_t i = 0; i < works->count; i++)
		sum += works->duration_ns[i] > 0 ? works->duration_ns[i] : 0;
	for (uint32_t i = 0; i < graph->ops.count; i++) lifted += graph->ops.measured_ps[i] / 1000;
	assert_int_equal(lifted, sum);
	assert_int_equal(
		lk_graph_chakra_write(graph, &(lk_chakra_options){.host = true}, scratch, &err), LK_OK);
	rank_path(0, path);
	again = read_works(path);
	check_order(again);
	assert_int_equal(again->count, works->count);
	assert_int_equal(again->comms.count, works->comms.count);
	for (uint32_t i = 0; i < again->count; i++)
		back += again->duration_ns[i] > 0 ? again->duration_ns[i] : 0;
	assert_int_equal(back, sum);
	lk_works_free(again);
	lk_works_free(works);
	lk_graph_free(graph);
	lk_works_lifted_free(&report);
}

/* Eight ranks' traces are one graph again: the same operations, messages that meet, groups that
 * hold their members. */
static void test_ranks_again(void **state) {
	(void)state;
	lk_graph *graph = made_graph(), *again;
	lk_works *w[STAGES * CHAINS];
	lk_works_lifted report;
	lk_error err = {0};
	assert_int_equal(
		lk_graph_chakra_write(graph, &(lk_chakra_options){.host = true}, scratch, &err), LK_OK);
	for (uint32_t rank = 0; rank < STAGES * CHAINS; rank++) {
		char path[200];
		rank_path(rank, path);
		w[rank] = read_works(path);
		w[rank]->timed = false; /* so that all is left to models */
	}
	if (lk_works_lift((const lk_works *const *)w, STAGES * CHAINS, NULL, &again, &report, &err) !=
	    LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	assert_int_equal(again->ops.count, STAGES * CHAINS * 14);
	assert_int_equal(again->channels, 1);
	assert_int_equal(again->teams.count, 4 + 4); /* tp and dp, of two each */
	for (size_t i = 0; i < again->teams.count; i++)
		assert_int_equal(again->teams.at[i].end - again->teams.at[i].begin, 2);
	for (uint32_t rank = 0; rank < STAGES * CHAINS; rank++)
		assert_int_equal(again->wires.at[rank].stage, (rank + CHAINS) % (STAGES * CHAINS));
	uint32_t messages = 0;
	for (uint32_t i = 0; i < again->ops.count; i++)
		messages += again->ops.kind[i] == LK_OP_SEND || again->ops.kind[i] == LK_OP_RECV;
	assert_int_equal(messages, STAGES * CHAINS * 3);
	assert_int_equal(report.unpriced, 0);
	lk_works_lifted_free(&report);
	for (uint32_t rank = 0; rank < STAGES * CHAINS; rank++) lk_works_free(w[rank]);
	lk_graph_free(again);
	lk_graph_free(graph);
}

/* ---- damage ---- */

static void test_damage(void **state) {
	(void)state;
	char path[200], *bytes;
	size_t size;
	lk_graph *graph = made_graph();
	lk_error err = {0};
	assert_int_equal(
		lk_graph_chakra_write(graph, &(lk_chakra_options){.host = true}, scratch, &err), LK_OK);
	rank_path(3, path);
	assert_int_equal(lk_stream_slurp(path, 1 << 20, &bytes, &size, &err), LK_OK);
	uint32_t most = 0;
	for (size_t cut = 0; cut < size; cut++) {
		lk_works *works;
		if (read_works_memory(bytes, cut, "cut.et", NULL, &works, &err) != LK_OK) {
			assert_true(err.what[0] != '\0' && err.hint[0] != '\0');
			continue;
		}
		assert_true(works->count >= most && works->count < 14);
		most = works->count;
		lk_works_free(works);
	}
	assert_int_equal(most, 13);
	free(bytes);
	lk_graph_free(graph);
}

static void test_circle(void **state) {
	(void)state;
	static const char text[] =
		"{\"workload_graph\": [{\"Id\": 1, \"Name\": \"a\", \"NodeType\": 4, \"data_deps\": [2], "
		"\"runtime\": 3}, "
		"{\"Id\": 2, \"Name\": \"b\", \"NodeType\": 4, \"data_deps\": [1], \"runtime\": 3}]}";
	lk_works *works;
	lk_works_lifted report;
	lk_graph *graph;
	lk_error err = {0};
	assert_int_equal(read_works_memory(text, strlen(text), "circle.json", NULL, &works, &err),
	                 LK_OK);
	assert_int_equal(lk_works_lift((const lk_works *const *)&works, 1, NULL, &graph, &report, &err),
	                 LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "lead back"));
	lk_works_free(works);
}

/* Times of the host alone: work of the device is left to models, and is not over at once. */
static void test_host_times(void **state) {
	(void)state;
	static const char text[] = "{\"workload_graph\": [{\"Id\": 1, \"Name\": \"launch\", "
							   "\"NodeType\": 4, \"runtime\": 3, \"is_cpu_op\": true}, "
							   "{\"Id\": 2, \"Name\": \"all\", \"NodeType\": 7, \"comm_type\": 0, "
							   "\"comm_size\": 1000, \"data_deps\": [1], \"is_cpu_op\": false%s}]}";
	for (int timed = 0; timed < 2; timed++) {
		char json[600];
		lk_works *works;
		lk_works_lifted report;
		lk_graph *graph;
		lk_error err = {0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(json, sizeof json, text, timed ? ", \"runtime\": 5" : "");
#pragma GCC diagnostic pop
		if (read_works_memory(json, strlen(json), "host.json", NULL, &works, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		assert_int_equal(lk_works_device_timed(works), timed);
		assert_int_equal(
			lk_works_lift((const lk_works *const *)&works, 1, NULL, &graph, &report, &err), LK_OK);
		assert_int_equal(report.timed, timed ? 2 : 1);
		assert_int_equal(report.priced, timed ? 0 : 1);
		assert_true(graph->ops.measured_ps[0] == 3000000 &&
		            graph->ops.measured_ps[1] == (timed ? 5000000 : 0));
		lk_graph_free(graph);
		lk_works_lifted_free(&report);
		lk_works_free(works);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python_agrees),   cmocka_unit_test(test_json_form),
		cmocka_unit_test(test_attribute_types), cmocka_unit_test(test_packed),
		cmocka_unit_test(test_written),         cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_ranks_again),     cmocka_unit_test(test_host_times),
		cmocka_unit_test(test_damage),          cmocka_unit_test(test_circle),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
