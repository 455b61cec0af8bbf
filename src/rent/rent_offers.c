/* rent_offers.c: selects the machines of a request. */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "rent/rent.h"

static lk_status offers_read_list(const lk_machines_request *request, const lk_mains *mains,
                                  lk_arena *arena, lk_offers *out, lk_offer_faults *faults,
                                  lk_error *err) {
	lk_stream *in;
	if (request->prices && request->catalog)
		return lk_fail(err, LK_ERR_INPUT, "--catalog", "a list of prices was given, too");
	if (!request->prices && !request->catalog) return lk_offers_builtin(arena, out, faults, err);
	if (request->catalog && !request->catalog_provider) {
		lk_fail(err, LK_ERR_INPUT, "--catalog", "does not say whose it is");
		return lk_hint(err, "add --catalog-provider aws, gcp, azure or lambda");
	}
	if (request->catalog_date)
		LK_TRY(lk_offer_date_check(request->catalog_date, "--catalog-date", err));
	LK_TRY(lk_stream_open(request->catalog ? request->catalog : request->prices, &in, err));
	lk_status status;
	if (request->catalog) {
		const char *date = request->catalog_date ? request->catalog_date : "undated";
		status = lk_offers_skypilot(in, request->catalog_provider, date, arena, out, faults, err);
	} else status = lk_offers_read(in, mains, arena, out, faults, err);
	lk_stream_close(in);
	return status;
}

/* Keep only letters and digits, in lower case. */
static void offers_bare(const char *text, char out[256]) {
	size_t used = 0;
	for (; *text && used < 255; text++)
		if (!strchr("-_. ", *text))
			out[used++] = (char)(*text >= 'A' && *text <= 'Z' ? *text + 32 : *text);
	out[used] = '\0';
}

static bool offers_holds(const char *text, const char *part) {
	char whole[256], wanted[256];
	offers_bare(text, whole);
	offers_bare(part, wanted);
	return strstr(whole, wanted) != NULL;
}

/* Whether one of the comma-separated names is the text. */
static bool offers_names(const char *list, const char *text) {
	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strcspn(at, ",") == strlen(text) && strncasecmp(at, text, strlen(text)) == 0)
			return true;
	return false;
}

static bool is_meant(const lk_machines_request *request, const lk_offer *offer) {
	if (request->provider && !offers_names(request->provider, offer->provider)) return false;
	if (request->region && !offers_holds(offer->region, request->region)) return false;
	return !request->filter || offers_holds(offer->gpu, request->filter) ||
	       offers_holds(offer->instance, request->filter) ||
	       (offer->device && offers_holds(offer->device->label, request->filter));
}

static lk_status none_found(const lk_machines_request *request, const lk_offers *all,
                            const lk_offer_faults *faults, lk_arena *arena, lk_error *err) {
	if (!all->count && faults->count)
		return lk_fail(err, LK_ERR_INPUT, request->prices ? request->prices : request->catalog,
		               "every row is left out; the first, %s: %s", faults->at[0].where,
		               faults->at[0].why);
	const char **known = LK_ARRAY(arena, const char *, 2 * all->count + 1);
	if (!known) return lk_oom(err);
	for (size_t i = 0; i < all->count; i++) {
		known[2 * i] = all->at[i].instance;
		known[2 * i + 1] = all->at[i].gpu;
	}
	const char *near = request->filter ? lk_nearest(request->filter, known, 2 * all->count) : NULL;
	lk_fail(err, LK_ERR_INPUT, "machines", "none of the %zu in the list matches%s%s%s%s%s%s",
	        all->count, request->filter ? " " : "", request->filter ? request->filter : "",
	        request->provider ? " --provider " : "", request->provider ? request->provider : "",
	        request->region ? " --region " : "", request->region ? request->region : "");
	/* one that exists by its name is excluded by the other conditions */
	return near && strcasecmp(near, request->filter) != 0
	           ? lk_hint(err, "did you mean %s?", near)
	           : lk_hint(err, "lockstep machines lists all");
}

lk_status lk_rent_offers(const lk_machines_request *request, const lk_mains *mains, lk_arena *arena,
                         lk_offers *out, lk_offer_faults *faults, lk_error *err) {
	LK_TRY(offers_read_list(request, mains, arena, out, faults, err));
	size_t kept = 0;
	for (size_t i = 0; i < out->count; i++) kept += is_meant(request, &out->at[i]);
	if (!kept) return none_found(request, out, faults, arena, err);
	kept = 0;
	for (size_t i = 0; i < out->count; i++)
		if (is_meant(request, &out->at[i])) out->at[kept++] = out->at[i];
	out->count = kept;
	return LK_OK;
}
