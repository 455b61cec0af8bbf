/* measure_gpu.c: NVIDIA GPUs of this machine, through the driver (libcuda, found when the program runs) and
 * `nvidia-smi topo -m`: copies from and to the host, on the device and from GPU to GPU, the launch of an empty kernel,
 * the matrix of links. Without GPUs a note says so. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

static bool find_calls(lk_cuda *cuda) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *found;
	if (!library) return false;
#define FIND(member, symbol, arguments)               \
	found = dlsym(library, symbol);                   \
	if (!found) return false;                         \
	memcpy(&cuda->member, &found, sizeof cuda->member);
	LK_CUDA_CALLS(FIND)
#undef FIND
	return true;
}

static bool open_gpu(struct bench *g, int index) {
	struct gpu *one = &g->gpu[index];
	const lk_cuda *c = &g->cuda;
	if (c->get(&one->device, index) != 0 || c->name(one->name, sizeof one->name, one->device) != 0) return false;
	if (c->memory(&one->memory, one->device) != 0 || c->retain(&one->context, one->device) != 0) return false;
	c->use(one->context);
	return c->take(&one->a, COPY) == 0 && c->take(&one->b, COPY) == 0;
}

static void close_gpu(struct bench *g, int index) {
	struct gpu *one = &g->gpu[index];
	if (!one->context) return;
	g->cuda.use(one->context);
	if (one->a) g->cuda.give(one->a);
	if (one->b) g->cuda.give(one->b);
	g->cuda.release(one->device);
}

/* ---- copies ---- */

enum { TO_DEVICE, TO_HOST, ON_DEVICE, TO_PEER };

static double time_copy(void *context) {
	const struct bench *g = context;
	const lk_cuda *c = &g->cuda;
	int wrong = c->use(g->from->context);
	double start = lk_now();
	if (g->kind == TO_DEVICE) wrong |= c->to_device(g->from->a, g->host, COPY);
	if (g->kind == TO_HOST) wrong |= c->to_host(g->host, g->from->a, COPY);
	if (g->kind == ON_DEVICE) wrong |= c->on_device(g->from->b, g->from->a, COPY);
	if (g->kind == TO_PEER) wrong |= c->to_peer(g->to->b, g->to->context, g->from->a, g->from->context, COPY);
	wrong |= c->wait();
	return wrong ? NAN : lk_now() - start;
}

/* The slower direction is the device's PCIe rate. */
static lk_status measure_first(lk_meter *m, struct bench *g, double seconds, double *pcie) {
	static const char *const names[] = {"host to GPU 0, pinned", "GPU 0 to host, pinned",
	                                    "copy on GPU 0 (read + written)"};
	g->from = &g->gpu[0];
	*pcie = 0;
	g->cuda.use(g->from->context);
	if (g->cuda.take_host(&g->host, COPY) != 0) return lk_meter_note(m, "GPU: no pinned memory, copies not measured");
	memset(g->host, 1, COPY);
	lk_status status = LK_OK;
	for (g->kind = TO_DEVICE; g->kind <= ON_DEVICE && status == LK_OK; g->kind++) {
		lk_sample s = lk_repeat(time_copy, g, seconds / 3, 3);
		double rate = COPY / s.low;
		if (s.repeats && g->kind != ON_DEVICE) *pcie = *pcie > 0 ? fmin(*pcie, rate) : rate;
		status = lk_meter_rate(m, "gpu", names[g->kind], "GB/s", (g->kind == ON_DEVICE ? 2.0 : 1.0) * COPY, 1e9, &s);
	}
	g->cuda.give_host(g->host);
	return status;
}

static lk_status measure_peers(lk_meter *m, struct bench *g, double seconds, double *median) {
	double rate[GPUS * GPUS];
	size_t count = 0;
	g->kind = TO_PEER;
	for (int i = 0; i < g->gpus; i++)
		for (int j = 0; j < g->gpus; j++) {
			int direct = 0;
			char name[64];
			if (i == j) continue;
			g->from = &g->gpu[i], g->to = &g->gpu[j];
			g->cuda.can_access(&direct, g->from->device, g->to->device);
			g->cuda.use(g->from->context);
			if (direct) g->cuda.enable_peer(g->to->context, 0); /* fails harmlessly where it is enabled already */
			lk_sample s = lk_repeat(time_copy, g, seconds / (g->gpus * (g->gpus - 1)), 3);
			if (s.repeats) rate[count++] = COPY / s.low;
			snprintf(name, sizeof name, "GPU %d to GPU %d%s", i, j, direct ? "" : ", through the host");
			LK_TRY(lk_meter_rate(m, "gpu", name, "GB/s", COPY, 1e9, &s));
		}
	*median = lk_median(rate, count);
	return LK_OK;
}

/* ---- launches ---- */

