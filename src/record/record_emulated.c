/* record_emulated.c: runs a command as one emulated rank after another, each a process of its
 * own. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "record/record.h"
#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"

enum { MOST_WORLD = 1 << 16, MOST_RUNS = 4096, NUMBER = 24 };

typedef LK_VEC(int) rank_list;

/* ---- which ranks ---- */

static lk_status add_emulated_rank(rank_list *ranks, long long rank,
                                   const lk_record_request *request, lk_error *err) {
	const char *where = request->ranks ? "--ranks" : "--as-rank";
	if (rank >= request->world_size) {
		lk_fail(err, LK_ERR_INPUT, where, "rank %lld does not exist in a world of %d %s", rank,
		        request->world_size, lk_noun(request->world_size, "rank", "ranks"));
		return lk_hint(err, "ranks count from 0 to %d", request->world_size - 1);
	}
	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->at[i] == rank)
			return lk_fail(err, LK_ERR_INPUT, where, "rank %lld is listed twice", rank);
	if (ranks->count == MOST_RUNS)
		return lk_fail(err, LK_ERR_INPUT, where, "lists more than %d ranks", MOST_RUNS);
	if (!lk_push(ranks)) return lk_oom(err);
	*lk_last(ranks) = (int)rank;
	return LK_OK;
}

/* "7" or "8-15". */
static lk_status add_rank_range(rank_list *ranks, const char *text, size_t length,
                                const lk_record_request *request, lk_error *err) {
	LK_ASSERT(length <= strlen(text));
	char first[NUMBER], last[NUMBER];
	const char *dash = memchr(text, '-', length);
	size_t before = dash ? (size_t)(dash - text) : length;
	long long from, to;
	lk_copy(first, before + 1 < NUMBER ? before + 1 : NUMBER, text);
	size_t rest = dash ? length - before - 1 : before;
	lk_copy(last, rest + 1 < NUMBER ? rest + 1 : NUMBER, dash ? dash + 1 : text);
	LK_TRY(lk_parse_int(first, 0, MOST_WORLD, &from, "--ranks", err));
	LK_TRY(lk_parse_int(last, from, MOST_WORLD, &to, "--ranks", err));
	for (long long rank = from; rank <= to; rank++)
		LK_TRY(add_emulated_rank(ranks, rank, request, err));
	return LK_OK;
}

static lk_status list_ranks_to_run(const lk_record_request *request, rank_list *ranks,
                                   lk_error *err) {
	if (!request->ranks) return add_emulated_rank(ranks, request->as_rank, request, err);
	for (const char *at = request->ranks;;) {
		size_t length = strcspn(at, ",");
		LK_TRY(add_rank_range(ranks, at, length, request, err));
		if (!at[length]) return LK_OK;
		at += length + 1;
	}
}

/* ---- the request ---- */

/* Check a fill rule: one of the known rules, or a file with bytes. */
static lk_status check_fill_rule(const char *fill, lk_error *err) {
	static const char *const rules[] = {"numbers", "random", "zeros"};
	struct stat info;
	for (size_t i = 0; fill && i < sizeof rules / sizeof *rules; i++)
		if (strcmp(fill, rules[i]) == 0) return LK_OK;
	if (!fill || (stat(fill, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
	              access(fill, R_OK) == 0))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--fill", "\"%.200s\" is no rule, and no file with bytes in it",
	        fill);
	return lk_hint(err, "give numbers, random, zeros or the name of a file");
}

/* "4,/2": blocks of 4 ranks, then every second rank; an empty item is inferred. */
static lk_status check_splits(const lk_record_request *request, lk_error *err) {
	size_t length = 0;
	for (const char *at = request->splits; at; at = at[length] ? at + length + 1 : NULL) {
		length = strcspn(at, ",");
		const char *digits = at + (*at == '/');
		char *end;
		long ranks = length ? strtol(digits, &end, 10) : 1;
		bool good = !length || (*digits >= '0' && *digits <= '9' && end == at + length);
		if (good && ranks >= 1 && ranks <= request->world_size) continue;
		lk_fail(err, LK_ERR_INPUT, "--splits", "\"%.*s\" is neither N nor /N, from 1 to %d",
		        (int)(length < 40 ? length : 40), at, request->world_size);
		return lk_hint(err, "give a list such as 8,/8: blocks of 8 ranks, then every 8th rank");
	}
	return LK_OK;
}

/* Refuse scripts that call other ranks for results, which no rule makes up. */
static lk_status check_remote_calls(const lk_record_request *request, lk_error *err) {
	for (int i = 0; i < request->words; i++) {
		const char *path = request->command[i], *ending = strrchr(path, '.');
		if (!ending || strcmp(ending, ".py") != 0 || !lk_file_contains(path, "init_rpc(")) continue;
		lk_fail(
			err, LK_ERR_INPUT, path,
			"uses torch.distributed.rpc, whose calls run on other ranks and return their results");
		return lk_hint(err, "an emulated rank has no others: record the job itself, without %s",
		               request->ranks ? "--ranks" : "--as-rank");
	}
	return LK_OK;
}

