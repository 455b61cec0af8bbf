/* test_compose.c: jobs from recordings of single processes: who stands in for whom, what a step
 * takes where it can be reckoned by hand, what is refused; how long messages take by their size. */
#include <limits.h>
#include <math.h>

#include "base/arena.h"
#include "io/recording.h"
#include "cost/collective/collective.h"
#include "lockstep/compose.h"
#include "scratch.h"

enum { MB = 1 << 20, STEPS = 6 };
static const int64_t MS = 1000000;

/* ---- recordings ---- */

struct writer {
	lk_recorder r;
	lk_record_place place;
	int64_t now;
};

static struct writer begin(int rank, int world) {
	static struct writer w;
	memset(&w, 0, sizeof w);
	assert_int_equal(lk_recorder_open(&w.r, scratch, 8 * MB, 0), 0);
	w.r.head->rank = rank;
	w.r.head->world = world;
	w.r.head->mode = LK_RECORDED_AS_RANK;
	return w;
}

static void text(struct writer *writer, lk_record_entry head, lk_record_kind kind,
                 const char *said) {
	lk_recorder_text(&writer->r, &writer->place, &head, kind, said, strlen(said));
}

static void name(struct writer *writer, uint32_t number, const char *said) {
	text(writer, (lk_record_entry){.object = number}, LK_RECORD_NAME, said);
}

/* `own` -1: of other ranks. */
static void group(struct writer *writer, uint32_t number, int own, int size, int64_t division,
                  const char *ranks) {
	text(writer,
	     (lk_record_entry){.object = number, .bytes = division, .comm = {.peer = size, .tag = own}},
	     LK_RECORD_GROUP, ranks);
}

static void whole_world(struct writer *writer, int rank, int world) {
	char ranks[LK_TEXT_MOST];
	size_t length = (size_t)snprintf(ranks, sizeof ranks, "[0");
	for (int i = 1; i < world; i++)
		length += (size_t)snprintf(ranks + length, sizeof ranks - length, ", %d", i);
	snprintf(ranks + length, sizeof ranks - length, "]");
	group(writer, 1, rank, world, 1, ranks);
}

/* A call after own work; the time in it means nothing. */
static void call(struct writer *writer, uint32_t object, lk_comm_what what, lk_comm_part part,
                 int peer, int64_t bytes, int64_t own_ns) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	writer->now += own_ns;
	entry->object = object;
	entry->start_ns = writer->now;
	entry->end_ns = writer->now += MS;
	entry->bytes = bytes;
	entry->comm.what = (uint8_t)what;
	entry->comm.part = (uint8_t)part;
	entry->comm.call = 1;
	entry->comm.peer = peer;
	entry->comm.from = -1;
	entry->comm.request = part == LK_PART_WHOLE ? 0 : 77;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_COMM);
}

static void finish(struct writer *writer) {
	writer->r.head->end_ns = writer->now;
	lk_recorder_close(&writer->r);
}

/* A rank of `world` that reduces over all of it in every step. */
static void reducing_rank(int rank, int world, int64_t own_ns, int64_t bytes) {
	struct writer w = begin(rank, world);
	name(&w, 1, "MPI_Allreduce");
	whole_world(&w, rank, world);
	for (int i = 0; i < STEPS; i++)
		call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, bytes, own_ns);
	finish(&w);
}

/* Notes of how long the process has computed so far, and waited for a processor. */
static void computed(struct writer *writer, int64_t ns, int64_t queued_ns) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	entry->start_ns = entry->end_ns = writer->now;
	entry->bytes = ns;
	entry->use.computed_ns = ns;
	entry->use.queued_ns = queued_ns;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_PROCESSOR);
}

