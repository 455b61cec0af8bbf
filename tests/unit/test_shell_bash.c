/* test_shell_bash.c: the words of the launch of random scripts, as bash itself has them: quotes,
 * expansions, arrays, arithmetic, conditions, loops, functions, here-documents in all combinations.
 * What the reader says is known must be what bash passes; what it refuses or does not know is
 * counted, and must stay rare: nothing in these scripts depends on an execution. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/stats.h"
#include "base/text.h"
#include "io/stream.h"
#include "launch/script/script.h"
#include "rounds.h"
#include "scratch.h"

/* ---- random scripts ---- */

struct script {
	char text[1 << 14];
	size_t size;
	uint64_t seed;
	int depth, functions, documents;
	bool plain;  /* inside $(...): no here-documents */
	bool inside; /* ${...}: no {a,b}, which bash expands before it knows where ${...} ends */
	bool listed; /* a list is in the quotes: bash splits several of them in ways of its own */
};

static uint64_t draw(struct script *s, uint64_t below) {
	return lk_hash64(s->seed++) % below;
}

static void put(struct script *s, const char *text) {
	size_t length = strlen(text);
	if (s->size + length + 3 >= sizeof s->text) return;
	/* $A before a letter becomes ${A} */
	if (s->size > 1 && s->text[s->size - 2] == '$' &&
	    isupper((unsigned char)s->text[s->size - 1]) &&
	    (isalnum((unsigned char)*text) || *text == '_' || *text == '[')) {
		char name = s->text[s->size - 1];
		s->size += (size_t)snprintf(s->text + s->size - 1, 4, "{%c}", name) - 1;
	}
	memcpy(s->text + s->size, text, length + 1);
	s->size += length;
}

static void put_char(struct script *s, char c) {
	put(s, (char[]){c, '\0'});
}

#define PICK(s, list) (list)[draw(s, sizeof(list) / sizeof *(list))]

static void put_scalar(struct script *s) {
	static const char *const names[] = {"A", "B", "C", "D"};
	put(s, PICK(s, names));
}

static void put_list(struct script *s) {
	static const char *const names[] = {"L", "M"};
	put(s, PICK(s, names));
}

static void put_word(struct script *s, bool quoted);

static void put_sum(struct script *s, int depth) {
	static const char *const numbers[] = {"0",  "1",   "2",    "3", "7",    "10",   "N",
	                                      "$N", "010", "0x1f", "E", "${N}", "2#101"};
	static const char *const operators[] = {"+",  "-",  "*",  "/", "%", "<<", ">>", "<",  ">", "<=",
	                                        ">=", "==", "!=", "&", "|", "^",  "&&", "||", "**"};
	static const char *const before[] = {"-", "!", "~", "+"};
	uint64_t kind = depth > 2 ? 0 : draw(s, 8);
	if (kind < 3) {
		put(s, PICK(s, numbers));
	} else if (kind < 6) {
		const char *op = PICK(s, operators);
		bool small = strcmp(op, "**") == 0 || op[0] == op[1];
		put_sum(s, depth + 1);
		put(s, draw(s, 2) ? " " : "");
		put(s, op);
		put(s, " ");
		if (small && *op != '&' && *op != '|') put(s, "2");
		else if (*op == '/' || *op == '%') put(s, "3");
		else put_sum(s, depth + 1);
	} else if (kind == 6) {
		put(s, "(");
		put_sum(s, depth + 1);
		put(s, draw(s, 3) ? ")" : ", 4)");
	} else if (draw(s, 2)) {
		put(s, PICK(s, before));
		put(s, " ");
		put_sum(s, depth + 1);
	} else {
		static const char *const set[] = {"N++",    "++N",    "N--",    "--N",        "N = 4",
		                                  "N += 2", "N *= 2", "N -= 1", "(N = 2) + N"};
		put(s, "(");
		put(s, PICK(s, set));
		put(s, ")");
	}
}

static void put_pattern(struct script *s) {
	static const char *const parts[] = {"a",     "b",   "*",     "?",           "[ab]",   "[!a]",
	                                    "\"*\"", "'?'", "\\*",   "$A",          "\"$B\"", "1",
	                                    ".",     "x",   "[a-c]", "[[:digit:]]", "/"};
	for (uint64_t n = 1 + draw(s, 3); n > 0; n--) put(s, PICK(s, parts));
}

