/* test_hw.c: number formats, the device catalogue, clusters and the ways to describe them. */
#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/stats.h"
#include "base/units.h"
#include "hw/hw_internal.h"
#include "io/embedded.h"
#include "hw/hw.h"
#include "lockstep/catalogue.h"
#include "data.h"
#include "scratch.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int draw(uint64_t *seed, int low, int high) {
	*seed += 1;
	return low + (int)(lk_hash64(*seed) % (uint64_t)(high - low + 1));
}

/* ---- the catalogue: loading (must run first: nothing has loaded it yet) ---- */

/* A damaged catalogue is refused with file and line, and leaves nothing behind. */
static void test_damaged_catalogue(void **state) {
	(void)state;
	size_t size;
	const char *whole = lk_data_file("devices.csv", &size);
	const char *header = strstr(whole, "\nname,") + 1, *row = strchr(header, '\n') + 1;
	char dir[64], bytes[4096], row_text[1024];
	snprintf(row_text, sizeof row_text, "%.*s", (int)strcspn(row, "\n"), row);
	const struct {
		const char *row, *want;
	} cases[] = {
		{"", "no device"},
		{"x,y\n", "devices.csv:2"},
		{"k99,a,,keplar,1,,,,,,,1,1,1,,1,,1,1,,,,,1,1,1,s\n", "did you mean 'kepler'"},
		{"k99,a,,kepler,1,,,,,,,1,-1,1,,1,,1,1,,,,,1,1,1,s\n", "memory_gib"},
		{"k99,a,,kepler,1,,,,,,,1,,1,,1,,1,1,,,,,1,1,1,s\n", "has no memory_gib"},
		{"k99,a,,kepler,1,,,,,,,1,1,1,,1,,1,1,4,,,,1,1,1,s\n", "has no link_GBps"},
		{"k99,a,,kepler,1,,,,,,,1,1,1,,1,,1,1,4,1,yes,yes,1,1,1,s\n", "link_bridge"},
		{"k99,a,  ,kepler,1,,,,,,,1,1,1,,1,,1,1,,,,,1,1,1,s\n", "is not a name"},
	};
	new_folder(dir);
	for (size_t i = 0; i < COUNT(cases) + 1; i++) {
		int used = snprintf(bytes, sizeof bytes, "%.*s", (int)(row - header), header);
		if (i < COUNT(cases))
			snprintf(bytes + used, sizeof bytes - (size_t)used, "%s", cases[i].row);
		else
			snprintf(bytes + used, sizeof bytes - (size_t)used, "%s\n%s\nz%s\n", row_text, row_text,
			         row_text);
		write_in(dir, "devices.csv", bytes);
		lk_error err = {0};
		char text[1024];
		assert_int_equal(lk_catalogue_open(dir, &err), LK_ERR_INPUT);
		lk_error_text(&err, text, sizeof text);
		const char *want = i < COUNT(cases) ? cases[i].want : "names both";
		if (!strstr(text, want)) fail_msg("case %zu: '%s' lacks '%s'", i, text, want);
	}
	assert_int_equal(remove_folder(dir), 0);
	lk_error err = {0};
	assert_int_equal(lk_catalogue_open("/nonexistent/lockstep", &err), LK_ERR_IO);
}

/* In a process of its own: a directory overrides the compiled-in catalogue, once and before
 * anything else. */
static int use_override(const char *dir) {
	lk_error err = {0};
	if (lk_catalogue_open(dir, &err) != LK_OK) return 1;
	const lk_device *device = lk_device_find("K-99");
	if (!device || lk_device_count() != 1 || lk_device_at(0) != device) return 2;
	if (device->memory_bytes != 7 * LK_GIB || device->arch != LK_ARCH_KEPLER) return 3;
	if (lk_device_find("h100") || strcmp(lk_device_aliases(device), "old one, k 99 b") != 0)
		return 4;
	return lk_catalogue_open(NULL, &err) == LK_OK ? 5 : 0;
}

static void test_override_catalogue(void **state) {
	(void)state;
	const char *header = strstr(lk_data_file("devices.csv", NULL), "\nname,") + 1;
	char dir[64], bytes[4096];
	snprintf(bytes, sizeof bytes,
	         "%.*sk99,a,old one|k 99 b,kepler,1,,,,,,,1,7,1,,1,,1,1,,,,,1,1,1,s\n",
	         (int)strcspn(header, "\n") + 1, header);
	new_folder(dir);
	write_in(dir, "devices.csv", bytes);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) _exit(use_override(dir));
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(remove_folder(dir), 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void *find_h100(void *out) {
	*(const lk_device **)out = lk_device_find("h100");
	return NULL;
}

/* Threads that come first at the same time all get the same catalogue. */
static void test_first_use_by_threads(void **state) {
	(void)state;
	pthread_t threads[8];
	const lk_device *found[8] = {0};
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, find_h100, &found[i]), 0);
	for (int i = 0; i < 8; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_non_null(found[0]);
	for (int i = 1; i < 8; i++) assert_ptr_equal(found[i], found[0]);
	lk_error err = {0};
	assert_int_not_equal(lk_catalogue_open(NULL, &err), LK_OK);
}

/* ---- the catalogue: contents ---- */

static void test_dtypes(void **state) {
	(void)state;
	static const struct {
		const char *text;
		lk_dtype dtype;
	} cases[] = {{"BF16", LK_BF16},  {"bfloat16", LK_BF16}, {"half", LK_FP16},
	             {"e4m3", LK_FP8},   {"hybrid", LK_FP8},    {"float32", LK_FP32},
	             {"TF32", LK_TF32},  {"mx_fp8", LK_MXFP8},  {"nvfp4", LK_NVFP4},
	             {"mixed", LK_FP16}, {"amp_bf16", LK_BF16}, {"torch.bfloat16", LK_BF16}};
	lk_dtype dtype;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_true(lk_dtype_parse(cases[i].text, &dtype));
		assert_int_equal(dtype, cases[i].dtype);
	}
	for (int i = 0; i < LK_DTYPES; i++) {
		assert_true(lk_dtype_parse(lk_dtype_name((lk_dtype)i), &dtype));
		assert_int_equal(dtype, i);
		assert_true(lk_dtype_bytes(dtype) >= 0.5 && lk_dtype_bytes(dtype) <= 4);
	}
	assert_false(lk_dtype_parse("", &dtype));
	assert_false(lk_dtype_parse("int8", &dtype));
	assert_false(lk_dtype_parse(NULL, &dtype));
	assert_true(lk_dtype_bytes(LK_NVFP4) == 0.5625 && lk_dtype_bytes(LK_MXFP8) == 1.03125);
	assert_string_equal(lk_dtype_name(LK_DTYPES), "?");
	assert_string_equal(lk_arch_name(LK_ARCH_HOPPER), "hopper");
}

