/* job_asked.c: a job as one text, the value of --job: the words of a command line of predict, or
 * the name of a file that predict reads. */
#include "verbs/verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char blanks[] = " \t\r\n";

/* Take one word from *at, as a shell would, without expansions, and write it to *to. False: a quote
 * that does not end. */
static bool take_word(const char **at, char **to) {
	char quote = '\0';
	for (; **at && (quote || !strchr(blanks, **at)); (*at)++) {
		char c = **at;
		if (!quote && (c == '"' || c == '\'')) quote = c;
		else if (quote && c == quote) quote = '\0';
		else {
			if (c == '\\' && quote != '\'' && (*at)[1]) c = *++*at;
			*(*to)++ = c;
		}
	}
	*(*to)++ = '\0';
	return !quote;
}

/* The words of `at` in job->text, which has room for them. */
static lk_status split_words(lk_asked_job *job, const char *at, lk_error *err) {
	char *to = job->text;
	while (*(at += strspn(at, blanks))) {
		job->words[job->count++] = to;
		if (take_word(&at, &to)) continue;
		lk_fail(err, LK_ERR_INPUT, "--job", "a quotation mark does not end");
		return lk_hint(err, "close it");
	}
	return LK_OK;
}

/* The words after "lockstep predict", where a whole command line was pasted. */
static const char *const *words_of(const lk_asked_job *job, int *count) {
	int first = job->count > 0 && strcmp(job->words[0], "lockstep") == 0;
	first += first < job->count && strcmp(job->words[first], "predict") == 0;
	*count = job->count - first;
	return job->words + first;
}

static lk_status fill_job(lk_asked_job *job, lk_error *err) {
	static const lk_outputs outputs;
	int count;
	size_t combinations;
	const char *const *words = words_of(job, &count);
	if (!count) {
		lk_fail(err, LK_ERR_INPUT, "--job", "no job is given");
		return lk_hint(err, "give the words of lockstep predict: \"llama3.1-8b --gpu h100-sxm "
		                    "--gpus 8\", or a file that it reads");
	}
	LK_TRY(lk_args_parse(&lk_predict_verb, count, words, &job->args, err));
	LK_TRY(lk_args_check_empty(&job->args, err));
	LK_TRY(lk_args_combinations(&job->args, &combinations, err));
	if (combinations > 1) {
		lk_fail(err, LK_ERR_INPUT, "--job", "%zu jobs are given", combinations);
		return lk_hint(err, "give one value of each option");
	}
	lk_verb_input input = lk_verb_words(&job->args, &outputs);
	return lk_verb_request(&lk_row_predict, &job->args, 0, &input, &job->request, err);
}

lk_status lk_job_asked(const char *text, lk_asked_job *out, lk_error *err) {
	size_t length = strlen(text);
	*out =
		(lk_asked_job){.text = strdup(text), .words = calloc(length / 2 + 2, sizeof *out->words)};
	lk_status status = out->text && out->words ? LK_OK : lk_oom(err);
	if (status == LK_OK && access(text, F_OK) == 0) out->words[out->count++] = out->text;
	else if (status == LK_OK) status = split_words(out, text, err);
	if (status == LK_OK) status = fill_job(out, err);
	if (status != LK_OK) lk_job_asked_free(out);
	return status;
}

void lk_job_asked_free(lk_asked_job *job) {
	lk_args_free(&job->args);
	free(job->words);
	free(job->text);
	*job = (lk_asked_job){0};
}
