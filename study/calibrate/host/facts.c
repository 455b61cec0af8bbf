/* facts.c: facts from the system: processor, cores that this process may use, caches, memory, NICs.
 * Reads /proc and /sys; missing values stay 0 or get a default and a note. */
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/units.h"
#include "calibrate/host/meter.h"

/* Read the first line of a small file, without its end; false if there is none. */
static bool facts_read_line(const char *path, char *out, size_t size) {
	FILE *file = fopen(path, "re");
	if (!file) return false;
	bool got = fgets(out, (int)size, file) != NULL;
	fclose(file);
	if (got) out[strcspn(out, "\n")] = '\0';
	return got && *out;
}

static double facts_read_number(const char *path) {
	char line[64];
	const char *end;
	return facts_read_line(path, line, sizeof line) ? lk_read_real(line, &end) : 0;
}

/* ---- processor ---- */

static lk_status read_processor(lk_meter *meter) {
	char line[256], name[128] = "";
	FILE *file = fopen("/proc/cpuinfo", "re");
	while (file && !*name && fgets(line, sizeof line, file)) {
		const char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && colon)
			lk_copy(name, sizeof name, colon + 1 + strspn(colon + 1, " \t"));
	}
	if (file) fclose(file);
	name[strcspn(name, "\n")] = '\0';
	if (!*name) lk_copy(name, sizeof name, "a processor without a name");
	meter->host->processor = lk_arena_strdup(&meter->host->arena, name);
	return meter->host->processor ? LK_OK : lk_oom(meter->err);
}

/* Cores in the process's mask, limited by the time that its control group allows. */
static int usable_cores(void) {
	cpu_set_t *set = CPU_ALLOC(4096);
	size_t size = CPU_ALLOC_SIZE(4096);
	int cores = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set)
	                                                        : (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (set) CPU_FREE(set);
	char line[64];
	if (facts_read_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) {
		const char *end;
		double quota = lk_read_real(line, &end),
			   period = end > line ? lk_read_real(end + strspn(end, " "), &end) : 0;
		if (quota > 0 && period > 0 && ceil(quota / period) < cores)
			cores = (int)ceil(quota / period);
	}
	if (cores > 0) {
		if (cores < 1024) return cores;
		return 1024;
	}
	return 1;
}

/* ---- caches and memory ---- */

/* "480K", "32M" in bytes. */
static double cache_bytes(const char *text) {
	const char *end;
	double size = lk_read_real(text, &end);
	switch (*end) {
	case 'K': return size * LK_KIB;
	case 'M': return size * LK_MIB;
	case 'G': return size * LK_GIB;
	default: return size;
	}
}

static lk_status read_caches(lk_meter *meter) {
	for (int i = 0; i < 8; i++) {
		char path[96], type[32], size[32], name[48];
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
		if (!facts_read_line(path, type, sizeof type) || strcmp(type, "Instruction") == 0) continue;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
		if (!facts_read_line(path, size, sizeof size)) continue;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
		int level = (int)fmin(9, facts_read_number(path));
		double bytes = cache_bytes(size);
		if (level == 1) meter->host->device.shared_kib = (int)fmin(bytes / LK_KIB, 1e6);
		meter->host->device.l2_bytes = fmax(meter->host->device.l2_bytes, bytes);
		snprintf(name, sizeof name, "level %d, as the system states it", level);
		LK_TRY(lk_meter_count(meter, "cache", name, "KiB", bytes / LK_KIB));
	}
	return LK_OK;
}

static double usable_memory(void) {
	double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	double limit = facts_read_number("/sys/fs/cgroup/memory.max");
	return limit > 0 && limit < bytes ? limit : bytes;
}

/* ---- NICs ---- */

struct nics {
	int count;
	double gbps; /* of the fastest kind */
};

static void add_nic(struct nics *nics, double gbps) {
	if (!(gbps > 0)) return;
	if (gbps > nics->gbps) *nics = (struct nics){0, gbps};
	if (gbps == nics->gbps) nics->count++;
}

/* Ethernet states megabits; interfaces without hardware (bridges, loopback) have no folder
 * "device". */
static void find_ethernet(struct nics *nics) {
	DIR *folder = opendir("/sys/class/net");
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		char path[400];
		if (entry->d_name[0] == '.') continue;
		snprintf(path, sizeof path, "/sys/class/net/%s/device", entry->d_name);
		if (access(path, F_OK) != 0) continue;
		snprintf(path, sizeof path, "/sys/class/net/%s/speed", entry->d_name);
		add_nic(nics, facts_read_number(path) / 1000);
	}
	if (folder) closedir(folder);
}

/* InfiniBand states "400 Gb/sec (4X NDR)". */
static void find_infiniband(struct nics *nics) {
	DIR *folder = opendir("/sys/class/infiniband");
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		char path[400];
		if (entry->d_name[0] == '.') continue;
		snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/rate", entry->d_name);
		add_nic(nics, facts_read_number(path));
	}
	if (folder) closedir(folder);
}

static lk_status facts_read_nics(lk_meter *meter) {
	struct nics found = {0};
	find_ethernet(&found);
	find_infiniband(&found);
	meter->host->device.nic_rate = (found.count ? found.count * found.gbps : 10) * 1e9 / 8;
	if (!found.count)
		return lk_meter_note(meter, "no NIC states its rate: 10 Gbit/s is assumed (edit nic_gbps)");
	LK_TRY(lk_meter_count(meter, "network", "NICs of the fastest kind", "", found.count));
	return lk_meter_count(meter, "network", "rate of each, as its driver states it", "Gbit/s",
	                      found.gbps);
}

lk_status lk_measure_facts(lk_meter *meter) {
	lk_device *device = &meter->host->device;
	LK_TRY(read_processor(meter));
	meter->host->cores = usable_cores();
	device->sms = meter->host->cores;
	device->memory_bytes = usable_memory();
	LK_TRY(lk_meter_count(meter, "processor", "cores that this process may use", "",
	                      meter->host->cores));
	LK_TRY(lk_meter_count(meter, "memory", "size, as the system states it", "GiB",
	                      device->memory_bytes / LK_GIB));
	LK_TRY(read_caches(meter));
	LK_TRY(facts_read_nics(meter));
	double load;
	if (getloadavg(&load, 1) != 1 || load < 0.5 * meter->host->cores) return LK_OK;
	return lk_meter_note(
		meter,
		"other work ran meanwhile (load %.1f on %d cores): measure again when nothing else runs",
		load, meter->host->cores);
}