/* Matrix units are never slower at lower precision, and not more than the doublings between the
 * formats allow. */
static void check_peaks(const lk_device *device) {
	static const lk_dtype order[] = {LK_FP32, LK_TF32,  LK_BF16, LK_FP16,
	                                 LK_FP8,  LK_MXFP8, LK_NVFP4};
	double last = 0;
	for (size_t i = 0; i < COUNT(order); i++) {
		double peak = device->peak_flops[order[i]];
		if (peak == 0) continue;
		if (!(peak >= last && peak > 1e12 && peak < 1e17))
			fail_msg("%s: %s", device->name, lk_dtype_name(order[i]));
		last = peak;
	}
	double fp16 = device->peak_flops[LK_FP16], fp8 = device->peak_flops[LK_FP8],
		   fp4 = device->peak_flops[LK_NVFP4];
	if (fp8 > 0 && fabs(fp8 / fp16 - 2) > 0.03) fail_msg("%s: fp8 is not twice fp16", device->name);
	if (device->peak_flops[LK_MXFP8] > 0) assert_true(device->peak_flops[LK_MXFP8] == fp8);
	/* 2 as a rule, 3 on B300, 4 where fp32 accumulation halves fp8 but not fp4 (GeForce) */
	if (fp4 > 0) assert_true(fp4 >= 1.99 * fp8 && fp4 <= 4.01 * fp8);
	/* 13.4: 68 SMs of 64 lanes at 1.545 GHz; dual issue makes 256 of 128 */
	double lanes = device->vector_flops / (2 * device->sms * device->clock_hz);
	if (device->arch != LK_ARCH_CPU && !(lanes > 55 && lanes < 290))
		fail_msg("%s: %g lanes a SM", device->name, lanes);
}

static void check_memory(const lk_device *device) {
	if (!(device->memory_bytes > 4 * LK_GIB && device->memory_bytes < 400 * LK_GIB))
		fail_msg("%s: memory", device->name);
	if (!(device->memory_rate > 1e11 && device->memory_rate < 1e13))
		fail_msg("%s: memory rate", device->name);
	if (!(device->l2_bytes >= LK_MIB && device->l2_bytes < 256 * LK_MIB))
		fail_msg("%s: L2", device->name);
	if (!(device->shared_kib >= 48 && device->shared_kib <= 228))
		fail_msg("%s: shared memory", device->name);
	if (!(device->power_w >= 70 && device->power_w <= 1400)) fail_msg("%s: power", device->name);
}

static void check_links(const lk_device *device) {
	static const double per_link[] = {12, 18, 20,   20.6,
	                                  24, 36, 40.1, 48}; /* NCCL and RCCL, graph/topo.h */
	bool known = device->links == 0;
	for (size_t i = 0; i < COUNT(per_link) && !known; i++)
		known = fabs(device->link_rate - device->links * per_link[i] * 1e9) < 1e6;
	if (!known)
		fail_msg("%s: %g bytes/s over %d links", device->name, device->link_rate, device->links);
	if (device->link_switch) assert_true(device->links > 0 && device->node_gpus >= 8);
	if (device->arch == LK_ARCH_HOPPER) assert_true(device->pcie_rate >= 48e9);
	if (device->arch == LK_ARCH_BLACKWELL) /* eight lanes of the smallest cards */
		assert_true(device->pcie_rate >= 24e9);
	assert_true(device->pcie_rate == 12e9 || device->pcie_rate == 24e9 ||
	            device->pcie_rate == 48e9 || device->pcie_rate == 96e9);
	assert_true(device->nic_rate >= 1.25e9 && device->nic_rate <= 100e9);
	assert_true(device->node_gpus >= 1 && device->node_gpus <= 72);
}

static void test_every_row_is_sane(void **state) {
	(void)state;
	assert_true(lk_device_count() > 40);
	assert_null(lk_device_at(-1));
	assert_null(lk_device_at(lk_device_count()));
	for (int i = 0; i < lk_device_count(); i++) {
		const lk_device *device = lk_device_at(i);
		assert_ptr_equal(lk_device_find(device->name), device);
		assert_ptr_equal(lk_device_find(device->label), device);
		assert_true(strlen(device->source) > 10 && strlen(device->label) > 4);
		check_peaks(device);
		check_memory(device);
		check_links(device);
	}
}

/* Facts that the accuracy of everything else hangs on. */
static void test_known_peaks(void **state) {
	(void)state;
	static const struct {
		const char *name;
		lk_dtype dtype;
		double peak, memory_rate;
	} cases[] = {
		{"h100-sxm", LK_BF16, 989.4e12, 3.35e12},
		{"h100-sxm", LK_FP8, 1978.9e12, 3.35e12},
		{"a100-sxm-80", LK_BF16, 312e12, 2.039e12},
		{"a100-sxm-40", LK_TF32, 156e12, 1.555e12},
		{"a100-pcie-80", LK_FP16, 312e12, 1.935e12},
		{"v100-sxm-16", LK_FP16, 125e12, 0.9e12},
		{"b200", LK_BF16, 2250e12, 8e12},
		{"b200", LK_FP8, 4500e12, 8e12},
		{"gb200", LK_NVFP4, 10000e12, 8e12},
		{"h200", LK_BF16, 989.4e12, 4.8e12},
		{"mi300x", LK_BF16, 1307.4e12, 5.3e12},
		{"h100-sxm-96", LK_BF16, 989.4e12, 2.4e12},
		{"k80", LK_FP32, 4.37e12, 0.24e12},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		const lk_device *device = lk_device_find(cases[i].name);
		assert_non_null(device);
		assert_true(fabs(device->peak_flops[cases[i].dtype] / cases[i].peak - 1) < 1e-9);
		assert_true(fabs(device->memory_rate / cases[i].memory_rate - 1) < 1e-9);
	}
	assert_true(lk_device_find("v100")->peak_flops[LK_BF16] == 0);
	assert_true(lk_device_find("a100")->peak_flops[LK_FP8] == 0);
}

/* ---- names ---- */

