/* test_rent.c: price lists and their rules, SkyPilot's dialects, and choices by cost and time. */
#include <math.h>
#include <string.h>

#include "scratch.h"

#include "base/arena.h"
#include "rent/rent.h"
#include "run/run.h"

struct list {
	lk_arena arena;
	lk_offers offers;
	lk_offer_faults faults;
};

static void end(struct list *list) {
	lk_vec_free(&list->offers);
	lk_vec_free(&list->faults);
	lk_arena_free(&list->arena);
}

static lk_status read_sky(struct list *list, const char *provider, const char *text,
                          lk_error *err) {
	lk_stream *in;
	*list = (struct list){0};
	assert_int_equal(lk_stream_memory(text, strlen(text), "vms.csv", &in, err), LK_OK);
	lk_status status = lk_offers_skypilot(in, provider, "2026-01-02", &list->arena, &list->offers,
	                                      &list->faults, err);
	lk_stream_close(in);
	return status;
}

/* ---- the project's own list ---- */

static void own_list_is_sound(void **state) {
	(void)state;
	struct list l = {0};
	lk_error err;
	assert_int_equal(lk_offers_builtin(&l.arena, &l.offers, &l.faults, &err), LK_OK);
	assert_true(l.offers.count > 100);
	for (size_t i = 0; i < l.offers.count; i++) {
		const lk_offer *offer = &l.offers.at[i];
		lk_cluster cluster;
		assert_non_null(offer->device);
		assert_true(*offer->date && *offer->source);
		const char *text = lk_offer_cluster(offer, isnan(offer->network_gbps) ? 1 : 4, &l.arena);
		assert_int_equal(lk_cluster_parse(&l.arena, text, &cluster, &err), LK_OK);
	}
	end(&l);
}

/* ---- SkyPilot ---- */

#define HEAD                                                                                 \
	"InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice," \
	"Region,AvailabilityZone\n"

static void zones_become_a_region(void **state) {
	(void)state;
	struct list l;
	lk_error err;
	assert_int_equal(read_sky(&l, "aws",
	                          HEAD "p3.2xlarge,V100,1,8,61,,3.06,1.2,us-east-1,us-east-1a\n"
	                               "p3.2xlarge,V100,1,8,61,,3.06,0.9,us-east-1,us-east-1b\n"
	                               "m5.large,,,2,8,,0.096,0.04,us-east-1,us-east-1a\n",
	                          &err),
	                 LK_OK);
	assert_int_equal(l.offers.count, 1);
	assert_true(l.offers.at[0].spot == 0.9 && l.offers.at[0].on_demand == 3.06);
	assert_string_equal(l.offers.at[0].date, "2026-01-02");
	/* wiring and network come from the project's own list */
	assert_true(l.offers.at[0].network_gbps == 2.5);
	end(&l);
}

static void hosts_of_gcp_are_added(void **state) {
	(void)state;
	struct list l;
	lk_error err;
	assert_int_equal(read_sky(&l, "gcp",
	                          HEAD "a2-highgpu-8g,,,96,680,,5.89,1.5,us-central1,\n"
	                               ",A100,8,,,,23.5,12.9,us-central1,us-central1-a\n"
	                               ",A100,8,,,,23.5,12.9,europe-west4,europe-west4-a\n"
	                               ",tpu-v4,8,,,,23.5,12.9,us-central1,us-central1-a\n",
	                          &err),
	                 LK_OK);
	assert_int_equal(l.offers.count, 1);
	assert_string_equal(l.offers.at[0].instance, "a2-highgpu-8g");
	assert_true(fabs(l.offers.at[0].on_demand - 29.39) < 1e-9 && l.offers.at[0].vcpus == 96);
	assert_string_equal(l.offers.at[0].device->name, "a100-sxm-40");
	assert_int_equal(l.faults.count, 2); /* the host of Europe is missing; TPUs have none */
	end(&l);
}

