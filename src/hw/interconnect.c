/* interconnect.c: the network between nodes: names, the text form, limits. cost/topology models how
 * flows share it.
 *
 *     network  = ( "tree" | "rails" ) NODES [ "*" LEAVES [ "*" SPINES ] ] { tier | "sharp" }
 *              | "dragonfly" NODES "*" ROUTERS "*" LINKS { tier }
 *              | "torus" X [ "*" Y [ "*" Z ] ] { tier }
 *     tier     = name property { property }
 *     name     = "leaf" | "spine" | "core" | "local" | "global" | "x" | "y" | "z"
 *     property = RATIO ":1" | GBITS "g" | SHARE "%" | LATENCY ( "us" | "ms" )
 *
 * Sizes of trees are nodes per leaf, leaves per spine switch, spine switches per core switch; the
 * level above has full bandwidth. Sizes of a dragonfly are nodes per router, routers per group,
 * links per router to other groups. In trees a ratio is downlink over uplink bandwidth, default
 * 1:1; a rate, the alternative, is that of all uplinks of a switch. In dragonflies and tori a rate
 * is that of a link each way, default that of all NICs of a node. A share is taken by other jobs; a
 * latency is that of the way up and down a tier, or of a link. "sharp": switches reduce. Example:
 * "tree 16*8 leaf 4:1 spine 800g 20us 30%". */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "base/noun.h"
#include "hw/hw_internal.h"

static const double MOST_LATENCY_S = 10;
enum {
	MOST_SIZE = 1 << 16,
	MOST_GROUP = 1 << 10, /* routers per group of a dragonfly, links per router */
};

static const struct net_form {
	const char *name, *tier[LK_TIERS];
	int least, most; /* number of sizes */
	bool ratios;     /* otherwise rates */
} forms[LK_NET_KINDS] = {
	[LK_NET_FLAT] = {"", {NULL}, 0, 0, false},
	[LK_NET_TREE] = {"tree", {"leaf", "spine", "core"}, 1, 3, true},
	[LK_NET_RAILS] = {"rails", {"leaf", "spine", "core"}, 1, 3, true},
	[LK_NET_DRAGONFLY] = {"dragonfly", {"local", "global", NULL}, 3, 3, false},
	[LK_NET_TORUS] = {"torus", {"x", "y", "z"}, 1, 3, false},
};

const char *lk_tier_name(lk_net_kind kind, int tier) {
	return tier >= 0 && tier < LK_TIERS ? forms[kind].tier[tier] : NULL;
}

int lk_interconnect_tiers(const lk_interconnect *net) {
	return net->kind == LK_NET_DRAGONFLY ? 2 : net->sizes;
}

lk_net_kind lk_net_kind_of(const char *name, size_t length) {
	for (int kind = LK_NET_TREE; kind < LK_NET_KINDS; kind++)
		if (strlen(forms[kind].name) == length && strncasecmp(forms[kind].name, name, length) == 0)
			return (lk_net_kind)kind;
	return LK_NET_FLAT;
}

/* ---- text ---- */

static void net_skip_blanks(const char **at) {
	*at += strspn(*at, " \t\r\n");
}

