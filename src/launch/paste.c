/* paste.c: a text that people paste, an issue or a mail: a launch line between prose, perhaps
 * fenced, quoted or after a prompt, with settings of the environment, tables of nvidia-smi and
 * lines of a log. What is no launch line and no setting becomes an empty line, so that what is left
 * is a shell script with the line numbers of the text. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "base/vec.h"
#include "launch/launchers/launchers.h"
#include "launch/line.h"
#include "measured/measured.h"

enum { WORD = 256, PROMPT = 80, NOTES = 8 };

typedef struct pasted {
	lk_arena *arena;
	const char *name;
	char *script; /* of the size of the text, and a newline */
	size_t used;
	int line, launch_line, first_setting, settings;
	int device_line, devices;
	int nccl_line, ranks, nodes; /* of the largest communicator of NCCL's log */
	char device[LK_MEASURED_DEVICE];
	bool fenced, quoted, prompted; /* signs that it is no script */
} pasted;

/* ---- lines ---- */

typedef struct span {
	const char *at, *end;
} span;

static span span_of(const char *at, const char *end) {
	while (at < end && (*at == ' ' || *at == '\t')) at++;
	while (end > at && strchr(" \t\r", end[-1])) end--;
	return (span){at, end};
}

static bool span_begins(span line, const char *text) {
	size_t length = strlen(text);
	return (size_t)(line.end - line.at) >= length && memcmp(line.at, text, length) == 0;
}

/* The line after quotes of mails and a prompt: "> > (env) user@host:~/run$ torchrun". */
static span unquoted(pasted *paste, span line) {
	while (line.at < line.end && *line.at == '>') {
		paste->quoted = true;
		line = span_of(line.at + 1, line.end);
	}
	if (span_begins(line, "```")) {
		paste->fenced = true;
		return (span){line.end, line.end};
	}
	if (span_begins(line, "$ ") || span_begins(line, "% ")) {
		paste->prompted = true;
		return span_of(line.at + 2, line.end);
	}
	const char *at = line.at, *user = NULL;
	for (; at + 1 < line.end && at < line.at + PROMPT; at++) {
		if (*at == '@') user = at;
		if (user && (*at == '$' || *at == '#') && at[1] == ' ') {
			paste->prompted = true;
			return span_of(at + 2, line.end);
		}
	}
	if (span_begins(line, "`") && line.end[-1] == '`' && line.end - line.at > 2)
		return span_of(line.at + 1, line.end - 1);
	return line;
}

/* ---- what a line is ---- */

static bool next_word(span *rest, char word[WORD]) {
	*rest = span_of(rest->at, rest->end);
	size_t length = 0, left = (size_t)(rest->end - rest->at);
	while (length < left && rest->at[length] != ' ' && rest->at[length] != '\t') length++;
	lk_copy(word, length + 1 < WORD ? length + 1 : WORD, rest->at);
	rest->at += length;
	return length > 0;
}

static bool is_setting(const char *word) {
	size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	return length > 1 && word[length] == '=' && !lk_is_digit(*word);
}

/* "export NAME=value", or words NAME=value alone. */
static bool sets_environment(span line) {
	char word[WORD];
	bool any = false;
	if (span_begins(line, "export ")) line.at += strlen("export ");
	while (next_word(&line, word)) {
		if (!is_setting(word)) return false;
		any = true;
	}
	return any;
}

/* Whether a command goes on with options: a flag, a setting or the next line. */
static bool has_options(span rest) {
	char word[WORD];
	while (next_word(&rest, word))
		if (lk_begins_with(word, "--") || strchr(word, '=') || strcmp(word, "\\") == 0 ||
		    lk_ends_in(word, ".yaml") || lk_ends_in(word, ".yml") || lk_ends_in(word, ".py"))
			return true;
	return false;
}

/* Modules and flags of python that train nothing. */
static bool trains_nothing(span rest) {
	static const char *const others[] = {"pip",         "venv",      "torch.utils.collect_env",
	                                     "http.server", "--version", "-V",
	                                     "-c",          "json.tool"};
	char word[WORD];
	for (int i = 0; i < 2 && next_word(&rest, word); i++)
		for (size_t k = 0; k < sizeof others / sizeof *others; k++)
			if (strcmp(word, others[k]) == 0) return true;
	return false;
}

/* Whether a line starts a training: settings, then a known launcher or python, with options. */
static bool starts_training(span line) {
	char word[WORD], next[WORD];
	span rest = line;
	if (line.at < line.end && line.end[-1] == '.') return false; /* prose: "torchrun is slow." */
	while (next_word(&rest, word) && is_setting(word)) {
	}
	span after = rest;
	bool more = next_word(&after, next);
	if (!lk_launch_starts(word, more ? next : NULL)) return false;
	return has_options(rest) && !trains_nothing(rest);
}