static void impossible_prices_are_named(void **state) {
	(void)state;
	struct list l;
	lk_error err;
	assert_int_equal(read_sky(&l, "aws",
	                          HEAD "a,V100,1,8,61,,1.0,2.0,here,\n" /* spot above on demand */
	                               "b,V100,1,8,61,,0.0,,here,\n"    /* for nothing */
	                               "c,V100,1,8,61,,700,,here,\n"    /* a placeholder */
	                               "d,V100,1,8,61,,3,,here,\n"
	                               "d,V100,1,8,61,,30,,there,\n" /* ten times the price of here */
	                               "e,V100,1,8,61,,3,1,here,\n",
	                          &err),
	                 LK_OK);
	assert_int_equal(l.offers.count, 2);
	assert_int_equal(l.faults.count, 4);
	assert_string_equal(l.faults.at[0].where, "aws a, here");
	assert_non_null(strstr(l.faults.at[0].why, "spot costs"));
	end(&l);
}

static void no_catalogue(void **state) {
	(void)state;
	struct list l;
	lk_error err;
	assert_int_equal(read_sky(&l, "aws", "a,b\n1,2\n", &err), LK_ERR_INPUT);
	end(&l);
	assert_int_equal(read_sky(&l, "aws", HEAD "a,V100,1,8,61,,cheap,,here,\n", &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "vms.csv:2: column Price");
	end(&l);
}

/* ---- choices ---- */

static lk_offer offer(const char *instance, const char *gpu, double price) {
	return (lk_offer){.provider = "p",
	                  .instance = instance,
	                  .region = "",
	                  .gpu = gpu,
	                  .device = lk_device_find(gpu),
	                  .gpus = 1,
	                  .links = "",
	                  .vcpus = 10,
	                  .network_gbps = NAN,
	                  .memory_gib = NAN,
	                  .nvme_gb = NAN,
	                  .on_demand = price,
	                  .spot = price / 2,
	                  .block = price * 3 / 4,
	                  .date = "today",
	                  .source = "test"};
}

/* Three machines that take 1, 2 and 4 s for a step of 10 samples. */
struct market {
	lk_arena arena;
	lk_offer offers[3];
	lk_rent_rate rates[3];
	lk_rent_request request;
	lk_rent rent;
};

static void open_market(struct market *market, const double price[3], double spread) {
	static const char *const names[] = {"fast", "middle", "slow"}, *const gpus[] = {"h100-sxm",
	                                                                                "a100-sxm-80",
	                                                                                "v100-sxm-16"};
	*market = (struct market){0};
	lk_rent_defaults(&market->request);
	market->request.samples = 36000;
	market->request.setup_min = 0;
	for (int i = 0; i < 3; i++) {
		double step = 1 << i;
		market->offers[i] = offer(names[i], gpus[i], price[i]);
		market->rates[i] =
			(lk_rent_rate){.cluster = lk_offer_cluster(&market->offers[i], 1, &market->arena),
		                   .gpus = 1,
		                   .machines = 1,
		                   .batch = 10,
		                   .fits = true,
		                   .step_s = step,
		                   .low_s = step * (1 - spread),
		                   .high_s = step * (1 + spread),
		                   .layout = "",
		                   .reproduce = "",
		                   .stall = "host",
		                   .stall_s = 0.1,
		                   .model = "m",
		                   .seq = 1};
	}
}

static void decide(struct market *market) {
	lk_error err;
	const char *useless;
	lk_offers offers = {market->offers, 3, 3};
	lk_rent_rates rates = {market->rates, 3, 3};
	market->rent = (lk_rent){0};
	assert_int_equal(lk_rent_choose(&market->request, &offers, &rates, &market->arena,
	                                &market->rent, &useless, &err),
	                 LK_OK);
}

static const char *named(const struct market *market, int at) {
	return at < 0 ? "none" : market->rent.choices[at].instance;
}

static void cheapest_and_fastest(void **state) {
	(void)state;
	struct market m;
	open_market(&m, (const double[]){10, 4, 1}, 0);
	decide(&m);
	assert_string_equal(named(&m, m.rent.cheapest), "slow"); /* 4 h at 1 */
	assert_string_equal(named(&m, m.rent.fastest), "fast");  /* 1 h at 10 */
	assert_true(m.rent.choices[m.rent.cheapest].cost == 4 &&
	            m.rent.choices[m.rent.fastest].hours == 1);
	for (int i = 0; i < m.rent.count; i++) assert_true(m.rent.choices[i].pareto);
	m.request.deadline_h = 2;
	decide(&m);
	assert_string_equal(named(&m, m.rent.cheapest), "middle");
	m.request.deadline_h = 0;
	m.request.budget = 9;
	decide(&m);
	assert_string_equal(named(&m, m.rent.fastest), "middle");
	m.request.deadline_h = 0.5;
	decide(&m);
	assert_int_equal(m.rent.cheapest, -1);
	assert_non_null(m.rent.nothing);
	lk_arena_free(&m.arena);
}

static void near_ones_are_ties(void **state) {
	(void)state;
	struct market m;
	open_market(&m, (const double[]){10, 2.1, 1}, 0.1); /* 10, 4.2 and 4 dollars, 10 % each way */
	decide(&m);
	assert_string_equal(named(&m, m.rent.cheapest), "slow");
	assert_int_equal(m.rent.tie_count, 1);
	assert_string_equal(named(&m, m.rent.ties[0]), "middle");
	assert_non_null(strstr(m.rent.settle, "slow")); /* 100 steps: 400 s at 1 against 200 s at 2.1 */
	lk_arena_free(&m.arena);
	open_market(&m, (const double[]){10, 2.1, 1}, 0.01);
	decide(&m);
	assert_int_equal(m.rent.tie_count, 0);
	lk_arena_free(&m.arena);
}

/* Of 4 h +- 10 % at a dollar: a tenth lies beyond each end, half on each side of the prediction. */
static void chances_of_keeping(void **state) {
	(void)state;
	struct market m;
	open_market(&m, (const double[]){10, 4, 1}, 0.1);
	decide(&m);
	assert_true(isnan(m.rent.choices[m.rent.cheapest].chance)); /* nothing to keep to */
	static const struct {
		double deadline, budget, chance;
	} asked[] = {{4.4, 0, 0.9}, {4, 0, 0.5}, {0, 4.4, 0.9}, {4.4, 4, 0.5}, {4, 4.4, 0.5}};
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		m.request.deadline_h = asked[i].deadline;
		m.request.budget = asked[i].budget;
		decide(&m);
		assert_string_equal(named(&m, m.rent.cheapest), "slow");
		assert_true(fabs(m.rent.choices[m.rent.cheapest].chance - asked[i].chance) < 1e-12);
	}
	m.request.deadline_h = 3.6; /* of what misses the deadline: the low end of its range */
	m.request.budget = 0;
	decide(&m);
	for (int i = 0; i < m.rent.count; i++)
		if (strcmp(m.rent.choices[i].instance, "slow") == 0)
			assert_true(fabs(m.rent.choices[i].chance - 0.1) < 1e-12);
	double before = 0; /* more time, more chance */
	for (m.request.deadline_h = 4; m.request.deadline_h < 5; m.request.deadline_h += 0.05) {
		decide(&m);
		double chance = m.rent.choices[m.rent.cheapest].chance;
		if (strcmp(named(&m, m.rent.cheapest), "slow") == 0) assert_true(chance > before);
		before = chance;
	}
	lk_arena_free(&m.arena);
}

