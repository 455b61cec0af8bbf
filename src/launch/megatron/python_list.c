/* python_list.c: list expressions of Python as Megatron-LM takes them:
 *
 *     sum := term {'+' term}      term := atom {'*' number}
 *     atom := '[' number {',' number} ']' | '(' sum ')' */
#include "base/check.h"
#include "launch/megatron/megatron.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct list_reader {
	const char *at;
	int *list, limit, count;
	int depth;
	bool wrong;
};

static int list_number(struct list_reader *reader) {
	char *end;
	long value = isdigit((unsigned char)*reader->at) ? strtol(reader->at, &end, 10) : -1;
	if (value < 0 || value > LK_PYTHON_MOST) {
		reader->wrong = true;
		return 0;
	}
	reader->at = end;
	return (int)value;
}

static void list_repeat(struct list_reader *reader, int from, int times) {
	int size = reader->count - from;
	LK_ASSERT(size >= 0 && reader->count <= reader->limit);
	if (times == 0) reader->count = from;
	if ((long)from + (long)size * times > reader->limit) reader->wrong = true;
	for (int n = 1; n < times && !reader->wrong; n++)
		for (int i = 0; i < size; i++) reader->list[reader->count++] = reader->list[from + i];
}

static void list_sum(struct list_reader *reader);

static void list_term(struct list_reader *reader) {
	int from = reader->count;
	if (++reader->depth > 16) reader->wrong = true;
	if (reader->wrong) return;
	if (*reader->at == '[') {
		do {
			reader->at++;
			if (*reader->at == ']') break;
			int value = list_number(reader);
			if (reader->count >= reader->limit) reader->wrong = true;
			if (!reader->wrong) reader->list[reader->count++] = value;
		} while (*reader->at == ',' && !reader->wrong);
		if (*reader->at++ != ']') reader->wrong = true;
	} else if (*reader->at == '(') {
		reader->at++;
		list_sum(reader);
		if (reader->wrong || *reader->at++ != ')') reader->wrong = true;
	} else {
		reader->wrong = true;
	}
	while (!reader->wrong && *reader->at == '*') {
		reader->at++;
		int times = list_number(reader);
		if (!reader->wrong) list_repeat(reader, from, times);
	}
	reader->depth--;
}

static void list_sum(struct list_reader *reader) {
	list_term(reader);
	while (!reader->wrong && *reader->at == '+') {
		reader->at++;
		list_term(reader);
	}
}

bool lk_python_list(const char *text, int *every, int *list, int limit, int *count) {
	struct list_reader p = {.at = text, .list = list, .limit = limit};
	*every = *count = 0;
	if (strchr(text, '[') == NULL) {
		*every = list_number(&p);
		return !p.wrong && *p.at == '\0' && *every > 0;
	}
	list_sum(&p);
	LK_ASSERT(p.count >= 0 && p.count <= limit);
	*count = p.count;
	return !p.wrong && *p.at == '\0';
}
