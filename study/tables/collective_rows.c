/* collective_rows.c: reads a table of measured collectives. Its column `fabric` describes the nodes
 * in the words of its source: NICs ("8x200Gb IB", "4x100G EFA"), GPUs joined in pairs
 * ("pairwise_nvlink"). A table with a column `library` has other columns: the library that ran with
 * its release, the number format, and the GPU's default node, which is its fabric. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "io/csv.h"
#include "base/text.h"
#include "hw/hw.h"

enum { ROWS = 1 << 20 };

/* ---- the fabric in words ---- */

/* Read "8x200Gb": number of NICs and their Gbit/s. False if the text has no such part. */
static bool collective_rows_read_nics(const char *text, lk_node *node) {
	for (const char *x = strchr(text, 'x'); x; x = strchr(x + 1, 'x')) {
		const char *begin = x, *end;
		while (begin > text && begin[-1] >= '0' && begin[-1] <= '9') begin--;
		double gbits = lk_read_real(x + 1, &end),
			   count = lk_read_real(begin, &(const char *){NULL});
		if (begin == x || end == x + 1 || (*end != 'G' && *end != 'g')) continue;
		if (!(count >= 1 && count <= 64 && gbits >= 1 && gbits <= 10000)) continue;
		node->nics = (int)count;
		node->nic_rate = gbits * 1e9 / 8;
		return true;
	}
	return false;
}

/* Wire GPUs joined in pairs by bridges, which have 12 links on cards of both generations. */
static void collective_rows_pairs(int gpus, lk_node *node) {
	const lk_device *device = node->device;
	double links = device->links > 12 ? 12. / device->links : 1;
	node->gpus = gpus <= 2 ? 2 : 4;
	node->intra = LK_INTRA_PCIE;
	node->intra_rate = device->pcie_rate;
	node->pair_rate = device->link_rate * links;
}

/* Networks that no text states. The A100 nodes of vidur: the sizes at which their all-reduce turns
 * from slow to fast and back (4, 8 and 16 GPUs on 2 nodes: 8, 16 and 64 MiB) are where NCCL changes
 * from rings to trees and back if a node has a single NIC of up to 100 Gb/s and no LL128. Nothing
 * faster than 14 GB/s per node was measured, and a single GPU reaches the same 6 GB/s as two:
 * sockets. Its A40 have no bridge in use, and their hosts refuse peer access between root ports:
 * messages go through shared memory. */
static const struct {
	const char *text;
	int nics;
	double gbits;
	bool no_peer;
} networks[] = {
	{"vidur a100_dgx", 1, 100, false},
	{"vidur a40_pairwise", 0, 0, true},
};

/* GPUs of a tray or a board; larger domains span hosts. */
enum { BOARD = 8 };

int lk_coll_domains(const lk_device *device, int gpus, int hosts) {
	int most = device->node_gpus > 0 ? device->node_gpus : BOARD;
	return most > BOARD ? (gpus + most - 1) / most : hosts;
}

/* Convert from trays to domains: a table gives the NICs of a tray, a domain has those of all its
 * trays. */
static void collective_rows_racks(lk_coll_row *row, bool nics_stated) {
	int domains = lk_coll_domains(row->node.device, row->gpus, row->nodes);
	if (domains == row->nodes) return;
	int trays = (row->nodes + domains - 1) / domains;
	if (nics_stated) row->node.nics *= trays;
	row->nodes = domains;
}

static bool collective_rows_names_network(const char *text) {
	static const char *const words[] = {"EFA",        "IB",         "RDMA", "RoCE",
	                                    "InfiniBand", "Infiniband", "TCPX"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(text, words[i])) return true;
	return false;
}

