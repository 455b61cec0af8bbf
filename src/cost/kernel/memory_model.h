/* memory_model.h: how long a kernel takes that is bound by memory: one function, whose numbers are the step model's
 * constants or were fitted to measurements of one operation on one device. */
#ifndef LK_COST_MEMORY_MODEL_H
#define LK_COST_MEMORY_MODEL_H

#include "cost/calibration/calibration.h"
#include "hw/hw.h"

/* How blocks of threads share the work. */
typedef enum lk_memory_grid {
	LK_GRID_FLAT,      /* any element goes anywhere: rows do not matter */
	LK_GRID_ROW,       /* a block per row, one thread per element up to the largest block */
	LK_GRID_HEADS,     /* a block per row, one thread per four elements, up to half the largest block */
	LK_GRID_REDUCE,    /* a block per row, of fixed size, that reads its row more than once */
} lk_memory_grid;

/* An operation as tables of measurements name it. */
typedef struct lk_memory_kernel {
	const char *name;
	double accesses;   /* elements read and written per element of a row */
	lk_memory_grid grid;
} lk_memory_kernel;

/* NULL where the name is not known. */
const lk_memory_kernel *lk_memory_kernel_find(const char *name);

/* The numbers, all seconds, or shares without a unit. */
typedef struct lk_memory_model {
	double efficiency;   /* of memory bandwidth, where the data is far larger than L2 */
	double start_s;      /* launch, first loads, last stores */
	double floor_s;      /* no call is seen to take less: launches back to back */
	double cache_gain;   /* inside L2 the rate grows by up to so much */
	double cache_share;  /* of L2, from which on it is memory's */
	double row_s;        /* a wave of blocks: what does not depend on the width of the row */
	double pass_s;       /* a wave of blocks: each time that all its threads take an element */
	double tail;         /* share of the last wave's idle blocks that is waited for */
	double reread;       /* further accesses per element, where the rows in flight do not fit the caches */
	double reread_share; /* of L2: where they stop to fit */
} lk_memory_model;

enum { LK_MEMORY_NUMBERS = 10 };

/* One call. `bytes` is what must go through memory once, `element` the bytes of an element. */
typedef struct lk_memory_work {
	const lk_memory_kernel *kernel; /* NULL: flat */
	double bytes, rows, width, element;
} lk_memory_work;

/* The work of a named operation over rows of a width. */
lk_memory_work lk_memory_work_of(const lk_memory_kernel *kernel, double rows, double width, double element);

double lk_memory_seconds(const lk_memory_model *model, const lk_device *device, const lk_memory_work *work);

/* Where the numbers of a model came from. */
typedef enum lk_memory_basis {
	LK_BASIS_DEVICE,     /* measured on this device */
	LK_BASIS_FAMILY,     /* on devices of its architecture */
	LK_BASIS_ANY,        /* on other devices */
	LK_BASIS_KIND,       /* of other operations of its kind on this device */
	LK_BASIS_NONE,       /* of no measurement: usual numbers */
} lk_memory_basis;

/* The model of an operation on a device from rows of family "memory": subject the device, variant "add fp16". Without
 * such a row from relatives: means by ratio of their numbers, which are shares of the data sheet or times. `without`: a
 * device whose rows are not looked at, NULL none. */
lk_memory_model lk_memory_model_find(const lk_calibration *calibration, const lk_device *device,
                                     const lk_memory_kernel *kernel, lk_dtype dtype, const lk_device *without,
                                     lk_memory_basis *basis);

/* Numbers as a list, in the order of the struct: for fitting, for calibration rows. */
typedef struct lk_memory_number {
	const char *name;
	double usual, low, high, unit; /* of the list; times unit in the struct */
	bool ratio;                    /* searched by ratios */
	bool rows;                     /* only of kernels with a block per row */
	bool reduce;                   /* only of kernels that read again */
} lk_memory_number;
extern const lk_memory_number lk_memory_numbers[LK_MEMORY_NUMBERS];

bool lk_memory_number_applies(const lk_memory_number *number, const lk_memory_kernel *kernel);
lk_memory_model lk_memory_model_from(const double list[LK_MEMORY_NUMBERS]);
void lk_memory_model_list(const lk_memory_model *model, double list[LK_MEMORY_NUMBERS]);

#endif
