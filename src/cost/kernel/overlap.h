/* overlap.h: how much longer a compute kernel takes beside communication, from what a profiler says of it alone. */
#ifndef LK_COST_OVERLAP_H
#define LK_COST_OVERLAP_H

#include "cost/calibration/calibration.h"

/* A launch as profiled: shares 0 to 1 of peak, occupancy or hits. The name of the kernel is no part of it. */
typedef struct lk_overlap_kernel {
	double alone_s;
	double ratio;               /* share of it that runs beside communication */
	double compute, memory, dram;
	double achieved, maximum;   /* occupancy */
	double l1, l2;
} lk_overlap_kernel;

enum { LK_OVERLAP_FEATURES = 9 };

/* Launches that are alike in everything profiled, and how much longer these took together. */
typedef struct lk_overlap_kind {
	double at[LK_OVERLAP_FEATURES];
	double slower;              /* overlapped / alone - 1, at the middle of the kind */
	double spread;              /* median miss of its launches, |ln| of the time, predicted without them */
	int missed;                 /* of so many launches */
	int count;
} lk_overlap_kind;

typedef struct lk_overlap {
	double displacement;        /* a kernel that only SMs limit takes so much longer */
	double latency;             /* the same for few blocks that wait for device memory, per share of its bandwidth */
	lk_overlap_kind *kinds;
	size_t kind_count;
} lk_overlap;

/* Its class, for ranges and tables. */
typedef enum lk_overlap_class {
	LK_OVERLAP_SHORT,           /* little more than a launch */
	LK_OVERLAP_FEW_BLOCKS,
	LK_OVERLAP_COMPUTE,
	LK_OVERLAP_MEMORY,
	LK_OVERLAP_CLASSES,
} lk_overlap_class;
extern const char *const lk_overlap_class_names[LK_OVERLAP_CLASSES];
lk_overlap_class lk_overlap_class_of(const lk_overlap_kernel *kernel);

/* What the two constants act on: the share of the time that only SMs limit; and, of few blocks, the share of memory
 * bandwidth that they wait for. At most one is above 0. */
double lk_overlap_sm_bound(const lk_overlap_kernel *kernel);
double lk_overlap_latency_bound(const lk_overlap_kernel *kernel);

/* The kernel as a point where launches alike are near one another: at a distance of 1 they begin to differ. */
void lk_overlap_place(const lk_overlap_kernel *kernel, double at[LK_OVERLAP_FEATURES]);
double lk_overlap_distance2(const double *a, const double *b);
/* Expected overlapped / alone - 1 by the two constants; seconds beside communication, by kinds where one is near. */
double lk_overlap_mechanism(const lk_overlap *model, const lk_overlap_kernel *kernel);
double lk_overlap_seconds(const lk_overlap *model, const lk_overlap_kernel *kernel);
/* How far such a kernel is usually off, |ln| of the time: its kind's spread, drawn to `usual` as if one launch more had
 * been off by that; `usual` itself where no kind is near. */
double lk_overlap_spread(const lk_overlap *model, const lk_overlap_kernel *kernel, double usual);
/* How the time alone of a launch is read within a kind: partly as noise about the kind's own. Factor on the time. */
double lk_overlap_regress(const double *kind, const double *kernel);

/* Rows of family "overlap", to and from. `out` is of the arena; false when memory is out. */
bool lk_overlap_load(lk_arena *arena, const lk_calibration *calibration, lk_overlap *out);
/* The number behind lk_overlap.latency of the device, or of the devices that were measured. */
double lk_overlap_latency(const lk_calibration *calibration, const char *device);
bool lk_overlap_store(const lk_overlap *model, const char *device, int points, double error, const char *date,
                      const char *source, lk_calibration *out);

#endif
