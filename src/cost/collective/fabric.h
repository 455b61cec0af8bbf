/* fabric.h: how far a fabric (a cluster's links, network and software) falls short of NCCL's own figures: five numbers,
 * fitted to measured collectives by `lockstep calibrate collectives`. */
#ifndef LK_COST_FABRIC_H
#define LK_COST_FABRIC_H

#include "base/fit.h"
#include "cost/calibration/calibration.h"

enum {
	LK_FABRIC_LAUNCH,
	LK_FABRIC_CHANNEL,
	LK_FABRIC_WIRE,
	LK_FABRIC_NIC,
	LK_FABRIC_BUFFER,
	LK_FABRIC_NUMBERS,
};

typedef struct lk_fabric {
	double launch;  /* us: every call */
	double channel; /* us for each channel beyond the first that a call uses */
	double wire;    /* share of the link rate inside a node that large messages reach */
	double nic;     /* the same of the NICs' line rate; 0: by the PCIe generation of the device */
	double buffer;  /* MB of a message between nodes that a slow network's buffers take at once */
	const struct lk_curves *curves; /* what is left between the model and what was measured there; NULL: not known */
} lk_fabric;

/* The numbers by index, with the names that rows of a calibration have for them, and the limits in which they are
 * searched. */
extern const char *const lk_fabric_names[LK_FABRIC_NUMBERS];
extern const lk_fit_number lk_fabric_limits[LK_FABRIC_NUMBERS];
double *lk_fabric_number(lk_fabric *fabric, int index);

/* Where nothing is known: also what every fit starts from. */
extern const lk_fabric lk_fabric_plain;

/* The numbers of a row of the family "collective", without curves; what it lacks, and NULL, as the built-in default. */
lk_fabric lk_fabric_of(const lk_calibration_row *row);

/* The row "default" of the calibration in use, with its curves: for clusters whose fabric nobody measured. Read once. */
const lk_fabric *lk_fabric_default(void);

#endif