/* A rank that reduces in every step, after it computed and slept, and waited for a processor. */
static void sleeping_rank(int rank, int world, int64_t computes_ns, int64_t sleeps_ns,
                          int64_t waits_ns) {
	struct writer w = begin(rank, world);
	name(&w, 1, "MPI_Allreduce");
	whole_world(&w, rank, world);
	for (int i = 0; i < STEPS; i++) {
		computed(&w, i * computes_ns, i * waits_ns);
		call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, 8, computes_ns + sleeps_ns + waits_ns);
		w.now -= MS;
		computed(&w, (i + 1) * computes_ns, (i + 1) * waits_ns);
		w.now += MS;
	}
	finish(&w);
}

/* A stage of a pipeline, `width` ranks wide: from the stage before, own work, to the one behind. */
static void pipeline_rank(int rank, int world, int width, int64_t own_ns, int64_t bytes) {
	struct writer w = begin(rank, world);
	name(&w, 1, "MPI_Call");
	whole_world(&w, rank, world);
	for (int i = 0; i < STEPS; i++) {
		if (rank >= width) call(&w, 1, LK_WHAT_RECV, LK_PART_WHOLE, rank - width, bytes, MS);
		if (rank + width < world)
			call(&w, 1, LK_WHAT_SEND, LK_PART_WHOLE, rank + width, bytes, own_ns);
		call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, 8, rank + width < world ? MS : own_ns);
	}
	finish(&w);
}

/* ---- asking ---- */

static const char cluster[] = "8 node * 1 cpu, nic 1*10g";

