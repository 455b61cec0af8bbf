/* topology_xml.c: read NCCL's topology XML, version 1:
 *
 *     <system version="1"><cpu numaid arch vendor ...>
 *       <pci busid class="0x030200" device link_speed link_width>
 *         <gpu dev sm rank gdr><nvlink target count tclass/></gpu></pci>
 *       <pci class="0x020700"><nic><net dev speed latency .../></nic></pci></cpu></system>
 *
 * Classes: 0x0302 and 0x0300 are GPUs, 0x0200 and 0x0207 NICs, 0x0680 NVSwitches. speed is in
 * Mbit/s (0 or less: 10 Gbit/s), latency in us (NVIDIA/nccl@5067397, src/graph/xml.cc and topo.cc).
 * Files from cloud providers hold only the skeleton of PCI devices: then links and NIC rates come
 * from the catalogue. NICs slower than the fastest serve other purposes. */
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
	bool system;          /* the outermost element is as expected */
	const char *wrong;    /* why reading stopped */
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

static long xml_hex(const char *text) {
	char *end;
	long value = strtol(text, &end, 16);
	return end != text && value >= 0 && value <= 0xffffff ? value : -1;
}

static double xml_number(const char *text, double low, double high) {
	const char *end;
	double value = lk_read_real(text, &end);
	return value >= low && value <= high ? value : 0;
}

/* ---- elements ---- */

static void see_pci(struct topology *topology, const char **attributes) {
	long class = xml_hex(attribute(attributes, "class")) >> 8;
	if (class == 0x0302 || class == 0x0300) {
		long device = xml_hex(attribute(attributes, "device"));
		topology->plain_gpus++;
		if (topology->pci_device <= 0) topology->pci_device = device & 0xffff;
	}
	if (class == 0x0200 || class == 0x0207) topology->plain_nics++;
}

static void see_gpu(struct topology *topology, const char **attributes) {
	topology->gpus++;
	if (topology->gpus == 1) topology->sm = (int)xml_number(attribute(attributes, "sm"), 0, 1000);
}

static void see_nvlink(struct topology *topology, const char **attributes) {
	int count = (int)xml_number(attribute(attributes, "count"), 0, 64);
	if (topology->gpus != 1) return;
	if (topology->links < 1024) topology->links += count;
	if (xml_hex(attribute(attributes, "tclass")) >> 8 == 0x0680) topology->switched += count;
}

static void see_net(struct topology *topology, const char **attributes) {
	double mbits = xml_number(attribute(attributes, "speed"), 0, 1e7);
	if (!(mbits > 0)) mbits = 10000;
	if (mbits < topology->mbits) return;
	if (mbits > topology->mbits) {
		topology->nets = 0;
		topology->latency_us = 0;
	}
	topology->mbits = mbits;
	topology->nets++;
	topology->latency_us =
		fmax(topology->latency_us, xml_number(attribute(attributes, "latency"), 0, 1e6));
}

static void xml_begin(void *context, const char *name, const char **attributes) {
	struct topology *topology = context;
	if (topology->depth == 0) topology->system = strcmp(name, "system") == 0;
	if (++topology->depth > DEPTH) topology->wrong = "elements are nested too deep";
	if (!topology->system) topology->wrong = "the outermost element is not <system>";
	if (topology->gpus + topology->plain_gpus > LK_CLUSTER_GPUS / 2 ||
	    topology->nets + topology->plain_nics > LK_CLUSTER_NICS)
		topology->wrong = "it has more devices than a node can have";
	if (topology->wrong) {
		XML_StopParser(topology->parser, XML_FALSE);
		return;
	}
	if (strcmp(name, "pci") == 0) see_pci(topology, attributes);
	else if (strcmp(name, "gpu") == 0) see_gpu(topology, attributes);
	else if (strcmp(name, "nvlink") == 0) see_nvlink(topology, attributes);
	else if (strcmp(name, "net") == 0) see_net(topology, attributes);
}

static void xml_end(void *context, const char *name) {
	struct topology *topology = context;
	(void)name;
	topology->depth--;
}

/* Entity definitions are refused. */
static void doctype(void *context, const char *name, const char *system, const char *public,
                    int internal) {
	struct topology *topology = context;
	(void)name;
	(void)system;
	(void)public;
	(void)internal;
	topology->wrong = "it has a document type";
	XML_StopParser(topology->parser, XML_FALSE);
}

/* ---- the file ---- */

static lk_status xml_fail(struct topology *topology, lk_stream *in, lk_error *err) {
	char where[256];
	snprintf(where, sizeof where, "%.200s:%lu:%lu", lk_stream_name(in),
	         (unsigned long)XML_GetCurrentLineNumber(topology->parser),
	         (unsigned long)XML_GetCurrentColumnNumber(topology->parser) + 1);
	enum XML_Error code = XML_GetErrorCode(topology->parser);
	if (code == XML_ERROR_NO_MEMORY) return lk_oom(err);
	lk_fail(err, LK_ERR_INPUT, where, "%s",
	        topology->wrong ? topology->wrong : XML_ErrorString(code));
	return lk_hint(err, "give a file that NCCL_TOPO_DUMP_FILE wrote");
}

