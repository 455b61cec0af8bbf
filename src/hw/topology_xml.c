/* topology_xml.c: reads NCCL's topology XML, version 1:
 *
 *     <system version="1"><cpu numaid arch vendor ...>
 *       <pci busid class="0x030200" device link_speed link_width><gpu dev sm rank gdr><nvlink target count
 * tclass/></gpu></pci> <pci class="0x020700"><nic><net dev speed latency .../></nic></pci></cpu></system>
 *
 * Classes: 0x0302 and 0x0300 are GPUs, 0x0200 and 0x0207 NICs, 0x0680 NVSwitches. speed is in Mbit/s (0 or less: 10
 * Gbit/s), latency in us (NVIDIA/nccl@5067397, src/graph/xml.cc and topo.cc). Files of clouds hold only the skeleton of
 * PCI devices: then links and NIC rates come from the catalogue. NICs slower than the fastest serve other purposes. */
#include "hw/hw_internal.h"

#include <expat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { LIMIT = 64 << 20, DEPTH = 64 };

struct topology {
	XML_Parser parser;
	int depth;
	bool system;          /* the outermost element is what it should be */
	const char *wrong;    /* why reading was stopped */
	int gpus, plain_gpus; /* elements <gpu>; PCI devices of their class */
	int nets, plain_nics; /* NICs of the fastest kind; PCI devices of their class */
	int links, switched;  /* of the first GPU: NVLinks, those to a switch */
	int sm;               /* compute capability, 80 = 8.0 */
	long pci_device;      /* of a GPU, 0x20b2 */
	double mbits, latency_us;
};

static const char *attribute(const char **attributes, const char *name) {
	for (int i = 0; attributes[i]; i += 2)
		if (strcmp(attributes[i], name) == 0) return attributes[i + 1];
	return "";
}

static long hex(const char *text) {
	char *end;
	long value = strtol(text, &end, 16);
	return end != text && value >= 0 && value <= 0xffffff ? value : -1;
}

static double number(const char *text, double low, double high) {
	const char *end;
	double value = lk_read_real(text, &end);
	return value >= low && value <= high ? value : 0;
}

/* ---- elements ---- */

static void see_pci(struct topology *t, const char **attributes) {
	long class = hex(attribute(attributes, "class")) >> 8;
	if (class == 0x0302 || class == 0x0300) {
		long device = hex(attribute(attributes, "device"));
		t->plain_gpus++;
		if (t->pci_device <= 0) t->pci_device = device & 0xffff;
	}
	if (class == 0x0200 || class == 0x0207) t->plain_nics++;
}

static void see_gpu(struct topology *t, const char **attributes) {
	t->gpus++;
	if (t->gpus == 1) t->sm = (int)number(attribute(attributes, "sm"), 0, 1000);
}

static void see_nvlink(struct topology *t, const char **attributes) {
	int count = (int)number(attribute(attributes, "count"), 0, 64);
	if (t->gpus != 1) return;
	if (t->links < 1024) t->links += count;
	if (hex(attribute(attributes, "tclass")) >> 8 == 0x0680) t->switched += count;
}

static void see_net(struct topology *t, const char **attributes) {
	double mbits = number(attribute(attributes, "speed"), 0, 1e7);
	if (!(mbits > 0)) mbits = 10000;
	if (mbits < t->mbits) return;
	if (mbits > t->mbits) t->nets = 0, t->latency_us = 0;
	t->mbits = mbits;
	t->nets++;
	t->latency_us = fmax(t->latency_us, number(attribute(attributes, "latency"), 0, 1e6));
}

static void begin(void *context, const char *name, const char **attributes) {
	struct topology *t = context;
	if (t->depth == 0) t->system = strcmp(name, "system") == 0;
	if (++t->depth > DEPTH) t->wrong = "elements are nested too deep";
	if (!t->system) t->wrong = "the outermost element is not <system>";
	if (t->gpus + t->plain_gpus > LK_CLUSTER_GPUS / 2 || t->nets + t->plain_nics > LK_CLUSTER_NICS)
		t->wrong = "it has more devices than a node can have";
	if (t->wrong) {
		XML_StopParser(t->parser, XML_FALSE);
		return;
	}
	if (strcmp(name, "pci") == 0)
		see_pci(t, attributes);
	else if (strcmp(name, "gpu") == 0)
		see_gpu(t, attributes);
	else if (strcmp(name, "nvlink") == 0)
		see_nvlink(t, attributes);
	else if (strcmp(name, "net") == 0)
		see_net(t, attributes);
}

static void end(void *context, const char *name) {
	struct topology *t = context;
	(void)name;
	t->depth--;
}

/* Entities of one's own have no place here. */
static void doctype(void *context, const char *name, const char *system, const char *public, int internal) {
	struct topology *t = context;
	(void)name, (void)system, (void)public, (void)internal;
	t->wrong = "it has a document type";
	XML_StopParser(t->parser, XML_FALSE);
}