static lk_composed *compose_on(const char *machines, int progress) {
	lk_compose_request request;
	lk_composed *composed = NULL;
	lk_error err = {0};
	lk_compose_defaults(&request);
	request.folder = scratch;
	request.cluster = machines;
	request.progress = progress;
	if (lk_compose(&request, &composed, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return composed;
}

static void refuses(const char *what) {
	lk_compose_request request;
	lk_composed *composed = NULL;
	lk_error err = {0};
	lk_compose_defaults(&request);
	request.folder = scratch;
	request.cluster = cluster;
	assert_int_not_equal(lk_compose(&request, &composed, &err), LK_OK);
	if (!strstr(err.what, what))
		fail_msg("said \"%s\" of %s, not \"%s\"", err.what, err.where, what);
}

static void empty(void) {
	assert_int_equal(remove_folder(scratch), 0);
	new_folder(scratch);
}

static double collective_s(lk_coll_kind kind, int ranks, double bytes) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster c;
	lk_error err = {0};
	assert_int_equal(lk_cluster_parse(&arena, cluster, &c, &err), LK_OK);
	lk_group_shape shape = {.node = &c.node[0],
	                        .ranks = ranks,
	                        .nodes = ranks,
	                        .ranks_per_node = 1,
	                        .sharing = 1,
	                        .oversubscription = 1};
	double seconds = lk_host_collective(LK_HOST_MPI, kind, &shape, bytes).seconds;
	lk_arena_free(&arena);
	return seconds;
}

static void near(double a, double b) {
	if (!(fabs(a - b) <= 1e-6 * fabs(b))) fail_msg("%.9g is not %.9g", a, b);
}

/* ---- jobs ---- */

/* A step is the slowest rank's own work and the collective; the faster one waits. */
static void test_reducing(void **state) {
	(void)state;
	empty();
	reducing_rank(0, 2, 10 * MS, 4 * MB);
	reducing_rank(1, 2, 25 * MS, 4 * MB);
	lk_composed *composed = compose_on(cluster, LK_PROGRESS_CALLS);
	double moves = collective_s(LK_COLL_ALLREDUCE, 2, 4 * MB);
	near(composed->step_s, 0.025 + moves);
	assert_int_equal(composed->class_count, 2);
	near(composed->classes[0].parts.wait, 0.015);
	near(composed->classes[0].parts.transfer, moves);
	near(composed->classes[1].parts.own, 0.025);
	assert_true(composed->low_s <= composed->step_s && composed->step_s <= composed->high_s);
	lk_compose_free(composed);
}

/* Ranks that are more than the cores take turns in computing, not in sleeping. What others took of
 * the processor that recorded is not in the job. */
static void test_sleeping(void **state) {
	(void)state;
	const int64_t sleeps[] = {0, 7 * MS, 10 * MS};
	for (size_t i = 0; i < sizeof sleeps / sizeof *sleeps; i++) {
		lk_compose_request request;
		lk_composed *composed[2];
		lk_error err = {0};
		empty();
		sleeping_rank(0, 2, 10 * MS - sleeps[i], sleeps[i], (int64_t)i * 30 * MS);
		for (int twice = 0; twice < 2; twice++) {
			lk_compose_defaults(&request);
			request.folder = scratch;
			request.cluster = cluster;
			request.shared = twice ? 80 : 40; /* of the 40 cores of `cpu` */
			request.memory_bound = -1;
			assert_int_equal(lk_compose(&request, &composed[twice], &err), LK_OK);
			near(composed[twice]->classes[0].asleep_s, (double)sleeps[i] * 1e-9);
		}
		near(composed[0]->parts.own, 0.010);
		double longer = composed[1]->step_s - composed[0]->step_s;
		assert_true(fabs(longer - (0.010 - (double)sleeps[i] * 1e-9)) < 1e-9);
		lk_compose_free(composed[0]);
		lk_compose_free(composed[1]);
	}
}

/* What ranks of one machine do in a collective is done in turns, too, where they are more than its
 * cores; what goes over the network is not. */
static void test_collectives_in_turns(void **state) {
	(void)state;
	const char *machines[] = {"1 node * 1 cpu", cluster};
	empty();
	sleeping_rank(0, 160, 0, 10 * MS, 0);
	for (int across = 0; across < 2; across++) {
		lk_compose_request request;
		lk_composed *composed[3];
		lk_error err = {0};
		for (int i = 0; i < 3; i++) {
			lk_compose_defaults(&request);
			request.folder = scratch;
			request.cluster = machines[across];
			request.ranks_per_node = across ? 20 : 160;
			request.shared = i == 0 ? 20 : i == 1 ? 40 : 160; /* of the 40 cores of `cpu` */
			assert_int_equal(lk_compose(&request, &composed[i], &err), LK_OK);
		}
		double alone = composed[0]->parts.transfer;
		assert_true(alone > 0);
		near(composed[1]->parts.transfer, alone);
		near(composed[2]->parts.transfer, across ? alone : 4 * alone);
		near(composed[2]->step_s, 0.010 + composed[2]->parts.transfer);
		for (int i = 0; i < 3; i++) lk_compose_free(composed[i]);
	}
}

/* Recording one rank, or all of them alike, is the same job. */
static void test_one_for_all(void **state) {
	(void)state;
	empty();
	reducing_rank(2, 8, 10 * MS, MB);
	lk_composed *one = compose_on(cluster, LK_PROGRESS_CALLS);
	assert_string_equal(one->classes[0].stands_for, "0-7");
	empty();
	for (int rank = 0; rank < 8; rank++) reducing_rank(rank, 8, 10 * MS, MB);
	lk_composed *all = compose_on(cluster, LK_PROGRESS_CALLS);
	near(one->step_s, all->step_s);
	assert_int_equal(all->class_count, 8);
	lk_compose_free(one);
	lk_compose_free(all);
}

/* Of a pipeline of four stages of two, the first, a middle and the last stage are recorded:
 * messages decide who is whom. */
static void test_pipeline(void **state) {
	(void)state;
	empty();
	pipeline_rank(0, 8, 2, 20 * MS, MB);
	pipeline_rank(4, 8, 2, 20 * MS, MB);
	pipeline_rank(7, 8, 2, 20 * MS, MB);
	lk_composed *composed = compose_on(cluster, LK_PROGRESS_CALLS);
	assert_string_equal(composed->classes[0].stands_for, "0-1");
	assert_string_equal(composed->classes[1].stands_for, "2-5");
	assert_string_equal(composed->classes[2].stands_for, "6-7");
	/* one micro-batch: all stages one after another */
	double passes = 4 * 0.020 + 3 * collective_s(LK_COLL_SENDRECV, 2, MB);
	assert_true(composed->step_s > passes && composed->step_s < passes + 0.010);
	lk_compose_free(composed);
	empty();
	pipeline_rank(0, 8, 2, 20 * MS, MB);
	refuses("no recording has the peers");
	pipeline_rank(4, 8, 2, 20 * MS, MB);
	refuses("no recording has the peers");
}

/* Communicators that follow no pattern are known where the recording tells the division. */
static void test_divisions(void **state) {
	(void)state;
	for (int told = 0; told < 2; told++) {
		empty();
		struct writer w = begin(0, 6);
		name(&w, 1, "MPI_Allreduce");
		group(&w, 1, 0, 3, 99, "[0, 3, 4]");
		if (told) group(&w, 2, -1, 3, 99, "[5, 1, 2]");
		for (int i = 0; i < STEPS; i++)
			call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, MB, 10 * MS);
		finish(&w);
		if (!told) {
			refuses("no recorded rank can represent rank 1");
			continue;
		}
		lk_composed *composed = compose_on(cluster, LK_PROGRESS_CALLS);
		near(composed->step_s, 0.010 + collective_s(LK_COLL_ALLREDUCE, 3, MB));
		lk_compose_free(composed);
	}
}

