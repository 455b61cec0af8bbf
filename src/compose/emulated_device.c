/* emulated_device.c: joins calls of a device's runtime with the work that they put on streams, by
 * its serial numbers. Launches recorded as several calls, and kernels timed one by one, are one
 * piece if they share a number. */
#include "compose/compose.h"
#include "base/sort.h"

#include <math.h>
#include <string.h>

static bool is_device_work(const lk_record_entry *entry) {
	return entry->device.what <= LK_DEVICE_SET;
}

static bool waits_for_event(const lk_record_entry *entry) {
	return entry->device.what == LK_DEVICE_STREAM_WAITS ||
	       entry->device.what == LK_DEVICE_WAIT_EVENT;
}

/* ---- by serial ---- */

LK_ORDER_BY(compare_work_serials, lk_emulated_work, serial, call)

static const lk_emulated_work *find_emulated_work(const lk_emulated_device *device,
                                                  uint64_t serial) {
	size_t low = 0, high = device->at.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (device->at.at[middle].serial < serial) low = middle + 1;
		else high = middle;
	}
	return serial && low < device->at.count && device->at.at[low].serial == serial
	           ? &device->at.at[low]
	           : NULL;
}

/* Read what one record states about its serial; false: nothing. */
static bool measured_part_of(const lk_recorded_run *run, uint32_t i, lk_emulated_work *out) {
	const lk_record_entry *entry = &run->calls.at[i].record;
	if (run->calls.at[i].process || !entry->device.serial) return false;
	*out = (lk_emulated_work){.serial = entry->device.serial, .call = LK_NONE, .ns = NAN};
	if (entry->kind == LK_RECORD_DEVICE_WORK && is_device_work(entry)) {
		const lk_recorded_name *name =
			entry->device.call ? lk_recorded_find(&run->names, 0, entry->device.call) : NULL;
		out->ns = (double)(entry->end_ns - entry->start_ns);
		out->name = name ? name->name : 0;
		return true;
	}
	if (entry->kind != LK_RECORD_DEVICE_CALL) return false;
	if (is_device_work(entry) || entry->device.what == LK_DEVICE_RECORD) return out->call = i, true;
	return out->waited = waits_for_event(entry);
}

static void add_emulated_work(lk_emulated_work *to, const lk_emulated_work *part) {
	LK_ASSERT(to->serial == part->serial);
	to->waited = to->waited || part->waited;
	if (!to->name) to->name = part->name;
	if (!isnan(part->ns)) to->ns = isnan(to->ns) ? part->ns : to->ns + part->ns;
}

lk_status lk_emulated_device_read(const lk_recorded_run *run, lk_emulated_device *out,
                                  lk_error *err) {
	lk_emulated_work part;
	size_t count = 0;
	for (uint32_t i = 0; i < run->calls.count; i++) {
		uint16_t kind = run->calls.at[i].record.kind;
		if (kind != LK_RECORD_DEVICE_CALL && kind != LK_RECORD_DEVICE_WORK) continue;
		if (!measured_part_of(run, i, &part)) continue;
		if (!lk_push(&out->at)) return lk_oom(err);
		*lk_last(&out->at) = part;
	}
	lk_sort(out->at.at, out->at.count, sizeof *out->at.at, compare_work_serials);
	for (size_t i = 0; i < out->at.count; i++) {
		if (count && out->at.at[count - 1].serial == out->at.at[i].serial)
			add_emulated_work(&out->at.at[count - 1], &out->at.at[i]);
		else out->at.at[count++] = out->at.at[i];
	}
	out->at.count = count;
	return LK_OK;
}

/* ---- calls ---- */

bool lk_emulated_device_item(const lk_emulated_device *device, const lk_recorded_run *run,
                             uint32_t i) {
	LK_ASSERT(i < run->calls.count);
	const lk_record_entry *entry = &run->calls.at[i].record;
	if (run->calls.at[i].process || entry->kind != LK_RECORD_DEVICE_CALL) return false;
	const lk_emulated_work *work = find_emulated_work(device, entry->device.serial);
	switch (entry->device.what) {
	case LK_DEVICE_KERNEL:
	case LK_DEVICE_COPY:
	case LK_DEVICE_SET: return work && work->call == i;
	case LK_DEVICE_RECORD: return work && work->call == i && work->waited;
	case LK_DEVICE_STREAM_WAITS:
	case LK_DEVICE_WAIT_EVENT: return work && work->call != LK_NONE;
	case LK_DEVICE_WAIT_STREAM:
	case LK_DEVICE_WAIT_ALL: return true;
	default: return false;
	}
}

bool lk_emulated_device_waits(const lk_recorded_run *run, uint32_t i) {
	LK_ASSERT(i < run->calls.count);
	const lk_record_entry *entry = &run->calls.at[i].record;
	if (entry->kind != LK_RECORD_DEVICE_CALL) return false;
	if (entry->device.what == LK_DEVICE_COPY) { /* cudaMemcpy, of all threads or of each */
		const lk_recorded_name *name = lk_recorded_find(&run->names, 0, entry->device.call);
		const char *text = name ? lk_intern_text(run->texts, name->name) : "";
		return strcmp(text, "cudaMemcpy") == 0 || strcmp(text, "cudaMemcpy_ptds") == 0;
	}
	return entry->device.what == LK_DEVICE_WAIT_STREAM ||
	       entry->device.what == LK_DEVICE_WAIT_EVENT || entry->device.what == LK_DEVICE_WAIT_ALL;
}

uint32_t lk_emulated_device_awaited(const lk_emulated_device *device, const lk_recorded_run *run,
                                    uint32_t i) {
	const lk_record_entry *entry = &run->calls.at[i].record;
	const lk_emulated_work *work = entry->kind == LK_RECORD_DEVICE_CALL && waits_for_event(entry)
	                                   ? find_emulated_work(device, entry->device.serial)
	                                   : NULL;
	bool event =
		work && work->call < i && run->calls.at[work->call].record.device.what == LK_DEVICE_RECORD;
	return event ? work->call : LK_NONE;
}

double lk_emulated_device_work_ns(const lk_emulated_device *device, const lk_record_entry *entry) {
	if (entry->kind != LK_RECORD_DEVICE_CALL || !is_device_work(entry)) return 0;
	const lk_emulated_work *work = find_emulated_work(device, entry->device.serial);
	return work ? work->ns : NAN;
}

uint32_t lk_emulated_device_name(const lk_emulated_device *device, const lk_record_entry *entry) {
	const lk_emulated_work *work =
		is_device_work(entry) ? find_emulated_work(device, entry->device.serial) : NULL;
	return work ? work->name : 0;
}
