/* nvtx.c: ranges of NVTX as marks.
 *
 * NVTX lies in the program itself (NVTX 3: headers alone) or in libnvToolsExt (NVTX 2). Either
 * loads the library that NVTX_INJECTION64_PATH names, here this one, and hands it tables of
 * pointers to functions, to be filled in (nvtxDetail/nvtxTypes.h, nvToolsExt.h of NVIDIA/NVTX).
 * Each domain has ranges of its own, which nest in each thread. Ranges that another thread may end
 * (RangeStart) are left out, as are marks of one moment. */
#include "recorder/recorder.h"

#include <string.h>
#include <wchar.h>

typedef void (*nvtx_function)(void);
typedef const void *nvtx_tables(uint32_t which);
struct nvtx_callbacks {
	size_t size;
	/* Set an array of pointers to the module's function pointers, and its length; 0: no such
	 * module. */
	int (*functions_of)(int module, nvtx_function ***places, unsigned *count);
};
enum { NVTX_CALLBACKS = 1, NVTX_CORE = 1, NVTX_CORE2 = 5 };
enum { NVTX_NOT_COUNTED = -2 }; /* what push and pop return of a tool that does not count levels */

struct nvtx_event {
	uint16_t version, size;
	uint32_t category;
	int32_t colour_kind;
	uint32_t colour;
	int32_t payload_kind, reserved;
	uint64_t payload;
	int32_t message_kind; /* 1: characters; 2: wide ones; 3: registered */
	union {
		const char *characters; /* also of what was registered */
		const wchar_t *wide;
	} message;
};

typedef char nvtx_text[256];

/* Convert to UTF-8; longer texts are cut. */
static const char *narrow_text(const wchar_t *wide, nvtx_text out) {
	size_t n = 0;
	for (; wide && *wide && n + 5 < sizeof(nvtx_text); wide++) {
		uint32_t c = (uint32_t)*wide;
		if (c < 0x80) {
			out[n++] = (char)c;
			continue;
		}
		int more = 1 + (c >= 0x800) + (c >= 0x10000); /* bytes after the first */
		static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
		out[n++] = (char)(first[more] | (c >> 6 * more & 0x3f));
		while (more-- > 0) out[n++] = (char)(0x80 | (c >> 6 * more & 0x3f));
	}
	out[n] = '\0';
	return out;
}

static int push_named(const void *domain, const char *name) {
	lp_mark(LK_MARK_BEGINS, (int64_t)(intptr_t)domain, name ? name : "");
	return NVTX_NOT_COUNTED;
}
static int push_wide(const void *domain, const wchar_t *wide) {
	nvtx_text name;
	return push_named(domain, narrow_text(wide, name));
}

/* ---- domains and registered texts: both last as long as the program ---- */

/* Handles of domains: addresses in here, of which NVTX's default one has the first. */
static char domains[1 << 12];

static const void *create_domain(const void *name) {
	static uint32_t used;
	uint32_t number = __atomic_add_fetch(&used, 1, __ATOMIC_RELAXED);
	(void)name;
	return &domains[1 + number % (sizeof domains - 1)];
}

/* Its copy; NULL, a range without a name, when there is no more room. */
static const char *register_text(const void *domain, const char *text) {
	static char texts[1 << 15];
	static uint32_t used;
	uint32_t size = text ? (uint32_t)strnlen(text, sizeof(nvtx_text) - 1) + 1 : 1, at;
	(void)domain;
	do {
		at = __atomic_load_n(&used, __ATOMIC_RELAXED);
		if (size > sizeof texts - at) return NULL;
	} while (!__atomic_compare_exchange_n(&used, &at, at + size, false, __ATOMIC_RELAXED,
	                                      __ATOMIC_RELAXED));
	memcpy(texts + at, text ? text : "", size - 1);
	return texts + at;
}
static const char *register_wide(const void *domain, const wchar_t *wide) {
	nvtx_text text;
	return register_text(domain, narrow_text(wide, text));
}

/* ---- ranges ---- */

static int domain_push(const void *domain, const struct nvtx_event *event) {
	bool whole = event && event->size >= sizeof *event;
	if (!domain) domain = domains;
	if (whole && event->message_kind == 2) return push_wide(domain, event->message.wide);
	bool named = whole && (event->message_kind == 1 || event->message_kind == 3);
	return push_named(domain, named ? event->message.characters : "");
}
static int domain_pop(const void *domain) {
	lp_mark(LK_MARK_ENDS, (int64_t)(intptr_t)(domain ? domain : domains), "");
	return NVTX_NOT_COUNTED;
}
static int push(const struct nvtx_event *event) {
	return domain_push(domains, event);
}
static int push_characters(const char *name) {
	return push_named(domains, name);
}
static int push_wide_characters(const wchar_t *name) {
	return push_wide(domains, name);
}
static int pop(void) {
	return domain_pop(domains);
}

static const struct {
	int module;
	unsigned place; /* NVTX_CBID_CORE_..., NVTX_CBID_CORE2_... */
	nvtx_function function;
} filled_in[] = {
	{NVTX_CORE, 8, (nvtx_function)push},
	{NVTX_CORE, 9, (nvtx_function)push_characters},
	{NVTX_CORE, 10, (nvtx_function)push_wide_characters},
	{NVTX_CORE, 11, (nvtx_function)pop},
	{NVTX_CORE2, 4, (nvtx_function)domain_push},
	{NVTX_CORE2, 5, (nvtx_function)domain_pop},
	{NVTX_CORE2, 10, (nvtx_function)register_text},
	{NVTX_CORE2, 11, (nvtx_function)register_wide},
	{NVTX_CORE2, 12, (nvtx_function)create_domain}, /* by characters */
	{NVTX_CORE2, 13, (nvtx_function)create_domain}, /* by wide ones */
};

int InitializeInjectionNvtx2(nvtx_tables *tables);

/* NVTX calls this at the program's first call; 0: NVTX stays without a tool. */
LP_EXPORT int InitializeInjectionNvtx2(nvtx_tables *tables) {
	const struct nvtx_callbacks *callbacks = tables(NVTX_CALLBACKS);
	if (!callbacks || callbacks->size < sizeof *callbacks) return 0;
	for (size_t i = 0; i < sizeof filled_in / sizeof *filled_in; i++) {
		nvtx_function **places = NULL;
		unsigned count = 0;
		if (callbacks->functions_of(filled_in[i].module, &places, &count) && places &&
		    filled_in[i].place < count && places[filled_in[i].place])
			*places[filled_in[i].place] = filled_in[i].function;
	}
	return 1;
}
