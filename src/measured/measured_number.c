/* measured_number.c: what a person says of a run: numbers with units, "7.2 s, 73 GiB reserved". */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "measured/measured_internal.h"

static const char *const FORMS =
	"give one such as \"7.2 s\", \"3 it/s\", \"1.2M tokens/s\", \"200 tok/s/gpu\", \"12 "
	"samples/s\", "
	"\"31 % MFU\", \"412 TFLOP/s\" or \"73 GiB reserved\", several with commas";

/* ---- units ---- */

/* What a number with this unit fills; `names` separated by blanks, in lower case, without those of
 * time and of a GPU, which are taken off before. */
static const struct number_unit {
	enum lk_gauge gauge;
	double scale;
	const char *names;
} units[] = {
	{LK_GAUGE_STEP_S, 1, "s sec secs second seconds"},
	{LK_GAUGE_STEP_S, 1e-3, "ms msec millisecond milliseconds"},
	{LK_GAUGE_STEP_S, 1e-6, "us usec"},
	{LK_GAUGE_STEP_S, 60, "min mins minute minutes"},
	{LK_GAUGE_RATE, 1, "it/s its/s iter/s iters/s iteration/s iterations/s step/s steps/s"},
	{LK_GAUGE_RATE, 1.0 / 60, "it/min step/min steps/min"},
	{LK_GAUGE_TOKENS, 1, "tok/s toks/s token/s tokens/s tps"},
	{LK_GAUGE_TOKENS, 1e3, "ktok/s ktokens/s"},
	{LK_GAUGE_SAMPLES, 1,
     "sample/s samples/s seq/s seqs/s sequence/s sequences/s image/s images/s img/s example/s "
     "examples/s"},
	{LK_GAUGE_MFU, 0.01, "% percent"},
	{LK_GAUGE_TFLOPS, 1, "tflop/s tflops tflops/s"},
	{LK_GAUGE_TFLOPS, 1e3, "pflop/s pflops pflops/s"},
	{LK_GAUGE_MEMORY, 0x1p30, "gib"},
	{LK_GAUGE_MEMORY, 1e9, "gb"},
	{LK_GAUGE_MEMORY, 0x1p20, "mib"},
	{LK_GAUGE_MEMORY, 1e6, "mb"},
	{LK_GAUGE_GPUS, 1, "gpu gpus devices"},
};

/* Words without a unit of their own: they name what a number is, before it or after it. */
static const struct number_word {
	const char *names;
	enum lk_gauge gauge;
	lk_memory_kind memory;
} number_words[] = {
	{"mfu", LK_GAUGE_MFU, LK_MEMORY_UNSTATED},
	{"step time iteration iter took", LK_GAUGE_STEP_S, LK_MEMORY_UNSTATED},
	{"throughput", LK_GAUGES, LK_MEMORY_UNSTATED},
	{"memory mem peak vram of used", LK_GAUGE_MEMORY, LK_MEMORY_UNSTATED},
	{"allocated", LK_GAUGE_MEMORY, LK_MEMORY_ALLOCATED},
	{"active", LK_GAUGE_MEMORY, LK_MEMORY_ACTIVE},
	{"reserved", LK_GAUGE_MEMORY, LK_MEMORY_RESERVED},
	{"nvidia-smi device", LK_GAUGE_MEMORY, LK_MEMORY_DEVICE},
	{"batch gbs", LK_GAUGE_BATCH, LK_MEMORY_UNSTATED},
	{"seq sequence seqlen context", LK_GAUGE_SEQ, LK_MEMORY_UNSTATED},
	{"gpus", LK_GAUGE_GPUS, LK_MEMORY_UNSTATED},
};

/* "tokens per second per GPU" is tokens/s/gpu. */
static const char *const spelled[][2] = {{" per second", "/s"},
                                         {" per sec", "/s"},
                                         {" per gpu", "/gpu"},
                                         {" per device", "/gpu"},
                                         {" per step", "/it"},
                                         {"/second", "/s"},
                                         {"/sec", "/s"},
                                         {"/device", "/gpu"},
                                         {"/chip", "/gpu"},
                                         {"/iteration", "/it"},
                                         {"/iter", "/it"},
                                         {"/step", "/it"},
                                         {"global batch", "batch"},
                                         {"batch size", "batch"},
                                         {"device total", "device"},
                                         {"step time", "step"},
                                         {"sequence length", "seq"},
                                         {"iteration time", "step"}};

