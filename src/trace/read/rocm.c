/* rocm.c: work and calls as AMD's profilers see them, put into a capture: of several devices the
 * one with most kernels. */
#include "base/text.h"
#include "trace/read/rocm_internal.h"
#include "base/noun.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

#define LAST_NS (INT64_C(1) << 61)

lk_status lk_rocm_intern(lk_rocm *rocm, const char *text, uint32_t *out) {
	return lk_capture_name(rocm->capture, rocm->limits, text ? text : "", out, rocm->err);
}

static lk_status rocm_check_room(const lk_rocm *rocm) {
	return lk_capture_room(rocm->capture, rocm->limits, rocm->work.count, rocm->err);
}

bool lk_rocm_times(lk_rocm *rocm, lk_event *event, int64_t start_ns, int64_t end_ns) {
	bool good = start_ns > 0 && end_ns >= start_ns && end_ns < LAST_NS;
	rocm->strange += !good;
	event->start_ns = start_ns;
	event->dur_ns = good ? end_ns - start_ns : 0;
	return good;
}

lk_status lk_rocm_add_work(lk_rocm *rocm, int64_t device, int64_t stream, const lk_event *event) {
	LK_TRY(rocm_check_room(rocm));
	if (!lk_push(&rocm->work)) return lk_oom(rocm->err);
	*lk_last(&rocm->work) = (struct lk_rocm_work){*event, device, stream};
	return LK_OK;
}

static lk_status rocm_add(lk_rocm *rocm, lk_event event, uint32_t lane) {
	if (lane == LK_NONE) return lk_oom(rocm->err);
	event.lane = lane;
	return lk_capture_add(rocm->capture, &event) == LK_NONE ? lk_oom(rocm->err) : LK_OK;
}

lk_status lk_rocm_add_call(lk_rocm *rocm, int64_t process, int64_t thread, const lk_event *event) {
	if (rocm->process >= 0 && process != rocm->process) return LK_OK;
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

LK_ORDER_BY(rocm_by_device, struct lk_rocm_work, device)

/* The range of the work, sorted by device, of the device with most kernels. */
static void rocm_choose(lk_rocm *rocm, size_t *begin, size_t *end) {
	size_t most = 0;
	int devices = 0;
	*begin = *end = 0;
	lk_sort(rocm->work.at, rocm->work.count, sizeof *rocm->work.at, rocm_by_device);
	for (size_t i = 0, from = 0; i < rocm->work.count; from = i) {
		size_t kernels = 0;
		for (; i < rocm->work.count && rocm->work.at[i].device == rocm->work.at[from].device; i++)
			kernels += rocm->work.at[i].event.kind == LK_EVENT_KERNEL;
		devices += kernels > 0;
		if (kernels < most || (kernels == most && from > 0)) continue;
		most = kernels;
		*begin = from;
		*end = i;
	}
	if (devices > 1)
		lk_capture_warn(
			rocm->capture,
			"the file holds the work of %d %s; read is device %lld, which has most kernels",
			devices, lk_noun(devices, "device", "devices"),
			(long long)rocm->work.at[*begin].device);
}

lk_status lk_rocm_finish(lk_rocm *rocm) {
	size_t begin, end;
	rocm_choose(rocm, &begin, &end);
	for (size_t i = begin; i < end; i++) {
		const struct lk_rocm_work *work = &rocm->work.at[i];
		LK_TRY(rocm_add(rocm, work->event,
		                lk_capture_lane(rocm->capture, true, work->device, work->stream)));
	}
	if (rocm->strange)
		lk_capture_damage(rocm->capture, rocm->strange,
		                  "events whose start or end is not a time, left out: %llu",
		                  (unsigned long long)rocm->strange);
	if (rocm->capture->count) return LK_OK;
	lk_fail(rocm->err, LK_ERR_INPUT, rocm->capture->path, "holds no kernels, calls or ranges");
	return lk_hint(rocm->err,
	               "profile with `rocprofv3 --hip-trace --kernel-trace --memory-copy-trace "
	               "--marker-trace`");
}

void lk_rocm_free(lk_rocm *rocm) {
	lk_vec_free(&rocm->work);
}
