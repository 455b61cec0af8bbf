/* test_rent_search.c: the search of `rent` against one that leaves nothing out: of random small
 * markets the cheapest, the fastest and the most are the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rounds.h"
#include "scratch.h"

#include "base/arena.h"
#include "rent/rent.h"

enum { OFFERS = 3, MOST_GPUS = 16 };

struct market {
	lk_arena arena;
	lk_offer at[OFFERS];
	lk_offers offers;
	lk_rent_request request;
	char batches[32];
};

static double between(uint64_t *seed, double low, double high) {
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return low + (high - low) * (double)(*seed >> 33) / 2147483648.0;
}

static int one_of(uint64_t *seed, int count) {
	return (int)between(seed, 0, count);
}

static lk_offer any_offer(uint64_t *seed, int number) {
	static const char *const gpus[] = {"t4",   "a10g", "l4",       "v100-sxm-16", "a100-sxm-80",
	                                   "l40s", "h200", "h100-sxm", "b200"};
	static const double usd[] = {0.5, 1, 0.8, 2.5, 2, 1.5, 4.5, 4, 6};
	static const char *const names[] = {"one", "two", "three"};
	int kind = one_of(seed, 9), each = 1 << one_of(seed, 4);
	bool joins = one_of(seed, 3) > 0;
	return (lk_offer){
		.provider = "p",
		.instance = names[number],
		.region = "",
		.gpu = gpus[kind],
		.device = lk_device_find(gpus[kind]),
		.gpus = each,
		.links = each == 1               ? ""
	             : kind < 3 || kind == 5 ? "pcie"
	                                     : "nvlink",
		.vcpus = 8 * each,
		.nic = "",
		.network_gbps = joins ? 25 << one_of(seed, 5) : NAN,
		.memory_gib = NAN,
		.nvme_gb = NAN,
		.on_demand = each * usd[kind] * between(seed, 0.5, 2),
		.spot = NAN,
		.block = each * usd[kind] * between(seed, 0.5, 2),
		.date = "today",
		.source = "test",
	};
}

static void open_market(struct market *market, uint64_t *seed) {
	static const struct {
		const char *name;
		int seq;
		double samples; /* of a training of some days on one GPU */
	} jobs[] = {{"bert-base", 128, 3e7},
	            {"llama3.2-1b", 2048, 2e5},
	            {"resnet50", 0, 2e8},
	            {"qwen3-0.6b", 4096, 1e5}};
	*market = (struct market){0};
	lk_rent_request *request = &market->request;
	int job = one_of(seed, 4), limits = one_of(seed, 5);
	lk_rent_defaults(request);
	request->job.model = jobs[job].name;
	request->job.seq = jobs[job].seq;
	snprintf(market->batches, sizeof market->batches, "%d", 32 << one_of(seed, 4));
	request->batches = market->batches;
	request->most_gpus = MOST_GPUS;
	if (limits != 4) request->samples = jobs[job].samples * between(seed, 0.1, 2);
	if (limits == 1 || limits == 4) request->budget = pow(10, between(seed, 1.5, 3.5));
	if (limits == 2) request->deadline_h = pow(10, between(seed, 0, 2));
	if (limits == 3) {
		request->budget = pow(10, between(seed, 2, 3.5));
		request->deadline_h = pow(10, between(seed, 0.5, 2));
	}
	for (int i = 0; i < OFFERS; i++) market->at[i] = any_offer(seed, i);
	request->block = one_of(seed, 4) == 0;
	market->offers = (lk_offers){market->at, OFFERS, OFFERS};
}

/* Every number of machines of every offer. */
static lk_status search_all(struct market *market, lk_rent_rates *rates, lk_error *err) {
	lk_rent_batches batches;
	LK_TRY(lk_rent_batches_read(market->request.batches, &batches, err));
	for (int i = 0; i < OFFERS; i++)
		for (int gpus = market->at[i].gpus; gpus <= MOST_GPUS; gpus *= 2)
			if (gpus == market->at[i].gpus || !isnan(market->at[i].network_gbps))
				LK_TRY(lk_rent_rates_add(&market->at[i], gpus / market->at[i].gpus, &batches, NULL,
				                         &market->arena, rates, err));
	const lk_cutoff never = lk_cutoff_after(0);
	return lk_rent_rates_answer(&market->request, 0, &never, &market->arena, rates, err);
}

/* What is chosen from the rates; false: nothing fits. */
static bool choose_from(struct market *market, const lk_rent_rates *rates, lk_rent *out) {
	const char *useless;
	lk_error err;
	*out = (lk_rent){0};
	return lk_rent_choose(&market->request, &market->offers, rates, &market->arena, out, &useless,
	                      &err) == LK_OK;
}

