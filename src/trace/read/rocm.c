/* rocm.c: work and calls as AMD's profilers see them, put into a capture. */
#include "base/text.h"
#include "trace/read/rocm_internal.h"

#include <string.h>

#define LAST_NS (INT64_C(1) << 61)

lk_status lk_rocm_intern(lk_rocm *rocm, const char *text, uint32_t *out) {
	return lk_capture_name(rocm->capture, rocm->limits, text ? text : "", out, rocm->err);
}

static lk_status rocm_check_room(const lk_rocm *rocm) {
	return lk_capture_room(rocm->capture, rocm->limits, 0, rocm->err);
}

bool lk_rocm_times(lk_rocm *rocm, lk_event *event, int64_t start_ns, int64_t end_ns) {
	bool good = start_ns > 0 && end_ns >= start_ns && end_ns < LAST_NS;
	rocm->strange += !good;
	event->start_ns = start_ns;
	event->dur_ns = good ? end_ns - start_ns : 0;
	return good;
}

static lk_status rocm_add(lk_rocm *rocm, lk_event event, uint32_t lane) {
	if (lane == LK_NONE) return lk_oom(rocm->err);
	event.lane = lane;
	return lk_capture_add(rocm->capture, &event) == LK_NONE ? lk_oom(rocm->err) : LK_OK;
}

lk_status lk_rocm_add_work(lk_rocm *rocm, int64_t device, int64_t stream, const lk_event *event) {
	LK_TRY(rocm_check_room(rocm));
	return rocm_add(rocm, *event, lk_capture_lane(rocm->capture, true, device, stream));
}

lk_status lk_rocm_add_call(lk_rocm *rocm, int64_t process, int64_t thread, const lk_event *event) {
	LK_TRY(rocm_check_room(rocm));
	return rocm_add(rocm, *event, lk_capture_lane(rocm->capture, false, process, thread));
}

bool lk_rocm_domain(const char *domain, lk_event_kind *kind) {
	static const struct {
		const char *begins;
		lk_event_kind kind;
	} domains[] = {
		{"HIP_RUNTIME", LK_EVENT_RUNTIME}, {"MARKER_", LK_EVENT_NOTE}, {"RCCL_", LK_EVENT_NOTE}};
	for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
		if (lk_begins_with(domain, domains[i].begins)) {
			*kind = domains[i].kind;
			return true;
		}
	return false; /* HSA lies within HIP, and the rest takes no time of interest */
}

const char *lk_rocm_copy_name(const char *operation) {
	static const struct {
		const char *part, *name;
	} names[] = {{"HOST_TO_DEVICE", "Memcpy HtoD"},   {"DEVICE_TO_HOST", "Memcpy DtoH"},
	             {"DEVICE_TO_DEVICE", "Memcpy DtoD"}, {"HOST_TO_HOST", "Memcpy HtoH"},
	             {"HostToDevice", "Memcpy HtoD"},     {"DeviceToHost", "Memcpy DtoH"},
	             {"DeviceToDevice", "Memcpy DtoD"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(operation, names[i].part)) return names[i].name;
	return "Memcpy (Unknown)";
}

lk_status lk_rocm_finish(lk_rocm *rocm) {
	if (rocm->strange)
		lk_capture_damage(rocm->capture, rocm->strange,
		                  "events whose start or end is not a time, left out: %llu",
		                  (unsigned long long)rocm->strange);
	rocm->strange = 0;
	if (rocm->capture->count) return LK_OK;
	lk_fail(rocm->err, LK_ERR_INPUT, rocm->capture->path, "holds no kernels, calls or ranges");
	return lk_hint(rocm->err,
	               "profile with `rocprofv3 --hip-trace --kernel-trace --memory-copy-trace "
	               "--marker-trace`");
}

lk_status lk_rocm_next(lk_rocm *rocm) {
	if (!rocm->capture->count) return LK_OK;
	LK_TRY(lk_rocm_finish(rocm));
	lk_capture *next = lk_capture_new(rocm->capture->path, rocm->capture->format);
	if (!next) return lk_oom(rocm->err);
	rocm->capture = rocm->capture->next = next;
	return LK_OK;
}
