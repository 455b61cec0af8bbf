/* cluster_parse.c: reads the synthetic form of a cluster, one line of text:
 *
 *     cluster  = nodes { "+" nodes }
 *     nodes    = [ COUNT "node" "*" ] COUNT device [ WATTS "w" ] [ wiring ] [ RATE "GB/s" ]
 *                { "," option } | [ COUNT "*" ] machine { "," option }
 *     wiring   = "nvlink" [ GENERATION ] | "xgmi" | "nvswitch" | "mesh" | "pcie" [ GENERATION ]
 *              | "bridges"
 *     option   = "nic" COUNT "*" GBITS [ "g" ] [ LATENCY "us" ] [ "ib" | "roce" | "efa" | "sockets"
 *              | "tcpx" | "tcpxo" ] | "oversub" X | "rail" | "norail" | "apart"
 *              | "nop2p" | network (interconnect.c)
 *     device   = a word, or a name in quotes
 *     machine  = a name of data/instances.csv, such as p4d.24xlarge
 *
 * "[COUNT node *] FILE.xml" is COUNT nodes as described by NCCL's topology file, "FILE.log
 * [device]" the nodes that NCCL prints with NCCL_DEBUG=INFO, FILE.json the JSON form.
 *
 * Trays of a rack, such as nodes of 4 gb200, are one domain unless they are "apart".
 *
 * Without "node", COUNT devices fill default nodes of the device: "64 h100-sxm" is 8 nodes of 8.
 * "nvlink" and "xgmi" use the wiring of the device's default node, "nvswitch" and "mesh" state the
 * wiring; GB/s is the rate per direction and GPU. "bridges" join GPUs in pairs, which reach others
 * over PCIe. "nop2p": the host refuses peer access over PCIe. "oversub", "rail" and the network
 * apply to the whole cluster, wherever they appear. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "hw/hw_internal.h"

enum { WORD = 64, JSON_FILE_LIMIT = 64 << 20 };

struct parser {
	lk_arena *arena;
	const char *text, *at;
	lk_cluster_draft draft;
	bool oversub_said, apart;
	lk_error *err;
};

/* ---- scanning ---- */

/* Report an error of this file: the column counts from 1. */
static lk_status parse_fail_at(struct parser *parser, const char *at, const char *what,
                               const char *shown, const char *hint) {
	char where[48];
	snprintf(where, sizeof where, "--cluster, column %zu", (size_t)(at - parser->text) + 1);
	if (shown) lk_fail(parser->err, LK_ERR_INPUT, where, "%s '%.60s'", what, shown);
	else lk_fail(parser->err, LK_ERR_INPUT, where, "%s", what);
	return hint ? lk_hint(parser->err, "%s", hint) : LK_ERR_INPUT;
}

static void parse_skip_blanks(struct parser *parser) {
	parser->at += strspn(parser->at, " \t\r\n");
}

static bool accept(struct parser *parser, char c) {
	parse_skip_blanks(parser);
	if (*parser->at != c) return false;
	parser->at++;
	return true;
}