void lk_coll_row_wire(lk_coll_row *row, const lk_device *device) {
	const char *text = row->text;
	lk_node *node = &row->node;
	int most = device->node_gpus > 0 ? device->node_gpus : BOARD;
	*node = (lk_node){.device = device, .gpus = most, .nics = most, .nic_rate = device->nic_rate};
	if (device->link_switch) node->intra = LK_INTRA_SWITCH;
	else if (device->link_rate > 0 && !device->link_bridge) node->intra = LK_INTRA_MESH;
	else node->intra = LK_INTRA_PCIE;
	node->intra_rate = node->intra == LK_INTRA_PCIE ? device->pcie_rate : device->link_rate;
	bool nics = collective_rows_read_nics(text, node);
	row->network_stated = nics || collective_rows_names_network(text);
	collective_rows_racks(row, nics);
	if (strstr(text, "pairwise") || strstr(text, "bridge"))
		collective_rows_pairs((row->gpus + row->nodes - 1) / row->nodes, node);
	for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
		if (!strstr(text, networks[i].text)) continue;
		if (networks[i].no_peer) {
			node->intra = LK_INTRA_PCIE;
			node->intra_rate = device->pcie_rate;
			node->pair_rate = 0;
			node->no_peer = true;
		}
		if (networks[i].nics == 0) continue;
		node->nics = networks[i].nics;
		node->nic_rate = networks[i].gbits * 1e9 / 8;
		node->transport = LK_TRANSPORT_SOCKETS;
	}
	if (strstr(text, "TCPX")) {
		bool offloaded = strstr(text, "TCPXO");
		node->transport = offloaded ? LK_TRANSPORT_TCPXO : LK_TRANSPORT_TCPX;
	}
	if (strstr(text, "EFA")) node->nic_latency_s = lk_efa_latency(node);
	if (row->gpus > row->nodes * node->gpus) row->refused = "more GPUs than its nodes have";
}

/* ---- NCCL in words ---- */

/* Copy the word after `label`, as "2.26.2" after "NCCL "; false if the label is missing. */
static bool collective_rows_word_after(const char *text, const char *label, char *word,
                                       size_t size) {
	const char *at = strstr(text, label);
	if (!at) return false;
	at += strlen(label);
	size_t length = strcspn(at, " ,;()");
	if (length == 0 || length >= size) return false;
	memcpy(word, at, length);
	word[length] = '\0';
	return true;
}

/* NCCL's settings on nodes of sources that do not state them: releases by their date and software;
 * the multicast's chunk that AWS's plugin and Google's environment set, after which all-reduces of
 * 8 GPUs quicken at 64 chunks of every channel and head: at 4 GiB on Hopper, 6 on Blackwell. */
static const struct {
	const char *source, *text, *settings;
} known_settings[] = {
	{"NetX-lab/Echo", "", "2.20"},
	{"awsome-distributed-training", "p5", "NCCL_NVLS_CHUNKSIZE=524288"},
	{"stas00/ml-engineering", "NVLink5", "NCCL_NVLS_CHUNKSIZE=524288"},
	{"", "GKE A4", "NCCL_NVLS_CHUNKSIZE=524288"},
};

/* Turn the words of a row into settings: a release, the algorithm that ran, NVLS switched off.
 * Other words are skipped. */
static void collective_rows_nccl(lk_coll_row *row) {
	const char *const texts[] = {row->text, row->source};
	char release[32] = "", algo[32] = "", settings[160];
	const char *known = "";
	bool without_nvls = false;
	for (size_t i = 0; i < sizeof known_settings / sizeof *known_settings; i++)
		if (strstr(row->source, known_settings[i].source) &&
		    strstr(row->text, known_settings[i].text))
			known = known_settings[i].settings;
	for (int i = 0; i < 2; i++) {
		char word[32];
		lk_nccl_settings read;
		lk_error unused;
		if (collective_rows_word_after(texts[i], "NCCL ", word, sizeof word) &&
		    lk_nccl_settings_read(word, "", &read, &unused) == LK_OK && read.release > 0)
			lk_copy(release, sizeof release, word);
		if (collective_rows_word_after(texts[i], "algo ", word, sizeof word))
			lk_copy(algo, sizeof algo, word);
		without_nvls |= strstr(texts[i], "NVLS disabled") || strstr(texts[i], "NVLS off");
	}
	snprintf(settings, sizeof settings, "%s %s%s%s%s", known, release, *algo ? " NCCL_ALGO=" : "",
	         algo, without_nvls ? " NCCL_NVLS_ENABLE=0" : "");
	lk_error unused;
	if (lk_nccl_settings_read(settings, "", &row->settings, &unused) != LK_OK)
		row->settings = (lk_nccl_settings){0};
}

/* Fabrics that their own source calls slower than expected. */
static const struct {
	const char *text, *source, *why;
} slow_ones[] = {
	{"LOW", "", "reported as slow by its user"},
	{"p4d", "issue 527", "reported as slow in NVIDIA/nccl issue 527"},
};