static size_t net_word(const char *at) {
	return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static lk_status net_read_sizes(const char **at, lk_interconnect *net, lk_error *err) {
	const struct net_form *form = &forms[net->kind];
	do {
		const char *end;
		net_skip_blanks(at);
		double size = lk_read_real(*at, &end);
		if (end == *at || !(size >= 1 && size <= MOST_SIZE) || size != floor(size)) {
			lk_fail(err, LK_ERR_INPUT, "", "a size of the %s is missing or out of range",
			        form->name);
			return lk_hint(err, "give a whole number from 1 to %d", MOST_SIZE);
		}
		if (net->sizes == form->most)
			return lk_fail(err, LK_ERR_INPUT, "", "a %s has at most %d sizes", form->name,
			               form->most);
		net->size[net->sizes++] = (int)size;
		*at = end;
		net_skip_blanks(at);
	} while (**at == '*' && (*at)++);
	return LK_OK;
}

/* Read an optional "4:1", "400g" or "30%" at *at. */
static lk_status net_read_property(const char **at, lk_interconnect *net, int tier, bool *found,
                                   lk_error *err) {
	const struct net_form *form = &forms[net->kind];
	const char *end;
	net_skip_blanks(at);
	double number = lk_read_real(*at, &end);
	*found = end != *at;
	if (!*found) return LK_OK;
	number = round(number * 1e6) / 1e6; /* as many decimals as the text has */
	if (*end == '%') {
		if (!(number >= 0 && number <= 99)) {
			lk_fail(err, LK_ERR_INPUT, "", "the share of other jobs is out of range");
			return lk_hint(err, "give 0 %% to 99 %%");
		}
		net->background[tier] = number / 100;
		*at = end + 1;
		return LK_OK;
	}
	if (form->ratios && end[0] == ':' && end[1] == '1') {
		net->ratio[tier] = number;
		*at = end + 2;
		return LK_OK;
	}
	if ((*end == 'g' || *end == 'G') && net_word(end) == 1) {
		net->rate[tier] = number * 1e9 / 8;
		*at = end + 1;
		return LK_OK;
	}
	bool millis = strncasecmp(end, "ms", 2) == 0;
	if ((millis || strncasecmp(end, "us", 2) == 0) && net_word(end) == 2) {
		net->latency_s[tier] = number * (millis ? 1e-3 : 1e-6);
		*at = end + 2;
		return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, "", "a number that says nothing of the links %s of a %s",
	        form->tier[tier], form->name);
	return lk_hint(err, "write %s, a latency as 20us, the share of other jobs as 30%%",
	               form->ratios ? "a ratio as 4:1 or a rate as 400g" : "a rate as 400g");
}

static int net_tier_of(const lk_interconnect *net, const char *word, size_t length) {
	for (int tier = 0; tier < lk_interconnect_tiers(net); tier++) {
		const char *name = forms[net->kind].tier[tier];
		if (strlen(name) == length && strncasecmp(name, word, length) == 0) return tier;
	}
	return -1;
}

static lk_status net_read_tier(const char **at, lk_interconnect *net, lk_error *err) {
	size_t length = net_word(*at);
	int tier = net_tier_of(net, *at, length), properties = 0;
	if (length == 5 && strncasecmp(*at, "sharp", 5) == 0) {
		net->sharp = true;
		*at += length;
		return LK_OK;
	}
	if (tier < 0) {
		lk_fail(err, LK_ERR_INPUT, "", "a %s with %d sizes has no links '%.*s'",
		        forms[net->kind].name, net->sizes, (int)(length < 20 ? length : 20), *at);
		return lk_hint(err, "the first of them are called %s", forms[net->kind].tier[0]);
	}
	*at += length;
	for (bool found = true; found; properties += found)
		LK_TRY(net_read_property(at, net, tier, &found, err));
	if (properties > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "", "nothing is said of the links %s", forms[net->kind].tier[tier]);
	return lk_hint(err, "write %s, a latency as 20us, or the share of other jobs as 30%%",
	               forms[net->kind].ratios ? "a ratio as 4:1 or a rate as 400g" : "a rate as 400g");
}

lk_status lk_interconnect_read(const char **at, lk_interconnect *out, lk_error *err) {
	net_skip_blanks(at);
	size_t length = net_word(*at);
	memset(out, 0, sizeof *out);
	out->kind = lk_net_kind_of(*at, length);
	if (out->kind == LK_NET_FLAT) {
		lk_fail(err, LK_ERR_INPUT, "", "unknown network '%.*s'", (int)(length < 20 ? length : 20),
		        *at);
		return lk_hint(err, "the known ones are tree, rails, dragonfly and torus");
	}
	for (int i = 0; i < LK_TIERS; i++) out->ratio[i] = 1;
	const char *from = *at;
	*at += length;
	LK_TRY(net_read_sizes(at, out, err));
	while (net_word(*at)) {
		LK_TRY(net_read_tier(at, out, err));
		net_skip_blanks(at);
	}
	lk_status status = lk_interconnect_check(out, "", err);
	if (status != LK_OK) *at = from;
	return status;
}

static void net_add_number(lk_text *text, const char *before, double number, const char *after) {
	char shown[40];
	lk_format_shortest(round(number * 1e6) / 1e6, shown, sizeof shown);
	lk_text_add(text, "%s%s%s", before, shown, after);
}

void lk_interconnect_text(const lk_interconnect *net, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	lk_text_add(&text, "%s", forms[net->kind].name);
	for (int i = 0; i < net->sizes; i++) lk_text_add(&text, "%s%d", i ? "*" : " ", net->size[i]);
	for (int tier = 0; tier < lk_interconnect_tiers(net); tier++) {
		bool ratio = net->ratio[tier] != 1, rate = net->rate[tier] > 0,
			 background = net->background[tier] > 0;
		double us = net->latency_s[tier] * 1e6;
		if (!ratio && !rate && !background && !(us > 0)) continue;
		lk_text_add(&text, " %s", forms[net->kind].tier[tier]);
		if (ratio) net_add_number(&text, " ", net->ratio[tier], ":1");
		if (rate) net_add_number(&text, " ", net->rate[tier] * 8 / 1e9, "g");
		if (us > 0) net_add_number(&text, " ", us < 1e3 ? us : us / 1e3, us < 1e3 ? "us" : "ms");
		if (background) net_add_number(&text, " ", net->background[tier] * 100, "%");
	}
	if (net->sharp) lk_text_add(&text, " sharp");
}

/* ---- limits ---- */

static lk_status net_check_tier(const lk_interconnect *net, int tier, const char *where,
                                lk_error *err) {
	const struct net_form *form = &forms[net->kind];
	double ratio = net->ratio[tier], gigabits = net->rate[tier] * 8 / 1e9;
	if (!(ratio >= 1 && ratio <= 1e4)) {
		lk_fail(err, LK_ERR_INPUT, where, "the ratio %g:1 of the links %s is out of range", ratio,
		        form->tier[tier]);
		return lk_hint(err, "give 1:1 to 10000:1");
	}
	if (gigabits != 0 && !(gigabits >= 1e-3 && net->rate[tier] <= LK_CLUSTER_RATE)) {
		lk_fail(err, LK_ERR_INPUT, where, "the rate of the links %s is out of range",
		        form->tier[tier]);
		return lk_hint(err, "give 0.001g to %gg", LK_CLUSTER_RATE * 8 / 1e9);
	}
	if (ratio != 1 && gigabits != 0) {
		lk_fail(err, LK_ERR_INPUT, where, "a ratio and a rate of the links %s say the same",
		        form->tier[tier]);
		return lk_hint(err, "give one");
	}
	if (!(net->latency_s[tier] >= 0 && net->latency_s[tier] <= MOST_LATENCY_S)) {
		lk_fail(err, LK_ERR_INPUT, where, "the latency of the links %s is out of range",
		        form->tier[tier]);
		return lk_hint(err, "give 0us to %gms", MOST_LATENCY_S * 1e3);
	}
	return LK_OK;
}

lk_status lk_interconnect_check(const lk_interconnect *net, const char *where, lk_error *err) {
	const struct net_form *form = &forms[net->kind];
	if (net->sizes < form->least) {
		lk_fail(err, LK_ERR_INPUT, where, "a %s has %d sizes, not %d", form->name, form->least,
		        net->sizes);
		return lk_hint(err, "write it as in %s",
		               net->kind == LK_NET_DRAGONFLY ? "dragonfly 4*8*4" : "tree 16 leaf 4:1");
	}
	if (net->kind == LK_NET_DRAGONFLY && (net->size[1] > MOST_GROUP || net->size[2] > MOST_GROUP))
		return lk_fail(err, LK_ERR_INPUT, where,
		               "more than %d routers of a group, or links of a router", MOST_GROUP);
	for (int tier = 0; tier < lk_interconnect_tiers(net); tier++)
		LK_TRY(net_check_tier(net, tier, where, err));
	if (!net->sharp || form->ratios) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "the switches of a %s do not reduce (SHARP)", form->name);
	return lk_hint(err, "leave sharp out, or say tree or rails");
}

