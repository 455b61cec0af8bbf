/* nccl_info.c: a cluster from NCCL's output with NCCL_DEBUG=INFO (NVIDIA/nccl, src/init.cc,
 * transport/net_ib.cc, net_socket.cc, graph/topo.cc), and the head of nccl-tests around it:
 *
 *     #  Rank  0 Group  0 Pid 12 on host device  0 [0x18] NVIDIA H100 80GB HBM3
 *
 * and, each after "host:12:34 [0] NCCL INFO":
 *
 *     NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
 *     comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
 *     + NET[50.0] - NET/0 (...)
 *     Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
 *
 * where NET[50.0] is GB/s of a NIC. Settings of the job, and choices of NCCL:
 *
 *     NCCL version 2.21.5+cuda12.4
 *     NCCL_ALGO set by environment to Ring
 *     AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
 *     8388608 Bytes -> Algo 1 proto 2 time 34.69
 *
 * (the last two with NCCL_DEBUG_SUBSYS=TUNING, of releases from 2.23 on and before). A choice
 * depends on the size: it counts as a setting if it is the same for sizes that differ by a factor
 * of at least CHOSEN_SPAN, and the environment does not state it.
 *
 * The largest of several communicators counts. Before release 2.20 NCCL does not print the ranks of
 * a node: then use the most seen on a host, or the device's default if only one rank of one host is
 * seen. Whatever is not printed defaults to the device's.
 */
#include "hw/hw_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum {
	HOSTS = 4096,
	HOST_RANKS = 64, /* per host, one bit each */
	NAME = 128
};

#define INFO_BYTES  ((size_t)1 << 30)
#define CHOSEN_SPAN 64

const char *const lk_nccl_variables[] = {
	"NCCL_ALGO",           "NCCL_PROTO",
	"NCCL_MIN_NCHANNELS",  "NCCL_MAX_NCHANNELS",
	"NCCL_MIN_CTAS",       "NCCL_MAX_CTAS",
	"NCCL_NVLS_ENABLE",    "NCCL_BUFFSIZE",
	"NCCL_NVLS_CHUNKSIZE", NULL,
};

bool lk_nccl_variable(const char *name, size_t length) {
	for (int i = 0; lk_nccl_variables[i]; i++)
		if (strlen(lk_nccl_variables[i]) == length &&
		    strncmp(lk_nccl_variables[i], name, length) == 0)
			return true;
	return false;
}

/* Collectives whose choices are read; lines without a name count for the first. */
static const char *const info_functions[] = {"",          "AllReduce", "AllGather", "ReduceScatter",
                                             "Broadcast", "Reduce"};
/* Indexed by NCCL's numbers (NVIDIA/nccl, src/include: ncclAlgoStr, ncclProtoStr). */
static const char *const info_algos[] = {"Tree", "Ring",     "CollNetDirect", "CollNetChain",
                                         "NVLS", "NVLSTree", "PAT",           NULL};
static const char *const info_protos[] = {"LL", "LL128", "Simple", NULL};

enum { FUNCTIONS = sizeof info_functions / sizeof *info_functions };

struct info_host {
	char name[64];
	uint64_t devices; /* seen in the largest communicator */
};

struct info {
	LK_VEC(struct info_host) hosts;
	char gpu[NAME];
	int ranks, local; /* of the largest communicator; 0: not printed */
	int nics;         /* 0: not printed */
	double nic_gbytes;
	bool sockets, efa, said; /* `said`: there is a line from NCCL */
	bool peer, shared;       /* paths within a node: GPU to GPU, through host memory */
	bool system, links;      /* the topology was printed; it has NVLinks */
	char release[16];        /* of NCCL; "" not printed */
	char settings[200];      /* NAME=VALUE of the environment, separated by blanks */
	struct {
		unsigned algos, protos; /* bits of the choices seen */
		double least, most;     /* bytes */
	} chosen[FUNCTIONS];
};

/* The whole number after `key`, 0 or more; -1: none. */
static int info_number(const char *line, const char *key) {
	const char *at = strstr(line, key);
	if (!at) return -1;
	at += strlen(key);
	long number = *at >= '0' && *at <= '9' ? strtol(at, NULL, 10) : -1;
	return number < LK_CLUSTER_GPUS ? (int)number : -1;
}