/* A part of ${A/pattern/...}: no slash outside of quotes. */
static void put_replaced(struct script *s) {
	static const char *const parts[] = {"a",   "b", "x",  "?",   "[ab]",  "\"*\"",
	                                    "\\.", "1", "*b", "\\/", "\"/\"", "$A"};
	for (uint64_t n = 1 + draw(s, 2); n > 0; n--) put(s, PICK(s, parts));
}

static void put_braces(struct script *s, bool quoted) {
	static const char *const defaults[] = {":-", "-", ":+", "+", ":=", "="};
	static const char *const cuts[] = {"%", "%%", "#", "##"};
	static const char *const places[] = {":1", ":1:2", ": -2", ":N", ":N:1", ":2:", ":9"};
	static const char *const cases[] = {"^", "^^", ",", ",,"};
	static const char *const replaces[] = {"/", "//", "/#", "/%"};
	static const char *const lists[] = {"[@]", "[*]"};
	static const char *const indices[] = {"[0]", "[1]", "[-1]", "[$N]", "[N]", "[N-1]"};
	bool inside = s->inside;
	uint64_t kind = draw(s, 16);
	bool list = kind == 2 || kind == 3 || kind == 5 || kind == 6;
	if (quoted && list && s->listed) kind = 15;
	s->listed |= list;
	s->inside = true;
	put(s, "${");
	switch (kind) {
	case 0:
		put(s, "#");
		put_scalar(s);
		break;
	case 1:
		put(s, "#");
		put_list(s);
		put(s, PICK(s, lists));
		break;
	case 2:
	case 3:
		put_list(s);
		put(s, PICK(s, lists));
		break;
	case 4:
		put_list(s);
		put(s, PICK(s, indices));
		break;
	case 5:
		put_list(s);
		put(s, PICK(s, lists));
		put(s, PICK(s, places));
		break;
	case 6:
		put_list(s);
		put(s, PICK(s, lists));
		put(s, PICK(s, cuts));
		put_pattern(s);
		break;
	case 7:
	case 8:
		put_scalar(s);
		put(s, PICK(s, defaults));
		if (draw(s, 4)) put_word(s, quoted);
		if (draw(s, 4) == 0) put(s, " b");
		break;
	case 9:
	case 10:
		put_scalar(s);
		put(s, PICK(s, cuts));
		put_pattern(s);
		break;
	case 11:
		put_scalar(s);
		put(s, PICK(s, places));
		break;
	case 12:
		put_scalar(s);
		put(s, PICK(s, cases));
		break;
	case 13:
		put_scalar(s);
		put(s, PICK(s, replaces));
		put_replaced(s);
		if (draw(s, 4)) put(s, draw(s, 2) ? "/y" : "/$B");
		break;
	case 14: put(s, draw(s, 2) ? "!R" : "K[k]"); break;
	default: put_scalar(s); break;
	}
	put(s, "}");
	s->inside = inside;
}

static void put_expansion(struct script *s, bool quoted) {
	static const char *const given[] = {"$1",   "$2",      "$#",     "$@", "$*",
	                                    "${1}", "${2:-n}", "${@:2}", "$N"};
	s->depth++;
	uint64_t kind = draw(s, s->depth > 3 ? 4 : 10);
	if (kind < 3) {
		put(s, "$");
		put_scalar(s);
	} else if (kind == 3) {
		const char *one = PICK(s, given);
		bool list = strpbrk(one, "@*") != NULL;
		put(s, quoted && list && s->listed ? "$1" : one);
		s->listed |= list;
	} else if (kind < 8) {
		put_braces(s, quoted);
	} else if (kind == 8) {
		put(s, "$((");
		put_sum(s, 0);
		put(s, "))");
	} else {
		bool plain = s->plain;
		s->plain = true;
		put(s, "$(echo ");
		put_word(s, false);
		if (draw(s, 2)) put(s, " t");
		put(s, ")");
		s->plain = plain;
	}
	s->depth--;
}

static void put_quoted(struct script *s) {
	static const char *const parts[] = {"a", " ", "b  c", "\\\"",     "\\$A", "\\\\", "\\x",
	                                    "'", "*", "#",    "`echo q`", "~",    "1"};
	bool listed = s->listed;
	s->listed = false;
	put(s, "\"");
	if (s->inside) put(s, "q"); /* of "" in ${...} bash leaves a mark in what it matches */
	for (uint64_t n = draw(s, 3); n > 0; n--) {
		if (draw(s, 2)) put_expansion(s, true);
		else put(s, PICK(s, parts));
	}
	put(s, "\"");
	s->listed = listed;
}

