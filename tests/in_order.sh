# in_order.sh: runs tests side by side, and shows what each wrote in the order in which they were given. Sourced by the runners.

# in_order FOLDER COMMAND ARGUMENT...: COMMAND ARGUMENT for each argument, TEST_JOBS at a time (as many as there are
# processors). What the n-th writes is in FOLDER/n.log, n from 0; it is shown as soon as all before it are over. Open MPI's
# sessions lie in a folder of each: in one folder, the end of one mpirun takes away what another has just made.
in_order() {
	local folder=$1 command=$2 jobs=${TEST_JOBS:-$(nproc)} started=0 shown=0 running=0 argument
	shift 2
	for argument in "$@"; do
		if [ $running -ge "$jobs" ]; then
			wait -n || true
			running=$((running - 1))
			show_finished
		fi
		{
			mkdir "$folder/mpi$started"
			(OMPI_MCA_orte_tmpdir_base=$folder/mpi$started "$command" "$argument") > "$folder/$started.log" 2>&1 || true
			: > "$folder/$started.over"
		} &
		started=$((started + 1)) running=$((running + 1))
	done
	while [ $running -gt 0 ]; do
		wait -n || true
		running=$((running - 1))
		show_finished
	done
}

show_finished() {
	while [ -e "$folder/$shown.over" ]; do
		cat "$folder/$shown.log"
		shown=$((shown + 1))
	done
}

# The sum of what is behind a word at the begin of the lines of files: total WORD FILE...
total() {
	local word=$1
	shift
	cat /dev/null "$@" | awk -v word="$word" '$1 == word { n += $2 } END { print n + 0 }'
}

# Seconds of processors, from what `times > FILE` wrote: of a shell and of what it waited for.
seconds_of() { # FILE
	awk -F '[ms ]+' '{ n += 60 * ($1 + $3) + $2 + $4 } END { printf "%.1f", n }' "$1"
}