/* "host" of "[1,0]<stdout>:host:12:34 [0] NCCL INFO ": the word before the last two colons. */
static void info_host_name(const char *line, const char *marker, char *out, size_t size) {
	const char *end = marker;
	while (end > line && end[-1] != '[') end--; /* of the device */
	while (end > line && (end[-1] == '[' || end[-1] == ' ')) end--;
	const char *colon = end;
	for (int colons = 0; colon > line && colons < 2; colons += *colon == ':') colon--;
	const char *begin = colon;
	while (begin > line && begin[-1] != ' ' && begin[-1] != ':' && begin[-1] != '>') begin--;
	snprintf(out, size, "%.*s", (int)(colon - begin), begin);
}

static lk_status info_see_rank(struct info *info, const char *host, int device, lk_error *err) {
	size_t i = 0;
	while (i < info->hosts.count && strcmp(info->hosts.at[i].name, host) != 0) i++;
	if (i == HOSTS || device < 0 || device >= HOST_RANKS) return LK_OK;
	if (i == info->hosts.count) {
		if (!lk_push(&info->hosts)) return lk_oom(err);
		lk_copy(lk_last(&info->hosts)->name, sizeof lk_last(&info->hosts)->name, host);
	}
	info->hosts.at[i].devices |= (uint64_t)1 << device;
	return LK_OK;
}

/* "rank 0 nranks 16 cudaDev 0 ...", "rank 0 nRanks 16 nNodes 2 localRanks 8 ...". */
static lk_status info_read_comm(struct info *info, const char *host, const char *line,
                                lk_error *err) {
	int ranks = info_number(line, " nranks "), local = info_number(line, " localRanks ");
	if (ranks < 0) ranks = info_number(line, " nRanks ");
	if (ranks < 1 || ranks < info->ranks) return LK_OK;
	if (ranks > info->ranks) {
		info->ranks = ranks;
		info->local = 0;
		info->hosts.count = 0;
	}
	if (local > 0) info->local = local;
	return info_see_rank(info, host, info_number(line, " cudaDev "), err);
}

/* "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ...": count those with a number in
 * brackets. */
static int info_count_nics(const char *line) {
	int nics = 0;
	for (const char *at = strchr(line, '['); at; at = strchr(at + 1, '['))
		nics += at[1] >= '0' && at[1] <= '9';
	return nics;
}

static void info_read_net(struct info *info, const char *line) {
	bool socket = strstr(line, "NET/Socket") || strstr(line, "NET/FastSocket");
	int found = info_number(line, "(found ");
	if (strstr(line, ": Using [")) {
		/* sockets are named too if InfiniBand is used: the first line counts */
		if (info->nics && socket && !info->sockets) return;
		info->nics = info_count_nics(line);
		info->sockets = socket;
	} else if (strstr(line, "efa") && found > 0) {
		info->nics = found;
		info->efa = true;
	}
}

/* The largest rate of a NIC: "speed=400000" in Mbit/s, "NET[50.0] - " in GB/s. */
static void info_read_rate(struct info *info, const char *line) {
	static const struct {
		const char *key;
		double gbytes;
	} keys[] = {{" speed=", 1.0 / 8000}, {"NET[", 1}};
	const char *end;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *at = strstr(line, keys[i].key);
		if (!at) continue;
		double rate = lk_read_real(at + strlen(keys[i].key), &end) * keys[i].gbytes;
		if (rate > info->nic_gbytes && rate * 1e9 <= LK_CLUSTER_RATE) info->nic_gbytes = rate;
	}
}

/* "NCCL_ALGO set by environment to Ring", "... to 16." (numbers end with a full stop). */
static void info_read_setting(struct info *info, const char *line) {
	static const char words[] = " set by environment to ";
	const char *at = strstr(line, words), *name = at;
	if (!at) return;
	while (name > line && name[-1] != ' ') name--;
	const char *value = at + strlen(words);
	size_t length = strcspn(value, " \t"), used = strlen(info->settings);
	while (length && value[length - 1] == '.') length--;
	if (!lk_nccl_variable(name, (size_t)(at - name)) || !length) return;
	char word[96];
	int size = snprintf(word, sizeof word, "%s%.*s=", used ? " " : "", (int)(at - name), name);
	if (strstr(info->settings, word + (used > 0))) return; /* another rank printed it */
	if (used + (size_t)size + length < sizeof info->settings)
		snprintf(info->settings + used, sizeof info->settings - used, "%s%.*s", word, (int)length,
		         value);
}