static lk_status check_emulated_request(const lk_record_request *request, lk_error *err) {
	char room[LK_PROGRAM_NAME];
	if (request->as_rank < 0 && !request->ranks) {
		lk_fail(err, LK_ERR_INPUT, "--world", "which rank the command runs as is missing");
		return lk_hint(err, "--as-rank 5, or --ranks 0,7,8 for several, one after another");
	}
	if (request->world_size < 1) {
		lk_fail(err, LK_ERR_INPUT, request->ranks ? "--ranks" : "--as-rank",
		        "the number of ranks of the world is missing");
		return lk_hint(err, "--world 1024");
	}
	if (request->as_rank >= 0 && request->ranks)
		return lk_fail(err, LK_ERR_INPUT, "--as-rank",
		               "cannot be combined with --ranks; list all ranks in --ranks");
	if (request->mode == LK_RECORD_MODE_NULL)
		return lk_fail(err, LK_ERR_INPUT, "--mode null", "cannot be combined with --world");
	LK_TRY(check_fill_rule(request->fill, err));
	LK_TRY(check_splits(request, err));
	LK_TRY(check_remote_calls(request, err));
	if (!request->program && !lk_record_programs(request, room)) {
		lk_fail(err, LK_ERR_INPUT, request->command[0],
		        "starts other programs, but an emulated rank is a single process");
		return lk_hint(err, "give the training program itself, without mpirun; --program NAME if a "
		                    "script starts it");
	}
	return LK_OK;
}

lk_status lk_record_check_emulated(lk_record_request *request, lk_error *err) {
	if (request->as_rank < 0 && !request->ranks && !request->world_size &&
	    request->mode != LK_RECORD_MODE_AS_RANK)
		return LK_OK;
	LK_TRY(check_emulated_request(request, err));
	request->mode = LK_RECORD_MODE_AS_RANK;
	rank_list ranks = {0};
	lk_status status = list_ranks_to_run(request, &ranks, err);
	lk_vec_free(&ranks);
	return status;
}

/* ---- the runs ---- */

/* Set where PyTorch finds the store of the absent ranks. It takes the store for that of torchrun's
 * agent, so that rank 0 asks it too, instead of serving one itself. */
static lk_status set_store_address(const lk_store_server *store, lk_arena *arena,
                                   lk_record_settings *settings, lk_error *err) {
	const char *port = lk_arena_printf(arena, "%d", lk_store_port(store));
	LK_TRY(lk_record_set(settings, "MASTER_ADDR", "127.0.0.1", err));
	LK_TRY(lk_record_set(settings, "MASTER_PORT", port, err));
	LK_TRY(lk_record_set(settings, "LOCKSTEP_RECORD_STORE", port, err)); /* programs set others */
	LK_TRY(lk_record_set(settings, "TORCHELASTIC_RESTART_COUNT", "0", err));
	return lk_record_set(settings, "TORCHELASTIC_USE_AGENT_STORE", "True", err);
}

static lk_status serve_absent_ranks(const lk_record_request *request, lk_store_server **out,
                                    lk_error *err) {
	LK_ASSERT(request->as_rank >= 0 && request->as_rank < request->world_size);
	long long port = 0;
	const char *said = getenv("MASTER_PORT");
	if (said && *said) LK_TRY(lk_parse_int(said, 0, 65535, &port, "MASTER_PORT", err));
	return lk_store_serve(request->as_rank, request->world_size, (int)port, out, err);
}

static lk_status run_one_recording(const lk_record_request *request, const char *folder,
                                   const char *scratch, lk_arena *arena, lk_run_end *out,
                                   lk_error *err) {
	lk_record_settings settings = {0};
	lk_store_server *store = NULL;
	lk_store_served served = {0};
	lk_status status = lk_record_settings_of(request, folder, scratch, arena, &settings, err);
	if (status == LK_OK && request->mode == LK_RECORD_MODE_AS_RANK)
		status = serve_absent_ranks(request, &store, err);
	if (status == LK_OK && store) status = set_store_address(store, arena, &settings, err);
	if (status == LK_OK) status = lk_record_command(request, &settings, folder, out, err);
	lk_store_stop(store, &served);
	out->served = served;
	lk_vec_free(&settings);
	return status;
}

static void add_store_counts(lk_store_served *to, const lk_store_served *one) {
	to->connections += one->connections;
	to->requests += one->requests;
	to->made_up += one->made_up;
	if (!*to->wrong) lk_copy(to->wrong, sizeof to->wrong, one->wrong);
}

lk_status lk_record_runs(const lk_record_request *request, const char *folder, const char *scratch,
                         lk_arena *arena, lk_run_end *out, lk_error *err) {
	rank_list ranks = {0};
	lk_record_request one = *request;
	lk_store_served served = {0};
	double wall_s = 0;
	if (request->mode != LK_RECORD_MODE_AS_RANK)
		return run_one_recording(request, folder, scratch, arena, out, err);
	lk_status status = list_ranks_to_run(request, &ranks, err);
	for (size_t i = 0; status == LK_OK && i < ranks.count; i++) {
		one.as_rank = ranks.at[i];
		status = run_one_recording(&one, folder, scratch, arena, out, err);
		wall_s += out->wall_s;
		add_store_counts(&served, &out->served);
		if (out->end == LK_RECORD_TIME_OVER || (out->end == LK_RECORD_ENDED && out->status != 0))
			break;
	}
	out->wall_s = wall_s;
	out->served = served;
	lk_vec_free(&ranks);
	return status;
}