/* Begun before 30 ms of own work: hidden where the library goes on by itself, else not. */
static void test_begun(void **state) {
	(void)state;
	empty();
	for (int rank = 0; rank < 2; rank++) {
		struct writer w = begin(rank, 2);
		name(&w, 1, "MPI_Iallreduce");
		whole_world(&w, rank, 2);
		for (int i = 0; i < STEPS; i++) {
			call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_POST, -1, 4 * MB, 5 * MS);
			call(&w, 0, LK_WHAT_OTHER, LK_PART_DONE, -1, 0, 30 * MS);
		}
		finish(&w);
	}
	double moves = collective_s(LK_COLL_ALLREDUCE, 2, 4 * MB);
	lk_composed *always = compose_on(cluster, LK_PROGRESS_ALWAYS),
				*calls = compose_on(cluster, LK_PROGRESS_CALLS);
	assert_true(moves < 0.030);
	near(always->step_s, 0.035);
	near(calls->step_s, 0.035 + moves);
	near(calls->low_s, 0.035);
	lk_compose_free(always);
	lk_compose_free(calls);
}

/* Steps that are longer than the usual one are told, not counted. */
static void test_checkpoint(void **state) {
	(void)state;
	empty();
	for (int rank = 0; rank < 2; rank++) {
		struct writer w = begin(rank, 2);
		name(&w, 1, "MPI_Allreduce");
		whole_world(&w, rank, 2);
		for (int i = 0; i < 20; i++)
			call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, MB, i == 10 ? 210 * MS : 10 * MS);
		finish(&w);
	}
	lk_composed *composed = compose_on(cluster, LK_PROGRESS_CALLS);
	near(composed->step_s, 0.010 + collective_s(LK_COLL_ALLREDUCE, 2, MB));
	assert_true(composed->classes[0].beside_s > 0.009 && composed->classes[0].beside_s < 0.012);
	lk_compose_free(composed);
}