/* The bit of a name, or of a number, after `key`; 0: none. */
static unsigned info_bit(const char *line, const char *key, const char *const names[]) {
	const char *at = strstr(line, key);
	if (!at) return 0;
	at += strlen(key);
	size_t length = strcspn(at, " \t");
	for (unsigned i = 0; names[i]; i++)
		if ((length == 1 && *at == (char)('0' + i)) ||
		    (length == strlen(names[i]) && strncasecmp(at, names[i], length) == 0))
			return 1u << i;
	return 0;
}

static void info_read_choice(struct info *info, const char *line) {
	const char *end, *words = strstr(line, " Bytes -> Algo "), *bytes = words;
	if (!words) return;
	while (bytes > line && bytes[-1] >= '0' && bytes[-1] <= '9') bytes--;
	int function = 0;
	for (int f = 1; f < FUNCTIONS; f++) {
		size_t length = strlen(info_functions[f]);
		const char *at = strstr(line, info_functions[f]);
		if (at && at[length] == ':' && at < bytes && (at == line || at[-1] == ' ')) function = f;
	}
	double size = lk_read_real(bytes, &end);
	unsigned algo = info_bit(line, " Algo ", info_algos),
			 proto = info_bit(line, " proto ", info_protos);
	if (!algo || !proto || !(size > 0)) return;
	bool first = !info->chosen[function].algos;
	info->chosen[function].algos |= algo;
	info->chosen[function].protos |= proto;
	if (first || size < info->chosen[function].least) info->chosen[function].least = size;
	if (first || size > info->chosen[function].most) info->chosen[function].most = size;
}

/* Write "NCCL_ALGO=allreduce:Ring;allgather:Ring" for choices that never changed; "" if none. */
static void info_chosen(const struct info *info, const char *variable, const char *const names[],
                        bool protos, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	if (strstr(info->settings, variable)) return;
	for (int f = 0; f < FUNCTIONS; f++) {
		unsigned bits = protos ? info->chosen[f].protos : info->chosen[f].algos;
		if (__builtin_popcount(bits) != 1 ||
		    info->chosen[f].most < CHOSEN_SPAN * info->chosen[f].least)
			continue;
		lk_text_add(&text, "%s", *out ? ";" : variable);
		if (f) lk_text_add(&text, "%s:", info_functions[f]);
		lk_text_add(&text, "%s", names[__builtin_ctz(bits)]);
	}
}

/* Write the settings in the form of --nccl. */
static void info_settings(const struct info *info, char *out, size_t size) {
	char algos[160], protos[160];
	info_chosen(info, "NCCL_ALGO=", info_algos, false, algos, sizeof algos);
	info_chosen(info, "NCCL_PROTO=", info_protos, true, protos, sizeof protos);
	const char *const words[] = {info->release, info->settings, algos, protos};
	lk_text text = lk_text_begin(out, size);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (*words[i] && strlen(out) + strlen(words[i]) + 2 < size)
			lk_text_add(&text, "%s%s", *out ? " " : "", words[i]);
}

static void info_read_release(struct info *info, const char *line) {
	const char *at = strstr(line, "NCCL version 2.");
	if (!at || *info->release) return;
	at += strlen("NCCL version ");
	size_t length = strspn(at, "0123456789.");
	if (length < sizeof info->release)
		snprintf(info->release, sizeof info->release, "%.*s", (int)length, at);
}

static lk_status info_read_line(struct info *info, const char *line, lk_error *err) {
	static const char marker[] = " NCCL INFO ";
	const char *at = strstr(line, marker);
	char host[64];
	info_read_release(info, line);
	if (!at) {
		const char *device = strchr(line, ']');
		if (strstr(line, "# ") && strstr(line, " Rank ") && strstr(line, " device ") && device)
			lk_copy(info->gpu, sizeof info->gpu, device + 1 + strspn(device + 1, " "));
		return LK_OK;
	}
	info->said = true;
	info_host_name(line, at, host, sizeof host);
	line = at + strlen(marker) - 1;
	info->peer |= strstr(line, " via P2P") != NULL;
	info->shared |= strstr(line, " via SHM") != NULL;
	info->system |= strstr(line, "=== System") != NULL;
	info->links |= strstr(line, "NVL[") != NULL || strstr(line, "XGMI[") != NULL;
	if (strstr(line, "NET/")) info_read_net(info, line);
	info_read_rate(info, line);
	info_read_setting(info, line);
	info_read_choice(info, line);
	return strstr(line, " rank ") ? info_read_comm(info, host, line, err) : LK_OK;
}

