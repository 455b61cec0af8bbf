/* ---- main: dumps, times ---- */

RT_FUNCTION void rt_usage(const rt_program *p) {
	printf("usage: mpirun -n RANKS %s --sizes NAME=N,... [--seed N] [--set NAME=X,...] [--schedule "
	       "NAME|all] [--repeat N]\n"
	       "       [--dump DIRECTORY] [--list] [--help]\n"
	       "  --sizes     ranks of axes, dims, indices of groups: dp=4,N=1000; of a list's dim "
	       "N=3:5:7 or N=@FILE\n"
	       "  --seed      of inputs, states and scalars, which are drawn\n"
	       "  --set       values of scalars\n"
	       "  --schedule  which way to run it; all of them by default\n"
	       "  --repeat    how many times; times, bytes sent and bytes touched as JSON, a line for "
	       "each schedule\n"
	       "  --dump      what every rank holds of the results: DIRECTORY/SCHEDULE.RANK\n"
	       "  --list      the schedules\n",
	       p->name);
}

RT_FUNCTION void rt_draw_all(rt_run *run, uint64_t seed) {
	for (int i = 0; i < run->schedule->values; i++)
		for (int64_t item = 0; item < rt_items(run, i) && run->schedule->value[i].kind <= RT_STATE;
		     item++)
			rt_draw_part(run, i, item, seed);
}

RT_FUNCTION int rt_dump(const rt_run *run, const char *directory, char error[RT_ERROR]) {
	char name[1024];
	if (snprintf(name, sizeof name, "%s/%s.%d", directory, run->schedule->name, run->mesh.rank) >=
	    (int)sizeof name)
		return rt_wrong(error, "the name of the directory is too long", NULL);
	FILE *file = fopen(name, "wb");
	if (!file) return rt_wrong(error, "cannot be written", name);
	for (const int *value = run->schedule->results; *value >= 0; value++)
		for (int64_t item = 0; item < rt_items(run, *value); item++) {
			const rt_part *p = &run->part[*value][item];
			fwrite(&p->count, sizeof p->count, 1, file);
			for (int64_t i = 0; i < p->count; i++) {
				double x = rt_get(p, i);
				fwrite(&x, sizeof x, 1, file);
			}
		}
	bool bad = ferror(file);
	return fclose(file) || bad ? rt_wrong(error, "could not be written in full", name) : 0;
}

/* Bytes that passes over memory read and write in one run. */
RT_FUNCTION int64_t rt_touched(const rt_run *run) {
	int64_t bytes = 0;
	for (const int *value = run->schedule->passes; *value >= 0; value++)
		for (int64_t item = 0; item < rt_items(run, *value); item++)
			bytes += (int64_t)rt_size(&run->part[*value][item]);
	return bytes;
}

RT_FUNCTION int64_t rt_most(const rt_run *run, int64_t number) {
	int64_t most;
	MPI_Allreduce(&number, &most, 1, MPI_INT64_T, MPI_MAX, run->mesh.all);
	return most;
}

/* Seconds that the slowest rank took. */
RT_FUNCTION double rt_time(rt_run *run) {
	double taken, longest = 0;
	memset(run->sent, 0, sizeof run->sent);
	MPI_Barrier(run->mesh.all);
	taken = MPI_Wtime();
	run->schedule->run(run);
	taken = MPI_Wtime() - taken;
	MPI_Reduce(&taken, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, run->mesh.all);
	return longest;
}

RT_FUNCTION void rt_report(rt_run *run, const double *seconds, int repeat) {
	bool first = run->mesh.rank == 0;
	if (first)
		printf("{\"program\":\"%s\",\"schedule\":\"%s\",\"ranks\":%d,\"seconds\":[",
		       run->program->name, run->schedule->name, run->mesh.size);
	for (int i = 0; i < repeat && first; i++) printf("%s%.9g", i ? "," : "", seconds[i]);
	int64_t sent = 0;
	for (int a = 0; a < run->mesh.axes; a++) sent += run->sent[a];
	int64_t most = rt_most(run, sent), touched = rt_most(run, rt_touched(run));
	if (first) printf("],\"sent_bytes\":%" PRId64 ",\"sent_along_axes\":[", most);
	for (int a = 0; a < run->mesh.axes; a++) {
		most = rt_most(run, run->sent[a]);
		if (first) printf("%s%" PRId64, a ? "," : "", most);
	}
	int64_t memory = rt_most(run, (int64_t)run->bytes);
	if (first)
		printf("],\"touched_bytes\":%" PRId64 ",\"memory_bytes\":%" PRId64 "}\n", touched, memory);
}

/* All of them in each round, each round from another on, so that what else the machine does meets
 * all alike; the first round is not counted. */
