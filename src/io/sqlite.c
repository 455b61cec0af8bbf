/* sqlite.c: load libsqlite3.so.0, or use the linked one. */
#include "io/sqlite.h"

#include <string.h>

#include "system/library.h"
#include "system/once.h"

#ifdef LK_LINKED

#define LK_CALL(name) sqlite3_##name,
lk_sqlite_calls lk_sqlite = {LK_SQLITE_CALLS(LK_CALL)};
#undef LK_CALL

lk_status lk_sqlite_load(lk_error *err) {
	(void)err;
	return LK_OK;
}

#else

lk_sqlite_calls lk_sqlite;

static lk_status sqlite_load(lk_error *err) {
#define LK_CALL(name) "sqlite3_" #name,
	static const char *const names[] = {LK_SQLITE_CALLS(LK_CALL) NULL};
#undef LK_CALL
	void *calls[sizeof names / sizeof *names - 1];
	_Static_assert(sizeof calls == sizeof lk_sqlite, "a pointer for each name");
	LK_TRY(lk_library_load(&lk_library_sqlite, names, calls, err));
	memcpy(&lk_sqlite, calls, sizeof lk_sqlite);
	return LK_OK;
}

static void sqlite_forget(void) {
}

lk_status lk_sqlite_load(lk_error *err) {
	static lk_once once = LK_ONCE_INIT;
	return lk_once_load(&once, sqlite_load, sqlite_forget, err);
}

#endif