static lk_status torus_fits(const lk_interconnect *net, long long nodes, const char *where,
                            lk_error *err) {
	long long places = 1;
	for (int i = 0; i < net->sizes; i++) places *= net->size[i];
	if (nodes <= places) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "the torus has %lld places for %lld %s", places, nodes,
	        lk_noun(nodes, "node", "nodes"));
	return lk_hint(err, "give a larger one");
}

static lk_status dragonfly_fits(const lk_interconnect *net, long long nodes, const char *where,
                                lk_error *err) {
	long long group = (long long)net->size[0] * net->size[1], groups = (nodes + group - 1) / group,
			  links = (long long)net->size[1] * net->size[2];
	if (groups - 1 <= links) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where,
	        "the dragonfly has %lld %s, but a group has links to %lld others alone", groups,
	        lk_noun(groups, "group", "groups"), links);
	return lk_hint(err, "give larger groups, or more links of a router to other groups");
}

static lk_status rails_fit(const lk_cluster *cluster, lk_error *err) {
	for (int g = 1; g < cluster->groups; g++)
		if (cluster->node[g].nics != cluster->node[0].nics) {
			lk_fail(err, LK_ERR_INPUT, "--cluster",
			        "rails need the same number of NICs in all nodes, "
			        "but there are %d and %d",
			        cluster->node[0].nics, cluster->node[g].nics);
			return lk_hint(err, "say tree, or give whole nodes");
		}
	return LK_OK;
}

