/* measure_gpu.c: NVIDIA GPUs of this machine, through the driver (libcuda, found at run time) and
 * `nvidia-smi topo -m`: copies from and to the host, on the device and from GPU to GPU, the launch
 * of an empty kernel, the matrix of links. Without GPUs it adds a note. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "system/clock.h"
#include "system/library.h"
#include "base/stats.h"
#include "calibrate/host/meter.h"

enum { GPUS = LK_TOPOLOGY_GPUS, COPY = 256 << 20, LAUNCHES = 1000 };

struct gpu {
	int device;
	void *context;
	unsigned long long a, b; /* COPY bytes each */
	char name[128];
	size_t memory;
};

struct bench {
	lk_cuda cuda;
	struct gpu gpu[GPUS];
	int gpus;
	const struct gpu *from, *to;
	void *host;
	void *kernel;
	int kind;
};

/* ---- the driver ---- */

static bool gpu_find_calls(lk_cuda *cuda) {
	void *library = lk_library_open(lk_library_cuda.file), *found;
	if (!library) return false;
#define FIND(member, symbol, arguments)       \
	found = lk_library_find(library, symbol); \
	if (!found) return false;                 \
	memcpy(&cuda->member, &found, sizeof cuda->member);
	LK_CUDA_CALLS(FIND)
#undef FIND
	return true;
}

static bool open_gpu(struct bench *bench, int index) {
	struct gpu *one = &bench->gpu[index];
	const lk_cuda *cuda = &bench->cuda;
	if (cuda->get(&one->device, index) != 0 ||
	    cuda->name(one->name, sizeof one->name, one->device) != 0)
		return false;
	if (cuda->memory(&one->memory, one->device) != 0 ||
	    cuda->retain(&one->context, one->device) != 0)
		return false;
	cuda->use(one->context);
	return cuda->take(&one->a, COPY) == 0 && cuda->take(&one->b, COPY) == 0;
}

static void close_gpu(struct bench *bench, int index) {
	struct gpu *one = &bench->gpu[index];
	if (!one->context) return;
	bench->cuda.use(one->context);
	if (one->a) bench->cuda.give(one->a);
	if (one->b) bench->cuda.give(one->b);
	bench->cuda.release(one->device);
}

/* ---- copies ---- */

enum { TO_DEVICE, TO_HOST, ON_DEVICE, TO_PEER };

static double time_copy(void *context) {
	const struct bench *bench = context;
	const lk_cuda *cuda = &bench->cuda;
	int wrong = cuda->use(bench->from->context);
	double start = lk_clock_s();
	if (bench->kind == TO_DEVICE) wrong |= cuda->to_device(bench->from->a, bench->host, COPY);
	if (bench->kind == TO_HOST) wrong |= cuda->to_host(bench->host, bench->from->a, COPY);
	if (bench->kind == ON_DEVICE) wrong |= cuda->on_device(bench->from->b, bench->from->a, COPY);
	if (bench->kind == TO_PEER)
		wrong |= cuda->to_peer(bench->to->b, bench->to->context, bench->from->a,
		                       bench->from->context, COPY);
	wrong |= cuda->wait();
	return wrong ? NAN : lk_clock_s() - start;
}

/* The slower direction is the device's PCIe rate. */
static lk_status measure_first(lk_meter *meter, struct bench *bench, double seconds, double *pcie) {
	static const char *const names[] = {"host to GPU 0, pinned", "GPU 0 to host, pinned",
	                                    "copy on GPU 0 (read + written)"};
	bench->from = &bench->gpu[0];
	*pcie = 0;
	bench->cuda.use(bench->from->context);
	if (bench->cuda.take_host(&bench->host, COPY) != 0)
		return lk_meter_note(meter, "GPU: no pinned memory, copies not measured");
	memset(bench->host, 1, COPY);
	lk_status status = LK_OK;
	for (bench->kind = TO_DEVICE; bench->kind <= ON_DEVICE && status == LK_OK; bench->kind++) {
		lk_sample s = lk_repeat(time_copy, bench, seconds / 3, 3);
		double rate = COPY / s.low;
		if (s.repeats && bench->kind != ON_DEVICE) *pcie = *pcie > 0 ? fmin(*pcie, rate) : rate;
		status = lk_meter_rate(meter, "gpu", names[bench->kind], "GB/s",
		                       (bench->kind == ON_DEVICE ? 2.0 : 1.0) * COPY, 1e9, &s);
	}
	bench->cuda.give_host(bench->host);
	return status;
}