static void test_spellings(void **state) {
	(void)state;
	static const char *const cases[][2] = {
		{"H100", "h100-sxm"},
		{"NVIDIA_H100_80GB_HBM3", "h100-sxm"},
		{"NVIDIA H100 80GB HBM3", "h100-sxm"},
		{"H100-SXM (per file comment)", "h100-sxm"},
		{"H100-SXM-96-2.4TBps", "h100-sxm-96"},
		{"A100 (8x A100 80", "a100-sxm-80"},
		{"A100 (8xA100 80G", "a100-sxm-80"},
		{"A100 (8x A100 40", "a100-sxm-40"},
		{"V100 (16x V100 3", "v100-sxm3-32"},
		{"V100 (8x V100 16", "v100-sxm-16"},
		{"A100-SXM4-40GB", "a100-sxm-40"},
		{"NVIDIA_A100-PCIE-40GB", "a100-pcie-40"},
		{"NVIDIA A100-PG509-200", "a100-sxm-40"},
		{"Tesla V100-SXM2-32GB", "v100-sxm-32"},
		{"Tesla_P4", "p4"},
		{"rtx-pro-server-6000", "rtx-pro-6000"},
		{"a10g", "a10g"},
		{"K80 (12 GB)", "k80"},
		{"A100 (40 GB)", "a100-sxm-40"},
		{"RTX6000", "quadro-rtx-6000"},
		{"NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"},
		{"AMD_Instinct_MI250", "mi250"},
		{"7900XTX", "rx-7900-xtx"},
		{"AMD Radeon RX 7900 XTX", "rx-7900-xtx"},
		{"  h100_sxm.  ", "h100-sxm"},
		{"NVIDIA GB200", "gb200"},
		{"NVIDIA B300 SXM6 AC", "b300"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		const lk_device *device = lk_device_find(cases[i][0]);
		if (!device || strcmp(device->name, cases[i][1]) != 0)
			fail_msg("'%s' is %s", cases[i][0], device ? device->name : "not found");
	}
}

/* Every alias, in any case and with any separators between its words, names its device. */
static void test_aliases_are_robust(void **state) {
	(void)state;
	static const char *const separators[] = {" ", "-", "_", ".", "  ", "_-"};
	uint64_t seed = 7;
	for (int i = 0; i < lk_device_count(); i++) {
		char all[1024], *rest = all;
		snprintf(all, sizeof all, "%s, %s", lk_device_aliases(lk_device_at(i)),
		         lk_device_at(i)->name);
		for (char *one; (one = strstr(rest, ", ")) || *rest;
		     rest = one ? one + 2 : rest + strlen(rest)) {
			if (one) *one = '\0';
			char twisted[512] = "Nvidia ";
			for (const char *c = rest; *c; c++) {
				size_t used = strlen(twisted);
				bool separator = strchr(" -_.", *c) != NULL;
				char flipped = draw(&seed, 0, 1) && ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z')
				                   ? *c ^ 0x20
				                   : *c;
				snprintf(twisted + used, sizeof twisted - used, "%s",
				         separator ? separators[draw(&seed, 0, 5)] : (char[2]){flipped, '\0'});
			}
			if (lk_device_find(twisted) != lk_device_at(i))
				fail_msg("'%s' from '%s'", twisted, rest);
			if (lk_device_find(rest) != lk_device_at(i)) fail_msg("'%s'", rest);
		}
	}
}

static void test_unknown_devices(void **state) {
	(void)state;
	static const char *const cases[][2] = {
		{"H100-SXN", "did you mean h100-sxm"},
		{"rtz 4090", "did you mean rtx-4090"},
		/* another number, or another single letter, is another device */
		{"H101-SXM", "describe it in a cluster file"},
		{"l21", "describe it in a cluster file"},
		{"b20", "describe it in a cluster file"},
		{"z20", "describe it in a cluster file"},
		{"RTX 4090 Ti", "describe it in a cluster file"},
		{"5090d", "describe it in a cluster file"},
		{"TPUv5p", "not modelled"},
		{"tpu v4-512", "not modelled"},
		{"Gaudi2", "not modelled"},
		{"Graphcore Bow IPU", "not modelled"},
		{"Graphcore IPU GC200", "not modelled"},
		{"trn1.32xlarge", "not modelled"},
		{"", "no device"},
		{"GPU", "unknown device"},
		{"((((", "unknown device"},
		{"H100 (40 GB)", "unknown device"},
		{"A100 (96", "unknown device"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		lk_error err = {0};
		char text[1024];
		const lk_device *device = NULL;
		assert_int_equal(lk_device_lookup(cases[i][0], "here", &device, &err), LK_ERR_INPUT);
		assert_null(lk_device_find(cases[i][0]));
		lk_error_text(&err, text, sizeof text);
		if (!strstr(text, cases[i][1])) fail_msg("'%s': %s", cases[i][0], text);
	}
	char big[100000];
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	lk_error err = {0};
	const lk_device *device;
	assert_int_equal(lk_device_lookup(big, NULL, &device, &err), LK_ERR_INPUT);
	assert_int_equal(lk_device_lookup(NULL, NULL, &device, NULL), LK_ERR_INPUT);
	assert_null(lk_device_find(NULL));
}

static void test_variants(void **state) {
	(void)state;
	static const struct {
		const char *from, *to;
		double gib;
	} cases[] = {{"a100-sxm-80", "a100-sxm-40", 40}, {"a100-sxm-40", "a100-sxm-80", 80},
	             {"v100", "v100-sxm-32", 32},        {"a100", "a100-sxm-80", 80},
	             {"h100", "h100-sxm", 80},           {"h100", "h100-sxm-96", 96},
	             {"rtx-3090", "rtx-3090", 32},       {"a100-pcie-80", "a100-pcie-40", 40}};
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(
			lk_device_variant(lk_device_find(cases[i].from), cases[i].gib * LK_GIB)->name,
			cases[i].to);
}

/* Whether a cell is the name of one GPU: a word of it begins with a letter and has a digit, the
 * model, and it is no prose. Sources that do not name one say "card of 8 GB", "Hopper 80GB",
 * "mixed"; others write about several, "H100/H200 class", or a remark with numbers, "A100 (cloud;
 * 992 used)". */
static bool names_one_gpu(const char *text) {
	bool model = false;
	for (const char *at = text; *at; at += strcspn(at, " -_("), at += strspn(at, " -_("))
		model |= isalpha((unsigned char)*at) && strpbrk(at, "0123456789") != NULL &&
		         strcspn(at, "0123456789") < strcspn(at, " -_(");
	return model && !strpbrk(text, ";,/") && !strstr(text, " class");
}

/* Looks up the devices of one table of public measurements; returns how many different ones it
 * names. */
static int check_table(const char *path) {
	static const char *const columns[] = {"gpu", "gpu_model", "device"};
	lk_stream *in;
	lk_csv *csv;
	lk_error err = {0};
	char seen[4096] = "\n", one[256];
	int different = 0;
	bool more;
	assert_int_equal(lk_stream_open(path, &in, &err), LK_OK);
	assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
	for (size_t c = 0; c < COUNT(columns); c++) {
		int column = lk_csv_column(csv, columns[c]);
		if (column < 0) continue;
		for (;;) {
			if (lk_csv_next(csv, &more, &err) != LK_OK)
				fail_msg("%s: %s: %s", path, err.where, err.what);
			if (!more) break;
			snprintf(one, sizeof one, "\n%s\n", lk_csv_field(csv, column));
			bool stated = lk_csv_field(csv, column)[0];
			if (!stated || strstr(seen, one)) continue;
			assert_true(strlen(seen) + strlen(one) < sizeof seen);
			strcat(seen, one + 1);
			different++;
			const lk_device *device = NULL;
			if (lk_device_lookup(lk_csv_field(csv, column), NULL, &device, &err) == LK_OK) continue;
			if (!strstr(err.what, "is not modelled: ") && names_one_gpu(lk_csv_field(csv, column)))
				fail_msg("%s: %s", lk_csv_where(csv), err.what);
		}
		break;
	}
	lk_csv_close(csv);
	lk_stream_close(in);
	return different;
}

static void test_spellings_of_measurements(void **state) {
	(void)state;
	const char *dir = need_data("measured");
	char path[1024];
	DIR *list = opendir(dir);
	assert_non_null(list);
	int names = 0;
	for (struct dirent *file; (file = readdir(list));) {
		if (!strstr(file->d_name, ".csv")) continue;
		snprintf(path, sizeof path, "%s/%s", dir, file->d_name);
		names += check_table(path);
	}
	closedir(list);
	assert_true(names > 60);
}

/* ---- clusters ---- */

/* Places against counting: ranks fill slots, slots nodes, nodes runs. */
static void check_places(const lk_cluster *cluster) {
	int rank = 0, node = 0;
	for (int g = 0; g < cluster->groups; g++) {
		for (int n = 0; n < cluster->nodes[g]; n++, node++) {
			for (int s = 0; s < cluster->node[g].gpus; s++, rank++) {
				lk_place place = lk_cluster_place(cluster, rank);
				assert_int_equal(place.group, g);
				assert_int_equal(place.node, node);
				assert_int_equal(place.slot, s);
			}
		}
	}
	assert_int_equal(rank, cluster->gpus);
}

static void assert_same_cluster(const lk_cluster *a, const lk_cluster *b) {
	assert_int_equal(a->groups, b->groups);
	assert_int_equal(a->gpus, b->gpus);
	assert_true(a->oversubscription == b->oversubscription &&
	            a->rail_optimised == b->rail_optimised);
	for (int g = 0; g < a->groups; g++) {
		const lk_node *x = &a->node[g], *y = &b->node[g];
		assert_int_equal(a->nodes[g], b->nodes[g]);
		assert_string_equal(x->device->name, y->device->name);
		assert_true(x->device->power_w == y->device->power_w);
		assert_int_equal(x->gpus, y->gpus);
		assert_int_equal(x->nics, y->nics);
		assert_int_equal(x->intra, y->intra);
		assert_true(fabs(x->intra_rate / y->intra_rate - 1) < 1e-12 &&
		            fabs(x->nic_rate / y->nic_rate - 1) < 1e-12);
		assert_true(fabs(x->nic_latency_s - y->nic_latency_s) < 1e-15);
		assert_int_equal(x->transport, y->transport);
		assert_true(fabs(x->pair_rate - y->pair_rate) <= 1e-12 * x->pair_rate);
		assert_int_equal(x->no_peer, y->no_peer);
	}
	assert_string_equal(a->text, b->text);
}

static void test_simple(void **state) {
	(void)state;
	uint64_t seed = 3;
	for (int round = 0; round < 300; round++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster c, again;
		lk_error err = {0};
		const lk_device *device = lk_device_at(draw(&seed, 0, lk_device_count() - 1));
		int gpus = draw(&seed, 1, 200), domain = draw(&seed, 0, 3) ? 0 : draw(&seed, 1, 20);
		double nic = draw(&seed, 0, 1) * 5e9;
		assert_int_equal(lk_cluster_simple(&arena, device, gpus, domain, nic, &c, &err), LK_OK);
		int per_node = domain ? domain : device->node_gpus;
		assert_int_equal(c.gpus, gpus);
		assert_int_equal(c.node[0].gpus, gpus < per_node ? gpus : per_node);
		assert_true(c.node[0].nic_rate == (nic > 0 ? nic : device->nic_rate));
		assert_int_equal(c.node[0].nics, c.node[0].gpus);
		assert_true(c.node[0].intra_rate > 0 && c.rail_optimised && c.oversubscription == 1);
		assert_int_equal(c.node[0].intra == LK_INTRA_SWITCH, device->link_switch);
		assert_int_equal(c.node[0].intra == LK_INTRA_PCIE,
		                 !device->links || (device->link_bridge && domain != 2));
		check_places(&c);
		assert_int_equal(lk_cluster_parse(&arena, c.text, &again, &err), LK_OK);
		assert_same_cluster(&c, &again);
		lk_arena_free(&arena);
	}
}

static void test_simple_refuses(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster c;
	lk_error err = {0};
	const lk_device *device = lk_device_find("h100");
	assert_int_equal(lk_cluster_simple(&arena, device, 0, 0, 0, &c, &err), LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, -5, 0, 0, &c, &err), LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, LK_CLUSTER_GPUS + 1, 0, 0, &c, &err),
	                 LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, 8, -1, 0, &c, &err), LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, 8, 0, -1, &c, &err), LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, 8, 0, NAN, &c, &err), LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, 8, 0, INFINITY, &c, &err), LK_ERR_INPUT);
	assert_int_equal(lk_cluster_simple(&arena, device, LK_CLUSTER_GPUS, 0, 0, &c, &err), LK_OK);
	assert_int_equal(lk_cluster_place(&c, LK_CLUSTER_GPUS - 1).node, LK_CLUSTER_GPUS / 8 - 1);
	lk_arena_free(&arena);
}

