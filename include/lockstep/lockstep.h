/* lockstep.h: the whole of the C library.
 *
 *     cc program.c $(pkg-config --cflags --libs lockstep)
 *
 * docs/guide/library.md is for its users. */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include "lockstep/calibrate.h"
#include "lockstep/catalogue.h"
#include "lockstep/collective.h"
#include "lockstep/compile.h"
#include "lockstep/compose.h"
#include "lockstep/context.h"
#include "lockstep/detail.h"
#include "lockstep/diff.h"
#include "lockstep/doctor.h"
#include "lockstep/emit.h"
#include "lockstep/error.h"
#include "lockstep/expected.h"
#include "lockstep/explain.h"
#include "lockstep/jobs.h"
#include "lockstep/options.h"
#include "lockstep/plan.h"
#include "lockstep/post_plan.h"
#include "lockstep/postmortem.h"
#include "lockstep/predict.h"
#include "lockstep/record.h"
#include "lockstep/rent.h"
#include "lockstep/replay.h"
#include "lockstep/reply.h"
#include "lockstep/report.h"
#include "lockstep/run_log.h"
#include "lockstep/shard.h"
#include "lockstep/simulate.h"
#include "lockstep/stalls.h"
#include "lockstep/stop.h"
#include "lockstep/validate.h"
#include "lockstep/view.h"
#include "lockstep/whatif.h"

#endif