/* ---- the file ---- */

static lk_status fail(struct topology *t, lk_stream *in, lk_error *err) {
	char where[256];
	snprintf(where, sizeof where, "%.200s:%lu:%lu", lk_stream_name(in),
			 (unsigned long)XML_GetCurrentLineNumber(t->parser),
			 (unsigned long)XML_GetCurrentColumnNumber(t->parser) + 1);
	enum XML_Error code = XML_GetErrorCode(t->parser);
	if (code == XML_ERROR_NO_MEMORY) return lk_oom(err);
	lk_fail(err, LK_ERR_INPUT, where, "%s", t->wrong ? t->wrong : XML_ErrorString(code));
	return lk_hint(err, "give a file that NCCL_TOPO_DUMP_FILE wrote");
}

static lk_status parse(struct topology *t, lk_stream *in, lk_error *err) {
	char buffer[16384];
	size_t all = 0;
	for (size_t got = 1; got > 0;) {
		LK_TRY(lk_stream_read(in, buffer, sizeof buffer, &got, err));
		all += got;
		if (all > LIMIT) return lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "more than 64 MiB");
		if (XML_Parse(t->parser, buffer, (int)got, got == 0) != XML_STATUS_OK) return fail(t, in, err);
	}
	return LK_OK;
}

/* ---- the node ---- */

/* PCI identities of data centre GPUs (pci-ids.ucw.cz, vendor 10de), and a usual device of a compute capability. */
static const struct {
	long id;
	const char *name;
} by_pci[] =
	{
		{0x1db1, "v100-sxm-16"},  {0x1db4, "v100-pcie-16"}, {0x1db5, "v100-sxm-32"}, {0x1db6, "v100-pcie-32"},
		{0x1eb8, "t4"},           {0x20b0, "a100-sxm-40"},  {0x20b2, "a100-sxm-80"}, {0x20b5, "a100-pcie-80"},
		{0x20f1, "a100-pcie-40"}, {0x2235, "a40"},          {0x2330, "h100-sxm"},    {0x2331, "h100-pcie"},
		{0x2335, "h200"},         {0x2901, "b200"},         {0x26b9, "l40s"},        {0x27b8, "l4"},
},
  by_sm[] = {
	  {70, "v100-sxm-32"}, {75, "t4"}, {80, "a100-sxm-80"}, {86, "a40"}, {89, "l40s"}, {90, "h100-sxm"}, {100, "b200"},
};

static const lk_device *device_of(const struct topology *t) {
	const lk_device *device = NULL;
	for (size_t i = 0; i < sizeof by_pci / sizeof *by_pci && !device; i++)
		if (by_pci[i].id == t->pci_device) device = lk_device_find(by_pci[i].name);
	for (size_t i = 0; i < sizeof by_sm / sizeof *by_sm && !device; i++)
		if (by_sm[i].id == t->sm) device = lk_device_find(by_sm[i].name);
	return device;
}

static void wire(const struct topology *t, lk_node *node) {
	const lk_device *device = node->device;
	if (t->links > 0 && device->links > 0) {
		node->intra = t->switched > 0 ? LK_INTRA_SWITCH : LK_INTRA_MESH;
		node->intra_rate = device->link_rate * fmin(t->links, device->links) / device->links;
	}
	if (t->nets > 0) {
		node->nics = t->nets;
		node->nic_rate = t->mbits * 1e6 / 8;
		node->nic_latency_s = t->latency_us * 1e-6;
	} else if (t->plain_nics > 0) {
		node->nics = t->plain_nics;
	}
}

static lk_status node_of(const struct topology *t, lk_stream *in, lk_node *out, lk_error *err) {
	int gpus = t->gpus > 0 ? t->gpus : t->plain_gpus;
	if (gpus == 0) return lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "the topology has no GPU");
	const lk_device *device = device_of(t);
	if (!device) {
		lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "it does not say which GPUs these are");
		return lk_hint(err, "add device=\"0x2330\" (the PCI identity) to a GPU's <pci>, or sm=\"90\" to its <gpu>");
	}
	*out = lk_node_usual(device, gpus);
	wire(t, out);
	return LK_OK;
}

lk_status lk_topology_xml_read(lk_stream *in, lk_node *out, lk_error *err) {
	struct topology t = {.parser = XML_ParserCreate(NULL)};
	if (!t.parser) return lk_oom(err);
	XML_SetUserData(t.parser, &t);
	XML_SetElementHandler(t.parser, begin, end);
	XML_SetStartDoctypeDeclHandler(t.parser, doctype);
	lk_status status = parse(&t, in, err);
	XML_ParserFree(t.parser);
	return status == LK_OK ? node_of(&t, in, out, err) : status;
}