static lk_status info_read_text(struct info *info, char *text, lk_error *err) {
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next) *next++ = '\0';
		line[strcspn(line, "\r")] = '\0';
		LK_TRY(info_read_line(info, line, err));
	}
	return LK_OK;
}

/* The most devices seen on a host, unless it is one device on the only host seen. */
static int info_ranks_of_host(const struct info *info) {
	int most = 0;
	for (size_t i = 0; i < info->hosts.count; i++) {
		int devices = __builtin_popcountll(info->hosts.at[i].devices);
		if (devices > most) most = devices;
	}
	return most == 1 && info->hosts.count == 1 && info->ranks > 1 ? 0 : most;
}

static lk_status info_device(const struct info *info, const char *name, const lk_device **device,
                             const char *where, lk_error *err) {
	if (*name) return lk_device_lookup(name, "--cluster", device, err);
	if (*info->gpu) return lk_device_lookup(info->gpu, where, device, err);
	lk_fail(err, LK_ERR_INPUT, where, "NCCL does not say which GPUs these are");
	return lk_hint(err, "add it, as in --cluster \"%.60s h100-sxm\"", where);
}

/* NCCL assumes 10 Gb/s for sockets of unknown rate. If there are more EFA cards than GPUs, the
 * cards share the GPUs' default rate. */
static void info_net(const struct info *info, lk_node *node) {
	if (info->nics) node->nics = info->nics < LK_CLUSTER_NICS ? info->nics : LK_CLUSTER_NICS;
	if (info->nic_gbytes > 0) node->nic_rate = info->nic_gbytes * 1e9;
	else if (info->sockets) node->nic_rate = 10e9 / 8;
	else if (info->efa && node->nics > node->gpus)
		node->nic_rate *= (double)node->gpus / node->nics;
	if (info->efa) node->nic_latency_s = lk_efa_latency(node);
	if (info->sockets) node->transport = LK_TRANSPORT_SOCKETS;
}

/* Without a printed topology, the transport of the channels distinguishes NVLink from PCIe. */
static bool info_guesses_pcie(const struct info *info) {
	return !info->system && info->shared && !info->peer;
}

static lk_node info_node(const struct info *info, const lk_device *device) {
	int usual = device->node_gpus < info->ranks ? device->node_gpus : info->ranks;
	int local = info->local ? info->local : info_ranks_of_host(info);
	lk_node node = lk_node_usual(device, local ? local : usual);
	if ((info->system && !info->links) || info_guesses_pcie(info)) {
		node.intra = LK_INTRA_PCIE;
		node.intra_rate = device->pcie_rate;
		node.no_peer = info->shared && !info->peer;
	}
	info_net(info, &node);
	return node;
}

lk_status lk_nccl_info_read(lk_stream *in, const char *device_name, lk_cluster_draft *draft,
                            lk_error *err) {
	struct info info = {0};
	const lk_device *device;
	char *text;
	size_t size;
	LK_TRY(lk_stream_rest(in, INFO_BYTES, &text, &size, err));
	lk_status status = info_read_text(&info, text, err);
	if (status == LK_OK && !info.ranks) {
		lk_fail(err, LK_ERR_INPUT, lk_stream_name(in),
		        info.said ? "NCCL does not say how many ranks there are"
		                  : "it has no line of NCCL's");
		status =
			lk_hint(err, "run with NCCL_DEBUG=INFO, and keep what it prints from its begin on");
	}
	if (status == LK_OK) status = info_device(&info, device_name, &device, lk_stream_name(in), err);
	if (status == LK_OK) {
		lk_node node = info_node(&info, device);
		if (info_guesses_pcie(&info) && lk_intra_rate(device, LK_INTRA_SWITCH) > 0)
			draft->assumed = "GPUs of a node exchange data over PCIe: the log has no topology, and "
							 "its channels use the host's memory (--cluster states links)";
		info_settings(&info, draft->nccl, sizeof draft->nccl);
		status = lk_cluster_fill(draft, &node, info.ranks, err);
	}
	lk_vec_free(&info.hosts);
	free(text);
	return status;
}