static const char *slow_reason(const char *text, const char *source) {
	for (size_t i = 0; i < sizeof slow_ones / sizeof *slow_ones; i++)
		if (strstr(text, slow_ones[i].text) && strstr(source, slow_ones[i].source))
			return slow_ones[i].why;
	return "";
}

/* ---- rows ---- */

static bool collective_rows_kind_of(const char *name, lk_coll_kind *out) {
	for (int kind = 0; kind < LK_COLLS; kind++) {
		if (!lk_same_name(name, lk_coll_name((lk_coll_kind)kind)) &&
		    !(kind == LK_COLL_ALLTOALL && lk_same_name(name, "alltoall")))
			continue;
		*out = (lk_coll_kind)kind;
		return true;
	}
	return false;
}

/* Find a device from "H100-SXM (per file comment)" without the remark, or "NVIDIA H100 80GB HBM3"
 * without its last words. */
const lk_device *lk_coll_device(const char *text) {
	char name[128];
	lk_copy(name, sizeof name, text);
	name[strcspn(name, "(")] = '\0';
	for (;;) {
		const lk_device *device = lk_device_find(name);
		char *blank = strrchr(name, ' ');
		if (device || !blank) return device;
		*blank = '\0';
	}
}

/* Shorten the fabric's name: its first word, or two if the first one names who measured; if that is
 * too short for a name, the text before a remark. */
static const char *short_name(lk_arena *arena, const char *text) {
	size_t length = strcspn(text, " ;");
	if (strncmp(text, "vidur ", 6) == 0) length += 1 + strcspn(text + length + 1, " ;");
	else if (length < 4) length = strcspn(text, ";,(");
	while (length > 0 && text[length - 1] == ' ') length--;
	return lk_arena_strndup(arena, text, length);
}

struct reader {
	const lk_csv *csv;
	lk_arena *arena;
	lk_coll_rows *out;
};

static lk_status read_int(const struct reader *reader, const char *name, int *out, lk_error *err) {
	long long value;
	char where[LK_CSV_PLACE];
	LK_TRY(lk_parse_int(lk_csv_named(reader->csv, name), 1, 1 << 24, &value,
	                    lk_csv_place(reader->csv, name, where), err));
	*out = (int)value;
	return LK_OK;
}

static lk_status read_real(const struct reader *reader, const char *name, double *out,
                           lk_error *err) {
	const char *text = lk_csv_named(reader->csv, name);
	char where[LK_CSV_PLACE];
	*out = NAN;
	if (!*text) return LK_OK;
	return lk_parse_real(text, 0, 1e18, out, lk_csv_place(reader->csv, name, where), err);
}

/* The columns of the two kinds of tables. */
static const struct columns {
	const char *collective, *gpus, *bytes, *fabric;
} columns_of_fabrics = {"collective", "n_gpu", "size_bytes", "fabric"},
  columns_of_libraries = {"op", "gpus", "bytes", "gpu"};

static bool collective_rows_of_libraries(const lk_csv *csv) {
	return lk_csv_column(csv, "library") >= 0;
}

/* The libraries of a table that has them: NCCL is modelled, each of the others has its reason. */
static const char *library_refused(const char *library) {
	static const struct {
		const char *name, *why;
	} others[] = {
		{"oneccl", "oneCCL is not modelled"},
		{"vllm", "vLLM's own all-reduce is not NCCL's"},
		{"sglang", "SGLang's own all-reduce is not NCCL's"},
		{"trtllm", "TensorRT-LLM's own all-reduce is not NCCL's"},
	};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (lk_same_name(library, others[i].name)) return others[i].why;
	return lk_same_name(library, "nccl") ? "" : "this library is not modelled";
}

/* NCCL's release and, where it adds integers, which NVLink switches do not, no multicast. */
static void collective_rows_release(const lk_csv *csv, lk_coll_row *row) {
	bool integers = strncmp(lk_csv_named(csv, "dtype"), "int", 3) == 0;
	char settings[96];
	lk_error unused;
	snprintf(settings, sizeof settings, "%.40s%s", lk_csv_named(csv, "release"),
	         integers && row->kind == LK_COLL_ALLREDUCE ? " NCCL_NVLS_ENABLE=0" : "");
	if (lk_nccl_settings_read(settings, "", &row->settings, &unused) != LK_OK)
		row->settings = (lk_nccl_settings){0};
}