static bool is_letter(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Skip `word` at the cursor, in any case. */
static bool accept_word(struct parser *parser, const char *word) {
	parse_skip_blanks(parser);
	size_t n = 0;
	for (; is_letter(parser->at[n]) && word[n]; n++)
		if ((parser->at[n] | 0x20) != word[n]) return false;
	if (word[n] || is_letter(parser->at[n])) return false;
	parser->at += n;
	return true;
}

static lk_status parse_read_count(struct parser *parser, long long high, const char *of_what,
                                  int *out) {
	parse_skip_blanks(parser);
	const char *from = parser->at;
	long long count = 0;
	for (; lk_is_digit(*parser->at); parser->at++)
		if (count <= high) count = count * 10 + (*parser->at - '0');
	char what[96], hint[64];
	snprintf(hint, sizeof hint, "give a whole number from 1 to %lld", high);
	snprintf(what, sizeof what, parser->at == from ? "%s is missing" : "%s is out of range",
	         of_what);
	if (parser->at == from || count < 1 || count > high)
		return parse_fail_at(parser, from, what, NULL, hint);
	*out = (int)count;
	return LK_OK;
}

static lk_status parse_read_rate(struct parser *parser, double low, double high,
                                 const char *of_what, double *out) {
	parse_skip_blanks(parser);
	const char *from = parser->at, *end;
	double number = lk_read_real(from, &end);
	char what[96], hint[64];
	snprintf(hint, sizeof hint, "give a number from %.9g to %.9g", low, high);
	snprintf(what, sizeof what, end == from ? "%s is missing" : "%s is out of range", of_what);
	if (end == from || !(number >= low && number <= high))
		return parse_fail_at(parser, from, what, NULL, hint);
	parser->at = end;
	*out = round(number * 1e6) /
	       1e6; /* the number of decimals in the text of a cluster: cluster_text.c */
	return LK_OK;
}

/* Length of the word at the cursor, for error messages and device names: up to a blank, comma, plus
 * or star. */
static size_t word_length(const struct parser *parser) {
	return strcspn(parser->at, " \t\r\n,+*");
}

static lk_status parse_unexpected(struct parser *parser, const char *hint) {
	parse_skip_blanks(parser);
	if (!*parser->at)
		return parse_fail_at(parser, parser->at, "the text ends too early", NULL, hint);
	char word[WORD];
	size_t length = word_length(parser);
	snprintf(word, sizeof word, "%.*s", length ? (int)(length < WORD ? length : WORD - 1) : 1,
	         parser->at);
	return parse_fail_at(parser, parser->at, "unexpected", word, hint);
}

/* ---- nodes ---- */

static lk_status parse_read_device(struct parser *parser, const lk_device **out) {
	parse_skip_blanks(parser);
	const char *from = parser->at;
	size_t length = word_length(parser);
	bool quoted = *from == '"' || *from == '\'';
	if (quoted) {
		const char *end = strchr(from + 1, *from);
		if (!end) return parse_fail_at(parser, from, "this quote is not closed", NULL, NULL);
		length = (size_t)(end - from) - 1;
	}
	if (!length) return parse_unexpected(parser, "a device is expected here, such as h100-sxm");
	if (length >= 128)
		return parse_fail_at(parser, from, "a device name of more than 127 bytes", NULL, NULL);
	char name[128];
	memcpy(name, from + quoted, length);
	name[length] = '\0';
	parser->at = from + length + 2 * (size_t)quoted;
	lk_error why = {0};
	lk_status status = lk_device_lookup(name, NULL, out, &why);
	if (status == LK_OK) return LK_OK;
	if (status != LK_ERR_INPUT) {
		if (parser->err) *parser->err = why;
		return status;
	}
	return parse_fail_at(parser, from, why.what, NULL, why.hint);
}

/* Reads "500w", if it stands here: a number may also be a link's rate. */
static lk_status read_power(struct parser *parser, const lk_device **device) {
	parse_skip_blanks(parser);
	const char *from = parser->at, *end;
	double watts = lk_read_real(from, &end);
	if (end == from) return LK_OK;
	parser->at = end;
	if (!accept_word(parser, "w")) {
		parser->at = from;
		return LK_OK;
	}
	for (size_t i = 0; i < parser->draft.runs.count; i++) { /* one device, not two alike */
		const lk_device *before = parser->draft.runs.at[i].node.device;
		if (strcmp(before->name, (*device)->name) == 0 && before->power_w == watts) {
			*device = before;
			return LK_OK;
		}
	}
	lk_error why = {0};
	lk_status status = lk_device_with_power(parser->arena, *device, watts, device, &why);
	if (status == LK_ERR_INPUT) return parse_fail_at(parser, from, why.what, NULL, why.hint);
	return status == LK_OK ? LK_OK : lk_oom(parser->err);
}

/* PCIe x16 rate per direction as in NCCL: 12 GB/s for generation 3, doubled with each
 * (graph/topo.h). */
static lk_status read_pcie(struct parser *parser, const char *from, lk_node *node) {
	node->intra = LK_INTRA_PCIE;
	node->intra_rate = node->device->pcie_rate;
	if (!lk_is_digit(*parser->at)) return LK_OK;
	int generation = *parser->at++ - '0';
	if (generation < 3 || generation > 7 || lk_is_digit(*parser->at))
		return parse_fail_at(parser, from, "no PCIe generation that is known", NULL,
		                     "say pcie3, pcie4, pcie5, pcie6 or pcie7");
	node->intra_rate = 12e9 * (1 << (generation - 3));
	return LK_OK;
}

/* `fits`: the word names the device's kind of links. */
static lk_status parse_read_links(struct parser *parser, const char *from, lk_node *node,
                                  lk_intra intra, bool fits) {
	const lk_device *device = node->device;
	int generation = lk_nvlink_generation(device->arch);
	char hint[64] = "write pcie, or leave it out for the default wiring";
	if (!(device->link_rate > 0) || !fits) {
		if (device->link_rate > 0 && generation)
			snprintf(hint, sizeof hint, "it has nvlink%d", generation);
		else if (device->link_rate > 0) snprintf(hint, sizeof hint, "it has xgmi");
		return parse_fail_at(parser, from, "no such links on device", device->name, hint);
	}
	if (device->link_bridge && node->gpus > 2)
		return parse_fail_at(parser, from, "a bridge joins two cards, not more, of device",
		                     device->name, "say bridges, pcie, or describe nodes of 2 GPUs");
	node->intra = intra;
	node->intra_rate = device->link_rate;
	return LK_OK;
}

static lk_status read_nvlink(struct parser *parser, const char *from, lk_node *node,
                             lk_intra wired) {
	int generation = lk_nvlink_generation(node->device->arch);
	int said = lk_is_digit(*parser->at) ? *parser->at++ - '0' : generation;
	return parse_read_links(parser, from, node, wired, generation && said == generation);
}

/* Bridges join pairs; all others reach one another over PCIe. */
static lk_status read_bridges(struct parser *parser, const char *from, lk_node *node) {
	const lk_device *device = node->device;
	if (!device->link_bridge)
		return parse_fail_at(parser, from, "no bridge joins pairs of device", device->name,
		                     "write pcie, or leave it out for the default wiring");
	node->intra = LK_INTRA_PCIE;
	node->intra_rate = device->pcie_rate;
	node->pair_rate = device->link_rate;
	return LK_OK;
}

/* Read the optional wiring. */
static lk_status parse_read_wiring(struct parser *parser, lk_node *node) {
	parse_skip_blanks(parser);
	const char *from = parser->at;
	lk_intra wired = node->device->link_switch ? LK_INTRA_SWITCH : LK_INTRA_MESH;
	if (accept_word(parser, "pcie")) return read_pcie(parser, from, node);
	if (accept_word(parser, "bridges")) return read_bridges(parser, from, node);
	if (accept_word(parser, "nvlink")) return read_nvlink(parser, from, node, wired);
	if (accept_word(parser, "xgmi"))
		return parse_read_links(parser, from, node, wired,
		                        !lk_nvlink_generation(node->device->arch));
	if (accept_word(parser, "nvswitch"))
		return parse_read_links(parser, from, node, LK_INTRA_SWITCH, true);
	if (accept_word(parser, "mesh"))
		return parse_read_links(parser, from, node, LK_INTRA_MESH, true);
	return LK_OK;
}

/* Read an optional "300GB/s". */
static lk_status read_link_rate(struct parser *parser, lk_node *node) {
	parse_skip_blanks(parser);
	if (!lk_is_digit(*parser->at) && *parser->at != '.') return LK_OK;
	const char *from = parser->at;
	double rate;
	LK_TRY(parse_read_rate(parser, 1e-3, LK_CLUSTER_RATE / 1e9, "the link rate", &rate));
	if (!accept_word(parser, "gb") || !accept(parser, '/') || !accept_word(parser, "s"))
		return parse_fail_at(parser, from, "a rate without its unit", NULL,
		                     "say 300GB/s: per second, direction and GPU");
	*(node->pair_rate > 0 ? &node->pair_rate : &node->intra_rate) = rate * 1e9;
	return LK_OK;
}

/* "nop2p": only GPUs on PCIe depend on the host for peer access. The word holds a digit. */
static bool accept_no_peer(struct parser *parser) {
	parse_skip_blanks(parser);
	if (word_length(parser) != 5 || strncasecmp(parser->at, "nop2p", 5) != 0) return false;
	parser->at += 5;
	return true;
}

static lk_status read_no_peer(struct parser *parser, lk_node *node) {
	node->no_peer = true;
	if (node->intra == LK_INTRA_PCIE) return LK_OK;
	return parse_fail_at(parser, parser->at - 5, "peer access over the links of device",
	                     node->device->name, "nop2p goes with pcie and bridges");
}

/* Read the optional name of the NICs' network: "efa" states its latency, "ib" and "roce" none. */
static lk_status read_transport(struct parser *parser, lk_node *node) {
	parse_skip_blanks(parser);
	size_t length = word_length(parser);
	lk_transport transport = lk_transport_find(parser->at, length);
	if (accept_word(parser, "efa")) node->nic_latency_s = lk_efa_latency(node);
	else if (accept_word(parser, "ib") || accept_word(parser, "roce")) return LK_OK;
	else if (transport != LK_TRANSPORTS) {
		node->transport = transport;
		parser->at += length;
	} else if (is_letter(*parser->at))
		return parse_unexpected(parser, "the network is ib, roce, efa, sockets, tcpx or tcpxo");
	return LK_OK;
}

static lk_status read_nic(struct parser *parser, lk_node *node) {
	double gbits, us = 0;
	LK_TRY(parse_read_count(parser, LK_CLUSTER_NICS, "the number of NICs of a node", &node->nics));
	if (!accept(parser, '*'))
		return parse_unexpected(parser, "say how many NICs of which rate, such as nic 8*400g");
	LK_TRY(parse_read_rate(parser, 1e-3, LK_CLUSTER_RATE * 8 / 1e9, "the rate of a NIC in gigabits",
	                       &gbits));
	if (!accept_word(parser, "g") && !accept_word(parser, "gb") && !accept_word(parser, "gbps") &&
	    !accept_word(parser, "gbit")) {
		parse_skip_blanks(parser);
		if (is_letter(*parser->at))
			return parse_unexpected(parser,
			                        "the rate of a NIC is in gigabits per second, such as 400g");
	}
	parse_skip_blanks(parser);
	if (lk_is_digit(*parser->at) || *parser->at == '.') {
		LK_TRY(parse_read_rate(parser, 0, 1e6, "the latency", &us));
		if (!accept_word(parser, "us"))
			return parse_unexpected(parser, "the latency of a NIC is in us, such as 35us");
	}
	node->nic_rate = gbits * 1e9 / 8;
	node->nic_latency_s = us * 1e-6;
	node->transport = LK_TRANSPORT_RDMA;
	return read_transport(parser, node);
}

static lk_status read_oversub(struct parser *parser) {
	parse_skip_blanks(parser);
	const char *from = parser->at;
	double factor;
	LK_TRY(parse_read_rate(parser, 1, 1e4, "the oversubscription", &factor));
	if (parser->oversub_said && factor != parser->draft.oversubscription)
		return parse_fail_at(parser, from, "a second oversubscription", NULL,
		                     "it holds for the whole cluster: say it once");
	parser->oversub_said = true;
	parser->draft.oversubscription = factor;
	return LK_OK;
}

/* Read "tree 16 leaf 4:1", whose first word is at the cursor. */
static lk_status read_network(struct parser *parser) {
	lk_interconnect net;
	lk_error why = {0};
	const char *from = parser->at;
	lk_status status = lk_interconnect_read(&parser->at, &net, &why);
	if (status != LK_OK) return parse_fail_at(parser, parser->at, why.what, NULL, why.hint);
	if (parser->draft.net.kind != LK_NET_FLAT && memcmp(&net, &parser->draft.net, sizeof net) != 0)
		return parse_fail_at(parser, from, "a second network", NULL,
		                     "it holds for the whole cluster: say it once");
	parser->draft.net = net;
	return LK_OK;
}

static lk_status read_option(struct parser *parser, lk_node *node) {
	if (accept_word(parser, "nic")) return read_nic(parser, node);
	if (accept_no_peer(parser)) return read_no_peer(parser, node);
	if (accept_word(parser, "oversub")) return read_oversub(parser);
	if (accept_word(parser, "rail")) return LK_OK;
	if (accept_word(parser, "apart")) {
		parser->apart = true;
		return LK_OK;
	}
	if (lk_net_kind_of(parser->at, word_length(parser)) != LK_NET_FLAT) return read_network(parser);
	if (!accept_word(parser, "norail"))
		return parse_unexpected(
			parser,
			"say nic, nop2p, oversub, rail, norail, apart, tree, rails, dragonfly or torus");
	parser->draft.rail_optimised = false;
	return LK_OK;
}

/* ---- the whole ---- */

/* Read a device and its wiring; `gpus` of a node, 0: as many as the device's default node has. */
static lk_status parse_read_node(struct parser *parser, int gpus, lk_node *node) {
	const lk_device *device;
	LK_TRY(parse_read_device(parser, &device));
	LK_TRY(read_power(parser, &device));
	*node = lk_node_usual(device, gpus ? gpus : device->node_gpus);
	LK_TRY(parse_read_wiring(parser, node));
	return read_link_rate(parser, node);
}

/* Add nodes after their options were read. Trays of a rack become its domains, with the NICs of all
 * their trays. */
static lk_status parse_add_nodes(struct parser *parser, const lk_node *node, int nodes,
                                 const char *from) {
	lk_error why = {0};
	lk_node domain = *node;
	lk_status status;
	if (!parser->apart && lk_node_is_tray(node, nodes)) {
		int trays = node->device->node_gpus / node->gpus;
		if (trays > nodes) trays = nodes;
		domain.gpus = trays * node->gpus;
		domain.nics = trays * node->nics;
		parser->draft.assumed = lk_arena_printf(
			parser->arena,
			"nodes of %d %s are trays of one rack: %d of them are one NVLink domain; write \", "
			"apart\" after them if they are not",
			node->gpus, node->device->name, trays);
		if (!parser->draft.assumed) return lk_oom(parser->err);
		status = lk_cluster_fill(&parser->draft, &domain, nodes * node->gpus, &why);
	} else status = lk_cluster_add(&parser->draft, node, nodes, "", &why);
	if (status == LK_ERR_INPUT) return parse_fail_at(parser, from, why.what, NULL, NULL);
	return status == LK_OK ? LK_OK : lk_oom(parser->err);
}

static lk_status parse_read_options(struct parser *parser, lk_node *node) {
	parser->apart = false;
	while (accept(parser, ',')) LK_TRY(read_option(parser, node));
	return LK_OK;
}

/* Read "p4d.24xlarge", alone or after "2 *": the node's text is read in its place. */
static lk_status parse_read_machines(struct parser *parser, int nodes, const char *from) {
	parse_skip_blanks(parser);
	size_t length = word_length(parser);
	const char *text, *at = parser->at;
	lk_node node;
	LK_TRY(lk_machine_text(parser->arena, at, length, &text, parser->err));
	if (!text)
		return parse_unexpected(parser, "say '8 node * 8 h100-sxm', or a machine that "
		                                "lockstep machines lists, as in '2 * p4d.24xlarge'");
	int gpus;
	parser->at = text;
	LK_TRY(parse_read_count(parser, LK_CLUSTER_GPUS, "a count", &gpus));
	LK_TRY(parse_read_node(parser, gpus, &node));
	LK_TRY(parse_read_options(parser, &node));
	parser->at = at + length;
	LK_TRY(parse_read_options(parser, &node));
	return parse_add_nodes(parser, &node, nodes, from);
}

static lk_status parse_read_nodes(struct parser *parser) {
	int nodes = 0, gpus;
	parse_skip_blanks(parser);
	const char *from = parser->at;
	if (is_letter(*from)) return parse_read_machines(parser, 1, from);
	LK_TRY(parse_read_count(parser, LK_CLUSTER_GPUS, "a count", &gpus));
	if (accept(parser, '*')) return parse_read_machines(parser, gpus, from);
	if (accept_word(parser, "node") || accept_word(parser, "nodes")) {
		nodes = gpus;
		if (!accept(parser, '*')) return parse_unexpected(parser, "say '8 node * 8 h100-sxm'");
		LK_TRY(parse_read_count(parser, LK_CLUSTER_GPUS, "the number of GPUs of a node", &gpus));
	}
	lk_node node;
	LK_TRY(parse_read_node(parser, nodes ? gpus : 0, &node));
	LK_TRY(parse_read_options(parser, &node));
	if (nodes) return parse_add_nodes(parser, &node, nodes, from);
	lk_error why = {0};
	lk_status status = lk_cluster_fill(&parser->draft, &node, gpus, &why);
	if (status == LK_ERR_INPUT) return parse_fail_at(parser, from, why.what, NULL, NULL);
	return status == LK_OK ? LK_OK : lk_oom(parser->err);
}

lk_status lk_cluster_parse_text(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err) {
	struct parser p = {arena, text, text, LK_CLUSTER_DRAFT_INIT, false, false, err};
	lk_status status;
	do status = parse_read_nodes(&p);
	while (status == LK_OK && accept(&p, '+'));
	parse_skip_blanks(&p);
	if (status == LK_OK && *p.at)
		status = parse_unexpected(&p, "nodes are joined by '+', their options by ','");
	if (status == LK_OK) status = lk_cluster_seal(arena, &p.draft, out, err);
	lk_vec_free(&p.draft.runs);
	return status;
}

static lk_status parse_read_file(lk_arena *arena, const char *path, lk_cluster *out,
                                 lk_error *err) {
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(path, JSON_FILE_LIMIT, &text, &size, err));
	lk_stream *in;
	lk_status status = lk_stream_memory(text, size, path, &in, err);
	if (status == LK_OK) {
		status = lk_cluster_json(arena, in, out, err);
		lk_stream_close(in);
	}
	free(text);
	return status;
}

