/* sqlite.c: load libsqlite3.so.0, or use the linked one. */
#include "io/sqlite.h"

#include "system/library.h"

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

lk_status lk_sqlite_load(lk_error *err) {
#define LK_CALL(name) "sqlite3_" #name,
	static const char *const names[] = {LK_SQLITE_CALLS(LK_CALL) NULL};
#undef LK_CALL
	_Static_assert(sizeof names - sizeof *names == sizeof lk_sqlite, "a pointer for each name");
	static lk_library_once once = LK_LIBRARY_ONCE;
	return lk_library_load(&lk_library_sqlite, &once, names, &lk_sqlite, err);
}

#endif