RT_FUNCTION int rt_measure(rt_run **runs, int count, int repeat, char error[RT_ERROR]) {
	double *seconds = malloc((size_t)count * (size_t)repeat * sizeof *seconds);
	if (rt_agree(MPI_COMM_WORLD, !seconds && rt_wrong(error, "out of memory", NULL), error)) {
		free(seconds);
		return 1;
	}
	for (int round = -1; round < repeat; round++)
		for (int k = 0; k < count; k++) {
			int i = (k + round + 1) % count;
			double taken = rt_time(runs[i]);
			if (round >= 0) seconds[i * repeat + round] = taken;
		}
	for (int i = 0; i < count; i++) rt_report(runs[i], seconds + i * repeat, repeat);
	free(seconds);
	return 0;
}

/* NULL where it cannot be opened. */
RT_FUNCTION rt_run *rt_run_schedule(const rt_program *p, const rt_schedule *s,
                                    const rt_sizes *sizes, const rt_options *o,
                                    char error[RT_ERROR]) {
	rt_run *run = rt_open(p, s, sizes, false, MPI_COMM_WORLD, error);
	if (!run) return NULL;
	rt_draw_all(run, o->seed);
	if (o->repeat) return run;
	run->schedule->run(run);
	return run;
}

RT_FUNCTION int rt_end_schedule(rt_run *run, const rt_options *o, char error[RT_ERROR]) {
	int wrong = o->dump ? rt_agree(MPI_COMM_WORLD, rt_dump(run, o->dump, error), error) : 0;
	rt_close(run);
	return wrong;
}

/* All that are chosen, or that fit the mesh; those that are measured together stay open. */
RT_FUNCTION int rt_run_chosen(const rt_program *p, const rt_options *o, const rt_sizes *z,
                              rt_run **runs, int *open, char (*why)[RT_ERROR],
                              char error[RT_ERROR]) {
	int rank, found = 0, left_out = 0, wrong = 0;
	bool all = !o->schedule || strcmp(o->schedule, "all") == 0;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < p->schedules && !wrong; i++) {
		if (!all && strcmp(o->schedule, p->schedule[i].name) != 0) continue;
		found++;
		rt_run *run = rt_run_schedule(p, &p->schedule[i], z, o, why[i]);
		if (run && o->repeat) runs[(*open)++] = run;
		else if (run) wrong = rt_end_schedule(run, o, error);
		else left_out++, memcpy(error, why[i], RT_ERROR);
	}
	if (!found) return rt_wrong(error, "there is no such schedule", o->schedule);
	for (int i = 0; i < p->schedules && left_out < found && rank == 0; i++)
		if (why[i][0])
			fprintf(stderr, "%s: %s is left out: %s\n", p->name, p->schedule[i].name, why[i]);
	return wrong || left_out == found;
}

RT_FUNCTION int rt_run_all(const rt_program *p, const rt_options *o, rt_sizes *z,
                           char error[RT_ERROR]) {
	int ranks, open = 0;
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (rt_read_sizes(p, o->sizes, z, error) || rt_complete(p, z, ranks, error) ||
	    rt_scalars(p, o, z, error))
		return 1;
	rt_run **runs = calloc((size_t)p->schedules, sizeof *runs);
	char(*why)[RT_ERROR] = calloc((size_t)p->schedules, sizeof *why);
	int wrong =
		rt_agree(MPI_COMM_WORLD, (!runs || !why) && rt_wrong(error, "out of memory", NULL), error);
	if (!wrong) wrong = rt_run_chosen(p, o, z, runs, &open, why, error);
	if (!wrong && open) wrong = rt_measure(runs, open, o->repeat, error);
	for (int i = 0; i < open; i++) wrong |= rt_end_schedule(runs[i], o, error);
	free(runs);
	free(why);
	return wrong;
}

RT_FUNCTION int rt_main(int argc, char **argv, const rt_program *p) {
	rt_options o = {.seed = 0};
	rt_sizes z = {.scalar = NULL};
	char error[RT_ERROR] = "";
	int rank, wrong;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	wrong = rt_arguments(argc, argv, &o, error);
	if (!wrong && rank == 0 && o.help) rt_usage(p);
	for (int i = 0; i < p->schedules && !wrong && rank == 0 && o.list; i++)
		printf("%s\n", p->schedule[i].name);
	if (!wrong && !o.help && !o.list) wrong = rt_run_all(p, &o, &z, error);
	if (wrong && rank == 0) fprintf(stderr, "%s: %s\n", p->name, error);
	rt_sizes_close(&z);
	MPI_Finalize();
	return wrong ? 2 : 0;
}