/* The run on a machine of one GPU that stops so often; test_run.c looks at runs. */
static lk_long_run machine_run(double mtbf_h, double interval_s, double write_s) {
	lk_run_words words = {.gpus = 1,
	                      .nodes = 1,
	                      .node_mtbf_h = mtbf_h,
	                      .interval_s = interval_s,
	                      .bytes = write_s * 1e9,
	                      .node_gbps = 1};
	lk_long_run run;
	lk_error err;
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	return run;
}

/* Failures cost what is expected of them, and their number widens the range of hours: as a walk
 * through many trainings finds. */
static void failures_scatter(void **state) {
	(void)state;
	enum { WALKS = 20000 };
	struct market m;
	open_market(&m, (const double[]){10, 4, 1}, 0);
	m.request.samples = 36000 * 50; /* 200 h on the slow machine */
	m.request.mtbf_h = 20;
	m.request.job.checkpoint_minutes = 60;
	m.request.job.checkpoint_write_gbps = 1;
	for (int i = 0; i < 3; i++) m.rates[i].checkpoint_bytes = 60e9; /* a minute an hour */
	decide(&m);
	const lk_rent_choice *slow = &m.rent.choices[m.rent.cheapest];
	assert_string_equal(slow->instance, "slow");
	lk_long_run run = machine_run(20, 3600, 60);
	const lk_run_recovery *recovery = &run.recovery;
	assert_true(fabs(slow->goodput - lk_run_goodput(&run)) < 1e-9);
	assert_true(slow->goodput > 0.94 && slow->goodput < 0.96); /* a minute and 0.6 h in 20 */
	double sum = 0, squares = 0;
	srand(5);
	for (int w = 0; w < WALKS; w++) {
		double lost = 0;
		for (double at = 0; (at -= 20 * log(1 - rand() / (RAND_MAX + 1.0))) < slow->hours;) {
			double noticed =
				rand() < RAND_MAX * recovery->hang_share ? recovery->hang_s : recovery->detect_s;
			double restart =
				rand() < RAND_MAX * run.replaced_share ? recovery->restart_s : recovery->in_place_s;
			lost +=
				(noticed + recovery->diagnose_s + restart + 60) / 3600 + rand() / (RAND_MAX + 1.0);
		}
		sum += lost;
		squares += lost * lost;
	}
	double deviation = sqrt(squares / WALKS - sum / WALKS * (sum / WALKS));
	double ninth = 1.2815515655446004 * deviation; /* nine in ten lie below */
	assert_true(fabs(slow->hours_high - slow->hours - ninth) < 0.05 * ninth);
	m.request.deadline_h = slow->hours_high;
	decide(&m);
	assert_true(fabs(m.rent.choices[m.rent.cheapest].chance - 0.9) < 1e-9);
	lk_arena_free(&m.arena);
}