static bool goes_on(span line) {
	return line.end > line.at && line.end[-1] == '\\';
}

/* ---- the text ---- */

static void keep_line(pasted *paste, span line) {
	memcpy(paste->script + paste->used, line.at, (size_t)(line.end - line.at));
	paste->used += (size_t)(line.end - line.at);
}

static void take_device(pasted *paste, span line) {
	char text[LK_MEASURED_DEVICE * 2], name[LK_MEASURED_DEVICE];
	if (!span_begins(line, "|") && !span_begins(line, "GPU ")) return;
	size_t length = (size_t)(line.end - line.at);
	lk_copy(text, length + 1 < sizeof text ? length + 1 : sizeof text, line.at);
	int index = lk_measured_smi_device(text, name);
	if (index < 0) return;
	if (paste->devices == 0) paste->device_line = paste->line;
	lk_copy(paste->device, sizeof paste->device, name);
	if (index >= paste->devices) paste->devices = index + 1;
}

/* "comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8": releases before 2.20 do not print nodes. */
static void take_communicator(pasted *paste, span line) {
	char text[WORD];
	size_t length = (size_t)(line.end - line.at);
	lk_copy(text, length + 1 < sizeof text ? length + 1 : sizeof text, line.at);
	const char *ranks = strstr(text, "nranks "), *nodes = strstr(text, " nNodes ");
	if (!ranks) ranks = strstr(text, "nRanks ");
	if (!ranks || !strstr(text, "NCCL INFO")) return;
	int count = atoi(ranks + strlen("nRanks "));
	if (count <= paste->ranks || count > LK_JOB_GPUS) return;
	paste->ranks = count;
	paste->nodes = nodes ? atoi(nodes + strlen(" nNodes ")) : 0;
	paste->nccl_line = paste->line;
}

static void take_lines(pasted *paste, const char *text, const char *end) {
	bool on = false;
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		if (!stop) stop = end;
		span line = unquoted(paste, span_of(text, stop));
		bool starts = !on && starts_training(line), sets = !on && sets_environment(line);
		paste->line++;
		take_device(paste, line);
		take_communicator(paste, line);
		if (starts) paste->launch_line = paste->line;
		if (sets && !paste->first_setting) paste->first_setting = paste->line;
		paste->settings += sets;
		if (on || starts || sets) keep_line(paste, line);
		on = (on || starts) && goes_on(line);
		paste->script[paste->used++] = '\n';
		text = stop + 1;
	}
}

/* Whether a name says what kind of file it is. */
static bool is_named_otherwise(const char *name) {
	static const char *const endings[] = {".sh",  ".bash", ".slurm", ".sbatch", ".zsh", ".yaml",
	                                      ".yml", ".json", ".toml",  ".py",     ".cfg", ".conf"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(name, endings[i])) return true;
	return false;
}

static bool paste_open(pasted *paste, lk_arena *arena, const char *text, size_t size,
                       const char *name) {
	*paste = (pasted){.arena = arena, .name = name};
	paste->script = lk_arena_alloc(arena, size + 2);
	if (paste->script) take_lines(paste, text, text + size);
	return paste->script != NULL;
}

/* The signs of a text: a script has no fences, no prompts before its launch, no logs, no tables. */
bool lk_paste_is(const char *text, size_t size, const char *name) {
	lk_arena arena = {0};
	pasted paste;
	lk_measured run;
	if (is_named_otherwise(name) || memchr(text, '\0', size)) return false;
	if (size > 2 && (memcmp(text, "#!", 2) == 0 || *text == '{')) return false;
	bool is = false;
	if (paste_open(&paste, &arena, text, size, name))
		is = paste.fenced || paste.devices > 0 || paste.ranks > 0 ||
		     (paste.launch_line > 0 && (paste.quoted || paste.prompted));
	lk_arena_free(&arena);
	/* a configuration's comment may speak of memory as a log does */
	if (is || lk_document_form_named(name, text, size) != LK_DOCUMENT_NONE ||
	    lk_measured_text(text, size, name, &run, NULL) != LK_OK)
		return is;
	lk_measured_free(&run);
	return true;
}

/* ---- what was found ---- */