static void put_word(struct script *s, bool quoted) {
	static const char *const literals[] = {"a",    "b",    "x1", "--flag", "7",   "k=v", "a.b/c",
	                                       ",",    "a:b",  "%",  "+",      "a#b", "\\ ", "\\$",
	                                       "\\\"", "a\\b", "@",  "_",      "\\'", "^"};
	static const char *const singles[] = {"''",  "'a b'",   "'$A'", "'\"'",
	                                      "'*'", "'a\\nb'", "'  '", "'#'"};
	static const char *const ansi[] = {"$'a\\tb'", "$'\\x41'", "$'it\\'s'", "$'\\n'",
	                                   "$'\\101\\u0042'"};
	static const char *const sets[] = {"{a,b}",      "{1..3}",    "x{a,b}y",   "{3..1}",
	                                   "{a,}",       "{a}",       "{}",        "{01..03}",
	                                   "{a,b}{c,d}", "{a,{b,c}}", "{1..5..2}", "{c..a}"};
	for (uint64_t n = 1 + draw(s, 3); n > 0; n--) {
		uint64_t kind = draw(s, 12);
		if (kind < 3 || (quoted && kind > 8)) put(s, quoted ? "a" : PICK(s, literals));
		else if (kind < 6) put_expansion(s, quoted);
		else if (kind < 9 && !quoted) put_quoted(s);
		else if (kind < 10 && !quoted) put(s, PICK(s, singles));
		else if (kind == 10 && !quoted && !s->inside && draw(s, 3) == 0) put(s, PICK(s, ansi));
		else if (kind == 11 && !quoted && !s->inside && draw(s, 3) == 0) put(s, PICK(s, sets));
		else put(s, "b");
	}
}

static void put_words(struct script *s, uint64_t most) {
	for (uint64_t n = draw(s, most + 1); n > 0; n--) {
		put(s, " ");
		put_word(s, false);
	}
}

static void put_commands(struct script *s);
static void put_command(struct script *s);

static void put_end(struct script *s) {
	put(s, draw(s, 2) || s->documents ? "\n" : "; ");
	s->documents = 0;
}