enum { SAID = 256, WORD = 48 };

static void replace_all(char *text, size_t size, const char *old, const char *new) {
	size_t gone = strlen(old), come = strlen(new);
	for (char *at = text; (at = strstr(at, old)); at += come) {
		if (strlen(text) - gone + come >= size) return;
		memmove(at + come, at + gone, strlen(at + gone) + 1);
		memcpy(at, new, come);
	}
}

static bool among(const char *names, const char *word) {
	size_t length = strlen(word);
	for (const char *at = names; (at = strstr(at, word)); at += length) {
		if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
	}
	return false;
}

/* ---- one statement ---- */

struct statement {
	double number;
	bool numbered, per_gpu, per_step;
	enum lk_gauge unit, word; /* LK_GAUGES: not said */
	double scale;
	lk_memory_kind memory;
};

/* The number at `text`, with commas between thousands and a suffix of thousands where a blank or a
 * unit of tokens follows; *end after it. */
static double number_at(const char *text, const char **end) {
	double number = lk_read_number(text, end);
	static const char suffixes[] = "kmgbt";
	static const double factor[] = {1e3, 1e6, 1e9, 1e9, 1e12};
	const char *suffix = *end == text || !**end ? NULL : strchr(suffixes, **end);
	bool alone = suffix && ((*end)[1] == ' ' || !(*end)[1]);
	if (!alone) return number;
	*end += 1;
	return number * factor[suffix - suffixes];
}

/* "tok/s/gpu" is tok/s of one GPU, "s/it" seconds of one step. */
static void take_per(char *word, struct statement *say) {
	static const char gpu[] = "/gpu", step[] = "/it";
	if (lk_ends_in(word, gpu) && strlen(word) > strlen(gpu)) {
		word[strlen(word) - strlen(gpu)] = '\0';
		say->per_gpu = true;
	}
	if (lk_ends_in(word, step) && strlen(word) > strlen(step)) {
		word[strlen(word) - strlen(step)] = '\0';
		say->per_step = true;
	}
	if (strcmp(word, "tgs") == 0) {
		lk_copy(word, WORD, "tok/s");
		say->per_gpu = true;
	}
}

static bool statement_word(char *word, struct statement *say) {
	take_per(word, say);
	for (size_t i = 0; say->numbered && i < sizeof units / sizeof *units; i++) {
		if (say->unit != LK_GAUGES || !among(units[i].names, word)) continue;
		say->unit = units[i].gauge;
		say->scale = units[i].scale;
		return true;
	}
	for (size_t i = 0; i < sizeof number_words / sizeof *number_words; i++) {
		if (!among(number_words[i].names, word)) continue;
		if (number_words[i].gauge != LK_GAUGES) say->word = number_words[i].gauge;
		if (number_words[i].memory) say->memory = number_words[i].memory;
		return true;
	}
	return false;
}

/* Whether a number of this unit may be what the word says: a bare number is a share, a batch or a
 * length, else it needs its unit. */
static bool statement_agrees(struct statement *say) {
	if (say->unit == LK_GAUGES) {
		say->unit = say->word;
		say->scale = say->word == LK_GAUGE_MFU && say->number > 1 ? 0.01 : 1;
		return say->word == LK_GAUGE_MFU || say->word == LK_GAUGE_BATCH ||
		       say->word == LK_GAUGE_SEQ || say->word == LK_GAUGE_GPUS;
	}
	if (say->unit == LK_GAUGE_TOKENS && say->per_gpu) say->unit = LK_GAUGE_TOKENS_GPU;
	else if (say->per_gpu && say->unit != LK_GAUGE_TFLOPS && say->unit != LK_GAUGE_MEMORY)
		return false;
	if (say->per_step && say->unit != LK_GAUGE_STEP_S) return false;
	if (say->unit == LK_GAUGE_MFU && say->word != LK_GAUGE_MFU) return false;
	return say->word == LK_GAUGES || say->word == say->unit ||
	       (say->word == LK_GAUGE_STEP_S && say->unit == LK_GAUGE_RATE);
}

