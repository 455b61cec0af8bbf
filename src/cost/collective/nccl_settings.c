/* nccl_settings.c: NCCL's release and the environment variables that change what it runs, as a
 * text.
 *
 *     NCCL_ALGO, NCCL_PROTO              [func:]a,b;func:^c; `^` excludes; only the first list may
 *                                        lack a function. NCCL keeps rings for all but all-reduce
 *     NCCL_{MIN,MAX}_{NCHANNELS,CTAS}    channels of a communicator: the lower of the largest, the
 *                                        higher of the smallest
 *     NCCL_NVLS_ENABLE                   0 off, 1 on, 2 where the hardware has it
 *     NCCL_BUFFSIZE                      bytes of a channel's buffer, eight steps of the Simple
 *                                        protocol
 *     NCCL_NVLS_CHUNKSIZE                most bytes of a multicast's chunk
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "base/noun.h"
#include "cost/collective/collective.h"
#include "cost/collective/nccl.h"

enum { FUNCTIONS = 5, MOST_CHANNELS = 64, WORD = 160 };

/* ---- lists of algorithms and protocols ---- */

static const struct {
	const char *name;
	lk_coll_kind kind;
} functions[FUNCTIONS] = {
	{"allreduce", LK_COLL_ALLREDUCE},
	{"allgather", LK_COLL_ALLGATHER},
	{"reducescatter", LK_COLL_REDUCESCATTER},
	{"broadcast", LK_COLL_BROADCAST},
	{"reduce", LK_COLL_REDUCE},
};

struct names {
	const char *variable;
	const char *const *names; /* ended by NULL; by bit */
	int known;                /* the leading ones that are modelled */
	int kept;                 /* bit that NCCL keeps for everything but all-reduce; -1: none */
};

static const char *const algo_names[] = {"Tree", "Ring",          "NVLS",         "NVLSTree",
                                         "PAT",  "CollNetDirect", "CollNetChain", NULL};
static const char *const proto_names[] = {"LL", "LL128", "Simple", NULL};
static const struct names algos = {"NCCL_ALGO", algo_names, LK_ALGO_P2P, LK_ALGO_RING};
static const struct names protos = {"NCCL_PROTO", proto_names, LK_PROTOS, -1};

static lk_status settings_wrong(const struct names *names, const char *where, const char *item,
                                lk_error *err) {
	char shown[64], list[128] = "";
	for (int i = 0; names->names[i]; i++) {
		size_t used = strlen(list);
		snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names->names[i]);
	}
	lk_fail(err, LK_ERR_INPUT, where, "%s: \"%s\" is unknown", names->variable,
	        lk_escape(item, shown, sizeof shown));
	return lk_hint(err, "give some of %s, as in %s=allreduce:%s,%s", list, names->variable,
	               names->names[0], names->names[1]);
}

/* Parse "a,b" or "^a,b" into the bits that it excludes. */
static lk_status settings_read_list(const struct names *names, const char *text, size_t length,
                                    const char *where, unsigned *without, lk_error *err) {
	bool except = length > 0 && *text == '^';
	unsigned named = 0, all = (1u << names->known) - 1;
	const char *end = text + length;
	for (const char *at = text + except; at < end;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		size_t part = (size_t)((comma ? comma : end) - at);
		int found = -1;
		for (int i = 0; names->names[i]; i++)
			if (strlen(names->names[i]) == part && strncasecmp(names->names[i], at, part) == 0)
				found = i;
		if (found < 0) {
			char item[64];
			snprintf(item, sizeof item, "%.*s", (int)(part < 60 ? part : 60), at);
			return settings_wrong(names, where, item, err);
		}
		named |= 1u << found;
		at += part + 1;
	}
	if (named == 0) return settings_wrong(names, where, "", err);
	*without = (except ? named : ~named) & all;
	if (*without != all) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%s=%.*s leaves nothing that is modelled", names->variable,
	        (int)(length < 80 ? length : 80), text);
	return lk_hint(err, "leave one of those that NCCL has");
}