lk_status lk_interconnect_fits(const lk_cluster *cluster, lk_error *err) {
	const lk_interconnect *net = &cluster->net;
	long long nodes = 0;
	for (int g = 0; g < cluster->groups; g++) nodes += cluster->nodes[g];
	if (net->kind != LK_NET_FLAT && cluster->oversubscription != 1) {
		lk_fail(err, LK_ERR_INPUT, "--cluster",
		        "oversub and a network's switches are mutually exclusive");
		return lk_hint(err, "say it of a tier, as in tree 16 leaf %g:1", cluster->oversubscription);
	}
	switch (net->kind) {
	case LK_NET_TORUS: return torus_fits(net, nodes, "--cluster", err);
	case LK_NET_DRAGONFLY: return dragonfly_fits(net, nodes, "--cluster", err);
	case LK_NET_RAILS: return rails_fit(cluster, err);
	default: return LK_OK;
	}
}

lk_status lk_interconnect_parse(const char *text, long long places, const char *where,
                                lk_interconnect *out, lk_error *err) {
	lk_error why = {0};
	lk_status status = lk_interconnect_read(&text, out, &why);
	if (status != LK_OK) {
		lk_fail(err, status, where, "%s", why.what);
		return lk_hint(err, "%s", why.hint);
	}
	if (*text) {
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, where, "'%s' is not understood",
		        lk_escape(text, shown, sizeof shown));
		return lk_hint(err, "write it as in tree 16 leaf 4:1");
	}
	switch (out->kind) {
	case LK_NET_TORUS: return torus_fits(out, places, where, err);
	case LK_NET_DRAGONFLY: return dragonfly_fits(out, places, where, err);
	case LK_NET_RAILS:
		lk_fail(err, LK_ERR_INPUT, where, "rails join the NICs of nodes");
		return lk_hint(err, "say tree");
	default: return LK_OK;
	}
}