static void test_refused(void **state) {
	(void)state;
	empty();
	refuses("holds no recordings");
	reducing_rank(0, 2, MS, MB);
	reducing_rank(0, 2, MS, MB);
	refuses("is of rank 0, like");
	empty();
	reducing_rank(0, 2, MS, MB);
	reducing_rank(1, 4, MS, MB);
	refuses("has a world of");
	empty();
	struct writer w = begin(0, 2);
	w.r.head->mode = LK_RECORDED_WHOLE;
	finish(&w);
	refuses("was not recorded as an emulated rank");
	empty();
	w = begin(0, 2);
	strcpy(w.r.head->program, "other");
	for (int i = 0; i < STEPS; i++) call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, MB, MS);
	finish(&w);
	refuses("does not describe");
	empty();
	w = begin(5, 2);
	finish(&w);
	refuses("impossible rank");
	empty();
	w = begin(0, 2);
	whole_world(&w, 0, 2);
	for (int i = 0; i < STEPS; i++) call(&w, 1, LK_WHAT_RECV, LK_PART_WHOLE, -1, MB, MS);
	finish(&w);
	refuses("MPI_ANY_SOURCE");
	empty();
	w = begin(0, 4);
	group(&w, 1, 0, 4, 1, "[0, 1, ...]");
	for (int i = 0; i < STEPS; i++) call(&w, 1, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, -1, MB, MS);
	finish(&w);
	refuses("not all known");
}

/* ---- messages ---- */

static void test_messages(void **state) {
	(void)state;
	char path[PATH_MAX];
	lk_host_messages m;
	lk_error err = {0};
	snprintf(path, sizeof path, "%s/hosts.json", scratch);
	FILE *out = fopen(path, "w");
	fputs("{\"nodes\": [{\"device\": \"cpu\"}], \"measured\": {\"memory\": {\"triad, one core\": "
	      "{\"value\": 12.5}}, \"messages\": ["
	      "{\"inside\": false, \"bytes\": 1000000, \"alone_us\": 8000, \"both_us\": 16000},"
	      "{\"inside\": false, \"bytes\": 8, \"alone_us\": 20, \"both_us\": 30},"
	      "{\"inside\": true, \"bytes\": 8, \"alone_us\": 1, \"both_us\": 1}]}}",
	      out);
	fclose(out);
	assert_int_equal(lk_host_messages_read(path, &m, &err), LK_OK);
	assert_int_equal(m.between.count, 2);
	assert_int_equal(m.inside.count, 1);
	near(m.one_core_rate, 12.5e9);
	near(lk_message_seconds(&m.between, 1, false), 20e-6);
	near(lk_message_seconds(&m.between, 8, true), 30e-6);
	near(lk_message_seconds(&m.between, 1000000, true), 16e-3);
	near(lk_message_seconds(&m.between, 2000000, true),
	     16e-3 + (16e-3 - 30e-6) / (1000000 - 8) * 1000000);
	double before = 0;
	for (double bytes = 1; bytes < 1e9; bytes *= 1.5) {
		double now = lk_message_seconds(&m.between, bytes, false);
		assert_true(now >= before);
		before = now;
	}
	static const char *const wrong[] = {"{\"bytes\": 8}",
	                                    "{\"bytes\": 0, \"alone_us\": 1, \"both_us\": 1}", "7",
	                                    "{\"bytes\": 8, \"alone_us\": -1, \"both_us\": 1}",
	                                    ("{\"bytes\": 8, \"alone_us\": 1, \"both_us\": 1}, "
	                                     "{\"bytes\": 8, \"alone_us\": 1, \"both_us\": 1}")};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		out = fopen(path, "w");
		fprintf(out, "{\"measured\": {\"messages\": [%s]}}", wrong[i]);
		fclose(out);
		assert_int_not_equal(lk_host_messages_read(path, &m, &err), LK_OK);
	}
}

/* Measured collectives: exact where and among whom they were measured, never less for more bytes,
 * scaled by the algorithms' own ratio for other groups. */
