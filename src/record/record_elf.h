/* record_elf.h: what a program is linked with. */
#ifndef LK_ASK_RECORD_ELF_H
#define LK_ASK_RECORD_ELF_H

#include <stdbool.h>

/* Whether a file is an ELF program or library that says it needs a library whose name begins so ("libnccl.so"). What it
 * needs indirectly is not looked at. */
bool lk_elf_needs(const char *path, const char *library);

#endif
