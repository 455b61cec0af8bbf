/* calibration_limits.c: the numbers of each family, and the limits within which a model can use
 * them: a user's file may hold anything, and a time must stay a positive, finite number. Wider than
 * any fit's results. */
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "cost/calibration/calibration.h"

static const struct limit {
	const char *family, *subject, *name; /* subject NULL: any */
	double low, high;
} limits[] = {
	{"step", NULL, "gemm_share", 1e-3, 10},
	{"step", NULL, "gemm_fill_s", 0, 1},
	{"step", NULL, "attention_share", 1e-3, 10},
	{"step", NULL, "attention_start", 0, 1e3},
	{"step", NULL, "memory_efficiency", 1e-3, 10},
	{"step", NULL, "norm_efficiency", 1e-3, 10},
	{"step", NULL, "kernel_floor_s", 0, 1},
	{"step", NULL, "launch_s", 0, 1},
	{"step", NULL, "graph_launch_s", 0, 1},
	{"step", NULL, "step_overhead_s", 0, 100},
	{"step", NULL, "graph_step_overhead_s", 0, 100},
	{"step", NULL, "expert_launch_s", 0, 1},
	{"step", NULL, "expert_efficiency", 1e-3, 10},
	{"step", NULL, "graph_expert_efficiency", 1e-3, 10},
	{"step", NULL, "network_efficiency", 1e-3, 10},
	{"architecture", NULL, "gemm", 1e-3, 10},
	{"architecture", NULL, "attention", 1e-3, 10},
	{"architecture", NULL, "early_attention", 1e-3, 10},
	{"stack", NULL, "gemm", 1e-2, 100},
	{"stack", NULL, "attention", 1e-2, 100},
	{"stack", NULL, "memory", 1e-2, 100},
	{"stack", NULL, "host", 1e-2, 100},
	{"stack", NULL, "network", 1e-2, 100},
	{"stack", NULL, "experts", 1e-2, 100},
	{"collective", NULL, "launch_us", 0, 1e5},
	{"collective", NULL, "channel_us", 0, 1e5},
	{"collective", NULL, "wire", 1e-3, 10},
	{"collective", NULL, "nic", 0, 10},
	{"collective", NULL, "buffer_mb", 0, 1e4},
	{"laws", NULL, "base", 0, 100},
	{"laws", NULL, "hops", 0, 100},
	{"laws", NULL, "hopper_hops", 0, 100},
	{"laws", NULL, "net_hops", 0, 100},
	{"laws", NULL, "ranks", 0, 3},
	{"laws", NULL, "scan_us", 0, 1000},
	{"laws", NULL, "ll", 0.01, 10},
	{"laws", NULL, "ll128", 0.01, 10},
	{"laws", NULL, "fill", 0, 0.99},
	{"laws", NULL, "nvls_hopper", 0.01, 10},
	{"laws", NULL, "nvls_blackwell", 0.01, 10},
	{"laws", NULL, "nvls_rack", 0.01, 10},
	{"laws", NULL, "nvls_fill_us", 0, 10000},
	{"laws", NULL, "nics", 0.001, 1},
	{"laws", NULL, "slot", 0.001, 1},
	{"laws", NULL, "socket_nics", 0.001, 1},
	{"laws", NULL, "socket_us", 0, 100000},
	{"laws", NULL, "crowd", 0, 3},
	{"laws", NULL, "message_launch", 0, 100},
	{"laws", NULL, "message_hops", 0, 100},
	{"laws", NULL, "message_join", 1, 100},
	{"laws", NULL, "message_wire", 0.01, 10},
	{"laws", NULL, "message_nic", 0.01, 10},
	{"curve", NULL, "1K", 1e-2, 100},
	{"curve", NULL, "2K", 1e-2, 100},
	{"curve", NULL, "4K", 1e-2, 100},
	{"curve", NULL, "8K", 1e-2, 100},
	{"curve", NULL, "16K", 1e-2, 100},
	{"curve", NULL, "32K", 1e-2, 100},
	{"curve", NULL, "64K", 1e-2, 100},
	{"curve", NULL, "128K", 1e-2, 100},
	{"curve", NULL, "256K", 1e-2, 100},
	{"curve", NULL, "512K", 1e-2, 100},
	{"curve", NULL, "1M", 1e-2, 100},
	{"curve", NULL, "2M", 1e-2, 100},
	{"curve", NULL, "4M", 1e-2, 100},
	{"curve", NULL, "8M", 1e-2, 100},
	{"curve", NULL, "16M", 1e-2, 100},
	{"curve", NULL, "32M", 1e-2, 100},
	{"curve", NULL, "64M", 1e-2, 100},
	{"curve", NULL, "128M", 1e-2, 100},
	{"curve", NULL, "256M", 1e-2, 100},
	{"curve", NULL, "512M", 1e-2, 100},
	{"curve", NULL, "1G", 1e-2, 100},
	{"curve", NULL, "2G", 1e-2, 100},
	{"curve", NULL, "4G", 1e-2, 100},
	{"curve", NULL, "8G", 1e-2, 100},
	{"gemm", NULL, "efficiency", 1e-3, 10},
	{"gemm", NULL, "unaligned", 1e-3, 10},
	{"gemm", NULL, "tiles", 0, 10},
	{"gemm", NULL, "fill_us", 0, 1e5},
	{"gemm", NULL, "floor_us", 1e-3, 1e5},
	{"gemm", NULL, "memory", 1e-3, 10},
	{"gemm", NULL, "traffic", 0, 100},
	{"gemm", NULL, "blend", 0.5, 1000},
	{"gemm", NULL, "k_extra", 0, 1e6},
	{"gemm", NULL, "k_step", 0, 1e6},
	{"product", NULL, "efficiency", 1e-3, 10},
	{"product", NULL, "tiles", 0, 10},
	{"product", NULL, "fill_us", 0, 1e5},
	{"product", NULL, "start_us", 0, 1e5},
	{"product", NULL, "memory", 1e-3, 10},
	{"product", NULL, "blend", 0.5, 1000},
	{"product", NULL, "k_extra", 0, 1e6},
	{"product", NULL, "cast", 1e-3, 10},
	{"product", NULL, "cast_us", 0, 1e5},
	{"product", NULL, "spread", 0, 10},
	{"experts", NULL, "efficiency", 1e-3, 10},
	{"experts", NULL, "tiles", 0, 10},
	{"experts", NULL, "waves", 0, 1},
	{"experts", NULL, "k_extra", 0, 1e6},
	{"experts", NULL, "memory", 1e-3, 10},
	{"experts", NULL, "cache", 0, 100},
	{"experts", NULL, "blend", 0.5, 1000},
	{"experts", NULL, "permute", 0, 1e5},
	{"experts", NULL, "pass", 0, 1e5},
	{"experts", NULL, "route", 0, 1e5},
	{"experts", NULL, "start_us", 0, 1e5},
	{"experts", NULL, "expert_us", 0, 1e5},
	{"experts", NULL, "stray", 0, 1},
	{"experts", NULL, "spread", 0, 10},
	{"state", NULL, "efficiency", 1e-3, 10},
	{"state", NULL, "memory", 1e-3, 10},
	{"state", NULL, "cache", 0, 100},
	{"state", NULL, "keys", 0, 1e3},
	{"state", NULL, "pad", 0, 1},
	{"state", NULL, "row_us", 0, 1e4},
	{"state", NULL, "step_us", 0, 1e4},
	{"state", NULL, "resident", 1e-2, 1e3},
	{"state", NULL, "blend", 0.5, 1000},
	{"state", NULL, "sequence_us", 0, 1e4},
	{"state", NULL, "start_us", 0, 1e5},
	{"state", NULL, "spread", 0, 10},
	{"quantize", NULL, "memory", 1e-3, 10},
	{"quantize", NULL, "cache", 0, 100},
	{"quantize", NULL, "row_ns", 0, 1e5},
	{"quantize", NULL, "start_us", 0, 1e5},
	{"quantize", NULL, "spread", 0, 10},
	{"memory", NULL, "efficiency", 1e-3, 10},
	{"memory", NULL, "start_us", 0, 1e5},
	{"memory", NULL, "floor_us", 0, 1e5},
	{"memory", NULL, "cache_gain", 0, 100},
	{"memory", NULL, "cache_share", 0, 100},
	{"memory", NULL, "row_us", 0, 1e5},
	{"memory", NULL, "pass_us", 0, 1e5},
	{"memory", NULL, "tail", 0, 1},
	{"memory", NULL, "reread", 0, 100},
	{"memory", NULL, "reread_share", 0, 100},
	{"network", NULL, "gap_us", 0, 1e5},
	{"network", NULL, "products", 1e-2, 100},
	{"network", NULL, "passes", 1e-2, 100},
	{"network", NULL, "host", 0, 100},
	{"network", NULL, "fetch_us", 0, 1e6},
	{"network", NULL, "squeeze", 0, 100},
	{"network", NULL, "factor", 1e-2, 100},
	{"rates", NULL, "memory_GBps", 1e-2, 1e6},
	{"rates", NULL, "l2_GBps", 1e-2, 1e6},
	{"rates", NULL, "pcie_GBps", 1e-2, 1e6},
	{"rates", NULL, "clock_mhz", 1, 1e5},
	{"generation", NULL, "attention", 1e-2, 2},
	{"generation", NULL, "products", 1e-2, 2},
	{"generation", NULL, "experts", 1e-3, 2},
	{"generation", NULL, "floor_us", 0, 1e3},
	{"generation", NULL, "step_us", 0, 1e7},
	{"generation", NULL, "sequence_us", 0, 1e5},
	{"generation", NULL, "launch_us", 0, 1e4},
	{"generation", NULL, "grace", 0.1, 100},
	{"generation", NULL, "early_us", 0, 1e6},
	{"overlap", NULL, "displacement", 0, 100},
	{"overlap", NULL, "latency", 0, 1e6},
	{"overlap", NULL, "slower", -0.99, 1e9},
	{"overlap", NULL, "spread", 0, 100},
	{"overlap", NULL, "missed", 0, 1e9},
	{"overlap", NULL, "time", -1e12, 1e12},
	{"overlap", NULL, "compute", -1e12, 1e12},
	{"overlap", NULL, "memory", -1e12, 1e12},
	{"overlap", NULL, "dram", -1e12, 1e12},
	{"overlap", NULL, "achieved", -1e12, 1e12},
	{"overlap", NULL, "maximum", -1e12, 1e12},
	{"overlap", NULL, "l1", -1e12, 1e12},
	{"overlap", NULL, "l2", -1e12, 1e12},
	{"overlap", NULL, "ratio", -1e12, 1e12},
	{"lookup", NULL, "threads", 1, 4096},
	{"lookup", NULL, "near_kib", 1, 1e9},
	{"lookup", NULL, "last_kib", 1, 1e12},
	{"lookup", NULL, "near_slope", 0.1, 100},
	{"lookup", NULL, "last_slope", 0.1, 100},
	{"lookup", NULL, "step_share", 1e-3, 100},
	{"lookup", NULL, "sum_share", 1e-3, 100},
	{"lookup", NULL, "span_mib", 1e-3, 1e12},
	{"lookup", NULL, "guesses", 0, 1e12},
	{"lookup", NULL, "add_ns", 0, 1e9},
	{"lookup", NULL, "add_vector_ns", 0, 1e9},
	{"lookup", NULL, "add_tail_ns", 0, 1e9},
	{"lookup", NULL, "gradient_add_ns", 0, 1e9},
	{"lookup", NULL, "gradient_add_vector_ns", 0, 1e9},
	{"lookup", NULL, "gradient_add_tail_ns", 0, 1e9},
	{"lookup", NULL, "change_ns", 0, 1e9},
	{"lookup", NULL, "change_vector_ns", 0, 1e9},
	{"lookup", NULL, "change_tail_ns", 0, 1e9},
	{"lookup", NULL, "row_last_ns", 0, 1e9},
	{"lookup", NULL, "row_last_line_ns", 0, 1e9},
	{"lookup", NULL, "row_last_rest_ns", 0, 1e9},
	{"lookup", NULL, "row_far_ns", 0, 1e9},
	{"lookup", NULL, "row_far_line_ns", 0, 1e9},
	{"lookup", NULL, "row_far_rest_ns", 0, 1e9},
	{"lookup", NULL, "row_wait_ns", 0, 1e9},
	{"lookup", NULL, "gradient_last_ns", 0, 1e9},
	{"lookup", NULL, "gradient_last_line_ns", 0, 1e9},
	{"lookup", NULL, "gradient_last_rest_ns", 0, 1e9},
	{"lookup", NULL, "gradient_far_ns", 0, 1e9},
	{"lookup", NULL, "gradient_far_line_ns", 0, 1e9},
	{"lookup", NULL, "gradient_far_rest_ns", 0, 1e9},
	{"lookup", NULL, "gradient_wait_ns", 0, 1e9},
	{"lookup", NULL, "update_last_ns", 0, 1e9},
	{"lookup", NULL, "update_last_line_ns", 0, 1e9},
	{"lookup", NULL, "update_last_rest_ns", 0, 1e9},
	{"lookup", NULL, "update_far_ns", 0, 1e9},
	{"lookup", NULL, "update_far_line_ns", 0, 1e9},
	{"lookup", NULL, "update_far_rest_ns", 0, 1e9},
	{"lookup", NULL, "update_wait_ns", 0, 1e9},
	{"lookup", NULL, "state_last_ns", 0, 1e9},
	{"lookup", NULL, "state_far_ns", 0, 1e9},
	{"lookup", NULL, "torn_last_ns", 0, 1e9},
	{"lookup", NULL, "torn_far_ns", 0, 1e9},
	{"lookup", NULL, "walk_last_ns", 0, 1e9},
	{"lookup", NULL, "walk_far_ns", 0, 1e9},
	{"lookup", NULL, "update_walk_last_ns", 0, 1e9},
	{"lookup", NULL, "update_walk_far_ns", 0, 1e9},
	{"lookup", NULL, "sample_ns", 0, 1e9},
	{"lookup", NULL, "guess_ns", 0, 1e9},
	{"lookup", NULL, "sum_line_near_ns", 0, 1e9},
	{"lookup", NULL, "sum_line_last_ns", 0, 1e9},
	{"lookup", NULL, "sum_line_far_ns", 0, 1e9},
	{"lookup", NULL, "shared_ns", 0, 1e9},
	{"lookup", NULL, "update_shared_ns", 0, 1e9},
	{"lookup", NULL, "pair_ns", 0, 1e9},
	{"lookup", NULL, "pair_sample_ns", 0, 1e9},
	{"lookup", NULL, "sort_near_ns", 0, 1e9},
	{"lookup", NULL, "sort_last_ns", 0, 1e9},
	{"lookup", NULL, "sort_far_ns", 0, 1e9},
	{"lookup", NULL, "pass_us", 0, 1e9},
	{"lookup", NULL, "call_us", 0, 1e9},
	{"host", NULL, "t1", 0, 1e6},
	{"host", NULL, "t2", 0, 1e6},
	{"host", NULL, "t3", 0, 1e6},
	{"host", NULL, "t4", 0, 1e6},
	{"host", NULL, "t5", 0, 1e6},
	{"recommender", NULL, "scale", 1e-2, 100},
	{"recommender", NULL, "low", 1e-3, 1e3},
	{"recommender", NULL, "high", 1e-3, 1e3},
	{"range", "step", "low", 1e-3, 1e3},
	{"range", "step", "high", 1e-3, 1e3},
	{"range", "step", "times", 1, 100},
	{"range", "peak-memory", "low", -100, 100},
	{"range", "peak-memory", "high", -100, 100},
	{"range", NULL, "half", 0, 200},
	{"range", NULL, "usual", 0, 100},
	{"range", NULL, "times", 0, 1e6},
	{"range", NULL, "width", 0, 1e18},
	{"range", NULL, "unseen_width", 0, 1e18},
	{"range", "collective", "share", 0, 1e18},
	{"range", "collective", "us", 0, 1e18},
	{"range", "collective", "nodes", 0, 1e6},
};