static void test_good_texts(void **state) {
	(void)state;
	static const char *const cases[][2] = {
		{"8 node * 8 h100-sxm nvlink4, nic 8*400g + 2 node * 8 a100-sxm-80, nic 4*200g",
	     "8 node * 8 h100-sxm nvlink4, nic 8*400g + 2 node * 8 a100-sxm-80 nvlink3, nic 4*200g"},
		{"8 h100 500 W, nic 8*200g", "1 node * 8 h100-sxm 500w nvlink4, nic 8*200g"},
		{"16 h100 700w", "2 node * 8 h100-sxm nvlink4, nic 8*400g"},
		{"8 h100 500w 300GB/s + 1 node * 8 b200 1200.5w",
	     "1 node * 8 h100-sxm 500w nvlink4 300GB/s, nic 8*400g + "
	     "1 node * 8 b200 1200.5w nvlink5, nic 8*400g"},
		{"64 h100", "8 node * 8 h100-sxm nvlink4, nic 8*400g"},
		{"20 h100-sxm 300GB/s,norail", "2 node * 8 h100-sxm nvlink4 300GB/s, nic 8*400g + "
	                                   "1 node * 4 h100-sxm nvlink4 300GB/s, nic 4*400g, norail"},
		{" 2 Nodes*4 \"RTX 4090\" pcie3 , nic 1 * 10 Gbit ",
	     "2 node * 4 rtx-4090 pcie 12GB/s, nic 1*10g"},
		{"1 node*8 mi300x xgmi, NIC 8*400g 35us, oversub 2.5",
	     "1 node * 8 mi300x xgmi, nic 8*400g 35us, oversub 2.5"},
		{"8 h100, nic 8*0.0012345678g 0.0000001us, oversub 1.00000001",
	     "1 node * 8 h100-sxm nvlink4, nic 8*0.001235g"},
		{"16 v100-sxm-16 mesh", "2 node * 8 v100-sxm-16 nvlink2, nic 8*100g"},
		{"16 v100-sxm-16 nvswitch", "2 node * 8 v100-sxm-16 nvswitch, nic 8*100g"},
		{"2 node * 8 h100 mesh 100.25 GB/s", "2 node * 8 h100-sxm mesh 100.25GB/s, nic 8*400g"},
		{"1 node*2 a40 nvlink", "1 node * 2 a40 nvlink3, nic 2*100g"},
		{"1 node*2 a40", "1 node * 2 a40 pcie, nic 2*100g"},
		{"1 node*4 a40 bridges", "1 node * 4 a40 bridges, nic 4*100g"},
		{"1 node*4 h100-pcie bridges 60GB/s, NOP2P, nic 1*100g",
	     "1 node * 4 h100-pcie bridges 60GB/s, nop2p, nic 1*100g"},
		{"8 l4, nop2p", "2 node * 4 l4 pcie, nop2p, nic 4*25g"},
		{"144 gb200", "2 node * 72 gb200 nvlink5, nic 72*400g"},
		{"8 h100, rail", "1 node * 8 h100-sxm nvlink4, nic 8*400g"},
		{"8'A100 (40 GB)'", "1 node * 8 a100-sxm-40 nvlink3, nic 8*200g"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster c, again;
		lk_error err = {0};
		if (lk_cluster_parse(&arena, cases[i][0], &c, &err) != LK_OK)
			fail_msg("'%s': %s: %s", cases[i][0], err.where, err.what);
		assert_string_equal(c.text, cases[i][1]);
		check_places(&c);
		assert_int_equal(lk_cluster_parse(&arena, c.text, &again, &err), LK_OK);
		assert_same_cluster(&c, &again);
		lk_arena_free(&arena);
	}
}

static void test_bad_texts(void **state) {
	(void)state;
	static const struct {
		const char *text;
		int column;
		const char *want;
	} cases[] = {
		{"", 1, "missing"},
		{"   ", 4, "missing"},
		{"h100", 1, "unexpected 'h100'"},
		{"0 h100", 1, "out of range"},
		{"-8 h100", 1, "missing"},
		{"99999999999999999999 h100", 1, "out of range"},
		{"8", 2, "too early"},
		{"8 h100-sxn", 3, "did you mean h100-sxm"},
		{"8 node 8 h100", 8, "unexpected '8'"},
		{"8 node * 0 h100", 10, "out of range"},
		{"8 node * 8 tpuv4", 12, "not modelled"},
		{"8 \"h100", 3, "not closed"},
		{"8 h100 nvlink3", 8, "nvlink4"},
		{"8 l4 nvlink", 6, "no such links"},
		{"8 mi300x nvlink", 10, "xgmi"},
		{"8 a40 nvlink", 7, "bridge"},
		{"8 h100 bridges", 8, "no bridge joins pairs"},
		{"8 l4 bridges", 6, "no bridge joins pairs"},
		{"8 h100, nop2p", 9, "goes with pcie and bridges"},
		{"8 h100 pcie9", 8, "PCIe generation"},
		{"8 h100 300", 8, "without its unit"},
		{"8 h100 0w", 8, "give 175 to 1050 W"},
		{"8 h100 1e9w", 8, "give 175 to 1050 W"},
		{"8 h100 0GB/s", 8, "out of range"},
		{"8 h100 1e99GB/s", 8, "out of range"},
		{"8 h100, nic 400g", 16, "such as nic 8*400g"},
		{"8 h100, nic 8*400m", 18, "gigabits"},
		{"8 h100, nic 8*400g 35ms", 22, "35us"},
		{"8 h100, nic 0*400g", 13, "out of range"},
		{"8 h100, oversub 0.5", 17, "out of range"},
		{"8 h100, oversub 2 + 8 h100, oversub 3", 37, "second oversubscription"},
		{"8 h100,", 8, "too early"},
		{"8 h100, fast", 9, "unexpected 'fast'"},
		{"8 h100 fast", 8, "unexpected 'fast'"},
		{"8 h100 + ", 10, "missing"},
		{"16777216 h100 + 1 a100", 17, "more than 16777216"},
		{"16777216 node * 16777216 h100", 1, "more than 16777216"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster c;
		lk_error err = {0};
		char text[1024], where[64];
		if (lk_cluster_parse(&arena, cases[i].text, &c, &err) != LK_ERR_INPUT)
			fail_msg("'%s' is read", cases[i].text);
		snprintf(where, sizeof where, "--cluster, column %d:", cases[i].column);
		lk_error_text(&err, text, sizeof text);
		if (strncmp(text, where, strlen(where)) != 0 || !strstr(text, cases[i].want))
			fail_msg("'%s': %s (wanted %s %s)", cases[i].text, text, where, cases[i].want);
		lk_arena_free(&arena);
	}
}

/* A cluster of any kind reads back from its text as what it was. */
static void test_random_round_trip(void **state) {
	(void)state;
	uint64_t seed = 11;
	int short_ones = 0;
	for (int round = 0; round < 500; round++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster_draft draft = LK_CLUSTER_DRAFT_INIT;
		lk_cluster c, again;
		lk_error err = {0};
		for (int runs = draw(&seed, 1, 3); runs; runs--) {
			const lk_device *device = lk_device_at(draw(&seed, 0, lk_device_count() - 1));
			lk_node node = lk_node_usual(device, draw(&seed, 1, device->link_bridge ? 2 : 72));
			if (device->links) node.intra = (lk_intra)draw(&seed, LK_INTRA_PCIE, LK_INTRA_SWITCH);
			node.intra_rate = draw(&seed, 0, 1) ? lk_intra_rate(device, node.intra)
			                                    : draw(&seed, 1, 900000) * 1e6;
			if (node.intra == LK_INTRA_PCIE) {
				bool bridged = device->link_bridge && draw(&seed, 0, 1);
				if (bridged) {
					node.intra_rate = device->pcie_rate;
					node.pair_rate =
						draw(&seed, 0, 1) ? device->link_rate : draw(&seed, 1, 900000) * 1e6;
				}
				node.no_peer = draw(&seed, 0, 1);
			}
			node.nics = draw(&seed, 1, 16);
			node.nic_rate = draw(&seed, 1, 8000) * 1.25e8;
			node.nic_latency_s = draw(&seed, 0, 3) * 25e-6;
			node.transport = (lk_transport)draw(&seed, 0, LK_TRANSPORTS - 1);
			assert_int_equal(lk_cluster_add(&draft, &node, draw(&seed, 1, 100), "test", &err),
			                 LK_OK);
		}
		draft.oversubscription = 1 + draw(&seed, 0, 12) / 4.0;
		draft.rail_optimised = draw(&seed, 0, 1);
		assert_int_equal(lk_cluster_seal(&arena, &draft, &c, &err), LK_OK);
		lk_vec_free(&draft.runs);
		size_t length = strlen(c.text);
		bool cut = length > 4 && strcmp(c.text + length - 4, " ...") == 0;
		short_ones += !cut;
		if (!cut) {
			if (lk_cluster_parse(&arena, c.text, &again, &err) != LK_OK)
				fail_msg("%s: %s", c.text, err.what);
			assert_same_cluster(&c, &again);
		}
		check_places(&c);
		lk_arena_free(&arena);
	}
	assert_true(short_ones > 400);
}

/* ---- JSON ---- */

static void test_good_json(void **state) {
	(void)state;
	static const char *const cases[][2] = {
		{"{\"nodes\":[{\"device\":\"h100\"}]}", "1 node * 8 h100-sxm nvlink4, nic 8*400g"},
		{"{\"nodes\":[{\"count\":8,\"gpus\":4,\"device\":\"H100\",\"intra\":\"pcie\",\"nics\":2,"
	     "\"nic_gbps\":200,"
	     "\"nic_latency_us\":75}],\"oversubscription\":2,\"rail_optimised\":false}",
	     "8 node * 4 h100-sxm pcie, nic 2*200g 75us, oversub 2, norail"},
		{"{\"nodes\":[{\"device\":\"h100\",\"intra_GBps\":300}]}",
	     "1 node * 8 h100-sxm nvlink4 300GB/s, nic 8*400g"},
		{"{\"nodes\":[{\"device\":\"h100\",\"intra_gbps\":2400}]}",
	     "1 node * 8 h100-sxm nvlink4 300GB/s, nic 8*400g"},
		{"{\"nodes\":[{\"device\":\"v100\",\"intra\":\"switch\"},{\"device\":\"t4\",\"gpus\":1}]}",
	     "1 node * 8 v100-sxm-16 nvswitch, nic 8*100g + 1 node * 1 t4 pcie, nic 1*25g"},
		{"{\"nodes\":[{\"gpus\":4,\"device\":\"a40\",\"intra\":\"bridges\",\"intra_GBps\":40,"
	     "\"peer\":false}]}",
	     "1 node * 4 a40 bridges 40GB/s, nop2p, nic 4*100g"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster c, again;
		lk_error err = {0};
		if (lk_cluster_parse(&arena, cases[i][0], &c, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		assert_string_equal(c.text, cases[i][1]);
		assert_int_equal(lk_cluster_parse(&arena, c.text, &again, &err), LK_OK);
		assert_same_cluster(&c, &again);
		lk_arena_free(&arena);
	}
}

static void test_own_device(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster c;
	lk_error err = {0};
	const lk_device *h100 = lk_device_find("h100");
	const char *text =
		"{\"nodes\":[{\"gpus\":4,\"device\":{\"base\":\"h100\",\"name\":\"slow h100\","
		"\"memory_GBps\":2400,"
		"\"fp8_tflops\":0,\"link_switch\":false,\"sms\":66,\"nic_gbps\":100}}]}";
	assert_int_equal(lk_cluster_parse(&arena, text, &c, &err), LK_OK);
	const lk_device *device = c.node[0].device;
	assert_string_equal(device->name, "slow h100");
	assert_string_equal(c.text, "1 node * 4 \"slow h100\" nvlink4, nic 4*100g");
	assert_true(device->memory_rate == 2.4e12 && device->peak_flops[LK_FP8] == 0 &&
	            device->sms == 66 && device->nic_rate == 12.5e9);
	assert_true(device->peak_flops[LK_BF16] == h100->peak_flops[LK_BF16] &&
	            device->memory_bytes == h100->memory_bytes);
	assert_int_equal(c.node[0].intra, LK_INTRA_MESH);
	assert_string_equal(lk_device_aliases(device), "");
	assert_true(h100->memory_rate == 3.35e12);
	lk_arena_free(&arena);
}

/* Devices that the file defines: before the catalogue's, one on top of another, with rates that
 * were measured. */
static void test_defined_devices(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster c;
	lk_error err = {0};
	const char *text =
		"{\"measured\":{\"date\":\"2026-11-21\",\"memory\":[1,{\"nodes\":2}]},"
		"\"nodes\":[{\"device\":\"Host CPU\"},{\"device\":\"half\",\"count\":2}],"
		"\"devices\":[{\"name\":\"host-cpu\",\"label\":\"A "
		"processor\",\"arch\":\"cpu\",\"fp32_tflops\":2,"
		"\"vector_tflops\":2,\"memory_gib\":64,\"memory_GBps\":100,\"sms\":32,\"clock_mhz\":3000,"
		"\"node_gpus\":1,\"pcie_GBps\":20,\"nic_gbps\":25,\"gemm_tflops\":1.5,\"stream_GBps\":90,"
		"\"call_us\":4},{\"base\":\"host-cpu\",\"name\":\"half\",\"gemm_tflops\":0.75}]}";
	if (lk_cluster_parse(&arena, text, &c, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_device *device = c.node[0].device, *half = c.node[1].device;
	assert_int_equal(c.gpus, 3);
	assert_int_equal(device->arch, LK_ARCH_CPU);
	assert_true(device->gemm_flops == 1.5e12 && device->stream_rate == 90e9 &&
	            fabs(device->call_s - 4e-6) < 1e-18);
	assert_true(half->gemm_flops == 0.75e12 && half->memory_rate == 100e9);
	assert_string_equal(c.text,
	                    "1 node * 1 host-cpu pcie, nic 1*25g + 2 node * 1 half pcie, nic 1*25g");
	assert_true(lk_device_find("h100")->gemm_flops == 0);
	lk_arena_free(&arena);
}

static void test_bad_json(void **state) {
	(void)state;
	static const char *const cases[][3] = {
		{"{\"nodes\":[{\"device\":\"h100sxn\"}]}", "--cluster:1:21", "did you mean h100-sxm"},
		{"{\"nodes\":[{\"device\":\"h100\",\n\"gpu\":8}]}", "--cluster:2:", "did you mean 'gpus'"},
		{"{\"nodes\":[{\"gpus\":8}]}", "--cluster:1:11", "no device"},
		{"{\"nodes\":[]}", "--cluster:1:10", "at least one"},
		{"{}", "--cluster:1:1", "needs \"nodes\""},
		{"{\"nodes\":[{\"device\":\"h100\",\"count\":0}]}", "--cluster:1:36", "count must be"},
		{"{\"nodes\":[{\"device\":\"h100\",\"count\":1.5}]}", "--cluster:1:36", "whole number"},
		{"{\"nodes\":[{\"device\":\"h100\",\"count\":1e30}]}", "--cluster:1:36", "count must be"},
		{"{\"nodes\":[{\"device\":\"h100\",\"count\":16777216}]}", "--cluster:1:11",
	     "more than 16777216"},
		{"{\"nodes\":[{\"device\":\"h100\",\"nic_gbps\":NaN}]}", "--cluster:1:39",
	     "nic_gbps must be"},
		{"{\"nodes\":[{\"device\":\"h100\",\"nic_gbps\":\"400\"}]}", "--cluster:1:39",
	     "nic_gbps must be"},
		{"{\"nodes\":[{\"device\":\"h100\",\"intra\":\"torus\"}]}", "--cluster:1:36", "switch"},
		{"{\"nodes\":[{\"device\":\"t4\",\"intra\":\"mesh\"}]}", "--cluster:1:34", "no links"},
		{"{\"nodes\":[{\"device\":\"h100\",\"intra_gbps\":1,\"intra_GBps\":1}]}",
	     "--cluster:1:", "give one"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"rail_optimised\":1}",
	     "--cluster:1:", "true or false"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"oversubscription\":0}",
	     "--cluster:1:", "oversubscription must be"},
		{"{\"nodes\":[{\"device\":{\"name\":\"x\"}}]}", "--cluster:1:21", "has no fp32_tflops"},
		{"{\"nodes\":[{\"device\":{\"base\":\"h100\",\"sms\":-1}}]}", "--cluster:1:", "sms"},
		{"{\"nodes\":[{\"device\":{\"base\":\"h100\",\"sms\":[]}}]}",
	     "--cluster:1:", "a text, a number"},
		{"{\"nodes\":[{\"device\":{\"base\":\"h100\",\"memory\":1}}]}",
	     "--cluster:1:", "no field 'memory'"},
		{"{\"nodes\":[{\"device\":{\"base\":\"h100\",\"arch\":\"hoper\"}}]}",
	     "--cluster:1:", "did you mean 'hopper'"},
		{"{\"nodes\":[{\"device\":{\"base\":7}}]}", "--cluster:1:", "base must be"},
		{"{\"nodes\":[7]}", "--cluster:1:11", "must be an object"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":{}}", "--cluster:1:", "an array of objects"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":[\"h100\"]}",
	     "--cluster:1:", "must be an object"},
		{"{\"nodes\":[{\"device\":\"x\"}],\n\"devices\":[{\"name\":\"x\"}]}",
	     "--cluster:2:", "has no fp32_tflops"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":[{\"base\":\"h100\",\"gemm_tflops\":-1}]}",
	     "--cluster:1:", "gemm_tflops"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":[{\"base\":\"h100\",\"gemm_tflops\":NaN}]}",
	     "--cluster:1:", "gemm_tflops"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":[{\"base\":\"h100\",\"memory_GBps\":1e99}]}",
	     "--cluster:1:", "memory_GBps"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":[{\"base\":\"h100\"},{\"base\":\"h100\"}]}",
	     "--cluster:1:", "second device"},
		{"{\"nodes\":[{\"device\":\"x\"}],\"devices\":[{\"base\":\"y\",\"name\":\"x\"},{\"base\":"
	     "\"h100\",\"name\":\"y\"}]}",
	     "--cluster:1:", "unknown device 'y'"},
		{"{\"nodes\":[{\"device\":\"z\"}],\"devices\":[{\"base\":\"h100\",\"name\":\"y\"}]}",
	     "--cluster:1:21", "unknown device 'z'"},
		{"{\"nodes\":[", "--cluster:1:", ""},
		{"{\"nodes\":[{\"device\":\"h100\"}]} x", "--cluster:1:", ""},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster c;
		lk_error err = {0};
		char text[1024];
		assert_int_equal(lk_cluster_parse(&arena, cases[i][0], &c, &err), LK_ERR_INPUT);
		lk_error_text(&err, text, sizeof text);
		if (strncmp(text, cases[i][1], strlen(cases[i][1])) != 0 || !strstr(text, cases[i][2]))
			fail_msg("%s: %s", cases[i][0], text);
		lk_arena_free(&arena);
	}
}

static void test_json_file(void **state) {
	(void)state;
	char path[64];
	write_text(new_file(path, ".json"), "{\"nodes\": [{\"device\": \"mi300x\", \"count\": 2}]}\n");
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster c;
	lk_error err = {0};
	assert_int_equal(lk_cluster_parse(&arena, path, &c, &err), LK_OK);
	assert_int_equal(c.gpus, 16);
	unlink(path);
	assert_int_equal(lk_cluster_parse(&arena, path, &c, &err), LK_ERR_IO);
	lk_arena_free(&arena);
}

/* Every combination of what options and traces say: the GPUs that take part are those that were
 * said, else those of the run, else all; and what contradicts itself is refused. */
static void test_where(void **state) {
	(void)state;
	static const char text[] = "2 node * 8 h100-sxm, nic 8*400g";
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_cluster cluster;
	int gpus, refused = 0;
	for (int i = 0; i < 2 * 2 * 2 * 3 * 3 * 3; i++) {
		static const int numbers[] = {0, 8, 32};
		lk_where where = {.cluster = i & 1 ? text : NULL,
		                  .gpu = i & 2 ? "h100-sxm" : NULL,
		                  .device = i & 4 ? lk_device_find("a100-sxm-80") : NULL,
		                  .gpus = numbers[i / 8 % 3],
		                  .ranks = (uint32_t)numbers[i / 24 % 3],
		                  .needed = (uint32_t)numbers[i / 72]};
		int expected; /* 0: refused */
		if (where.cluster) {
			expected = 16;
			if (where.ranks == 8) expected = 8;
			if (where.gpus) expected = where.gpus;
			if (where.gpu || where.gpus > 16 || where.needed > 16) expected = 0;
		} else {
			expected = where.gpus ? where.gpus : (int)where.ranks;
			if (!where.gpu && !where.device) expected = 0;
		}
		lk_status status = lk_where_read(&arena, &where, &cluster, &gpus, &err);
		refused += status != LK_OK;
		assert_int_equal(status, expected ? LK_OK : LK_ERR_INPUT);
		if (!expected) continue;
		assert_int_equal(gpus, expected);
		assert_int_equal(cluster.gpus, where.cluster ? 16 : expected);
		assert_string_equal(cluster.node[0].device->name,
		                    where.cluster || where.gpu ? "h100-sxm" : "a100-sxm-80");
	}
	assert_in_range(refused, 50, 200);
	lk_arena_free(&arena);
}

/* A number and a name in every form are that many of the device, for every device of the catalogue;
 * a name alone and what is neither are left as they are. */
static void test_counted(void **state) {
	(void)state;
	static const char *const forms[] = {"3x%s",   "3 x %s",        "3X %s", "3*%s",
	                                    "3 * %s", "3 \xc3\x97 %s", "3 %s",  "%s x 3",
	                                    "%s x3",  "%s*3",          "%s:3"};
	static const char *const others[] = {"3x",
	                                     "x3",
	                                     "3",
	                                     "",
	                                     "0xh100",
	                                     "h100,",
	                                     "3 h100,",
	                                     "3 \"h100",
	                                     "3 h1x",
	                                     "2 x 8 x h100",
	                                     "3 h100 +",
	                                     "-3 x h100",
	                                     "99999999999xh100"};
	int count;
	for (int i = 0; i < lk_device_count(); i++) {
		const lk_device *device = lk_device_at(i);
		assert_string_equal(lk_gpu_split(device->name, &count), device->name);
		assert_int_equal(count, 0);
		for (size_t k = 0; k < COUNT(forms); k++) {
			char text[128];
			const char *at = strstr(forms[k], "%s");
			snprintf(text, sizeof text, "%.*s%s%s", (int)(at - forms[k]), forms[k], device->name,
			         at + 2);
			if (lk_device_find(text)) continue; /* "a40 x3" might be a name */
			const char *name = lk_gpu_split(text, &count);
			if (count != 3 || lk_device_find(name) != device)
				fail_msg("'%s': %d %s", text, count, name);
		}
	}
	for (size_t i = 0; i < COUNT(others); i++) {
		assert_string_equal(lk_gpu_split(others[i], &count), others[i]);
		assert_int_equal(count, 0);
	}
}

/* What a device can do agrees with its number formats: who has a kernel of a newer generation has
 * the older ones, and a format comes with the devices that multiply in it. */
static void test_capabilities(void **state) {
	(void)state;
	assert_int_equal(lk_devices_ready(NULL), LK_OK);
	for (int what = 0; what < LK_CAPABILITIES; what++) {
		assert_true(*lk_capability_name((lk_capability)what));
		assert_true(*lk_capability_needs((lk_capability)what));
		assert_true(*lk_capability_source((lk_capability)what));
	}
	for (int i = 0; i < lk_device_count(); i++) {
		const lk_device *device = lk_device_at(i);
		bool nvidia = lk_nvlink_generation(device->arch) > 0;
		assert_true(!lk_device_can(device, LK_CAN_FLASH3) || lk_device_can(device, LK_CAN_FLASH2));
		assert_true(!lk_device_can(device, LK_CAN_FLASH2) ||
		            lk_device_can(device, LK_CAN_EFFICIENT));
		assert_true(!lk_device_can(device, LK_CAN_CUDNN) || nvidia || device->arch == LK_ARCH_ADA);
		assert_true(!lk_device_can(device, LK_CAN_BLOCKS) || device->peak_flops[LK_FP8] > 0);
		assert_true(!lk_device_can(device, LK_CAN_CUDNN) || device->peak_flops[LK_BF16] > 0);
		assert_true(!(device->peak_flops[LK_NVFP4] > 0) || device->arch == LK_ARCH_BLACKWELL ||
		            device->arch == LK_ARCH_CDNA4);
		assert_true(!(device->peak_flops[LK_FP8] > 0) || device->peak_flops[LK_BF16] > 0);
	}
	const lk_device *old[] = {lk_device_find("v100-sxm-32"), lk_device_find("t4")};
	for (int i = 0; i < 2; i++) {
		assert_false(lk_device_can(old[i], LK_CAN_FLASH2) || lk_device_can(old[i], LK_CAN_CUDNN));
		assert_true(lk_device_can(old[i], LK_CAN_EFFICIENT));
		assert_true(old[i]->peak_flops[LK_BF16] == 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_catalogue),
		cmocka_unit_test(test_override_catalogue),
		cmocka_unit_test(test_first_use_by_threads),
		cmocka_unit_test(test_dtypes),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_every_row_is_sane),
		cmocka_unit_test(test_known_peaks),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_aliases_are_robust),
		cmocka_unit_test(test_unknown_devices),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_spellings_of_measurements),
		cmocka_unit_test(test_simple),
		cmocka_unit_test(test_simple_refuses),
		cmocka_unit_test(test_good_texts),
		cmocka_unit_test(test_bad_texts),
		cmocka_unit_test(test_random_round_trip),
		cmocka_unit_test(test_good_json),
		cmocka_unit_test(test_own_device),
		cmocka_unit_test(test_defined_devices),
		cmocka_unit_test(test_bad_json),
		cmocka_unit_test(test_json_file),
		cmocka_unit_test(test_where),
		cmocka_unit_test(test_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
