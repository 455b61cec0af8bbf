/* test_works.c: execution traces of PyTorch: every field as python's json sees it; text that is
 * nearly JSON; joins with captures of the same ranks; what operations ask of a device; traces
 * without times as step graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "trace/lift/lift.h"
#include "trace/align/traces.h"
#include "trace/read/read.h"
#include "data.h"
#include "rounds.h"
#include "works_read.h"

static lk_works *works_of(const char *text) {
	lk_works *works;
	lk_error err = {0};
	if (read_works_memory(text, strlen(text), "made.json", NULL, &works, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return works;
}

/* ---- the oracle ---- */

static void print_work(const lk_works *works, uint32_t i, FILE *out) {
	fprintf(out, "%lld\t%s\t%lld\t%u\t%lld\t%lld\t%s\t%s\t%u\n", (long long)works->id[i],
	        lk_works_text(works, works->name[i]), (long long)works->parent_id[i], works->record[i],
	        (long long)works->sequence[i], (long long)works->thread[i],
	        lk_works_text(works, works->shape[i]), lk_works_text(works, works->types[i]),
	        works->tensor_begin[i + 1] - works->tensor_begin[i]);
}

static uint32_t compare_with_python(const char *path) {
	char *line = NULL, *wanted = NULL;
	size_t room = 0, size = 0;
	lk_works *works = read_works(path);
	FILE *python = judged_elsewhere() || !file_has_its_turn(path) ? NULL : works_by_python(path);
	for (uint32_t i = 0; i < works->count; i++) {
		FILE *out = open_memstream(&wanted, &size);
		print_work(works, i, out);
		fclose(out);
		if (python && getline(&line, &room, python) < 0)
			fail_msg("%s: python has %u nodes", path, i);
		if (python && strcmp(line, wanted) != 0)
			fail_msg("%s: read   %.600s python %.600s", path, wanted, line);
		free(wanted);
	}
	if (python) {
		assert_true(getline(&line, &room, python) < 0);
		assert_int_equal(pclose(python), 0);
	}
	assert_int_equal(works->warnings.count, 0);
	uint32_t count = works->count;
	free(line);
	lk_works_free(works);
	return count;
}

static void test_python_agrees(void **state) {
	(void)state;
	static const struct {
		const char *name;
		uint32_t nodes;
	} files[] = {
		{"traces/pytorch_et/simple_add_et.json.gz", 38},
		{"traces/pytorch_et/1.0.2-chakra.0.0.4.json.gz", 263},
		{"traces/pytorch_et/hf_gpt2_1.1.0.json.gz", 27156},
		{"traces/pytorch_et/resnet_1.1.0.json.gz", 14392},
		{"traces/pytorch_et/resnet_1gpu_1.0.3-chakra.0.0.4.json.gz", 14391},
		{"traces/dlrm8/et/rank0.json.gz", 1675},
		{"traces/dlrm8/et/rank5.json.gz", 1675},
	};
	if (system("python3 -c 'import json' 2>/dev/null") != 0) skip();
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		assert_int_equal(compare_with_python(need_data(files[i].name)), files[i].nodes);
	}
}

/* ---- both forms of a node ---- */

#define FLAT                                                                                      \
	"{\"schema\": \"1.0.1\", \"nodes\": ["                                                        \
	"{\"name\": \"[pytorch|profiler|execution_graph|thread]\", \"id\": 1, \"rf_id\": 0, "         \
	"\"parent\": 1, \"seq_id\": -1, \"scope\": 7, \"tid\": 1, \"inputs\": [], \"input_shapes\": " \
	"[], \"input_types\": [], \"outputs\": [], \"output_shapes\": []},"                           \
	"{\"name\": \"record_param_comms\", \"id\": 9, \"rf_id\": 3, \"parent\": 4, \"seq_id\": -1, " \
	"\"scope\": 0, \"tid\": 1, \"inputs\": [[[5,6,0,64,2,\"cuda:0\"]], 77, 94594108284448, 0, "   \
	"\"allreduce\", [], []], \"input_shapes\": [[[64]],[],[],[],[],[],[]], \"input_types\": "     \
	"[\"GenericList[Tensor(c10::Half)]\",\"Int\",\"Int\",\"Int\",\"String\",\"GenericList[]\","   \
	"\"GenericList[]\"], \"outputs\": [[[5,6,0,64,2,\"cuda:0\"]]], \"output_shapes\": [[[64]]]}," \
	"{\"name\": \"c10d::allreduce_\", \"id\": 4, \"rf_id\": 2, \"parent\": 1, \"seq_id\": -1, "   \
	"\"scope\": 0, \"tid\": 1, \"inputs\": [], \"input_shapes\": [], \"input_types\": [], "       \
	"\"outputs\": [], \"output_shapes\": []}]}"

