/* plugin_none.c: the probe is no plugin. */
#include "recorder/recorder.h"

const bool lp_is_plugin = false;
