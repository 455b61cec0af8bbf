/* record_elf.c: the needed libraries and the loader of a 64-bit ELF file in this machine's byte
 * order. Any bytes may be read: with offsets outside the file it needs nothing. */
#include "record/record.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_HEADERS = 256, MOST_ENTRIES = 4096, NAME = 256 };

static bool read_elf_at(FILE *file, uint64_t at, void *to, size_t size) {
	return at < INT64_MAX && fseeko(file, (off_t)at, SEEK_SET) == 0 &&
	       fread(to, 1, size, file) == size;
}

/* The file offset of a memory address; 0: none. */
static uint64_t offset_of_address(FILE *file, const Elf64_Ehdr *head, uint64_t address) {
	Elf64_Phdr part;
	for (unsigned i = 0; i < head->e_phnum && i < MOST_HEADERS; i++) {
		if (!read_elf_at(file, head->e_phoff + i * sizeof part, &part, sizeof part)) return 0;
		if (part.p_type == PT_LOAD && address >= part.p_vaddr &&
		    address - part.p_vaddr < part.p_filesz)
			return part.p_offset + (address - part.p_vaddr);
	}
	return 0;
}

/* Also checks whether it is such a file at all. */
static bool find_segment(FILE *file, uint32_t type, Elf64_Ehdr *head, Elf64_Phdr *out) {
	if (!read_elf_at(file, 0, head, sizeof *head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (unsigned i = 0; i < head->e_phnum && i < MOST_HEADERS; i++)
		if (read_elf_at(file, head->e_phoff + i * sizeof *out, out, sizeof *out) &&
		    out->p_type == type)
			return true;
	return false;
}

static bool elf_needs_library(FILE *file, const char *library) {
	Elf64_Ehdr head;
	Elf64_Phdr dynamic;
	Elf64_Dyn entry = {0};
	uint64_t names = 0;
	if (!find_segment(file, PT_DYNAMIC, &head, &dynamic)) return false;
	uint64_t count = dynamic.p_filesz / sizeof entry;
	if (count > MOST_ENTRIES) count = MOST_ENTRIES;
	for (uint64_t i = 0; i < count && !names; i++)
		if (read_elf_at(file, dynamic.p_offset + i * sizeof entry, &entry, sizeof entry) &&
		    entry.d_tag == DT_STRTAB)
			names = offset_of_address(file, &head, entry.d_un.d_ptr);
	for (uint64_t i = 0; i < count && names; i++) {
		char name[NAME] = "";
		if (!read_elf_at(file, dynamic.p_offset + i * sizeof entry, &entry, sizeof entry) ||
		    entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag != DT_NEEDED || entry.d_un.d_val > UINT32_MAX) continue;
		if (read_elf_at(file, names + entry.d_un.d_val, name, strlen(library)) &&
		    strcmp(name, library) == 0)
			return true;
	}
	return false;
}

static FILE *open_regular(const char *path) {
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
}

bool lk_elf_needs(const char *path, const char *library) {
	FILE *file = strlen(library) < NAME ? open_regular(path) : NULL;
	bool found = file && elf_needs_library(file, library);
	if (file) fclose(file);
	return found;
}

bool lk_elf_has_loader(const char *path, const char *part) {
	Elf64_Ehdr head;
	Elf64_Phdr loader;
	char name[NAME] = "";
	FILE *file = open_regular(path);
	bool found = file && find_segment(file, PT_INTERP, &head, &loader) &&
	             loader.p_filesz < sizeof name &&
	             read_elf_at(file, loader.p_offset, name, loader.p_filesz) && strstr(name, part);
	if (file) fclose(file);
	return found;
}
