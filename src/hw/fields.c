/* fields.c: one table of a device's fields: names, units and plausible values; data/devices.csv and
 * the JSON form of a cluster are both read through it. */
#include "hw/hw_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"

enum kind { REAL, INTEGER, FLAG, TEXT, ARCH };

struct field {
	const char *name;
	enum kind kind;
	size_t offset;
	size_t size;  /* TEXT: bytes of the array */
	double scale; /* REAL: from the name's unit to SI */
	double high;  /* in the name's unit; the lower limit is 0 */
};

#define AT(member) offsetof(lk_device, member)
#define TEXT_FIELD(member) \
	{ #member, TEXT, AT(member), sizeof((lk_device *)0)->member, 0, 0 }
#define PEAK(name, dtype) \
	{ name "_tflops", REAL, AT(peak_flops) + sizeof(double) * (dtype), 0, 1e12, 1e6 }

static const struct field fields[] = {
	TEXT_FIELD(name),
	TEXT_FIELD(label),
	{"arch", ARCH, AT(arch), 0, 0, 0},
	PEAK("fp32", LK_FP32),
	PEAK("tf32", LK_TF32),
	PEAK("fp16", LK_FP16),
	PEAK("bf16", LK_BF16),
	PEAK("fp8", LK_FP8),
	PEAK("mxfp8", LK_MXFP8),
	PEAK("nvfp4", LK_NVFP4),
	{"vector_tflops", REAL, AT(vector_flops), 0, 1e12, 1e6},
	{"memory_gib", REAL, AT(memory_bytes), 0, LK_GIB, 1e6},
	{"memory_GBps", REAL, AT(memory_rate), 0, 1e9, 1e6},
	{"l2_mib", REAL, AT(l2_bytes), 0, LK_MIB, 1e6},
	{"sms", INTEGER, AT(sms), 0, 0, 1e6},
	{"shared_kib", INTEGER, AT(shared_kib), 0, 0, 1e6},
	{"clock_mhz", REAL, AT(clock_hz), 0, 1e6, 1e5},
	{"power_w", REAL, AT(power_w), 0, 1, 1e6},
	{"links", INTEGER, AT(links), 0, 0, 1024},
	{"link_GBps", REAL, AT(link_rate), 0, 1e9, 1e6},
	{"link_switch", FLAG, AT(link_switch), 0, 0, 0},
	{"link_bridge", FLAG, AT(link_bridge), 0, 0, 0},
	{"node_gpus", INTEGER, AT(node_gpus), 0, 0, 65536},
	{"pcie_GBps", REAL, AT(pcie_rate), 0, 1e9, 1e6},
	{"nic_gbps", REAL, AT(nic_rate), 0, 1e9 / 8, 1e6},
	TEXT_FIELD(source),
	{"gemm_tflops", REAL, AT(gemm_flops), 0, 1e12, 1e6},
	{"stream_GBps", REAL, AT(stream_rate), 0, 1e9, 1e6},
	{"call_us", REAL, AT(call_s), 0, 1e-6, 1e6},
};

_Static_assert(sizeof fields / sizeof *fields == LK_DEVICE_FIELDS, "fields.h counts them");

const char *lk_device_field(int index) {
	return index >= 0 && index < LK_DEVICE_FIELDS ? fields[index].name : NULL;
}

static lk_status unknown_field(const char *name, const char *where, lk_error *err) {
	const char *names[LK_DEVICE_FIELDS];
	for (int i = 0; i < LK_DEVICE_FIELDS; i++) names[i] = fields[i].name;
	const char *near = lk_nearest(name, names, LK_DEVICE_FIELDS);
	lk_fail(err, LK_ERR_INPUT, where, "a device has no field '%.80s'", name);
	return near ? lk_hint(err, "did you mean '%s'?", near)
	            : lk_hint(err, "the fields are the columns of devices.csv");
}

static lk_status fields_set_text(char *to, size_t size, const struct field *field, const char *text,
                                 const char *where, lk_error *err) {
	if (strlen(text) >= size)
		return lk_fail(err, LK_ERR_INPUT, where, "%s is longer than %zu bytes", field->name,
		               size - 1);
	lk_copy(to, size, text);
	return LK_OK;
}

static lk_status set_arch(lk_arch *to, const char *text, const char *where, lk_error *err) {
	const char *names[LK_ARCHES];
	for (int i = 0; i < LK_ARCHES; i++) {
		names[i] = lk_arch_name((lk_arch)i);
		if (!lk_same_name(names[i], text)) continue;
		*to = (lk_arch)i;
		return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, where, "unknown arch '%.80s'", text);
	const char *near = lk_nearest(text, names, LK_ARCHES);
	return lk_hint(err, near ? "did you mean '%s'?" : "say for instance '%s'",
	               near ? near : names[LK_ARCH_HOPPER]);
}

static lk_status fields_set_number(char *to, const struct field *field, const char *text,
                                   const char *where, lk_error *err) {
	/* An empty text is 0, or no; half of the catalogue's numbers are empty. */
	if (field->kind == FLAG) {
		if (*text) return lk_parse_bool(text, (bool *)(void *)to, where, err);
		*(bool *)(void *)to = false;
	} else if (field->kind == INTEGER) {
		long long number = 0;
		if (*text) LK_TRY(lk_parse_int(text, 0, (long long)field->high, &number, where, err));
		*(int *)(void *)to = (int)number;
	} else {
		double number = 0;
		if (*text) LK_TRY(lk_parse_real(text, 0, field->high, &number, where, err));
		*(double *)(void *)to = number * field->scale;
	}
	return LK_OK;
}

lk_status lk_device_set_field(lk_device *device, int index, const char *text, const char *where,
                              lk_error *err) {
	const struct field *field = &fields[index];
	char *to = (char *)device + field->offset;
	if (field->kind == TEXT) return fields_set_text(to, field->size, field, text, where, err);
	if (field->kind == ARCH) return set_arch((lk_arch *)(void *)to, text, where, err);
	if (fields_set_number(to, field, text, NULL, NULL) == LK_OK) return LK_OK;
	/* Repeated for the message: the place is formatted only when needed, which halves the
	 * catalogue's load time. */
	char place[256];
	snprintf(place, sizeof place, "%s: %s", where, field->name);
	return fields_set_number(to, field, text, place, err);
}

lk_status lk_device_set(lk_device *device, const char *name, const char *text, const char *where,
                        lk_error *err) {
	for (int i = 0; i < LK_DEVICE_FIELDS; i++)
		if (strcmp(fields[i].name, name) == 0)
			return lk_device_set_field(device, i, text, where, err);
	return unknown_field(name, where, err);
}

static lk_status fields_lacks(const lk_device *device, const char *field, const char *where,
                              lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, where, "device '%s' has no %s", device->name, field);
	return lk_hint(err, "give it, or a \"base\" device that has it");
}

lk_status lk_device_check(const lk_device *device, const char *where, lk_error *err) {
	const struct {
		const char *field;
		double value;
	} needed[] = {
		{"fp32_tflops", device->peak_flops[LK_FP32]},
		{"vector_tflops", device->vector_flops},
		{"memory_gib", device->memory_bytes},
		{"memory_GBps", device->memory_rate},
		{"sms", device->sms},
		{"clock_mhz", device->clock_hz},
		{"node_gpus", device->node_gpus},
		{"pcie_GBps", device->pcie_rate},
		{"nic_gbps", device->nic_rate},
	};
	if (!*device->name) return fields_lacks(device, "name", where, err);
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (!(needed[i].value > 0)) return fields_lacks(device, needed[i].field, where, err);
	if ((device->links > 0) != (device->link_rate > 0))
		return fields_lacks(device, device->links > 0 ? "link_GBps" : "links", where, err);
	if (device->link_switch && device->link_bridge)
		return lk_fail(err, LK_ERR_INPUT, where, "device '%s' has both link_switch and link_bridge",
		               device->name);
	return LK_OK;
}