/* Lists by function, separated by `;`. */
static lk_status settings_read_lists(const struct names *names, const char *text, const char *where,
                                     unsigned char without[LK_COLLS], lk_error *err) {
	for (const char *at = text; *at;) {
		size_t length = strcspn(at, ";"), prefix = strcspn(at, ":;");
		bool named = prefix < length;
		unsigned bits = 0;
		int function = -1;
		for (int f = 0; named && f < FUNCTIONS; f++)
			if (strlen(functions[f].name) == prefix &&
			    strncasecmp(functions[f].name, at, prefix) == 0)
				function = f;
		if ((named && function < 0) || (!named && at != text)) {
			char shown[64];
			snprintf(shown, sizeof shown, "%.*s", (int)(length < 60 ? length : 60), at);
			lk_fail(err, LK_ERR_INPUT, where, "%s: \"%s\" names no collective", names->variable,
			        shown);
			return lk_hint(err, "give allreduce, allgather, reducescatter, broadcast or reduce, "
			                    "followed by a colon");
		}
		const char *list = named ? at + prefix + 1 : at;
		LK_TRY(settings_read_list(names, list, length - (size_t)(list - at), where, &bits, err));
		for (int f = 0; f < FUNCTIONS; f++) {
			if (named && f != function) continue;
			lk_coll_kind kind = functions[f].kind;
			without[kind] = (unsigned char)bits;
			if (names->kept >= 0 && kind != LK_COLL_ALLREDUCE)
				without[kind] &= (unsigned char)~(1u << names->kept);
		}
		at += length + (at[length] == ';');
	}
	return LK_OK;
}

/* ---- the rest ---- */

/* Parse "2.18.5" as 21805. */
static lk_status settings_read_release(const char *word, const char *where, int *release,
                                       lk_error *err) {
	int part[3] = {0, 0, 0}, count = 0;
	const char *at = word;
	while (count < 3 && *at >= '0' && *at <= '9') {
		for (; *at >= '0' && *at <= '9' && part[count] < 100; at++)
			part[count] = part[count] * 10 + (*at - '0');
		count++;
		if (*at != '.') break;
		at++;
	}
	if (!*at && count >= 2 && part[0] == 2 && part[1] < 100 && part[2] < 100) {
		*release = part[0] * 10000 + part[1] * 100 + part[2];
		return LK_OK;
	}
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is neither a release of NCCL 2 nor NAME=VALUE",
	        lk_escape(word, shown, sizeof shown));
	return lk_hint(err, "write it as in \"2.21 NCCL_ALGO=Ring NCCL_MAX_NCHANNELS=8\"");
}

static lk_status settings_read_count(const char *word, const char *value, long long low,
                                     long long high, const char *where, long long *out,
                                     lk_error *err) {
	char place[WORD + 64];
	snprintf(place, sizeof place, "%.60s: %.*s", where, (int)strcspn(word, "="), word);
	return lk_parse_int(value, low, high, out, place, err);
}