static lk_status xml_parse(struct topology *topology, lk_stream *in, lk_error *err) {
	char buffer[16384];
	size_t all = 0;
	for (size_t got = 1; got > 0;) {
		LK_TRY(lk_stream_read(in, buffer, sizeof buffer, &got, err));
		all += got;
		if (all > LIMIT) return lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "more than 64 MiB");
		if (XML_Parse(topology->parser, buffer, (int)got, got == 0) != XML_STATUS_OK)
			return xml_fail(topology, in, err);
	}
	return LK_OK;
}

/* ---- the node ---- */

/* PCI ids of data centre GPUs (pci-ids.ucw.cz, vendor 10de), and a default device per compute
 * capability. */
static const struct {
	long id;
	const char *name;
} by_pci[] =
	{
		{0x1db1, "v100-sxm-16"},  {0x1db4, "v100-pcie-16"}, {0x1db5, "v100-sxm-32"},
		{0x1db6, "v100-pcie-32"}, {0x1eb8, "t4"},           {0x20b0, "a100-sxm-40"},
		{0x20b2, "a100-sxm-80"},  {0x20b5, "a100-pcie-80"}, {0x20f1, "a100-pcie-40"},
		{0x2235, "a40"},          {0x2330, "h100-sxm"},     {0x2331, "h100-pcie"},
		{0x2335, "h200"},         {0x2901, "b200"},         {0x26b9, "l40s"},
		{0x27b8, "l4"},
},
  by_sm[] = {
	  {70, "v100-sxm-32"}, {75, "t4"},       {80, "a100-sxm-80"}, {86, "a40"},
	  {89, "l40s"},        {90, "h100-sxm"}, {100, "b200"},
};

static const lk_device *xml_device_of(const struct topology *topology) {
	const lk_device *device = NULL;
	for (size_t i = 0; i < sizeof by_pci / sizeof *by_pci && !device; i++)
		if (by_pci[i].id == topology->pci_device) device = lk_device_find(by_pci[i].name);
	for (size_t i = 0; i < sizeof by_sm / sizeof *by_sm && !device; i++)
		if (by_sm[i].id == topology->sm) device = lk_device_find(by_sm[i].name);
	return device;
}

/* A plugin's latencies are hints for NCCL's choice: for EFA use the cards' own. */
static double xml_latency(double stated, const lk_node *node) {
	bool hint = fabs(stated - lk_efa_hint(node->nic_rate)) < 1e-9;
	return hint ? lk_efa_latency(node) : stated;
}

static void xml_wire(const struct topology *topology, lk_node *node) {
	const lk_device *device = node->device;
	if (topology->links > 0 && device->links > 0) {
		node->intra = topology->switched > 0 ? LK_INTRA_SWITCH : LK_INTRA_MESH;
		node->intra_rate = device->link_rate * fmin(topology->links, device->links) / device->links;
	}
	if (topology->nets > 0) {
		node->nics = topology->nets;
		node->nic_rate = topology->mbits * 1e6 / 8;
		node->nic_latency_s = xml_latency(topology->latency_us * 1e-6, node);
	} else if (topology->plain_nics > 0) {
		node->nics = topology->plain_nics;
	}
}

static lk_status xml_node_of(const struct topology *topology, lk_stream *in, lk_node *out,
                             lk_error *err) {
	int gpus = topology->gpus > 0 ? topology->gpus : topology->plain_gpus;
	if (gpus == 0) return lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "the topology has no GPU");
	const lk_device *device = xml_device_of(topology);
	if (!device) {
		lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "it does not say which GPUs these are");
		return lk_hint(
			err,
			"add device=\"0x2330\" (the PCI identity) to a GPU's <pci>, or sm=\"90\" to its <gpu>");
	}
	*out = lk_node_usual(device, gpus);
	xml_wire(topology, out);
	return LK_OK;
}

lk_status lk_topology_xml_read(lk_stream *in, lk_node *out, lk_error *err) {
	struct topology t = {.parser = XML_ParserCreate(NULL)};
	if (!t.parser) return lk_oom(err);
	XML_SetUserData(t.parser, &t);
	XML_SetElementHandler(t.parser, xml_begin, xml_end);
	XML_SetStartDoctypeDeclHandler(t.parser, doctype);
	lk_status status = xml_parse(&t, in, err);
	XML_ParserFree(t.parser);
	return status == LK_OK ? xml_node_of(&t, in, out, err) : status;
}
