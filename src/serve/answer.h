/* answer.h: one question, answered in a process of its own. */
#ifndef LK_SERVE_ANSWER_H
#define LK_SERVE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lockstep/options.h"
#include "serve/confine.h"

typedef enum lk_question_kind { LK_ASK_PREDICT, LK_ASK_PLAN, LK_ASK_EXPLAIN, LK_ASK_KINDS } lk_question_kind;

/* The answer as -o json prints it; the report that the page shows; of a prediction, the report without what takes
 * further predictions: changes that would make it fit, other rates. */
typedef enum lk_form { LK_FORM_RESULT, LK_FORM_REPORT, LK_FORM_PICTURE } lk_form;

enum { LK_PAGE_SIZE = 33 };

typedef struct lk_question {
	lk_question_kind kind;
	const char *folder;         /* private to this question; what was sent lies there */
	const char *body;           /* fields in JSON */
	size_t size;
	const char *const *traces;  /* names below the folder */
	int trace_count;
	int threads;                /* of a plan or an explanation */
	lk_form form;
	char page[LK_PAGE_SIZE];    /* who asks; "" unknown. A newer question of the same page ends this one */
	lk_limits limits;
} lk_question;

const lk_verb *lk_question_verb(lk_question_kind kind);

/* What the child writes, one after the other: a head, then `size` bytes. */
typedef enum lk_frame_kind {
	LK_FRAME_PROGRESS = 1,  /* an lk_progress; any number of them */
	LK_FRAME_ANSWER,        /* JSON; the last */
	LK_FRAME_ERROR,         /* an lk_error; the last */
} lk_frame_kind;

typedef struct lk_frame {
	uint32_t kind, size;
} lk_frame;

typedef struct lk_progress {
	int gpus;
	double done, all;
} lk_progress;

/* Confines this process, answers and writes frames to `out`. The caller then leaves the process. */
void lk_answer(const lk_question *question, int out);

#endif
