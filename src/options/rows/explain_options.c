/* explain_options.c: the options of `lockstep explain`, as one table. */
#include "lockstep/explain.h"
#include "options/rows/job_rows.h"

const char *const lk_explain_tables[] = {
	"all",           "stalls",     "breakdown", "steps",   "overlap",
	"communication", "stragglers", "stretches", "idle",    "kernels",
	"queue",         "launches",   "roofline",  "modules", NULL,
};

/* clang-format off */
#define REQUEST    lk_explain_request
#define JOB(field) field
#define LISTS      false
static const lk_option options[] = {
	{GROUP("Which part")
	 TEXT("steps", steps, "A-B",
	 "these steps, as 3-5 or 4; all: the whole trace, marked as steps or not; default: every "
	 "complete step")},
	{INT("rank", rank, "N", 0, 16777216, "only this rank; the others still show who waited for "
	 "whom")},
	{GROUP("What it is compared with")
	 GPU_ROW("GPU; default: the one that the traces name")},
	{CLUSTER_ROW(LK_CLUSTER_HELP)},
	{TEXT("job", job, "TEXT|FILE",
	 "the job that ran, as predict reads it: \"llama3.1-8b --gpu h100-sxm --gpus 8 --tp 2\", or a "
	 "file; compares the step with the predicted one, part by part")},
	{TEXT("calibrated", calibrated, "FILE",
	 "with --job: write the factors on times of kernels, links and host that the measured step "
	 "gives, for --calibration of predict, plan, rent and whatif"), WITH("job")},

	{GROUP("Energy, where the GPU is known")
	 PUE_ROW},
	{CARBON_ROW(
	 "emissions of the mains, g of CO2e per kWh: gives those of a step")},
	{PRICE_KWH_ROW(
	 "US dollars per kWh of the mains: gives what the energy of a step costs")},

	{GROUP("Reading")
	 FLAG("strict", strict,
	 "refuse traces with damaged or missing events instead of leaving them out, and files that "
	 "are no JSON in any place")},
	{READERS_ROW},

	{GROUP("Output")
	 OUT_ANY_FORMAT},
	{OUT_TABLE(lk_explain_tables, "NAME",
	 "one table: stalls, breakdown, steps, overlap, communication, stragglers, stretches, idle, "
	 "kernels, queue, launches, roofline or modules")},
	{INT("top", top, "N", 0, 1000000, "number of stalls and kernels shown; 0 all; default 10")},
	{OUT_ANY_FILE},
	{OUT_FILE_OF("trace", trace, "FILE",
	 "all ranks on one clock for a trace viewer: .json, .json.gz or .pftrace")},
	{OUT_FILE_OF("noise", noise, "FILE",
	 "of a log: how its steps spread, as rows for predict --noise")},
	OUT_PICTURE_ROWS,
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep explain traces/",
	"a folder with one trace per rank: where a step's time goes, what it waits for, which rank is "
	"late",
	"lockstep explain rank0.json.gz --steps 3-5 --top 20",
	"some steps of one rank",
	"lockstep explain rank*.json.gz -o csv --table stragglers",
	"one table as CSV",
	"lockstep explain rank0.json.gz --gpu h100-sxm --table roofline",
	"products and other operations of known shape against peak and memory bandwidth",
	"lockstep explain snapshot.pickle",
	"who held the memory when it ran out, and what frees it",
	"lockstep explain dumps/",
	"which rank did not enter the collective that hangs",
	"lockstep explain rank*.json.gz --trace merged.pftrace",
	"all ranks on one clock, for ui.perfetto.dev",
	"lockstep explain train.log",
	"without a trace: steady step, slow steps, changes of speed, memory, from the run's own log",
	"lockstep explain train.log --noise noise.csv",
	"and how its steps spread, for lockstep predict --noise noise.csv",
	NULL,
};

const lk_verb lk_explain_verb = {
	.name = "explain",
	.summary = "why is this run slow? From profiler traces of one or many ranks, or its log",
	.operands = "TRACE...",
	.description =
		"Measures where the time of the steps goes and ranks what costs it: exposed "
		"communication, late ranks, late launches, waits of the host for the device, "
		"data loading, copies. Clocks of many ranks are aligned on the common ends of "
		"their collectives, and waiting for the last rank is separated from transfer. "
		"The step nearest to the mean becomes a graph, from which come its critical path "
		"and, by simulation, the gain of each remedy. With a GPU, given or named in the "
		"traces, operations of known shape are compared with its peak and bandwidth, "
		"collectives with the model.\n\n"
		"Reads traces of torch.profiler (Kineto JSON, also compressed), JAX and "
		"TensorFlow on GPUs (.xplane.pb), Nsight Systems (SQLite) and rocprofv3 (JSON, "
		"rocpd); a folder or an archive (.tar, .tar.gz, .zip) means the traces in "
		"it.\n\n"
		"Of a run that died or hangs it reads what is left: memory snapshots of PyTorch (pickle, "
		"JSON), logs that say that memory ran out or a collective timed out, flight-recorder dumps "
		"of all ranks, and the output of ncclras.\n\n"
		"Logs are read too, where no trace is given: of Megatron-LM, torchtitan, NeMo, the "
		"HuggingFace Trainer, axolotl, ms-swift, DeepSpeed, torchtune, verl, MaxText and "
		"others, metrics of W&B (CSV), TensorBoard and MLflow, tables of nvidia-smi and "
		"DCGM, or a folder of them; - is standard input.\n\n"
		"Measures and their names are those of HolisticTraceAnalysis (compute_time, "
		"idle_time, host_wait, comp_comm_overlap_pctg), tables of kernels look like "
		"those of nsys stats. With --steps all the numbers can be compared with HTA's.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_explain_request),
	.min_operands = 1,
	.max_operands = -1,
};
