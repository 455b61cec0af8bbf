/* vec.h: growing arrays on the heap, typed by the caller: `struct { T *at; size_t count, capacity;
 * }`.
 *
 *     LK_VEC(int) v = {0};
 *     if (!lk_push(&v)) return lk_oom(err);
 *     *lk_last(&v) = 7;
 *     lk_vec_free(&v); */
#ifndef LK_BASE_VEC_H
#define LK_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LK_VEC(type)            \
	struct {                    \
		type *at;               \
		size_t count, capacity; \
	}

/* Make room for `extra` more elements; false when memory runs out (the vector is then
 * unchanged). */
bool lk_vec_reserve_(void **at, size_t *capacity, size_t count, size_t extra, size_t size);

#define lk_reserve(v, extra) \
	lk_vec_reserve_((void **)&(v)->at, &(v)->capacity, (v)->count, (extra), sizeof *(v)->at)
/* Append one zeroed element; false when memory runs out. */
#define lk_push(v)                                         \
	(((v)->count < (v)->capacity || lk_reserve((v), 1)) && \
	 memset(&(v)->at[(v)->count++], 0, sizeof *(v)->at))
#define lk_last(v) (&(v)->at[(v)->count - 1])
/* Return unused capacity; if that fails, it stays. */
#define lk_vec_fit(v)  lk_vec_fit_((void **)&(v)->at, &(v)->capacity, (v)->count, sizeof *(v)->at)
#define lk_vec_free(v) lk_vec_free_((void **)&(v)->at, &(v)->count, &(v)->capacity)

void lk_vec_fit_(void **at, size_t *capacity, size_t count, size_t size);
void lk_vec_free_(void **at, size_t *count, size_t *capacity);

#endif