static void preparation_and_interruptions(void **state) {
	(void)state;
	struct market m;
	open_market(&m, (const double[]){10, 4, 1}, 0);
	m.request.prepare_per_core = 0.5; /* ten cores: 5 samples/s, 2 s a step */
	decide(&m);
	const lk_rent_choice *fast = NULL;
	for (int i = 0; i < m.rent.count; i++)
		if (strcmp(m.rent.choices[i].instance, "fast") == 0) fast = &m.rent.choices[i];
	assert_non_null(fast); /* as slow as the middle one, and dearer */
	assert_true(fast->step_s == 2 && fast->hours == 2 && !fast->pareto && fast->stall_share == 0.5);
	assert_string_equal(fast->stall, "preparation");
	lk_arena_free(&m.arena);
	open_market(&m, (const double[]){10, 4, 1}, 0);
	m.request.spot = true;
	m.request.interruptions = 1;
	m.request.job.checkpoint_minutes = 10;
	m.request.job.checkpoint_write_gbps = 2;
	for (int i = 0; i < 3; i++) m.rates[i].checkpoint_bytes = 120e9;
	decide(&m);
	const lk_rent_choice *slow = &m.rent.choices[m.rent.cheapest];
	/* a minute in ten for checkpoints, 5 and as many more for the recovery lost an hour */
	lk_long_run often = machine_run(1, 600, 60);
	assert_true(fabs(slow->goodput - lk_run_goodput(&often)) < 1e-9);
	assert_true(fabs(slow->hours - 4 / slow->goodput) < 1e-9 && slow->price == 0.5);
	m.request.job.checkpoint_write_gbps = 1; /* twice as long */
	decide(&m);
	slow = &m.rent.choices[m.rent.cheapest];
	often = machine_run(1, 600, 120);
	assert_true(fabs(slow->goodput - lk_run_goodput(&often)) < 1e-9);
	lk_arena_free(&m.arena);
}