enum { LIMITS = sizeof limits / sizeof *limits };

static bool limits_is_of(const struct limit *limit, const lk_calibration_row *row) {
	return strcmp(limit->family, row->family) == 0 &&
	       (!limit->subject || lk_same_name(limit->subject, row->subject));
}

/* Families of numbers are in `limits`; trees are a text. */
lk_status lk_calibration_check_family(const char *family, const char *where, lk_error *err) {
	const char *names[LIMITS + 1] = {"trees"};
	size_t count = 1;
	char shown[64], all[256];
	if (strcmp(family, names[0]) == 0) return LK_OK;
	lk_text list = lk_text_begin(all, sizeof all);
	for (int i = 0; i < LIMITS; i++) {
		if (strcmp(limits[i].family, family) == 0) return LK_OK;
		bool again = i > 0 && strcmp(limits[i].family, limits[i - 1].family) == 0;
		if (again) continue;
		names[count++] = limits[i].family;
		lk_text_add(&list, "%s, ", limits[i].family);
	}
	const char *near = lk_nearest(family, names, count);
	lk_fail(err, LK_ERR_INPUT, where, "unknown family \"%s\"",
	        lk_escape(family, shown, sizeof shown));
	if (near) return lk_hint(err, "did you mean %s?", near);
	return lk_hint(err, "the families are %s%s", all, names[0]);
}

