/* link.h: an execution trace and a capture of the same rank and step: which work is which event. */
#ifndef LK_TRACE_LINK_H
#define LK_TRACE_LINK_H

#include "trace/capture/works.h"

typedef struct lk_link {
	uint32_t *event;         /* [works->count] event of the capture; LK_NONE */
	uint32_t by_record;      /* joined by record function id, and of the same name */
	uint32_t by_order;       /* the k-th of a name on a thread with the k-th of that name on its lane */
	uint32_t uncertain;      /* of these: there are more of the name on one side than on the other */
	uint32_t roots;          /* works that stand for processes and threads, which captures have no events for */
	uint32_t alone;          /* other works without event */
	uint32_t events_alone;   /* operations and annotations of the capture without work */
} lk_link;

/* Capture and works are finished. Threads are matched with lanes by the names that they share. */
lk_status lk_link_works(const lk_works *works, const lk_capture *capture, lk_link *out, lk_error *err);
void lk_link_free(lk_link *link);

/* Kernels of collectives learn what the execution trace knows and the capture does not: kind, group, elements, type.
 * *filled: kernels (or, of hosts, operations) that learnt something. */
lk_status lk_link_comms(lk_capture *capture, const lk_works *works, const lk_link *link, uint32_t *filled,
						lk_error *err);

/* Operations learn the shapes and types of their inputs where the capture has none, and the shapes of their results.
 * *filled: operations that learnt shapes of inputs. */
lk_status lk_link_shapes(lk_capture *capture, const lk_works *works, const lk_link *link, uint32_t *filled,
						 lk_error *err);

#endif