/* Read "[COUNT node *] FILE.xml": nodes as NCCL describes one. */
static lk_status read_xml(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err) {
	struct parser p = {arena, text, text, LK_CLUSTER_DRAFT_INIT, false, false, err};
	lk_node node;
	lk_stream *in;
	int nodes = 1;
	parse_skip_blanks(&p);
	if (lk_is_digit(*p.at) &&
	    (parse_read_count(&p, LK_CLUSTER_GPUS, "a count", &nodes) != LK_OK ||
	     !(accept_word(&p, "node") || accept_word(&p, "nodes")) || !accept(&p, '*'))) {
		p.at = text;
		nodes = 1;
	} /* a name that begins with digits */
	parse_skip_blanks(&p);
	LK_TRY(lk_stream_open(p.at, &in, err));
	lk_status status = lk_topology_xml_read(in, &node, err);
	lk_stream_close(in);
	if (status == LK_OK) status = lk_cluster_add(&p.draft, &node, nodes, "--cluster", err);
	if (status == LK_OK) status = lk_cluster_seal(arena, &p.draft, out, err);
	lk_vec_free(&p.draft.runs);
	return status;
}

/* The length of the name in "FILE.log [DEVICE]"; 0: no such form. */
static size_t parse_log_name(const char *text) {
	const char *at = strstr(text, ".log");
	while (at && at[4] && at[4] != ' ') at = strstr(at + 1, ".log");
	return at ? (size_t)(at - text) + 4 : 0;
}

