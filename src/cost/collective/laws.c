/* laws.c: the numbers that all fabrics share, from the row "laws" of a calibration to the NCCL
 * model. A search starts from NCCL's own tables and the hardware, or from 1 for a factor without
 * such a source. */
#include <stddef.h>

#include "cost/collective/collective.h"

const lk_fit_number lk_nccl_law_limits[LK_NCCL_LAWS] = {
	{"base", .5, .05, 3, true},
	{"hops_ampere", 1.7, .3, 6, true},
	{"hops_hopper", 1.3, .3, 6, true},
	{"hops_blackwell", 2.2, .3, 6, true},
	{"hops_pcie", 1.5, .3, 6, true},
	{"launch_ampere", 1.5, .5, 4, true},
	{"launch_blackwell", 1.4, .5, 4, true},
	{"net_hops", 1.2, .3, 4, true},
	{"scan_us", .2, .01, 5, true},
	{"ll", .8, .2, 2, true},
	{"ll128", 1, .2, 2, true},
	{"own_mb", 16, 1, 200, true},
	{"own_power", .3, .02, 1, true},
	{"nvls_hopper", .87, .4, 1.2, true},
	{"nvls_blackwell", .75, .4, 1.2, true},
	{"nvls_rack", .74, .3, 1.2, true},
	{"nvls_round_us", 13, .5, 100, true},
	{"nvls_fill_us", 5, .1, 50, true},
	{"nics", .95, .4, .97, true},
	{"slot", .68, .3, 1, true},
	{"socket_nics", .5, .1, 1, true},
	{"socket_us", 10.5, .5, 100, true},
	{"crowd", .26, .01, 1, true},
	{"message_launch", .67, .1, 4, true},
	{"message_hops", 1.9, .1, 8, true},
	{"message_join", 1.4, 1, 8, true},
	{"message_wire", 1, .5, 1.2, true},
	{"message_nic", 1, .3, 1.3, true},
};

static const size_t offsets[LK_NCCL_LAWS] = {
	offsetof(lk_nccl_laws, base),
	offsetof(lk_nccl_laws, hops_ampere),
	offsetof(lk_nccl_laws, hops_hopper),
	offsetof(lk_nccl_laws, hops_blackwell),
	offsetof(lk_nccl_laws, hops_pcie),
	offsetof(lk_nccl_laws, launch_ampere),
	offsetof(lk_nccl_laws, launch_blackwell),
	offsetof(lk_nccl_laws, net_hops),
	offsetof(lk_nccl_laws, scan),
	offsetof(lk_nccl_laws, ll),
	offsetof(lk_nccl_laws, ll128),
	offsetof(lk_nccl_laws, own),
	offsetof(lk_nccl_laws, own_power),
	offsetof(lk_nccl_laws, nvls_hopper),
	offsetof(lk_nccl_laws, nvls_blackwell),
	offsetof(lk_nccl_laws, nvls_rack),
	offsetof(lk_nccl_laws, nvls_round_us),
	offsetof(lk_nccl_laws, nvls_fill_us),
	offsetof(lk_nccl_laws, nics),
	offsetof(lk_nccl_laws, slot),
	offsetof(lk_nccl_laws, socket_nics),
	offsetof(lk_nccl_laws, socket_us),
	offsetof(lk_nccl_laws, crowd),
	offsetof(lk_nccl_laws, message_launch),
	offsetof(lk_nccl_laws, message_hops),
	offsetof(lk_nccl_laws, message_join),
	offsetof(lk_nccl_laws, message_wire),
	offsetof(lk_nccl_laws, message_nic),
};

double *lk_nccl_law(lk_nccl_laws *laws, int index) {
	return (double *)(void *)((char *)laws + offsets[index]);
}

lk_nccl_laws lk_nccl_laws_of(const lk_calibration_row *row) {
	lk_nccl_laws laws = {.buffer_rate = 8.17};
	for (int i = 0; i < LK_NCCL_LAWS; i++)
		*lk_nccl_law(&laws, i) =
			lk_calibration_value(row, lk_nccl_law_limits[i].name, lk_nccl_law_limits[i].start);
	return laws;
}

static lk_status laws_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                           lk_error *err) {
	lk_nccl_laws *laws = LK_NEW(arena, lk_nccl_laws);
	if (!laws) return lk_oom(err);
	*laws = lk_nccl_laws_of(lk_calibration_find(rows, "laws", "nccl", ""));
	*out = laws;
	return LK_OK;
}

lk_status lk_coll_ready(lk_error *err) {
	const void *unused;
	LK_TRY(lk_fabric_ready(err));
	return lk_calibration_made(LK_CALIBRATION_LAWS, laws_make, &unused, err);
}

const lk_nccl_laws *lk_nccl_laws_default(void) {
	static const lk_nccl_laws none;
	const void *laws;
	lk_error unused;
	return lk_calibration_made(LK_CALIBRATION_LAWS, laws_make, &laws, &unused) == LK_OK ? laws
	                                                                                    : &none;
}