static lk_status fail_name(const lk_calibration_row *row, const char *name, lk_error *err) {
	const char *names[LIMITS];
	size_t count = 0;
	for (int i = 0; i < LIMITS; i++)
		if (limits_is_of(&limits[i], row)) names[count++] = limits[i].name;
	char shown[64];
	const char *near = lk_nearest(name, names, count);
	lk_fail(err, LK_ERR_INPUT, row->where, "the family %s has no number \"%s\"", row->family,
	        lk_escape(name, shown, sizeof shown));
	return lk_hint(err, near ? "did you mean %s?" : "`lockstep calibrate` writes rows with %s",
	               near ? near : names[0]);
}

lk_status lk_calibration_check(const lk_calibration_row *row, int index, lk_error *err) {
	double value = row->numbers[index].value;
	const char *name = row->numbers[index].name;
	for (int i = 0; i < LIMITS; i++) {
		const struct limit *limit = &limits[i];
		if (!limits_is_of(limit, row) || strcmp(limit->name, name) != 0) continue;
		if (value >= limit->low && value <= limit->high) return LK_OK;
		lk_fail(err, LK_ERR_INPUT, row->where, "%s=%g is out of range", limit->name, value);
		return lk_hint(err, "give a number from %g to %g", limit->low, limit->high);
	}
	return fail_name(row, name, err);
}