/* ---- blocks ---- */

static void blocks_are_whole_days(void **state) {
	(void)state;
	static const double day = 24, asked[] = {0.1, 24, 24.1, 14 * 24, 14.5 * 24, 182 * 24, 183 * 24};
	static const double paid[] = {1, 1, 2, 14, 21, 182, 183}, sold[] = {0, 1, 1, 14, 14, 182, 183};
	lk_rent_request request;
	lk_rent_defaults(&request);
	for (int i = 0; i < 7; i++) {
		request.block = false;
		assert_true(lk_rent_hours_paid(&request, asked[i]) == asked[i]);
		request.block = true;
		assert_true(lk_rent_hours_paid(&request, asked[i]) == paid[i] * day);
		assert_true(lk_rent_hours_sold(&request, asked[i]) == sold[i] * day);
	}
	/* what is sold is paid, nothing is paid that is not sold, more hours are never less */
	double last = 0;
	for (double hours = 1; hours < 400 * day; hours += 7) {
		double whole = lk_rent_hours_paid(&request, hours),
			   had = lk_rent_hours_sold(&request, hours);
		assert_true(whole >= hours && had <= hours && whole >= last);
		assert_true(lk_rent_hours_paid(&request, had) == had);
		assert_true(lk_rent_hours_sold(&request, whole) == whole);
		last = whole;
	}
}

static void a_block_is_paid_whole(void **state) {
	(void)state;
	struct market m;
	open_market(&m, (const double[]){10, 4, 1}, 0);
	m.request.block = true;
	decide(&m); /* of some hours each: a day is paid */
	for (int i = 0; i < m.rent.count; i++) {
		const lk_rent_choice *choice = &m.rent.choices[i];
		assert_true(choice->hours < 24 && choice->cost == 24 * choice->price * choice->machines);
		assert_true(choice->cost_low == choice->cost && choice->cost_high == choice->cost);
	}
	assert_true(m.rent.choices[m.rent.cheapest].price == 0.75);
	lk_arena_free(&m.arena);
}

/* ---- functions ---- */

/* Calls one after another, each to the instance that ends it first. */
static double called_one_by_one(int calls, double call_s, double cold_s, int concurrency) {
	static double free_s[8192];
	double last_s = 0;
	int started = 0;
	for (int i = 0; i < concurrency; i++) free_s[i] = i / 1000 * 10 + cold_s;
	for (int n = 0; n < calls; n++) {
		int first = 0;
		for (int i = 1; i <= started && i < concurrency; i++)
			if (free_s[i] < free_s[first]) first = i;
		if (first == started) started++;
		last_s = free_s[first] += call_s;
	}
	return last_s;
}

