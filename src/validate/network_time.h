/* network_time.h: time of a whole network that runs operator by operator, from the times of its kernels. */
#ifndef LK_ACCURACY_NETWORK_TIME_H
#define LK_ACCURACY_NETWORK_TIME_H

#include "tables/models_table.h"
#include "cost/calibration/calibration.h"

/* What a row needs, before anything is fitted; [0] forward, [1] backward. */
typedef struct lk_network_work {
	double products_s[2];   /* matrix products alone */
	double passes_s[2];     /* memory-bound operations alone, without launch */
	double launches[2];
	double exchange_s[2];   /* between devices */
	double call_s;          /* shortest call that is measured on the device: what its host needs for one */
	double fetches;         /* of memory from the driver in a training forward */
	double fill;            /* share of the device's memory in use at its end */
	double bubble;          /* factor of pipeline stages that wait */
	double roofline_s;      /* products at peak, passes at memory bandwidth */
	bool train;
	bool borrowed;          /* kernels of this device were not measured */
} lk_network_work;

lk_status lk_network_work_of(const lk_calibration *calibration, const lk_model_run *run, lk_network_work *out,
                             lk_error *err);

/* Numbers that are alike for all networks and devices. */
typedef struct lk_network_model {
	double gap_s;           /* between two kernels of a queue */
	double products;        /* in a long run over alone: clocks sink */
	double passes;          /* likewise, and operations not listed */
	double host;            /* of a call that the host needs to issue one kernel */
	double fetch_s;         /* of memory from the driver */
	double squeeze;         /* forward longer by so much, when memory runs full */
} lk_network_model;

enum { LK_NETWORK_NUMBERS = 6 };
lk_network_model lk_network_usual(void);
double lk_network_seconds(const lk_network_model *model, const lk_network_work *work);

/* One row for fitting. */
typedef struct lk_network_row {
	const lk_network_work *work;
	const lk_device *device;
	double seconds;
} lk_network_row;

/* Devices whose kernels are borrowed get a factor of their own from the rows: `factor` of each. */
typedef struct lk_network_fit {
	lk_network_model model;
	struct {
		const lk_device *device;
		double factor;
	} own[32];
	int owners;
} lk_network_fit;

/* Row of family "network": the model as subject "all", factors by device. */
lk_status lk_network_write(const lk_network_fit *fit, int points, double error, const char *source, const char *date,
                           lk_calibration *into, lk_error *err);
void lk_network_read(const lk_calibration *calibration, lk_network_fit *out);

void lk_network_fit_rows(const lk_network_row *rows, size_t count, lk_network_fit *out);
double lk_network_predict(const lk_network_fit *fit, const lk_network_row *row);

#endif
