/* plugin_none.c: the preload library is no plugin. */
#include "recorder/start/start.h"

const bool lp_is_plugin = false;