/* What [[ ]] and [ ] ask. */
static void put_asked(struct script *s, int depth) {
	static const char *const numbers[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
	static const char *const texts[] = {"=", "==", "!="};
	static const char *const joins[] = {"&&", "||"};
	uint64_t kind = draw(s, depth > 2 ? 4 : 8);
	if (kind < 2) {
		put_word(s, false);
		put(s, " ");
		put(s, PICK(s, texts));
		put(s, " ");
		put_pattern(s);
	} else if (kind == 2) {
		put(s, draw(s, 2) ? "-n " : "-z ");
		put_word(s, false);
	} else if (kind == 3) {
		put(s, "N ");
		put(s, PICK(s, numbers));
		put(s, draw(s, 2) ? " 3" : " $E+1");
	} else if (kind < 6) {
		put_asked(s, depth + 1);
		put(s, " ");
		put(s, PICK(s, joins));
		put(s, " ");
		put_asked(s, depth + 1);
	} else if (kind == 6) {
		put(s, "( ");
		put_asked(s, depth + 1);
		put(s, " )");
	} else {
		put(s, "! ");
		put_asked(s, depth + 1);
	}
}

static void put_condition(struct script *s, int depth) {
	static const char *const numbers[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
	uint64_t kind = draw(s, depth > 2 ? 6 : 8);
	if (draw(s, 6) == 0) put(s, "! ");
	if (kind == 0) {
		put(s, draw(s, 2) ? "true" : "false");
	} else if (kind == 1) {
		put(s, "(( "); /* ((( may begin subshells */
		put_sum(s, 0);
		put(s, "))");
	} else if (kind == 2) {
		put(s, "[ \"");
		put_expansion(s, true);
		put(s, draw(s, 2) ? "\" = " : "\" != ");
		put_quoted(s);
		put(s, draw(s, 4) ? " ]" : " -a -n \"$A\" ]");
	} else if (kind == 3) {
		put(s, "[ $N ");
		put(s, PICK(s, numbers));
		put(s, " $E ]");
	} else if (kind < 6) {
		put(s, "[[ ");
		put_asked(s, 0);
		put(s, " ]]");
	} else {
		put_condition(s, depth + 1);
		put(s, draw(s, 2) ? " && " : " || ");
		put_condition(s, depth + 1);
	}
}

static void put_assignment(struct script *s) {
	switch (draw(s, 10)) {
	case 0:
	case 1:
	case 2:
	case 3:
		put_scalar(s);
		put(s, draw(s, 4) ? "=" : "+=");
		put_word(s, false);
		break;
	case 4:
	case 5:
		put_list(s);
		put(s, draw(s, 3) ? "=(" : "+=(");
		put_words(s, 3);
		put(s, draw(s, 4) ? ")" : " # c'\n)");
		break;
	case 6:
		put_list(s);
		put(s, draw(s, 2) ? "[0]=" : "[N]=");
		put_word(s, false);
		break;
	case 7:
		put(s, draw(s, 2) ? "unset " : "unset -v ");
		if (draw(s, 2)) put(s, "'L[0]'");
		else put_scalar(s);
		break;
	case 8:
		put(s, draw(s, 2) ? "N=" : "E=");
		put_char(s, (char)('0' + draw(s, 10)));
		break;
	default:
		put(s, draw(s, 2) ? "K[k]=" : "R=");
		if (s->text[s->size - 2] == 'R') put_scalar(s);
		else put_word(s, false);
		break;
	}
}

static void put_document(struct script *s) {
	static const char *const begins[] = {"<<END", "<<'END'", "<<-END", "<<\"END\""};
	const char *begin = PICK(s, begins);
	if (s->plain || s->documents) return;
	put(s, draw(s, 2) ? "read " : "IFS= read -r ");
	put_scalar(s);
	if (draw(s, 3) == 0) put(s, " D");
	put(s, " ");
	if (draw(s, 3) == 0) {
		put(s, "<<< ");
		put_word(s, false);
		return;
	}
	put(s, begin);
	put(s, "\n");
	if (begin[2] == '-') put(s, "\t");
	static const char *const lines[] = {"one two three",  "$A and ${B:-c}",      "  x 'y' \"z\" ",
	                                    "a\\$b \\x \\\\", "$((N + 1)) `echo q`", ""};
	put(s, PICK(s, lines));
	put(s, "\nsecond\n");
	put(s, begin[2] == '-' ? "\tEND" : "END");
	s->documents = 1;
}

static void put_compound(struct script *s) {
	static const char *const ends[] = {";;", ";;", ";;", ";&", ";;&"};
	switch (draw(s, 9)) {
	case 0:
	case 1:
		put(s, "if ");
		put_condition(s, 0);
		put(s, "; then ");
		put_commands(s);
		if (draw(s, 2)) {
			put(s, "elif ");
			put_condition(s, 0);
			put(s, "\nthen\n");
			put_commands(s);
		}
		if (draw(s, 2)) {
			put(s, "else ");
			put_commands(s);
		}
		put(s, "fi");
		break;
	case 2:
		put(s, "case ");
		put_word(s, false);
		put(s, " in ");
		for (uint64_t n = 1 + draw(s, 3); n > 0; n--) {
			put(s, draw(s, 4) ? "" : "(");
			put_pattern(s);
			if (draw(s, 3) == 0) {
				put(s, "|");
				put_pattern(s);
			}
			put(s, ") ");
			put_commands(s);
			put(s, PICK(s, ends));
			put(s, draw(s, 2) ? "\n" : " ");
		}
		put(s, "esac");
		break;
	case 3:
		put(s, "for ");
		put_scalar(s);
		put(s, " in");
		put_words(s, 3);
		put(s, "; do ");
		put_commands(s);
		put(s, "done");
		break;
	case 4:
		put(s, "for ((I = 0; I < 3; I++)); do ");
		put_commands(s);
		put(s, "done");
		break;
	case 5:
		put(s, "{ ");
		put_commands(s);
		put(s, "}");
		break;
	case 6:
		put(s, "( ");
		put_commands(s);
		put(s, ")");
		break;
	case 7:
		put(s, "J=0; while [ $J -lt 2 ]; do J=$((J+1)); ");
		put_commands(s);
		put(s, "done");
		break;
	default: {
		char name = (char)('f' + s->functions++ % 3);
		put_char(s, name);
		put(s, draw(s, 2) ? "() { " : " () {\n");
		if (draw(s, 2)) {
			put(s, "local A=");
			put_word(s, false);
			put(s, "; ");
		}
		put_commands(s);
		if (draw(s, 4) == 0) put(s, draw(s, 2) ? "return 1; " : "return; ");
		put(s, "}; ");
		put_char(s, name);
		put_words(s, 3);
		break;
	}
	}
}

static void put_command(struct script *s) {
	uint64_t kind = draw(s, s->depth > 2 ? 8 : 16);
	s->depth++;
	if (kind < 5) {
		put_assignment(s);
	} else if (kind == 5) {
		static const char *const declares[] = {"export ", "declare ", "readonly Z=", "typeset "};
		put(s, PICK(s, declares));
		if (s->text[s->size - 1] == ' ') {
			put_scalar(s);
			put(s, "=");
		}
		put_word(s, false);
	} else if (kind == 6) {
		put(s, draw(s, 2) ? "(( " : "let \"");
		bool let = s->text[s->size - 1] == '"';
		put_sum(s, 0);
		put(s, let ? "\"" : "))");
	} else if (kind == 7) {
		if (draw(s, 2)) {
			put(s, "set --");
			put_words(s, 3);
		} else {
			put(s, "shift");
		}
	} else if (kind == 8) {
		put_document(s);
		if (s->text[s->size - 1] == '\n' || s->text[s->size - 1] == ' ') put(s, ":");
	} else if (kind == 9) {
		put_condition(s, 0);
		put(s, draw(s, 2) ? " && " : " || ");
		put_assignment(s);
	} else if (kind == 10) {
		put(s, "printf -v ");
		put_scalar(s);
		put(s, " '%s-%s' ");
		put_word(s, false);
	} else if (kind == 11) {
		put(s, ":");
		put_words(s, 2);
	} else {
		put_compound(s);
	}
	s->depth--;
}

static void put_commands(struct script *s) {
	for (uint64_t n = 1 + draw(s, 2); n > 0; n--) {
		put_command(s);
		put_end(s);
	}
}

static void make_script(struct script *s, uint64_t number) {
	static const char *const values[] = {"1",          "a",     "'a b'", "''",   "ab.c/d", "'*'",
	                                     "\"x y  z\"", "hello", "A",     "' p'", "'q '"};
	*s = (struct script){.seed = number << 20};
	for (int i = 0; i < 4; i++) {
		put_char(s, "ABCD"[i]);
		put(s, "=");
		put(s, PICK(s, values));
		put(s, i < 3 ? " " : "\n");
	}
	put(s, "N=2 E=1 R=A\nL=(");
	for (uint64_t n = draw(s, 4); n > 0; n--) {
		put(s, PICK(s, values));
		put(s, " ");
	}
	put(s, ")\nM=(m 'n o')\ndeclare -A K=([k]=v)\nset -- one 'two three'\n");
	for (uint64_t n = 1 + draw(s, 3); n > 0; n--) {
		put_command(s);
		put_end(s);
	}
	if (s->text[s->size - 1] != '\n') put(s, "\n");
	put(s, "python train.py");
	put_words(s, 3);
	put(s, " \"$A|$B|$C|$D|$N|$E|$#|$*\" \"${L[@]}\" \"${M[*]}\"\n");
}

/* ---- our words ---- */

typedef enum outcome {
	KNOWN,
	UNKNOWN, /* a word is not known, or whether the launch runs is not */
	REFUSED
} outcome;

/* The words of the launch, each after an 'a', as bash's python() prints them. */
static outcome read_words(lk_arena *arena, const struct script *s, char *out, size_t room,
                          char message[512]) {
	lk_launch launch = {0};
	lk_launch_ranks batch = {0};
	lk_error err = {0};
	lk_words words = {0};
	lk_reading reading = {.arena = arena, .where = "test.sh", .out = &launch, .err = &err};
	*message = '\0';
	size_t used = 0;
	lk_status status = lk_script_words(&reading, s->text, s->size, NULL, NULL, &words, &batch);
	outcome result = status != LK_OK ? REFUSED : launch.assumed_count > 0 ? UNKNOWN : KNOWN;
	if (status != LK_OK) lk_error_text(&err, message, 512);
	size_t from = 0;
	while (from < words.count && strcmp(words.at[from].text, "python") != 0) from++;
	for (size_t i = from + 1; i < words.count; i++) {
		if (words.at[i].unknown != NULL) {
			result = UNKNOWN;
			snprintf(message, 512, "%s", words.at[i].unknown);
		}
		int n = snprintf(out + used, room - used, "a%s", words.at[i].text);
		if (used + (size_t)n + 1 >= room) break;
		used += (size_t)n + 1;
	}
	out[used] = 'e';
	out[used + 1] = '\0';
	if (result == UNKNOWN && *message == '\0') snprintf(message, 512, "not certain");
	lk_vec_free(&words);
	return result;
}

/* ---- bash's ---- */

static const char driver[] = "python() { printf 'a%s\\0' \"$@\" >&3; printf 'e\\0' >&3; }\n"
							 "while IFS= read -r -d '' script; do\n"
							 "  ( cd \"$3\"; eval \"$script\" ) >/dev/null 2>&1 </dev/null\n"
							 "  printf 'x\\0' >&3\n"
							 "done <\"$1\" 3>\"$2\"\n";

/* Where the last launch of one script begins in what bash said, NULL: it launched nothing; *at
 * moves after the script. */
static const char *next_answer(const char **at, const char *end) {
	const char *last = NULL, *begin = *at;
	for (const char *p = *at; p < end; p += strlen(p) + 1) {
		if (*p == 'e') {
			last = begin;
			begin = p + strlen(p) + 1;
		}
		if (*p == 'x') {
			*at = p + strlen(p) + 1;
			return last;
		}
	}
	*at = end;
	return last;
}

static bool same_words(const char *ours, const char *bash) {
	for (; bash != NULL; ours += strlen(ours) + 1, bash += strlen(bash) + 1) {
		if (strcmp(ours, bash) != 0) return false;
		if (*bash == 'e') return true;
	}
	return false;
}

static void show_words(const char *who, const char *words) {
	char line[2048];
	size_t used = 0;
	for (; words != NULL && *words == 'a' && used + 100 < sizeof line; words += strlen(words) + 1)
		used += (size_t)snprintf(line + used, sizeof line - used, " [%.90s]", words + 1);
	line[used] = '\0';
	print_error("%s:%s\n", who, words == NULL ? " launches nothing" : line);
}

static void random_scripts(void **state) {
	(void)state;
	if (judged_elsewhere() || system("bash -c '[[ ${BASH_VERSINFO[0]} -ge 5 ]]' 2>/dev/null") != 0)
		skip();
	static struct script script;
	int count = rounds(1000, 100000), wrong = 0, tally[3] = {0};
	uint64_t first =
		is_asked_for("LOCKSTEP_SEED") ? strtoull(getenv("LOCKSTEP_SEED"), NULL, 10) : 1;
	char scripts[64], said[64], program[64], folder[64], command[400];
	FILE *file = fopen(new_file(scripts, ""), "w");
	assert_non_null(file);
	for (int i = 0; i < count; i++) {
		make_script(&script, first + (uint64_t)i);
		fwrite(script.text, 1, script.size + 1, file);
	}
	fclose(file);
	write_text(new_file(program, ".sh"), driver);
	snprintf(command, sizeof command, "bash %s %s %s %s", program, scripts, new_file(said, ""),
	         new_folder(folder)); /* where patterns match no file */
	assert_int_equal(system(command), 0);
	size_t size;
	char *answers;
	lk_error err = {0};
	assert_int_equal(lk_stream_slurp(said, 1 << 30, &answers, &size, &err), LK_OK);
	const char *at = answers;
	for (int i = 0; i < count; i++) {
		static char ours[1 << 17];
		char message[512];
		lk_arena arena = LK_ARENA_INIT;
		make_script(&script, first + (uint64_t)i);
		const char *bash = next_answer(&at, answers + size);
		outcome result = read_words(&arena, &script, ours, sizeof ours, message);
		tally[result]++;
		if (is_asked_for("LOCKSTEP_VERBOSE") && result != KNOWN) print_message("%s\n", message);
		if (result == KNOWN && !same_words(ours, bash) && wrong++ < 20) {
			print_error("script %llu:\n%s", (unsigned long long)(first + (uint64_t)i), script.text);
			show_words("read", ours);
			show_words("bash", bash);
		}
		lk_arena_free(&arena);
	}
	print_message("%d scripts: %d known, %d unknown, %d refused, %d wrong\n", count, tally[KNOWN],
	              tally[UNKNOWN], tally[REFUSED], wrong);
	remove(scripts);
	remove(said);
	remove(program);
	remove_folder(folder);
	free(answers);
	assert_int_equal(wrong, 0);
	assert_true(tally[KNOWN] > count * 9 / 10);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_scripts)};
	return cmocka_run_group_tests_name("shell_bash", tests, NULL, NULL);
}
