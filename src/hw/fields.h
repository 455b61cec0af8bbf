/* fields.h: the fields of a device by the names they have in data/devices.csv and in the JSON form of a cluster. */
#ifndef LK_HW_FIELDS_H
#define LK_HW_FIELDS_H

#include "hw/hw.h"

/* Sets field `name` of a device from text, in the unit that the name states: "memory_gib", "nic_gbps" (gigabits),
 * "memory_GBps" (gigabytes). An empty text sets 0 or "". Unknown names and values out of range: errors at `where`. */
lk_status lk_device_set(lk_device *device, const char *name, const char *text, const char *where, lk_error *err);

/* The number of fields and their names, in the order of the columns; and lk_device_set by that order. Those from
 * LK_DEVICE_COLUMNS on are measured: they stand in JSON alone. */
enum { LK_DEVICE_COLUMNS = 26, LK_DEVICE_FIELDS = 29 };
const char *lk_device_field(int index);
lk_status lk_device_set_field(lk_device *device, int index, const char *text, const char *where, lk_error *err);

/* A device can be reckoned with: what every model divides by is there, and links and their rate go together. */
lk_status lk_device_check(const lk_device *device, const char *where, lk_error *err);

#endif