static lk_status settings_read_word(const char *word, const char *where, lk_nccl_settings *out,
                                    lk_error *err) {
	size_t length = strcspn(word, "=");
	const char *value = word + length + 1;
	long long number;
	if (!word[length]) return settings_read_release(word, where, &out->release, err);
	if (!lk_nccl_variable(word, length)) {
		char shown[64], list[256] = "";
		for (int i = 0; lk_nccl_variables[i]; i++) {
			size_t used = strlen(list);
			snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", lk_nccl_variables[i]);
		}
		lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not modelled",
		        lk_escape(word, shown, sizeof shown));
		return lk_hint(err, "those that change a time are %s", list);
	}
	if (strncmp(word, "NCCL_ALGO", length) == 0)
		return settings_read_lists(&algos, value, where, out->without_algo, err);
	if (strncmp(word, "NCCL_PROTO", length) == 0)
		return settings_read_lists(&protos, value, where, out->without_proto, err);
	if (strncmp(word, "NCCL_NVLS_ENABLE", length) == 0) {
		LK_TRY(settings_read_count(word, value, 0, 2, where, &number, err));
		out->nvls = number == 0 ? -1 : (int)(number & 1);
		return LK_OK;
	}
	bool chunk = strncmp(word, "NCCL_NVLS_CHUNKSIZE", length) == 0;
	if (chunk || strncmp(word, "NCCL_BUFFSIZE", length) == 0) {
		LK_TRY(settings_read_count(word, value, 1024, 1LL << 30, where, &number, err));
		*(chunk ? &out->nvls_chunk : &out->buffer_bytes) = (double)number;
		return LK_OK;
	}
	LK_TRY(settings_read_count(word, value, 1, MOST_CHANNELS, where, &number, err));
	if (strncmp(word, "NCCL_MIN", 8) == 0) {
		if (number > out->least_channels) out->least_channels = (int)number;
	} else if (out->most_channels == 0 || number < out->most_channels)
		out->most_channels = (int)number;
	return LK_OK;
}

lk_status lk_nccl_settings_read(const char *text, const char *where, lk_nccl_settings *out,
                                lk_error *err) {
	*out = (lk_nccl_settings){0};
	for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
		char word[WORD];
		size_t length = strcspn(at, " ");
		if (length >= sizeof word)
			return lk_fail(err, LK_ERR_INPUT, where, "a word of more than %d characters", WORD - 1);
		memcpy(word, at, length);
		word[length] = '\0';
		LK_TRY(settings_read_word(word, where, out, err));
		at += length;
	}
	if (out->most_channels == 0 || out->least_channels <= out->most_channels) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "at least %d %s and at most %d contradict each other",
	        out->least_channels, lk_noun(out->least_channels, "channel", "channels"),
	        out->most_channels);
	return lk_hint(err, "NCCL_MIN_NCHANNELS and NCCL_MIN_CTAS are lower limits, the MAX ones upper "
	                    "limits");
}

/* ---- settings that cannot act ---- */

static void idle_add(char *out, size_t size, const char *name) {
	size_t used = strlen(out);
	snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
}

/* Whether any combination of algorithm and protocol remains. */
static bool settings_leave_some(lk_coll_kind kind, const lk_nccl_site *site) {
	lk_nccl_terms unused;
	for (int algo = LK_ALGO_TREE; algo < LK_ALGO_P2P; algo++)
		for (int proto = LK_PROTO_LL; proto < LK_PROTOS; proto++)
			if (lk_nccl_terms_of(kind, site, (lk_algo)algo, (lk_proto)proto, 1 << 20, &unused))
				return true;
	return false;
}

void lk_nccl_settings_idle(const lk_nccl_settings *settings, lk_coll_kind kind,
                           const lk_group_shape *group, char *out, size_t size) {
	lk_group_shape with = *group;
	lk_nccl_settings open = *settings;
	lk_nccl_site site;
	*out = '\0';
	if (group->ranks < 2) {
		idle_add(out, size, "a single rank runs no collective");
		return;
	}
	open.nvls = 0;
	with.settings = &open;
	lk_nccl_site_of(&with, &site);
	if (settings->nvls != 0 && !site.nvls)
		idle_add(out, size, "NCCL_NVLS_ENABLE without NVLink multicast between three GPUs or more");
	bool pairs = kind == LK_COLL_SENDRECV || kind == LK_COLL_ALLTOALL;
	for (int k = 0; pairs && k < LK_COLLS; k++)
		if (settings->without_algo[k] || settings->without_proto[k]) {
			idle_add(out, size, "NCCL_ALGO and NCCL_PROTO, which messages do not follow");
			break;
		}
	with.settings = settings;
	lk_nccl_site_of(&with, &site);
	if (!pairs && !settings_leave_some(kind, &site))
		idle_add(out, size, "NCCL_ALGO and NCCL_PROTO, which leave NCCL nothing to run");
}