static double time_launches(void *context) {
	const struct bench *g = context;
	int wrong = 0;
	double start = lk_now();
	for (int i = 0; i < LAUNCHES; i++) wrong |= g->cuda.launch(g->kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	double issued = lk_now() - start;
	wrong |= g->cuda.wait();
	return wrong ? NAN : issued;
}

static lk_status measure_launches(lk_meter *m, struct bench *g, double seconds) {
	static const char code[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";
	void *module = NULL;
	g->cuda.use(g->gpu[0].context);
	if (g->cuda.load(&module, code) != 0) return lk_meter_note(m, "GPU: launches not measured, the driver takes no PTX");
	lk_status status = LK_OK;
	if (g->cuda.function(&g->kernel, module, "nothing") == 0) {
		lk_sample s = lk_repeat(time_launches, g, seconds, 3);
		status = lk_meter_time(m, "gpu", "launching an empty kernel, host time", "us", LAUNCHES, 1e-6, &s);
	}
	g->cuda.unload(module);
	return status;
}

/* ---- links ---- */

static bool read_links(lk_topology *out) {
	char text[65536];
	FILE *in = popen("nvidia-smi topo -m 2>/dev/null", "r");
	if (!in) return false;
	size_t size = fread(text, 1, sizeof text - 1, in);
	text[size] = '\0';
	pclose(in);
	return lk_topology_read(text, out);
}

/* A switch where NVLink joins all and the device is built for one; a mesh where it joins them otherwise. Only through a
 * switch, or through PCIe, does one pair see all of a GPU's links. */
static lk_status judge_links(lk_meter *m, int gpus, double pair_rate) {
	lk_topology links;
	lk_host *host = m->host;
	int pairs;
	if (gpus < 2) return LK_OK;
	if (!read_links(&links) || links.gpus < gpus)
		return lk_meter_note(m, "GPU links: nvidia-smi shows no matrix; the device's usual wiring is taken");
	for (int i = 0; i < gpus; i++) {
		char row[160] = "";
		for (int j = 0; j < gpus; j++) snprintf(row + strlen(row), sizeof row - strlen(row), " %s", links.link[i][j]);
		LK_TRY(lk_meter_note(m, "GPU links (nvidia-smi topo -m), GPU %d:%s", i, row));
	}
	int joined = lk_topology_joined(&links, &pairs);
	if (!host->gpu) return LK_OK;
	host->intra = LK_INTRA_MESH;
	if (joined == 0) host->intra = LK_INTRA_PCIE;
	else if (joined == pairs && host->gpu->link_switch) host->intra = LK_INTRA_SWITCH;
	if (host->intra != LK_INTRA_MESH && pair_rate > 0) host->intra_rate = pair_rate;
	return LK_OK;
}

/* ---- the whole ---- */

static lk_status note_device(lk_meter *m, const struct bench *g, double pcie) {
	lk_host *host = m->host;
	const lk_device *found = lk_device_find(g->gpu[0].name);
	LK_TRY(lk_meter_count(m, "gpu", g->gpu[0].name, "", g->gpus));
	for (int i = 1; i < g->gpus; i++)
		if (strcmp(g->gpu[i].name, g->gpu[0].name) != 0)
			return lk_meter_note(m, "GPU: not all are of one kind; the nodes of the file are the processor");
	if (!found)
		return lk_meter_note(m, "GPU: '%.80s' is no device of the catalogue; the nodes of the file are the processor",
		                     g->gpu[0].name);
	lk_device *own = LK_NEW(&host->arena, lk_device);
	if (!own) return lk_oom(m->err);
	*own = *lk_device_variant(found, (double)g->gpu[0].memory);
	if (pcie > 0) own->pcie_rate = pcie;
	own->memory_bytes = (double)g->gpu[0].memory;
	host->gpu = own;
	host->gpus = g->gpus;
	host->intra = LK_INTRA_PCIE; /* until the links are known: the usual wiring */
	if (own->link_switch) host->intra = LK_INTRA_SWITCH;
	else if (own->link_rate > 0 && !own->link_bridge) host->intra = LK_INTRA_MESH;
	return LK_OK;
}

static lk_status measure_all(lk_meter *m, struct bench *g, double seconds) {
	double pcie, pair_rate = 0;
	LK_TRY(measure_first(m, g, seconds * 0.3, &pcie));
	LK_TRY(note_device(m, g, pcie));
	LK_TRY(measure_launches(m, g, seconds * 0.1));
	if (g->gpus > 1) LK_TRY(measure_peers(m, g, seconds * 0.6, &pair_rate));
	return judge_links(m, g->gpus, pair_rate);
}

lk_status lk_measure_gpus(lk_meter *m, double seconds) {
	struct bench g = {.gpus = 0};
	int count = 0;
	if (!find_calls(&g.cuda) || g.cuda.init(0) != 0 || g.cuda.count(&count) != 0 || count == 0)
		return lk_meter_note(m, "GPU: none that NVIDIA's driver shows");
	lk_meter_say(m, "GPUs");
	lk_status status = LK_OK;
	for (bool works = true; works && g.gpus < count && g.gpus < GPUS; g.gpus += works) works = open_gpu(&g, g.gpus);
	if (g.gpus == count || g.gpus == GPUS) status = measure_all(m, &g, seconds);
	else status = lk_meter_note(m, "GPU: device %d cannot be used now (memory taken?); GPUs were not measured", g.gpus);
	for (int i = 0; i < GPUS; i++) close_gpu(&g, i);
	return status;
}
