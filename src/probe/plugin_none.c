/* plugin_none.c: the probe is no plugin. */
#include "probe/probe.h"

const bool lp_is_plugin = false;
