/* sqlite.h: SQLite, loaded when the first database is read or written. */
#ifndef LK_IO_SQLITE_H
#define LK_IO_SQLITE_H

#include <sqlite3.h>
#include "lockstep/error.h"

/* The functions used, by names without the prefix sqlite3_. */
#define LK_SQLITE_CALLS(CALL) \
	CALL(bind_double)         \
	CALL(bind_int)            \
	CALL(bind_null)           \
	CALL(bind_text)           \
	CALL(bind_text64)         \
	CALL(busy_timeout)        \
	CALL(close)               \
	CALL(column_count)        \
	CALL(column_double)       \
	CALL(column_int64)        \
	CALL(column_name)         \
	CALL(column_text)         \
	CALL(column_type)         \
	CALL(db_config)           \
	CALL(errcode)             \
	CALL(errmsg)              \
	CALL(exec)                \
	CALL(extended_errcode)    \
	CALL(finalize)            \
	CALL(free)                \
	CALL(limit)               \
	CALL(mprintf)             \
	CALL(open_v2)             \
	CALL(prepare_v2)          \
	CALL(progress_handler)    \
	CALL(reset)               \
	CALL(step)                \
	CALL(str_appendall)       \
	CALL(str_appendf)         \
	CALL(str_finish)          \
	CALL(str_new)             \
	CALL(stricmp)

typedef struct lk_sqlite_calls {
#define LK_CALL(name) __typeof__(sqlite3_##name) *name;
	LK_SQLITE_CALLS(LK_CALL)
#undef LK_CALL
} lk_sqlite_calls;

/* Usable after lk_sqlite_load, which may be called repeatedly, from any thread. */
extern lk_sqlite_calls lk_sqlite;
lk_status lk_sqlite_load(lk_error *err);

#endif