static void test_collectives(void **state) {
	(void)state;
	static lk_node node = {.nics = 1, .nic_rate = 1e9};
	lk_group_shape two = {.node = &node,
	                      .ranks = 2,
	                      .nodes = 2,
	                      .ranks_per_node = 1,
	                      .sharing = 1,
	                      .oversubscription = 1};
	lk_group_shape eight = {.node = &node,
	                        .ranks = 8,
	                        .nodes = 8,
	                        .ranks_per_node = 1,
	                        .sharing = 1,
	                        .oversubscription = 1};
	lk_host_messages m;
	lk_error err = {0};
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/hosts.json", scratch);
	FILE *out = fopen(path, "w");
	fputs("{\"measured\": {\"collectives\": ["
	      "{\"kind\": \"all_reduce\", \"ranks\": 2, \"nodes\": 2, \"bytes\": 8, \"alone_us\": 30, "
	      "\"behind_us\": 20},"
	      "{\"kind\": \"all_reduce\", \"ranks\": 2, \"nodes\": 2, \"bytes\": 1000000, "
	      "\"alone_us\": 4000, \"behind_us\": 7000}]}}",
	      out);
	fclose(out);
	assert_int_equal(lk_host_messages_read(path, &m, &err), LK_OK);
	near(lk_host_collective_measured(&m, LK_COLL_ALLREDUCE, &two, 8, false).seconds, 30e-6);
	near(lk_host_collective_measured(&m, LK_COLL_ALLREDUCE, &two, 8, true).seconds, 20e-6);
	near(lk_host_collective_measured(&m, LK_COLL_ALLREDUCE, &two, 1e6, false).seconds, 4e-3);
	near(lk_host_collective_measured(&m, LK_COLL_ALLREDUCE, &two, 1e6, true).seconds, 7e-3);
	double share = 7e-3 / lk_host_collective(LK_HOST_MPI, LK_COLL_ALLREDUCE, &two, 1e6).seconds;
	near(lk_host_collective_measured(&m, LK_COLL_ALLREDUCE, &eight, 1e6, true).seconds,
	     share * lk_host_collective(LK_HOST_MPI, LK_COLL_ALLREDUCE, &eight, 1e6).seconds);
	double before = 0;
	for (double bytes = 8; bytes < 1e9; bytes *= 1.3) {
		double now = lk_host_collective_measured(&m, LK_COLL_ALLREDUCE, &two, bytes, true).seconds;
		assert_true(now >= before);
		before = now;
	}
	near(lk_host_collective_measured(&m, LK_COLL_ALLGATHER, &two, 1e6, true).seconds,
	     lk_host_collective(LK_HOST_MPI, LK_COLL_ALLGATHER, &two, 1e6).seconds);
	static const char *const wrong[] = {
		"7", "{\"kind\": \"all\"}",
		"{\"kind\": \"all_reduce\", \"ranks\": 2, \"nodes\": 2, \"bytes\": 8, \"alone_us\": 30}",
		"{\"kind\": \"all_reduce\", \"ranks\": 1, \"nodes\": 1, \"bytes\": 8, \"alone_us\": 30, "
		"\"behind_us\": 20}",
		"{\"kind\": \"all_reduce\", \"ranks\": 2, \"nodes\": 2, \"bytes\": 8, \"alone_us\": 30, "
		"\"behind_us\": 20},"
		"{\"kind\": \"all_reduce\", \"ranks\": 2, \"nodes\": 2, \"bytes\": 8, \"alone_us\": 30, "
		"\"behind_us\": 20}"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		out = fopen(path, "w");
		fprintf(out, "{\"measured\": {\"collectives\": [%s]}}", wrong[i]);
		fclose(out);
		assert_int_not_equal(lk_host_messages_read(path, &m, &err), LK_OK);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_reducing),
	                                   cmocka_unit_test(test_sleeping),
	                                   cmocka_unit_test(test_collectives_in_turns),
	                                   cmocka_unit_test(test_one_for_all),
	                                   cmocka_unit_test(test_pipeline),
	                                   cmocka_unit_test(test_divisions),
	                                   cmocka_unit_test(test_begun),
	                                   cmocka_unit_test(test_checkpoint),
	                                   cmocka_unit_test(test_refused),
	                                   cmocka_unit_test(test_messages),
	                                   cmocka_unit_test(test_collectives)};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
