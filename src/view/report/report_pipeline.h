/* report_pipeline.h: panels of a prediction's detail: the pipeline, stages, collectives, kernels. */
#ifndef LK_VIEW_REPORT_PIPELINE_H
#define LK_VIEW_REPORT_PIPELINE_H

#include "view/report/report.h"

lk_status lk_report_pipeline(lk_report *r, const lk_prediction *p, lk_error *err);

#endif