static lk_status read_info(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err) {
	lk_cluster_draft draft = LK_CLUSTER_DRAFT_INIT;
	size_t length = parse_log_name(text);
	const char *path = lk_arena_strndup(arena, text, length), *device = text + length;
	lk_stream *in;
	if (!path) return lk_oom(err);
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_nccl_info_read(in, device + strspn(device, " "), &draft, err);
	lk_stream_close(in);
	if (status == LK_OK) status = lk_cluster_seal(arena, &draft, out, err);
	lk_vec_free(&draft.runs);
	return status;
}

bool lk_cluster_text_is_file(const char *text) {
	return text[strspn(text, " \t\r\n")] == '{' || lk_ends_in(text, ".json") ||
	       lk_ends_in(text, ".xml") || parse_log_name(text);
}

/* Refuse a text that begins with neither a count nor a device nor a machine: a file that does not
 * exist or whose extension is unknown. */
static lk_status check_cluster_name(lk_arena *arena, const char *text, lk_error *err) {
	static const char *const hint =
		"give a text such as '8 node * 8 h100-sxm' or '2 * p4d.24xlarge', or a file that ends in "
		".json (lockstep calibrate host), .xml (NCCL's topology) or .log (NCCL_DEBUG=INFO)";
	const char *word = text + strspn(text, " \t\r\n");
	char name[WORD];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word, " \t\r\n,+*"), word);
	bool named = is_letter(*word) || (*word && strchr("./_~", *word));
	if (!named || strchr(text, '*') || lk_device_find(name)) return LK_OK;
	const char *machine;
	LK_TRY(lk_machine_text(arena, name, strlen(name), &machine, err));
	if (machine) return LK_OK;
	FILE *file = fopen(text, "r");
	if (file) {
		fclose(file);
		lk_fail(err, LK_ERR_INPUT, "--cluster",
		        "\"%.200s\" has none of the endings of a cluster's file", text);
	} else lk_fail(err, LK_ERR_INPUT, "--cluster", "there is no file \"%.200s\"", text);
	return lk_hint(err, "%s", hint);
}

/* Parse "8xh100", as accepted by --gpu. */
static bool parse_is_count(const char *text, const lk_device **device, int *gpus) {
	*device = lk_device_find(lk_gpu_split(text, gpus));
	return *gpus > 0 && *device;
}

lk_status lk_cluster_parse(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err) {
	const lk_device *device;
	int gpus;
	if (text[strspn(text, " \t\r\n")] != '{') {
		if (lk_ends_in(text, ".json")) return parse_read_file(arena, text, out, err);
		if (lk_ends_in(text, ".xml")) return read_xml(arena, text, out, err);
		if (parse_log_name(text)) return read_info(arena, text, out, err);
		if (parse_is_count(text, &device, &gpus))
			return lk_cluster_simple(arena, device, gpus, 0, 0, out, err);
		LK_TRY(check_cluster_name(arena, text, err));
		return lk_cluster_parse_text(arena, text, out, err);
	}
	lk_stream *in;
	LK_TRY(lk_stream_memory(text, strlen(text), "--cluster", &in, err));
	lk_status status = lk_cluster_json(arena, in, out, err);
	lk_stream_close(in);
	return status;
}