static lk_status measure_peers(lk_meter *meter, struct bench *bench, double seconds,
                               double *median) {
	double rate[GPUS * GPUS];
	size_t count = 0;
	bench->kind = TO_PEER;
	for (int i = 0; i < bench->gpus; i++)
		for (int j = 0; j < bench->gpus; j++) {
			int direct = 0;
			char name[64];
			if (i == j) continue;
			bench->from = &bench->gpu[i];
			bench->to = &bench->gpu[j];
			bench->cuda.can_access(&direct, bench->from->device, bench->to->device);
			bench->cuda.use(bench->from->context);
			if (direct)
				bench->cuda.enable_peer(bench->to->context,
				                        0); /* fails harmlessly if already enabled */
			lk_sample s =
				lk_repeat(time_copy, bench, seconds / (bench->gpus * (bench->gpus - 1)), 3);
			if (s.repeats) rate[count++] = COPY / s.low;
			snprintf(name, sizeof name, "GPU %d to GPU %d%s", i, j,
			         direct ? "" : ", through the host");
			LK_TRY(lk_meter_rate(meter, "gpu", name, "GB/s", COPY, 1e9, &s));
		}
	*median = lk_median(rate, count);
	return LK_OK;
}

/* ---- launches ---- */

static double time_launches(void *context) {
	const struct bench *bench = context;
	int wrong = 0;
	double start = lk_clock_s();
	for (int i = 0; i < LAUNCHES; i++)
		wrong |= bench->cuda.launch(bench->kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	double issued = lk_clock_s() - start;
	wrong |= bench->cuda.wait();
	return wrong ? NAN : issued;
}

static lk_status measure_launches(lk_meter *meter, struct bench *bench, double seconds) {
	static const char code[] =
		".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";
	void *module = NULL;
	bench->cuda.use(bench->gpu[0].context);
	if (bench->cuda.load(&module, code) != 0)
		return lk_meter_note(meter, "GPU: launches not measured, the driver takes no PTX");
	lk_status status = LK_OK;
	if (bench->cuda.function(&bench->kernel, module, "nothing") == 0) {
		lk_sample s = lk_repeat(time_launches, bench, seconds, 3);
		status = lk_meter_time(meter, "gpu", "launching an empty kernel, host time", "us", LAUNCHES,
		                       1e-6, &s);
	}
	bench->cuda.unload(module);
	return status;
}

/* ---- links ---- */

static bool gpu_read_links(lk_topology *out) {
	char text[65536];
	FILE *in = popen("nvidia-smi topo -m 2>/dev/null", "r");
	if (!in) return false;
	size_t size = fread(text, 1, sizeof text - 1, in);
	text[size] = '\0';
	pclose(in);
	return lk_topology_read(text, out);
}

/* A switch if NVLink connects all GPUs and the device is built for one; a mesh if it connects them
 * otherwise. Only through a switch, or through PCIe, does one pair use all of a GPU's links. */
static lk_status judge_links(lk_meter *meter, int gpus, double pair_rate) {
	lk_topology links;
	lk_host *host = meter->host;
	int pairs;
	if (gpus < 2) return LK_OK;
	if (!gpu_read_links(&links) || links.gpus < gpus)
		return lk_meter_note(
			meter, "GPU links: nvidia-smi shows no matrix; the device's default wiring is used");
	for (int i = 0; i < gpus; i++) {
		char row[160] = "";
		for (int j = 0; j < gpus; j++)
			snprintf(row + strlen(row), sizeof row - strlen(row), " %s", links.link[i][j]);
		LK_TRY(lk_meter_note(meter, "GPU links (nvidia-smi topo -m), GPU %d:%s", i, row));
	}
	int joined = lk_topology_joined(&links, &pairs);
	if (!host->gpu) return LK_OK;
	host->intra = LK_INTRA_MESH;
	if (joined == 0) host->intra = LK_INTRA_PCIE;
	else if (joined == pairs && host->gpu->link_switch) host->intra = LK_INTRA_SWITCH;
	if (host->intra != LK_INTRA_MESH && pair_rate > 0) host->intra_rate = pair_rate;
	return LK_OK;
}

/* ---- the whole measurement ---- */

static lk_status note_device(lk_meter *meter, const struct bench *bench, double pcie) {
	lk_host *host = meter->host;
	const lk_device *found = lk_device_find(bench->gpu[0].name);
	LK_TRY(lk_meter_count(meter, "gpu", bench->gpu[0].name, "", bench->gpus));
	for (int i = 1; i < bench->gpus; i++)
		if (strcmp(bench->gpu[i].name, bench->gpu[0].name) != 0)
			return lk_meter_note(
				meter, "GPU: not all are of one kind; the nodes of the file are the processor");
	if (!found)
		return lk_meter_note(meter,
		                     "GPU: '%.80s' is not a device of the catalogue; the nodes of the file "
		                     "are the processor",
		                     bench->gpu[0].name);
	lk_device *own = LK_NEW(&host->arena, lk_device);
	if (!own) return lk_oom(meter->err);
	*own = *lk_device_variant(found, (double)bench->gpu[0].memory);
	if (pcie > 0) own->pcie_rate = pcie;
	own->memory_bytes = (double)bench->gpu[0].memory;
	host->gpu = own;
	host->gpus = bench->gpus;
	host->intra = LK_INTRA_PCIE; /* until the links are known: the default wiring */
	if (own->link_switch) host->intra = LK_INTRA_SWITCH;
	else if (own->link_rate > 0 && !own->link_bridge) host->intra = LK_INTRA_MESH;
	return LK_OK;
}

static lk_status measure_all(lk_meter *meter, struct bench *bench, double seconds) {
	double pcie, pair_rate = 0;
	LK_TRY(measure_first(meter, bench, seconds * 0.3, &pcie));
	LK_TRY(note_device(meter, bench, pcie));
	LK_TRY(measure_launches(meter, bench, seconds * 0.1));
	if (bench->gpus > 1) LK_TRY(measure_peers(meter, bench, seconds * 0.6, &pair_rate));
	return judge_links(meter, bench->gpus, pair_rate);
}

lk_status lk_measure_gpus(lk_meter *meter, double seconds) {
	struct bench g = {.gpus = 0};
	int count = 0;
	if (!lk_library_loads)
		return lk_meter_note(meter,
		                     "GPUs were not measured: this program is static and loads no driver");
	if (!gpu_find_calls(&g.cuda) || g.cuda.init(0) != 0 || g.cuda.count(&count) != 0 || count == 0)
		return lk_meter_note(meter, "GPU: NVIDIA's driver shows none");
	lk_meter_say(meter, "GPUs");
	lk_status status = LK_OK;
	for (bool works = true; works && g.gpus < count && g.gpus < GPUS; g.gpus += works)
		works = open_gpu(&g, g.gpus);
	if (g.gpus == count || g.gpus == GPUS) status = measure_all(meter, &g, seconds);
	else
		status = lk_meter_note(
			meter, "GPU: device %d cannot be used now (memory taken?); GPUs were not measured",
			g.gpus);
	for (int i = 0; i < GPUS; i++) close_gpu(&g, i);
	return status;
}
