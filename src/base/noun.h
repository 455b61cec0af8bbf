/* noun.h: the noun of a count: 1 rank, 2 ranks, 0 ranks.
 *
 *     lk_text_add(&text, "%d %s", ranks, lk_noun(ranks, "rank", "ranks")); */
#ifndef LK_BASE_NOUN_H
#define LK_BASE_NOUN_H

static inline const char *lk_noun(double count, const char *one, const char *more) {
	return count == 1 ? one : more;
}

#endif