/* How a row was timed, in the words of its column `method`, or as its source is known to time. */
static lk_coll_method collective_rows_method(const char *text, const char *source) {
	if (strstr(text, "host-timed")) return LK_COLL_HOST_TIMED;
	if (strstr(text, "one process") || strstr(source, "Azure/AI-benchmarking-guide"))
		return LK_COLL_ONE_PROCESS;
	if (strstr(source, "microsoft/vidur") || strstr(source, "SimuMax")) return LK_COLL_HOST_PACED;
	return LK_COLL_NCCL_TESTS;
}

static lk_status collective_rows_read_row(void *context, const lk_csv *csv, const int *at,
                                          lk_error *err) {
	struct reader *reader = context;
	bool libraries = collective_rows_of_libraries(csv);
	const struct columns *columns = libraries ? &columns_of_libraries : &columns_of_fabrics;
	(void)at;
	reader->csv = csv;
	if (!lk_push(reader->out)) return lk_oom(err);
	lk_coll_row *row = lk_last(reader->out);
	LK_TRY(read_int(reader, columns->gpus, &row->gpus, err));
	LK_TRY(read_int(reader, "nodes", &row->nodes, err));
	LK_TRY(read_real(reader, columns->bytes, &row->bytes, err));
	LK_TRY(read_real(reader, "time_us", &row->us, err));
	row->refused = libraries ? library_refused(lk_csv_named(csv, "library")) : "";
	row->gpu = lk_arena_strdup(reader->arena, lk_csv_named(csv, "gpu"));
	row->text = lk_arena_strdup(reader->arena, lk_csv_named(csv, columns->fabric));
	row->source = lk_arena_strdup(reader->arena, lk_csv_named(csv, "source"));
	row->where = lk_arena_strdup(reader->arena, lk_csv_where(csv));
	if (!row->gpu || !row->text || !row->source || !row->where) return lk_oom(err);
	row->fabric = short_name(reader->arena, row->text);
	if (!row->fabric) return lk_oom(err);
	row->slow = slow_reason(row->text, row->source);
	row->method = collective_rows_method(lk_csv_named(csv, "method"), row->source);
	LK_TRY(lk_devices_ready(err));
	const lk_device *device = lk_coll_device(row->gpu);
	if (!collective_rows_kind_of(lk_csv_named(csv, columns->collective), &row->kind))
		row->refused = "this collective is not modelled";
	else if (!device) row->refused = "this GPU is not in the catalogue";
	else if (!(row->bytes > 0)) row->refused = "the size is not stated";
	else lk_coll_row_wire(row, device);
	if (libraries) collective_rows_release(csv, row);
	else collective_rows_nccl(row);
	return LK_OK;
}

static lk_status collective_rows_check_head(void *context, const lk_csv *csv, const int *at,
                                            lk_error *err) {
	(void)context, (void)at;
	static const char *const of_fabrics[] = {"collective", "gpu",        "n_gpu",  "nodes",
	                                         "fabric",     "size_bytes", "time_us"},
							 *const of_libraries[] = {"op",    "gpu",   "gpus",   "nodes",
	                                                  "bytes", "dtype", "release"};
	enum { NEEDED = sizeof of_fabrics / sizeof *of_fabrics };
	int unused[NEEDED];
	return lk_csv_find(csv, collective_rows_of_libraries(csv) ? of_libraries : of_fabrics, NEEDED,
	                   NEEDED, "table of collectives", unused, err);
}

lk_status lk_coll_rows_read(lk_arena *arena, lk_stream *in, lk_coll_rows *out, lk_error *err) {
	static const char *const needed[] = {"gpu"};
	static const lk_csv_table table = {needed,
	                                   1,
	                                   0,
	                                   "table of collectives",
	                                   ROWS,
	                                   collective_rows_read_row,
	                                   collective_rows_check_head};
	return lk_csv_read(in, &table, &(struct reader){.arena = arena, .out = out}, err);
}

lk_group_shape lk_coll_row_group(const lk_coll_row *row, const lk_fabric *fabric) {
	LK_ASSERT(row->gpus > 0 && row->nodes > 0);
	return (lk_group_shape){
		.node = &row->node,
		.ranks = row->gpus,
		.nodes = row->nodes,
		.ranks_per_node = (row->gpus + row->nodes - 1) / row->nodes,
		.sharing = 1,
		.oversubscription = 1,
		.fabric = fabric,
		.settings = &row->settings,
	};
}