static lk_status paste_note(pasted *paste, lk_launch *out, const char *text, lk_error *err) {
	if (!out->found) out->found = LK_ARRAY(paste->arena, const char *, NOTES);
	if (!out->found || !text) return lk_oom(err);
	if (out->found_count < NOTES) out->found[out->found_count++] = text;
	return LK_OK;
}

static const char *communicator_text(const pasted *paste) {
	const char *ranks = lk_noun(paste->ranks, "rank", "ranks");
	if (paste->nodes < 1)
		return lk_arena_printf(paste->arena, "%d %s of NCCL's log at line %d", paste->ranks, ranks,
		                       paste->nccl_line);
	return lk_arena_printf(paste->arena, "%d %s on %d %s of NCCL's log at line %d", paste->ranks,
	                       ranks, paste->nodes, lk_noun(paste->nodes, "node", "nodes"),
	                       paste->nccl_line);
}

static lk_status note_lines(pasted *paste, lk_launch *out, lk_error *err) {
	lk_arena *arena = paste->arena;
	if (paste->launch_line > 0)
		LK_TRY(paste_note(paste, out,
		                  lk_arena_printf(arena, "the launch line of line %d", paste->launch_line),
		                  err));
	if (paste->settings > 0)
		LK_TRY(paste_note(
			paste, out, lk_arena_printf(arena, "the environment of line %d", paste->first_setting),
			err));
	if (paste->ranks > 0) LK_TRY(paste_note(paste, out, communicator_text(paste), err));
	if (paste->devices == 0) return LK_OK;
	return paste_note(paste, out,
	                  lk_arena_printf(arena, "%d x %s of nvidia-smi at line %d", paste->devices,
	                                  paste->device, paste->device_line),
	                  err);
}

static lk_status note_measured(pasted *paste, const lk_measured *run, lk_launch *out,
                               lk_error *err) {
	char size[32];
	bool first = run->steps == 1 && run->step_numbers[0] <= 1; /* it compiles */
	out->measured_step_s = first ? 0 : run->step_s;
	out->measured_memory_bytes = run->memory_bytes;
	LK_TRY(paste_note(paste, out, lk_arena_strdup(paste->arena, run->source), err));
	if (!run->out_of_memory) return LK_OK;
	if (!(run->memory_bytes > 0))
		return paste_note(paste, out, "a failed allocation: out of memory", err);
	return paste_note(paste, out,
	                  lk_arena_printf(paste->arena,
	                                  "a failed allocation: out of memory with %s in use",
	                                  lk_format_bytes(run->memory_bytes, size, sizeof size)),
	                  err);
}

static lk_status refuse_paste(const pasted *paste, const lk_launch *out, lk_error *err) {
	char found[160];
	lk_text list = lk_text_begin(found, sizeof found);
	for (int i = 0; i < out->found_count; i++)
		lk_text_add(&list, "%s%s", i ? ", " : "; found: ", out->found[i]);
	lk_fail(err, LK_ERR_INPUT, paste->name, "no launch line in this text%s", found);
	return lk_hint(err,
	               "sought is a line that starts torchrun, accelerate, deepspeed, srun, mpirun, "
	               "a trainer's command or python FILE.py with --flags; what a log says alone: "
	               "lockstep explain");
}

lk_status lk_paste_read(lk_arena *arena, const char *text, size_t size, const char *name,
                        lk_paste *out, lk_error *err) {
	pasted paste;
	lk_measured run;
	*out = (lk_paste){0};
	if (!paste_open(&paste, arena, text, size, name)) return lk_oom(err);
	LK_TRY(note_lines(&paste, &out->notes, err));
	lk_status status = lk_measured_text(text, size, name, &run, NULL);
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	if (status == LK_OK) {
		status = note_measured(&paste, &run, &out->notes, err);
		lk_measured_free(&run);
		LK_TRY(status);
	}
	if (paste.launch_line == 0) return refuse_paste(&paste, &out->notes, err);
	out->script = paste.script;
	out->size = paste.used;
	out->notes.gpus = paste.ranks > 0 ? paste.ranks : paste.devices;
	if (paste.devices == 0) return LK_OK;
	out->notes.device = lk_arena_strdup(arena, paste.device);
	return out->notes.device ? LK_OK : lk_oom(err);
}

void lk_paste_add(const lk_paste *paste, lk_launch *launch) {
	launch->found = paste->notes.found;
	launch->found_count = paste->notes.found_count;
	launch->measured_step_s = paste->notes.measured_step_s;
	launch->measured_memory_bytes = paste->notes.measured_memory_bytes;
	if (!launch->device) launch->device = paste->notes.device;
	if (launch->gpus == 0) launch->gpus = paste->notes.gpus;
}
