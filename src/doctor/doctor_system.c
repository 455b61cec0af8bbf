/* doctor_system.c: parts of the machine that lockstep uses on demand: libraries, its own recorder,
 * programs it starts, the Python package. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "system/library.h"
#include "system/process.h"
#include "doctor/doctor.h"
#include "lockstep/catalogue.h"
#include "record/record.h"

/* ---- libraries ---- */

static lk_status doctor_library(const lk_library *library, const char *use, lk_findings *out,
                                lk_error *err) {
	lk_finding finding = {.part = "library", .name = library->file, .use = use};
	bool linked = lk_library_linked(library);
	if (linked || lk_library_open(library->file)) {
		finding.what = linked ? "part of this program" : "found";
		return lk_doctor_add(out, &finding, err);
	}
	finding.state = LK_FINDING_MISSING;
	if (!lk_library_loads) finding.what = "this program is static and loads no libraries";
	finding.mend = lk_library_loads
	                   ? lk_arena_printf(out->arena, "apt install %s", library->package)
	                   : lk_arena_strdup(out->arena, "build lockstep from its sources");
	return finding.mend ? lk_doctor_add(out, &finding, err) : lk_oom(err);
}

/* The driver's library is needed if there is a GPU. */
static lk_status doctor_gpu(lk_findings *out, lk_error *err) {
	static const char *const use = "calibrate host of GPUs";
	if (access("/proc/driver/nvidia/version", R_OK) == 0)
		return doctor_library(&lk_library_cuda, use, out, err);
	return lk_doctor_add(out,
	                     &(lk_finding){.state = LK_FINDING_MISSING,
	                                   .part = "library",
	                                   .name = lk_library_cuda.file,
	                                   .what = "this machine has no NVIDIA GPU",
	                                   .use = use},
	                     err);
}

/* The recorder is a part of lockstep: without it the installation is incomplete. */
static lk_status doctor_recorder(const char *name, const char *use, lk_findings *out,
                                 lk_error *err) {
	lk_finding finding = {.part = "library", .name = name, .use = use};
	LK_TRY(lk_record_library(name, out->arena, &finding.what, err));
	if (!finding.what) {
		finding.state = LK_FINDING_BROKEN;
		finding.what = "not next to lockstep, nor in its lib";
		finding.mend = "make && make install";
	}
	return lk_doctor_add(out, &finding, err);
}

/* ---- programs ---- */

static lk_status doctor_program(const char *name, const char *use, const char *mend,
                                lk_findings *out, lk_error *err) {
	char room[PATH_MAX];
	const char *path = lk_process_found(name) ? lk_program_in_path(name, room) : NULL;
	lk_finding finding = {.part = "program", .name = name, .use = use};
	if (path) {
		finding.what = lk_arena_strdup(out->arena, path);
		if (!finding.what) return lk_oom(err);
	} else {
		finding.state = LK_FINDING_MISSING;
		finding.mend = mend;
	}
	return lk_doctor_add(out, &finding, err);
}

/* The version of the package that `python3` imports, from outside this folder. */
static lk_status doctor_python(lk_findings *out, lk_error *err) {
	static const char *const words[] = {
		"python3", "-c",
		"import sys; sys.path.pop(0); import lockstep; print(lockstep.__version__)", NULL};
	lk_process process = {words, NULL, 20, 256};
	lk_process_end end = {0};
	lk_finding finding = {.state = LK_FINDING_MISSING,
	                      .part = "program",
	                      .name = "Python package",
	                      .use = "import lockstep",
	                      .mend = "python3 -m pip install lockstep-*.whl (of a release, or of make "
	                              "python in the sources)"};
	lk_error unused;
	lk_status status = LK_OK;
	if (lk_process_found("python3") && lk_process_run(&process, &end, &unused) == LK_OK &&
	    end.code == 0 && !end.late) {
		end.out[strcspn(end.out, "\n")] = '\0';
		bool same = strcmp(end.out, lk_version()) == 0;
		finding.state = same ? LK_FINDING_OK : LK_FINDING_OLD;
		if (same) finding.mend = NULL;
		if (!(finding.what = lk_arena_strdup(out->arena, end.out))) status = lk_oom(err);
	}
	lk_process_end_free(&end);
	return status == LK_OK ? lk_doctor_add(out, &finding, err) : status;
}

lk_status lk_doctor_system(const lk_doctor_request *request, lk_findings *out, lk_error *err) {
	static const struct {
		const char *name, *use, *mend;
	} programs[] = {
		{"mpicc", "compile bench; building what compile emit --target mpi writes",
	     "apt install libopenmpi-dev"},
		{"mpirun", "compile bench; recording programs of MPI", "apt install openmpi-bin"},
		{"nvcc", "building what compile emit --target cuda writes",
	     "apt install nvidia-cuda-toolkit"},
		{"xdg-open", "serve --open, where $BROWSER names no browser", "apt install xdg-utils"},
	};
	if (request->serves) LK_TRY(doctor_library(&lk_library_http, "serve", out, err));
	LK_TRY(doctor_library(&lk_library_sqlite, "-o sqlite; profiles of Nsight Systems and rocprof",
	                      out, err));
	LK_TRY(doctor_library(&lk_library_svg, "--charts FILE.png", out, err));
	LK_TRY(doctor_gpu(out, err));
	LK_TRY(doctor_recorder("liblockstep-probe.so", "record, stalls", out, err));
	LK_TRY(doctor_recorder("liblockstep-probe-mpich.so", "record, stalls of programs of MPICH", out,
	                       err));
	LK_TRY(
		doctor_recorder("libnccl-profiler-lockstep.so", "record of programs with NCCL", out, err));
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		LK_TRY(doctor_program(programs[i].name, programs[i].use, programs[i].mend, out, err));
	return doctor_python(out, err);
}
