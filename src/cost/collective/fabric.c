/* fabric.c: a fabric's numbers, from rows of a calibration to the NCCL model. */
#include "cost/collective/collective.h"

#include <stddef.h>

const char *const lk_fabric_names[LK_FABRIC_NUMBERS] = {"launch_us", "channel_us", "wire", "nic",
                                                        "buffer_mb"};

const lk_fit_number lk_fabric_limits[LK_FABRIC_NUMBERS] = {
	{"launch_us", 6, .5, 200, true},   {"channel_us", .5, .01, 20, true},
	{"wire", .97, .05, 1.3, true},     {"nic", .6, .01, 1.1, true},
	{"buffer_mb", .05, .01, 20, true},
};

static const size_t offsets[LK_FABRIC_NUMBERS] = {
	offsetof(lk_fabric, launch), offsetof(lk_fabric, channel), offsetof(lk_fabric, wire),
	offsetof(lk_fabric, nic),    offsetof(lk_fabric, buffer),
};

const lk_fabric lk_fabric_plain = {
	.launch = 6, .channel = .5, .wire = .97, .nic = 0, .buffer = .05};

double *lk_fabric_number(lk_fabric *fabric, int index) {
	return (double *)(void *)((char *)fabric + offsets[index]);
}

lk_fabric lk_fabric_of(const lk_calibration_row *row) {
	lk_fabric fabric = lk_fabric_plain;
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) {
		double *number = lk_fabric_number(&fabric, i);
		*number = lk_calibration_value(row, lk_fabric_names[i], *number);
	}
	return fabric;
}

static lk_status fabric_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                             lk_error *err) {
	lk_fabric *fabric = LK_NEW(arena, lk_fabric);
	lk_curves *curves = LK_NEW(arena, lk_curves);
	if (!fabric || !curves) return lk_oom(err);
	const lk_calibration_row *row = lk_calibration_find(rows, "collective", "default", "");
	*fabric = lk_fabric_of(row);
	lk_curves_of(rows, row, curves);
	if (curves->count > 0) fabric->curves = curves;
	*out = fabric;
	return LK_OK;
}

lk_status lk_fabric_ready(lk_error *err) {
	const void *unused;
	return lk_calibration_made(LK_CALIBRATION_FABRIC, fabric_make, &unused, err);
}

const lk_fabric *lk_fabric_default(void) {
	static const lk_fabric none;
	const void *fabric;
	lk_error unused;
	return lk_calibration_made(LK_CALIBRATION_FABRIC, fabric_make, &fabric, &unused) == LK_OK
	           ? fabric
	           : &none;
}
