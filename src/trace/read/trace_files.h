/* trace_files.h: files and folders as what they hold: captures and execution traces, sorted out by content. */
#ifndef LK_TRACE_TRACE_FILES_H
#define LK_TRACE_TRACE_FILES_H

#include "trace/align/traces.h"
#include "trace/capture/works.h"

/* Reads a file of any format: one of *capture and *works is set, the other NULL. `works` NULL: execution traces are an
 * error. */
lk_status lk_trace_read(const char *path, const lk_read_limits *limits, lk_capture **capture, lk_works **works,
                        lk_error *err);

typedef struct lk_trace_files {
	lk_capture **capture;    /* in the order of the files */
	lk_works **works;        /* likewise */
	uint32_t captures, work_count;
} lk_trace_files;

/* As lk_traces_read reads files and folders. `out` is to be freed when it is LK_OK. */
lk_status lk_trace_files_read(const char *const *paths, uint32_t count, const lk_read_limits *limits, int threads,
                              lk_trace_files *out, lk_error *err);
/* The names alone, folders listed, in the arena. */
lk_status lk_trace_files_list(lk_arena *arena, const char *const *paths, uint32_t count, const char *const **out, uint32_t *found,
                              lk_error *err);
void lk_trace_files_free(lk_trace_files *files);
/* One run: captures learn from the execution trace of their rank (link.h), then they are matched. The captures are the
 * run's from then on, or are freed when it fails; the execution traces stay. */
lk_status lk_traces_join(lk_trace_files *files, lk_traces **out, lk_error *err);

/* The rank that a file's name tells; -1 none. */
int32_t lk_trace_rank_in_name(const char *path);
/* What captures learn, and the sentences about it (traces_link.c); captures have their ranks and are in their order. */
lk_status lk_traces_link(lk_traces *traces, lk_works *const *works, uint32_t count, lk_error *err);

#endif
