/* sites.c: training on several sites that synchronise now and then (DiLoCo, arXiv 2311.08105;
 * fragments and overlap: Streaming DiLoCo, arXiv 2501.18512).
 *
 * Each of M sites takes `every` steps by itself; then the change of its N weights is averaged over
 * a ring of the sites' links: 2(M-1) rounds, each of one latency and N bits/8/M bytes. In F
 * fragments that take turns, each once in a period, a fragment is in transit during `overlap`
 * steps; a longer transfer stalls the site. Links may be uneven: over a network of tiers the ring
 * goes at the pace of its slowest edge, and a round takes the mean of its edges' latencies, as each
 * piece passes all of them (cost/topology). */
#include <math.h>
#include <stddef.h>

#include "plan/plan.h"
#include "cost/topology/topology.h"

static const lk_number_word words[] = {
	{"sites", "", offsetof(lk_sites, sites), 2, 1e6, 1, true},
	{"wan", "g", offsetof(lk_sites, bytes_per_s), 1e-6, 1e6, 1e9 / 8, false},
	{"latency", "ms", offsetof(lk_sites, latency_s), 0, 1e6, 1e-3, false},
	{"every", "", offsetof(lk_sites, every), 1, 1e9, 1, true},
	{"bits", "", offsetof(lk_sites, bits), 4, 32, 1, true},
	{"fragments", "", offsetof(lk_sites, fragments), 1, 1e4, 1, true},
	{"overlap", "", offsetof(lk_sites, overlap), 0, 1e9, 1, true},
	{"busy", "%", offsetof(lk_sites, busy), 1, 99.99, 0.01, false},
};
static const lk_word_list site_words = {
	"--aggregate", words, sizeof words / sizeof *words,
	"give words as sites=4 wan=10g latency=50ms every=100 bits=16 fragments=8 overlap=5, or "
	"busy=95% instead of every; at the end a network, as in over tree 2 leaf 1g 80ms"};

static lk_status refuse(const char *word, const char *what, lk_error *err) {
	return lk_number_words_refuse(&site_words, word, what, err);
}

/* Join the sites in a ring, in order, over a network of their links. */
static lk_status sites_join(const char *network, lk_sites *out, lk_error *err) {
	lk_interconnect net;
	lk_users users;
	lk_stations stations = {0};
	uint32_t sites = (uint32_t)out->sites;
	LK_TRY(lk_interconnect_parse(network, sites, "--aggregate", &net, err));
	lk_net_links topology = lk_topology_of_places(&net, sites, out->bytes_per_s);
	lk_status status = lk_users_begin(&topology, &users, err);
	for (uint32_t site = 0; status == LK_OK && site < sites; site++)
		if (!lk_stations_add(&stations, site, 0)) status = lk_oom(err);
	if (status == LK_OK) status = lk_users_add(&users, &stations, LK_TRAFFIC_RING, 1, err);
	if (status == LK_OK) status = lk_users_share(&users, err);
	if (status == LK_OK) {
		out->bytes_per_s *= users.rate.at[0];
		out->latency_s += users.latency.at[0];
	}
	lk_users_free(&users);
	lk_stations_free(&stations);
	return status;
}

lk_status lk_sites_read(const char *text, lk_sites *out, lk_error *err) {
	*out = (lk_sites){.fragments = 1};
	const char *network;
	LK_TRY(lk_number_words_read(&site_words, text, out, &network, err));
	if (out->sites == 0) return refuse("sites", "is missing", err);
	if (out->bytes_per_s == 0) return refuse("wan", "is missing", err);
	if (out->every > 0 && out->busy > 0) return refuse("busy", "is what `every` decides", err);
	if (out->every == 0 && out->busy == 0) out->busy = 0.95;
	double bits = out->bits;
	if (bits != 0 && bits != 4 && bits != 8 && bits != 16 && bits != 32)
		return refuse("bits", "is not 32, 16, 8 or 4", err);
	double least = out->overlap > out->fragments ? out->overlap : out->fragments;
	if (out->every > 0 && least > out->every)
		return refuse("every", "is less than fragments or overlap", err);
	return network ? sites_join(network, out, err) : LK_OK;
}

lk_plan_sync lk_sites_sync(const lk_sites *sites, double bits, double parameters, double step_s) {
	double rounds = 2 * (sites->sites - 1);
	lk_plan_sync sync = {.bits = (int)bits};
	sync.bytes = rounds / sites->sites * parameters * bits / 8;
	double fragment_s =
		rounds * sites->latency_s + sync.bytes / sites->fragments / sites->bytes_per_s;
	sync.sync_s = sites->fragments * fragment_s;
	sync.stall_s = sites->fragments * fmax(0, fragment_s - sites->overlap * step_s);
	/* A period lasts as long as its steps and stalls, or as the link is busy: busy is the share of
	 * either, solved for `every`. */
	double least = fmax(sites->fragments, fmax(sites->overlap, 1));
	double busy = sites->busy;
	double needed = fmax(busy / (1 - busy) * sync.stall_s, busy * sync.sync_s) / step_s;
	sync.every = busy > 0 ? ceil(fmax(needed, least) * (1 - 1e-12)) : sites->every;
	sync.stall_s = fmax(sync.stall_s, sync.sync_s - sync.every * step_s);
	double steps_s = sync.every * step_s;
	sync.utilisation = steps_s / (steps_s + sync.stall_s);
	return sync;
}
