/* folder.h: private folders for what is uploaded. */
#ifndef LK_SERVE_FOLDER_H
#define LK_SERVE_FOLDER_H

#include <stddef.h>
#include "lockstep/error.h"

enum { LK_FOLDER_SIZE = 4096 };

/* A new folder below $TMPDIR or /tmp that only this user may enter. */
lk_status lk_folder_make(char path[LK_FOLDER_SIZE], lk_error *err);
/* Folder NUMBER below another. */
lk_status lk_folder_below(const char *parent, unsigned long long number, char path[LK_FOLDER_SIZE], lk_error *err);
/* The files of a folder, which has no folders in it, and the folder. */
void lk_folder_remove(const char *path);
/* A file's name as it was sent, made one that can do nothing but name a file: the part behind the last '/' or '\',
 * other signs than letters, digits, '.', '_' and '-' as '_', no '.' in front, "trace" where nothing is left. */
void lk_folder_name(const char *sent, char *name, size_t size);

#endif
