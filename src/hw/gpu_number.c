/* gpu_number.c: a GPU and a count in one text, in common forms: "8xh100", "4 x RTX 4090", "64
 * h100", "h100x8", "H100:8". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "hw/hw_internal.h"

#define NAME_SIGNS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -_.()"

/* Bytes of a multiplication sign between a count and a GPU name; 0: no sign. */
static size_t gpu_times(const char *at) {
	static const char cross[] = "\xc3\x97";
	if (strncmp(at, cross, sizeof cross - 1) == 0) return sizeof cross - 1;
	return *at && strchr("xX*", *at) ? 1 : 0;
}

/* A whole number, and where it ends; 0: none, or more GPUs than a cluster has. */
static int gpu_number(const char *at, const char **end) {
	int number = 0;
	for (; lk_is_digit(*at) && number <= LK_CLUSTER_GPUS / 10; at++)
		number = 10 * number + (*at - '0');
	*end = at;
	return lk_is_digit(*at) ? 0 : number;
}

/* A device by an exact name: the catalogue ignores signs, and "h100," is not a name. */
static const lk_device *gpu_device(const char *name) {
	size_t length = strlen(name);
	bool ends = length > 0 && (isalnum((unsigned char)name[length - 1]) || name[length - 1] == ')');
	bool plain = strspn(name, NAME_SIGNS) == length;
	return ends && plain && isalnum((unsigned char)*name) ? lk_device_find(name) : NULL;
}

/* The name after a number: "4x4090", "8 x H100", "64 h100". A word after a sign is taken as a name
 * even if unknown: a typo. */
static const char *gpu_name_after(const char *text, int *count) {
	const char *at;
	int number = gpu_number(text, &at);
	size_t blanks = strspn(at, " "), times;
	at += blanks;
	if (number == 0 || !(blanks || gpu_times(at))) return NULL;
	*count = number;
	if (blanks && gpu_device(at)) return at; /* an x may be its first letter */
	at += times = gpu_times(at);
	at += strspn(at, " ");
	return gpu_device(at) || (times && isalpha((unsigned char)*at)) ? at : NULL;
}

/* The catalogue's name of the GPU before a number: "h100x8", "RTX 4090 x 2", "H100:8". */
static const char *gpu_name_before(const char *text, int *count) {
	char name[128];
	const char *end = text + strlen(text), *after;
	while (end > text && lk_is_digit(end[-1])) end--;
	int number = gpu_number(end, &after);
	while (end > text && end[-1] == ' ') end--;
	if (number == 0 || end == text) return NULL;
	if (gpu_times(end - 1) || end[-1] == ':') end--;
	else if (end - text > 2 && gpu_times(end - 2) == 2) end -= 2;
	else return NULL;
	while (end > text && end[-1] == ' ') end--;
	if ((size_t)(end - text) >= sizeof name) return NULL;
	snprintf(name, sizeof name, "%.*s", (int)(end - text), text);
	const lk_device *device = gpu_device(name);
	if (!device) return NULL;
	*count = number;
	return device->name;
}

const char *lk_gpu_split(const char *text, int *count) {
	*count = 0;
	if (lk_device_find(text)) return text;
	const char *name = gpu_name_after(text, count);
	if (!name) name = gpu_name_before(text, count);
	if (!name) *count = 0;
	return name ? name : text;
}
