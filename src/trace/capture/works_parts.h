/* works_parts.h: the readers behind lk_works_read, one a file format. */
#ifndef LK_TRACE_WORKS_PARTS_H
#define LK_TRACE_WORKS_PARTS_H

#include "io/json.h"
#include "trace/capture/works.h"

/* The list of nodes of PyTorch's execution trace, or of Chakra's JSON; the next token is the first element. */
lk_status lk_pytorch_et_nodes(lk_json *json, const lk_read_limits *limits, lk_works *works, lk_error *err);
lk_status lk_chakra_json_nodes(lk_json *json, const lk_read_limits *limits, lk_works *works, lk_error *err);
/* Chakra's protobuf records. */
lk_status lk_chakra_read(const void *bytes, size_t size, const lk_read_limits *limits, lk_works *works, lk_error *err);

/* Interned text; LK_ERR_MEMORY, or LK_ERR_INPUT over the limit of names. */
lk_status lk_works_name(lk_works *works, const lk_read_limits *limits, const char *text, uint32_t *out, lk_error *err);
/* Adds within the limit of events. */
lk_status lk_works_put(lk_works *works, const lk_read_limits *limits, const lk_work *work, lk_error *err);

#endif