static void calls_end_as_one_by_one(void **state) {
	(void)state;
	static const struct {
		int calls, concurrency;
		double call_s, cold_s;
	} cases[] = {{1, 1000, 3, 1},     {1000, 1000, 3, 1}, {1001, 1000, 3, 1}, {2500, 3000, 7, 2},
	             {2500, 3000, 40, 0}, {7, 3, 2.5, 0.3},   {5000, 4000, 3, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		double instances,
			seconds = lk_rent_calls_s(cases[i].calls, cases[i].call_s, cases[i].cold_s,
		                              cases[i].concurrency, &instances);
		double expected = called_one_by_one(cases[i].calls, cases[i].call_s, cases[i].cold_s,
		                                    cases[i].concurrency);
		if (fabs(seconds - expected) > 1e-6 * expected)
			fail_msg("case %zu: %.9g s, expected %.9g s", i, seconds, expected);
		assert_true(instances <= fmin(cases[i].calls, cases[i].concurrency));
	}
}

static lk_rent *map_of(const char *words) {
	lk_rent_request request;
	lk_rent *rent;
	lk_error err;
	lk_rent_defaults(&request);
	request.map = words;
	if (lk_rent_find(&request, &rent, &err) != LK_OK) fail_msg("%s", err.what);
	return rent;
}

static const lk_rent_function *function_of(const lk_rent *rent, const char *level, int mib) {
	for (int i = 0; i < rent->function_count; i++) {
		const lk_rent_function *function = &rent->functions[i];
		if (function->memory_mib == mib && strcmp(function->level, level) == 0 &&
		    strcmp(function->platform, "aws-lambda") == 0)
			return function;
	}
	fail_msg("no %s with %d MiB", level, mib);
	return NULL;
}

/* The grid of DoubleML-Serverless' case study: 5 folds, 100 repetitions, 2 learners. What is
 * computed costs the same with any memory up to that of a processor, in a time that falls with it;
 * beyond it a fit of one thread costs more and is no faster. */
static void memory_buys_time_and_costs_little(void **state) {
	(void)state;
	lk_rent *rent = map_of("folds=5 repeats=100 learners=2 work=12s cold=0s");
	const lk_rent_function *small = function_of(rent, "fit", 256),
						   *one = function_of(rent, "fit", 1769),
						   *wide = function_of(rent, "fit", 3072);
	assert_true(small->calls == 1000 && function_of(rent, "repetition", 512)->calls == 200);
	assert_true(fabs(small->cost / one->cost - 1) < 1e-3);
	assert_true(fabs(small->seconds / one->seconds / (1769.0 / 256) - 1) < 1e-6);
	assert_true(wide->seconds == one->seconds && wide->cost > 1.7 * one->cost);
	assert_true(fabs(one->cost - (1000 * 12 * 1769.0 / 1024 * 1.66667e-5 + 1000 * 0.2e-6)) < 1e-9);
	/* What does not go with memory costs more with it; so do starts. Threads use more of it. */
	lk_rent *loads = map_of("folds=5 repeats=100 learners=2 work=12s load=2s cold=3s");
	assert_true(function_of(loads, "fit", 1769)->cost > 1.2 * function_of(loads, "fit", 256)->cost);
	assert_true(function_of(loads, "fit", 1769)->cost >
	            function_of(loads, "repetition", 1769)->cost);
	lk_rent *threads = map_of("folds=5 repeats=100 learners=2 work=12s cold=0s threads=2");
	assert_true(function_of(threads, "fit", 3072)->seconds < 0.6 * one->seconds);
	/* The front is ordered, and no size ends what takes over 900 s. */
	lk_rent *longer = map_of("folds=5 repeats=100 learners=2 work=150s cold=0s");
	for (int i = 0; i < longer->function_count; i++)
		assert_true(longer->functions[i].call_s <= 900);
	for (int i = 1; i < rent->function_count; i++)
		assert_true(rent->functions[i].seconds >= rent->functions[i - 1].seconds);
	assert_true(rent->functions[rent->fastest].pareto && rent->functions[rent->cheapest].pareto);
	lk_rent_free(rent);
	lk_rent_free(loads);
	lk_rent_free(threads);
	lk_rent_free(longer);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_list_is_sound),
		cmocka_unit_test(zones_become_a_region),
		cmocka_unit_test(hosts_of_gcp_are_added),
		cmocka_unit_test(impossible_prices_are_named),
		cmocka_unit_test(no_catalogue),
		cmocka_unit_test(cheapest_and_fastest),
		cmocka_unit_test(near_ones_are_ties),
		cmocka_unit_test(chances_of_keeping),
		cmocka_unit_test(failures_scatter),
		cmocka_unit_test(preparation_and_interruptions),
		cmocka_unit_test(blocks_are_whole_days),
		cmocka_unit_test(a_block_is_paid_whole),
		cmocka_unit_test(calls_end_as_one_by_one),
		cmocka_unit_test(memory_buys_time_and_costs_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