static lk_status refuse_statement(const char *said, const char *what, lk_error *err) {
	char shown[4 * 64 + 1], cut[64];
	lk_copy(cut, sizeof cut, said);
	lk_fail(err, LK_ERR_INPUT, NULL, "'%s' %s", lk_escape(cut, shown, sizeof shown), what);
	return lk_hint(err, "%s", FORMS);
}

static lk_status read_statement(const char *text, lk_measured *out, lk_error *err) {
	struct statement say = {.unit = LK_GAUGES, .word = LK_GAUGES, .scale = 1};
	char word[WORD];
	for (const char *at = text; *(at += strspn(at, " :=~")) != '\0';) {
		const char *end;
		double number = say.numbered ? 0 : number_at(at, &end);
		if (!say.numbered && end > at) {
			say.number = number;
			say.numbered = true;
			at = end;
			continue;
		}
		size_t length = *at == '%' ? 1 : strcspn(at, " :=~");
		if (length >= sizeof word) return refuse_statement(text, "is not understood", err);
		lk_copy(word, length + 1, at);
		if (!statement_word(word, &say)) return refuse_statement(text, "is not understood", err);
		at += length;
	}
	if (!say.numbered) return refuse_statement(text, "has no number", err);
	if (!statement_agrees(&say)) return refuse_statement(text, "lacks a unit that fits", err);
	double value = say.number * say.scale;
	if (!(value > 0) || !isfinite(value) || (say.unit == LK_GAUGE_MFU && value > 1))
		return refuse_statement(text, "is out of range", err);
	if (lk_gauge_get(out, say.unit) > 0)
		return refuse_statement(text, "says what was said before", err);
	lk_gauge_set(out, say.unit, value);
	if (say.unit == LK_GAUGE_MEMORY) out->memory_kind = say.memory;
	return LK_OK;
}

/* ---- all of them ---- */

/* The end of the statement at `text`: a comma that no thousands follow, a semicolon, or "and". */
static size_t statement_length(const char *text) {
	for (size_t i = 0; text[i]; i++) {
		bool thousands = text[i] == ',' && i > 0 && lk_is_digit(text[i - 1]) &&
		                 strspn(text + i + 1, "0123456789") == 3;
		if ((text[i] == ',' && !thousands) || text[i] == ';') return i;
		if (lk_begins_with(text + i, " and ")) return i;
	}
	return strlen(text);
}

static lk_status read_statements(const char *text, lk_measured *out, lk_error *err) {
	char said[SAID], one[SAID];
	if (strlen(text) >= sizeof said / 2)
		return refuse_statement(text, "is too long for measured numbers", err);
	for (size_t i = 0; i <= strlen(text); i++)
		said[i] = text[i] == '\t' || text[i] == '\n' ? ' ' : lk_lower(text[i]);
	for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
		replace_all(said, sizeof said, spelled[i][0], spelled[i][1]);
	bool any = false;
	for (const char *at = said; *(at += strspn(at, " ,;"));) {
		if (lk_begins_with(at, "and ")) at += 4;
		size_t length = statement_length(at);
		lk_copy(one, length + 1, at);
		LK_TRY(read_statement(one, out, err));
		any = true;
		at += length;
	}
	if (!any) return refuse_statement(text, "says nothing", err);
	out->source = strdup("the numbers given");
	return out->source ? LK_OK : lk_oom(err);
}

lk_status lk_measured_number(const char *text, lk_measured *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	lk_status status = read_statements(text, out, err);
	if (status != LK_OK) lk_measured_free(out);
	return status;
}

bool lk_measured_is_number(const char *text) {
	lk_measured said;
	if (access(text, F_OK) == 0) return false;
	bool is = lk_is_digit(text[strspn(text, " ~")]);
	if (!is) is = lk_measured_number(text, &said, NULL) == LK_OK;
	else return true;
	lk_measured_free(&said);
	return is;
}