#define ATTRS(rf, scope)                                                     \
	"\"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": " rf \
	"}, {\"name\": \"seq_id\", \"type\": \"int64\", \"value\": -1}, "        \
	"{\"name\": \"scope\", \"type\": \"uint64\", \"value\": " scope          \
	"}, {\"name\": \"tid\", \"type\": \"uint64\", \"value\": 1}"
#define NO_SIDE "{\"values\": [], \"shapes\": [], \"types\": []}"
#define NESTED                                                                                     \
	"{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": ["                                            \
	"{\"id\": 1, \"name\": \"[pytorch|profiler|execution_trace|thread]\", \"ctrl_deps\": 1, "      \
	"\"inputs\": " NO_SIDE ", \"outputs\": " NO_SIDE ", " ATTRS(                                   \
		"0",                                                                                       \
		"7") "]},"                                                                                 \
			 "{\"id\": 9, \"name\": \"record_param_comms\", \"ctrl_deps\": 4, \"inputs\": "        \
			 "{\"values\": [[[5,6,0,64,2,\"cuda:0\"]], 77, [\"0\",\"default_pg\"], 0, "            \
			 "\"allreduce\", [], []], \"shapes\": [[[64]],[],[],[],[],[],[]], \"types\": "         \
			 "[\"GenericList[Tensor(c10::Half)]\",\"Int\",\"Tuple[String,String]\",\"Int\","       \
			 "\"String\",\"GenericList[]\",\"GenericList[]\"]}, \"outputs\": {\"values\": "        \
			 "[[[5,6,0,64,2,\"cuda:0\"]]], \"shapes\": [[[64]]], \"types\": []}, " ATTRS(          \
				 "3",                                                                              \
				 "0") ", {\"name\": \"collective_name\", \"type\": \"string\", \"value\": "        \
					  "\"allreduce\"}, {\"name\": \"dtype\", \"type\": \"string\", \"value\": "    \
					  "\"Half\"}, {\"name\": \"in_msg_nelems\", \"type\": \"uint64\", \"value\": " \
					  "64}, {\"name\": \"out_msg_nelems\", \"type\": \"uint64\", \"value\": 64}, " \
					  "{\"name\": \"pg_name\", \"type\": \"string\", \"value\": \"0\"}, "          \
					  "{\"name\": \"pg_desc\", \"type\": \"string\", \"value\": \"default_pg\"}, " \
					  "{\"name\": \"pg_size\", \"type\": \"uint64\", \"value\": 8}]},"             \
					  "{\"id\": 4, \"name\": \"c10d::allreduce_\", \"ctrl_deps\": 1, "             \
					  "\"inputs\": " NO_SIDE ", \"outputs\": " NO_SIDE ", " ATTRS("2", "0") "]}]}"

static void test_two_forms(void **state) {
	(void)state;
	lk_works *both[] = {works_of(FLAT), works_of(NESTED)};
	for (int i = 0; i < 2; i++) {
		const lk_works *works = both[i];
		assert_int_equal(works->count, 3);
		assert_int_equal(works->id[1], 4);
		assert_int_equal(works->parent[2], 1);
		assert_int_equal(works->parent[1], 0);
		assert_int_equal(works->parent[0], LK_NONE);
		assert_int_equal(works->kind[0], LK_NODE_ROOT);
		assert_int_equal(works->record[2], 3);
		assert_int_equal(works->tensor_begin[3] - works->tensor_begin[2], 2);
		const lk_work_comm *comm = lk_works_comm(works, 2);
		assert_non_null(comm);
		assert_int_equal(comm->note.kind, LK_OP_ALLREDUCE);
		assert_int_equal(comm->note.in_elements, 64);
		assert_int_equal(comm->note.element_bytes, 2);
		assert_int_equal(comm->sequence, 77);
		assert_null(lk_works_comm(works, 1));
	}
	assert_string_equal(lk_works_text(both[0], lk_works_comm(both[0], 2)->note.group), "group 0");
	assert_string_equal(lk_works_text(both[1], lk_works_comm(both[1], 2)->note.group), "0");
	assert_int_equal(lk_works_comm(both[1], 2)->note.group_size, 8);
	lk_works_free(both[0]);
	lk_works_free(both[1]);
}

/* ---- nearly JSON ---- */

static void mend(const char *text, const char *wanted) {
	lk_json_mended mended;
	lk_error err;
	size_t size = strlen(text);
	char *copy = strdup(text);
	assert_int_equal(lk_json_mend(&copy, &size, &mended, &err), LK_OK);
	if (strcmp(copy, wanted) != 0 || size != strlen(wanted))
		fail_msg("%s became %s, not %s", text, copy, wanted);
	free(copy);
}

static void test_mend(void **state) {
	(void)state;
	mend("{\"a\": [1, 2, ], \"b\": {},}", "{\"a\": [1, 2  ], \"b\": {} }");
	mend("[\"a\tb\x01\"]", "[\"a b \"]");
	mend("[\"say \"hi\" now\", 1]", "[\"say 'hi' now\", 1]");
	mend("[\"a\\qb\\u12\"]", "[\"a/qb/u12\"]");
	mend("[nan, -inf, inf, -1]", "[NaN,  NaN, NaN, -1]");
	mend("{'a': True, 'b': [None, 'it\"s']}", "{\"a\": true, \"b\": [null, \"it's\"]}");
	mend("{\"nodes\": [{\"id\": 1}, {\"id\": 2, \"na", "{\"nodes\": [{\"id\": 1}]}");
	mend("{\"nodes\": [{\"id\": 1},", "{\"nodes\": [{\"id\": 1}]}");
	/* what is JSON stays as it is */
	mend(FLAT, FLAT);
	mend("{\"a\\\"b\": [\"\\u00e9\", -1.5e3, null, true]}",
	     "{\"a\\\"b\": [\"\\u00e9\", -1.5e3, null, true]}");
}

/* A trace that is cut anywhere gives the nodes that were complete, or an error with a place; never
 * something else. */
static void test_cut(void **state) {
	(void)state;
	lk_works *whole = works_of(NESTED);
	for (size_t size = 0; size < strlen(NESTED); size++) {
		lk_works *works;
		lk_error err = {0};
		if (read_works_memory(NESTED, size, "cut.json", NULL, &works, &err) != LK_OK) {
			assert_true(err.what[0] != '\0');
			continue;
		}
		assert_true(works->warnings.count > 0 && works->count <= whole->count);
		for (uint32_t i = 0; i < works->count; i++) {
			uint32_t same = lk_works_find(whole, works->id[i]);
			assert_int_not_equal(same, LK_NONE);
			assert_string_equal(lk_works_text(works, works->name[i]),
			                    lk_works_text(whole, whole->name[same]));
			assert_int_equal(works->parent_id[i], whole->parent_id[same]);
		}
		lk_works_free(works);
	}
	lk_works_free(whole);
}

static void test_limits(void **state) {
	(void)state;
	lk_works *works;
	lk_error err = {0};
	lk_read_limits few = {.events = 2, .shapes = true}, names = {.names = 3, .shapes = true};
	assert_int_equal(read_works_memory(FLAT, strlen(FLAT), "x", &few, &works, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "over 2 works"));
	assert_int_equal(read_works_memory(FLAT, strlen(FLAT), "x", &names, &works, &err),
	                 LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "different names"));
	static const char kineto[] = "{\"traceEvents\": []}";
	assert_int_equal(read_works_memory(kineto, strlen(kineto), "x", NULL, &works, &err),
	                 LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "with times"));
}

/* ---- joins ---- */

static void check_nesting(const lk_works *works, const lk_capture *capture, const lk_link *link) {
	for (uint32_t i = 0; i < works->count; i++) {
		uint32_t event = link->event[i];
		if (event == LK_NONE) continue;
		assert_string_equal(lk_works_text(works, works->name[i]),
		                    lk_capture_text(capture, capture->name[event]));
		uint32_t parent = works->parent[i] == LK_NONE ? LK_NONE : link->event[works->parent[i]];
		if (parent == LK_NONE) continue;
		/* what encloses it in one trace does so in the other; the clock has microseconds */
		assert_int_equal(capture->lane[parent], capture->lane[event]);
		assert_true(capture->start_ns[parent] <= capture->start_ns[event] + 1000 &&
		            lk_event_end(capture, event) <= lk_event_end(capture, parent) + 1000);
	}
}

static void check_sizes(const lk_capture *capture) {
	static const int64_t elements[] = {6144, 24, 384, 3392, 394241, 6144, 112, 226960};
	static const int bytes[] = {4, 8, 4, 4, 4, 4, 4, 4};
	assert_int_equal(capture->comms.count, 8);
	for (int i = 0; i < 8; i++) {
		const lk_comm_note *note = &capture->comms.at[i];
		if (i != 3) assert_int_equal(note->in_elements, elements[i]); /* indices differ by rank */
		assert_int_equal(note->element_bytes, bytes[i]);
		assert_int_equal(note->group_size, 8);
		assert_int_equal(note->kind, i == 4 || i >= 6 ? LK_OP_ALLREDUCE : LK_OP_ALLTOALL);
	}
}

static void test_link(void **state) {
	(void)state;
	for (int rank = 0; rank < 8; rank++) {
		char name[64];
		lk_error err = {0};
		lk_capture *capture;
		lk_link link;
		uint32_t filled;
		snprintf(name, sizeof name, "traces/dlrm8/et/rank%d.json.gz", rank);
		lk_works *works = read_works(need_data(name));
		assert_int_equal(works->rank, rank);
		snprintf(name, sizeof name, "traces/dlrm8/kineto/rank%d.json.gz", rank);
		assert_int_equal(
			lk_trace_read(need_data(name), false, NULL, &capture, &(lk_works *){NULL}, &err),
			LK_OK);
		assert_int_equal(lk_link_works(works, capture, &link, &err), LK_OK);
		assert_int_equal(link.by_record + link.by_order, 1672);
		assert_int_equal(link.roots, 3);
		assert_int_equal(link.alone + link.uncertain, 0);
		assert_int_equal(link.events_alone, 1); /* ProfilerStep */
		check_nesting(works, capture, &link);
		assert_int_equal(lk_link_comms(capture, works, &link, &filled, &err), LK_OK);
		assert_int_equal(filled, 8);
		check_sizes(capture);
		lk_link_free(&link);
		lk_capture_free(capture);
		lk_works_free(works);
	}
}

/* ---- operations ---- */

static void test_op_shapes(void **state) {
	(void)state;
	static const struct {
		const char *name, *dims, *types, *outputs;
		lk_shapes_known known;
		int kind;
		double flops, bytes;
	} cases[] = {
		{"aten::mm", "[[16,13],[13,256]]", "[float,float]", NULL, LK_SHAPES_WORK, LK_OP_GEMM,
	     2. * 16 * 13 * 256, 4. * (16 * 13 + 13 * 256 + 16 * 256)},
		{"aten::addmm", "[[256],[16,13],[13,256],[],[]]",
	     "[c10::BFloat16,c10::BFloat16,c10::BFloat16,Int,Int]", NULL, LK_SHAPES_WORK, LK_OP_GEMM,
	     2. * 16 * 13 * 256, 2. * (16 * 13 + 13 * 256 + 16 * 256)},
		{"aten::bmm", "[[16,27,16],[16,16,27]]", "[float,float]", NULL, LK_SHAPES_WORK, LK_OP_GEMM,
	     2. * 16 * 27 * 16 * 27, 16 * 4. * (27 * 16 * 2 + 27 * 27)},
		{"aten::linear", "[[4,8,32],[64,32],[64]]", "[float,float,float]", NULL, LK_SHAPES_WORK,
	     LK_OP_GEMM, 2. * 32 * 64 * 32, 4. * (32 * 32 + 32 * 64 + 32 * 64)},
		{"aten::convolution", "[[32,3,224,224],[64,3,7,7],[]]", "[float,float,]",
	     "[[32,64,112,112]]", LK_SHAPES_WORK, LK_OP_CONV, 2. * 32 * 112 * 112 * 64 * 147,
	     4. * (32 * 3 * 224 * 224 + 64 * 147 + 32. * 64 * 112 * 112)},
		{"aten::convolution", "[[32,3,224,224],[64,3,7,7],[]]", "[float,float,]", NULL,
	     LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"aten::convolution_backward", "[[32,64,112,112],[32,3,224,224],[64,3,7,7]]",
	     "[float,float,float]", NULL, LK_SHAPES_WORK, LK_OP_CONV, 4. * 32 * 112 * 112 * 64 * 147,
	     8. * (32 * 3 * 224 * 224 + 64 * 147 + 32. * 64 * 112 * 112)},
		{"aten::_scaled_dot_product_flash_attention", "[[2,8,128,64],[2,8,128,64],[2,8,128,64]]",
	     "[c10::Half,c10::Half,c10::Half]", NULL, LK_SHAPES_WORK, LK_OP_ATTENTION,
	     4. * 16 * 128 * 128 * 64, 2. * 4 * 16 * 128 * 64},
		{"aten::_softmax", "[[1,20,512,512],[],[]]", "[float,Int,Bool]", NULL, LK_SHAPES_WORK,
	     LK_OP_SOFTMAX, 0, 8. * 20 * 512 * 512},
		{"aten::add_", "[[100],[100],[]]", "[float,float,Int]", NULL, LK_SHAPES_WORK,
	     LK_OP_ELEMENTWISE, 0, 1200},
		{"aten::cat", "[[[2,8],[3,8]],[]]", "[TensorList(float),Int]", NULL, LK_SHAPES_WORK,
	     LK_OP_ELEMENTWISE, 0, 2. * 40 * 4},
		{"aten::embedding", "[[50257,1280],[1,512],[],[],[]]", "[float,long,Int,Bool,Bool]", NULL,
	     LK_SHAPES_WORK, LK_OP_EMBEDDING, 0, 512. * (2 * 1280 * 4 + 8)},
		{"aten::_foreach_add_", "[[[10],[20]],[[10],[20]]]",
	     "[TensorList(float),TensorList(float)]", NULL, LK_SHAPES_WORK, LK_OP_OPTIMIZER, 0, 360},
		{"aten::view", "[[1,512],[[],[]]]", "[long,GenericList[Int,Int]]", NULL, LK_SHAPES_NOTHING,
	     0, 0, 0},
		{"aten::_local_scalar_dense", "[[]]", "[float]", NULL, LK_SHAPES_SYNC, LK_OP_COPY, 0, 4},
		{"MulBackward0", "[[16]]", "[float]", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"mm", "[[16,13],[13,256]]", "[float,float]", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		/* shapes that do not fit, and texts that are none */
		{"aten::mm", "[[16,13],[14,256]]", "[float,float]", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"aten::mm", "[[16,13],[13,", "[float,float]", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"aten::mm", "[[-1,13],[13,nan]]", "[", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"aten::mm", "", "", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"aten::mm", NULL, NULL, NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
		{"aten::add", "[[[[[[[[[[[[[[[[[[[[[[[[", "[float]", NULL, LK_SHAPES_UNKNOWN, 0, 0, 0},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_op op = {0};
		lk_shapes_known known =
			lk_op_from_shapes(cases[i].name, cases[i].dims, cases[i].types, cases[i].outputs, &op);
		if (known != cases[i].known) fail_msg("case %zu, %s: %d", i, cases[i].name, known);
		if (known != LK_SHAPES_WORK && known != LK_SHAPES_SYNC) continue;
		if (op.kind != cases[i].kind || op.flops != cases[i].flops || op.bytes != cases[i].bytes)
			fail_msg("case %zu, %s: kind %d, %.0f flops, %.0f bytes; wanted %d, %.0f, %.0f", i,
			         cases[i].name, op.kind, op.flops, op.bytes, cases[i].kind, cases[i].flops,
			         cases[i].bytes);
	}
}

/* ---- lifting ---- */

/* Host times of round numbers, so that sums can be told: T1 1, T2 2, T3 3, T4 4, T5 5 microseconds,
 * of every operation in a trace. Views launch nothing: nobody has seen a T2 of one. */
static lk_overheads *round_overheads(const lk_works *works) {
	lk_overheads *overheads = lk_overheads_new();
	lk_error err = {0};
	assert_non_null(overheads);
	assert_int_equal(lk_overheads_add(overheads, LK_T4, "cudaLaunchKernel", LK_T4, &err), LK_OK);
	assert_int_equal(lk_overheads_add(overheads, LK_T4, "cudaMemcpyAsync", LK_T4, &err), LK_OK);
	for (uint32_t i = 0; i < works->count; i++) {
		const char *name = lk_works_text(works, works->name[i]);
		for (int term = LK_T1; term <= LK_T5; term++)
			if (term != LK_T4 && (term != LK_T2 || strcmp(name, "aten::view") != 0))
				assert_int_equal(lk_overheads_add(overheads, term, name, term, &err), LK_OK);
	}
	return overheads;
}

#define NODE(id, parent, tid, name, in, shapes, types, out)                           \
	"{\"name\": \"" name "\", \"id\": " id ", \"rf_id\": " id ", \"parent\": " parent \
	", \"seq_id\": -1, \"scope\": 0, \"tid\": " tid ", \"inputs\": " in               \
	", \"input_shapes\": " shapes ", \"input_types\": " types ", \"outputs\": " out   \
	", \"output_shapes\": []}"
/* A view, a collective, an operation that does not need it, one that does, one that nobody knows, a
 * result that is read. */
#define LIFTED                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
	"{\"nodes\": [" NODE(                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  \
		"1", "1", "1", "[pytorch|profiler|execution_graph|thread]", "[]", "[]", "[]",                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      \
		"[]") "," NODE("2", "1",                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           \
	                   "1", "aten::view", "[[5,6,0,64,4,\"cuda:0\"]]", "[[64]]", "[\"Tensor(float)\"]", "[]") "," NODE("3", "1", "1", "c10d::allreduce_", "[]", "[]", "[]", "[]") "," NODE("4", "3", "1", "record_param_comms", "[[[5,6,0,64,4,\"cuda:0\"]],7,1,0,\"allreduce\",[],[],2]", "[[[64]],[],[],[],[],[],[],[]]", "[]", "[[[5,6,0,64,4,\"cuda:0\"]]]") "," NODE("5",                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
	                                                                                                                                                                                                                                                                                                                                                                      "1",                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
	                                                                                                                                                                                                                                                                                                                                                                      "1",                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
	                                                                                                                                                                                                                                                                                                                                                                      "aten::relu", "[[8,9,0,64,4,\"cuda:0\"]]", "[[64]]", "[\"Tensor(float)\"]", "[]") "," NODE("6",                                                                                                                                                                                                                                                                                                                                                                                  \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "1",                                                                                                                                                                                                                                                                                                                                                                                  \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "1", "aten::linear", "[]", "[]", "[]", "[]") "," NODE("7", "6", "1", "aten::mm", "[[5,6,0,64,4,\"cuda:0\"],[8,9,0,64,4,\"cuda:0\"]]",                                                                                                                                                                                                                                                 \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "[[8,8],[8,8]]",                                                                                                                                                                                                                                                                                                                \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "[\"Tensor(float)\",\"Tensor(float)\"]",                                                                                                                                                                                                                                                                                        \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "[]") "," NODE("8", "6", "1", "aten::add_", "[[8,9,0,64,4,\"cuda:0\"]]", "[[64]]", "[\"Tensor(float)\"]", "[]") "," NODE("9",                                                                                                                                                                                                   \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "1", "1", "other::kernel",                                                                                                                                                                             \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "[[8,9,0,64,4,\"cuda:0\"]]", "[[64]]", "[\"Tensor(float)\"]", "[]") "," NODE("10",                                                                                                                     \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             "1",                                                                                                                      \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             "1", "aten::item", "[[8,9,0,1,4,\"cuda:0\"]]", "[[]]", "[\"Tensor(float)\"]", "[]") "," NODE("11",                        \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "10",                        \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "1",                         \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "aten::_local_scalar_dense", \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "[[8,9,0,1,4,\"cuda:0\"]]",  \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "[[]]",                      \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "[\"Tensor(float)\"]",       \
	                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "[]") "]}"

static uint32_t find_op(const lk_graph *graph, const char *name, int kind) {
	for (uint32_t i = 0; i < graph->ops.count; i++)
		if (graph->ops.kind[i] == kind &&
		    strcmp(lk_intern_text(graph->names, graph->ops.name[i]), name) == 0)
			return i;
	fail_msg("no %s", name);
	return 0;
}

static bool depends(const lk_graph *graph, uint32_t op, uint32_t on) {
	for (uint32_t d = graph->ops.dep_begin[op]; d < graph->ops.dep_begin[op + 1]; d++)
		if (graph->ops.deps[d] == on) return true;
	return false;
}

static void test_lift(void **state) {
	(void)state;
	lk_works *works = works_of(LIFTED);
	const lk_works *ranks[] = {works, works};
	lk_graph *graph;
	lk_works_lifted report;
	lk_error err = {0};
	lk_overheads *overheads = round_overheads(works);
	if (lk_works_lift(ranks, 2, overheads, &graph, &report, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	lk_overheads_free(overheads);
	assert_int_equal(report.strange_overheads, 0);
	assert_true(graph->traced && graph->ranks.world == 2 && graph->teams.count == 1);
	assert_int_equal(graph->teams.at[0].ranks, 2);
	assert_int_equal(report.priced, 2 * 5); /* all-reduce, relu, mm, add_, item */
	assert_int_equal(report.unpriced, 2);
	assert_int_equal(report.names.count, 1);
	assert_string_equal(report.names.at[0].name, "other::kernel");
	assert_int_equal(report.names.at[0].count, 2);
	uint32_t reduce = find_op(graph, "record_param_comms", LK_OP_ALLREDUCE),
			 mm = find_op(graph, "aten::mm", LK_OP_GEMM);
	assert_true(depends(graph, mm, reduce));
	assert_false(depends(graph, find_op(graph, "aten::relu", LK_OP_ELEMENTWISE), reduce));
	assert_int_equal(graph->ops.stream[mm], LK_STREAM_COMPUTE);
	assert_int_not_equal(graph->ops.stream[reduce], LK_STREAM_COMPUTE);
	assert_true(graph->ops.bytes[reduce] == 256 && graph->ops.group[reduce] == LK_GROUP_TEAM);
	assert_int_equal(graph->ops.join[find_op(graph, "cudaStreamSynchronize", LK_OP_HOST)],
	                 LK_JOIN(LK_STREAM_COMPUTE));
	/* view: T5; a launch alone: T2 + T4 + T3; one thing inside: T2 + that + T3; linear: T2 + one +
	 * T5 + one + T3; T1 before all but the first; the graph's times are these */
	double host = 0;
	for (uint32_t i = graph->blocks.at[0].begin; i < graph->blocks.at[0].end; i++)
		if (graph->ops.kind[i] == LK_OP_HOST) {
			host += graph->ops.m[i];
			assert_true(fabs(graph->ops.m[i] * 1e12 - (double)graph->ops.measured_ps[i]) < 1);
		}
	const double one = 2 + 4 + 3, view = 5, reduce_us = 2 + one + 3, linear = 2 + one + 5 + one + 3,
				 item = 2 + one + 3;
	assert_true(fabs(host * 1e6 - (view + reduce_us + one + linear + one + item + 5 * 1)) < 1e-6);
	lk_graph_free(graph);
	lk_works_lifted_free(&report);
	lk_works_free(works);
}

/* The eight ranks of one run: one group of all, its eight collectives on each of them in the same
 * order and of one size. */
static void test_lift_dlrm(void **state) {
	(void)state;
	lk_works *w[8];
	lk_graph *graph;
	lk_works_lifted report;
	lk_error err = {0};
	for (int rank = 0; rank < 8; rank++) {
		char name[64];
		snprintf(name, sizeof name, "traces/dlrm8/et/rank%d.json.gz", rank);
		w[rank] = read_works(need_data(name));
	}
	lk_overheads *overheads = round_overheads(w[0]);
	if (lk_works_lift((const lk_works *const *)w, 8, overheads, &graph, &report, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	lk_overheads_free(overheads);
	assert_int_equal(report.strange_overheads, 0);
	assert_int_equal(graph->teams.count, 1);
	assert_int_equal(graph->teams.at[0].ranks, 8);
	assert_int_equal(graph->teams.at[0].end - graph->teams.at[0].begin, 8);
	for (uint32_t b = 0; b < graph->blocks.count; b++) {
		uint32_t collectives = 0;
		for (uint32_t i = graph->blocks.at[b].begin; i < graph->blocks.at[b].end; i++)
			collectives += lk_op_is_collective(graph->ops.kind[i]);
		assert_int_equal(collectives, 8);
	}
	assert_true(report.unpriced * 50 <= report.priced);
	print_message("dlrm8: %u operations with a model, %u without\n", report.priced,
	              report.unpriced);
	lk_graph_free(graph);
	lk_works_lifted_free(&report);
	for (int rank = 0; rank < 8; rank++) lk_works_free(w[rank]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python_agrees), cmocka_unit_test(test_two_forms),
		cmocka_unit_test(test_mend),          cmocka_unit_test(test_cut),
		cmocka_unit_test(test_limits),        cmocka_unit_test(test_link),
		cmocka_unit_test(test_op_shapes),     cmocka_unit_test(test_lift),
		cmocka_unit_test(test_lift_dlrm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