static const lk_rent_choice *chosen(const lk_rent *rent, int at) {
	static const lk_rent_choice none;
	return at < 0 ? &none : &rent->choices[at];
}

static void same_as_all(uint64_t seed) {
	struct market market;
	lk_rent_rates all = {0}, some = {0};
	lk_rent wanted, found;
	const char *cut_off = NULL;
	lk_error err = {0};
	open_market(&market, &seed);
	if (lk_rent_search(&market.request, &market.offers, &market.arena, &some, &cut_off, &err) !=
	    LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	assert_int_equal(search_all(&market, &all, &err), LK_OK);
	bool any = choose_from(&market, &all, &wanted);
	assert_int_equal(choose_from(&market, &some, &found), any);
	assert_true(some.count <= all.count);
	if (any) {
		bool time_only = market.request.deadline_h > 0 && !(market.request.budget > 0);
		assert_true(chosen(&found, found.cheapest)->cost == chosen(&wanted, wanted.cheapest)->cost);
		assert_true(chosen(&found, found.most)->samples == chosen(&wanted, wanted.most)->samples);
		/* a deadline alone asks for the cheapest: the answer says that more may be faster */
		if (!time_only)
			assert_true(chosen(&found, found.fastest)->hours ==
			            chosen(&wanted, wanted.fastest)->hours);
	}
	lk_vec_free(&all);
	lk_vec_free(&some);
	lk_arena_free(&market.arena);
}

static void the_best_is_found(void **state) {
	(void)state;
	int cases = rounds(25, 1000);
	for (int i = 0; i < cases; i++) same_as_all(977u * (uint64_t)i + 1);
}

/* A search whose time is over at once knows nothing, and says of every machine why. */
static void the_time_ends_a_search(void **state) {
	(void)state;
	uint64_t seed = 5;
	for (int i = 0; i < 10; i++) {
		struct market market;
		lk_rent_rates none = {0};
		lk_rent answer;
		const char *cut_off = NULL;
		lk_error err = {0};
		open_market(&market, &seed);
		market.request.search_s = 1e-9;
		assert_int_equal(
			lk_rent_search(&market.request, &market.offers, &market.arena, &none, &cut_off, &err),
			LK_OK);
		int ended = 0;
		for (int k = 0; k < OFFERS; k++) {
			assert_non_null(market.at[k].search_end);
			assert_true(!market.at[k].unfinished || !market.at[k].gpus_searched);
			ended += strcmp(market.at[k].search_end, "time") == 0;
		}
		for (size_t k = 0; k < none.count; k++) assert_true(none.at[k].late && !none.at[k].fits);
		assert_true(ended > 0 && !choose_from(&market, &none, &answer));
		lk_vec_free(&none);
		lk_arena_free(&market.arena);
	}
}

/* No layout of any number of GPUs is simulated to take less than the bound. */
static void nothing_beats_the_least(void **state) {
	static const char *const gpus[] = {"v100-sxm-16", "a100-sxm-80", "h100-sxm", "b200", "mi300x"};
	static const struct {
		const char *name;
		int seq;
	} jobs[] = {{"llama3.2-1b", 4096}, {"bert-base", 512}, {"resnet50", 0}, {"olmoe-1b-7b", 4096}};
	(void)state;
	int cases = rounds(20, 200);
	uint64_t seed = 7;
	for (int i = 0; i < cases; i++) {
		int job = one_of(&seed, 4), kind = one_of(&seed, 5), machines = 1 << one_of(&seed, 4);
		lk_plan_request request;
		lk_plan *plan;
		lk_error err;
		char cluster[64];
		lk_rent_request rent;
		lk_rent_defaults(&rent);
		rent.job.model = jobs[job].name;
		rent.job.seq = jobs[job].seq;
		lk_rent_least least = {.device = lk_device_find(gpus[kind])};
		assert_int_equal(lk_rent_least_find(&rent, 256, &least, 1, &err), LK_OK);
		snprintf(cluster, sizeof cluster, "%d node * 8 %s, nic 8*400g", machines, gpus[kind]);
		lk_plan_defaults(&request);
		request.job = rent.job;
		request.job.cluster = cluster;
		request.job.gbs = 256;
		request.fixed_switches = request.no_exact = request.no_sensitivity = true;
		request.threads = 1;
		assert_int_equal(lk_plan_find(&request, &plan, &err), LK_OK);
		if (plan->counts[0].choice_count) {
			double step_s = plan->counts[0].choices[0].step_time_s;
			assert_true(step_s * 8 * machines / 256 >= least.work.gpu_s);
			/* and it is near enough to be of use */
			if (machines == 1) assert_true(step_s * 8 / 256 < 4 * least.work.gpu_s);
		}
		lk_plan_free(plan);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_is_found),
		cmocka_unit_test(the_time_ends_a_search),
		cmocka_unit_test(nothing_beats_the_least),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
