/* topology_xml.h: NCCL's description of a node (NCCL_TOPO_DUMP_FILE, or what a cloud ships as NCCL_TOPO_FILE). */
#ifndef LK_HW_TOPOLOGY_XML_H
#define LK_HW_TOPOLOGY_XML_H

#include "io/stream.h"
#include "hw/hw.h"

/* Reads the file as one kind of node. What it does not say is as usual for the device. */
lk_status lk_topology_xml_read(lk_stream *in, lk_node *out, lk_error *err);

#endif
