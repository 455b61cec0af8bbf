# stages.sh: the stages of ./check, which sources it; $logs is the folder for what they leave, $limit the seconds that each may take.
# shellcheck shell=bash
# shellcheck disable=SC2154

# What failed before; a check that was ended early has left its own beside it.
cat "$logs/red" "$logs/red.before" 2> /dev/null | sort -u > "$logs/red.both"
mv "$logs/red.both" "$logs/red.before"
: > "$logs/red"

# Runs a stage; fails as it does. The last line "NAME: N passed, N failed, N skipped" counts for it; a stage without such a line is one check.
stage() {
	local name=$1 log=$logs/${1//[ \/]/-}.log status=0 start=$SECONDS p f s cpu
	shift
	limited "$log" "$@" || status=$?
	[ $status -ne 124 ] || echo "ended: it took longer than $limit s" >> "$log"
	read -r p f s < <(sed -n 's/^[a-z -]*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log" |
		tail -n 1 | grep . || echo "- 0 0")
	if [ "$p" = - ]; then p=$((status == 0)); fi
	if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
	cpu=$(awk '{ printf "%.0f", $1 + $2 }' "$log.cpu")
	rm -f "$log.cpu"
	{
		flock 9
		echo "$p $f $s $cpu $((SECONDS - start)) $name: $log" >> "$logs"/counts
		printf '\n== %s\n' "$name"
		cat "$log"
		echo "== $name: $([ "$f" -eq 0 ] && echo ok || echo FAILED) ($((SECONDS - start)) s, $cpu s of processors)"
	} 9> "$logs"/lock
	[ "$f" -eq 0 ]
}

# Runs a stage that takes its part by LOCKSTEP_TURN. A line of "$logs"/red is a part that failed: its turn ("-": all parts), the
# stage, the command.
by_turns() { # NAME COMMAND...
	local name=$1
	stage "$@" || {
		shift
		red "${LOCKSTEP_TURN:--}" "$name" "$(printf '%q ' "$@")"
	}
}

red() { # TURN NAME COMMAND
	(IFS=$'\t' && flock "$logs"/lock tee -a "$logs"/red <<< "$*" > /dev/null)
}

# Runs the parts that failed before this check and are not its own. All parts (--whole) do not hold each of them: some scripts take
# a sixteenth by their turn. A quick check, which leaves cases out, only keeps them.
failed_before() {
	local turn name command
	while IFS=$'\t' read -r -u 3 turn name command; do
		if [ -n "${LOCKSTEP_QUICK:-}" ]; then
			red "$turn" "$name" "$command"
		elif [ "$turn" != "${LOCKSTEP_TURN:--}" ]; then
			LOCKSTEP_TURN=${turn#-} eval "stage \"\$name, a part that failed (\$turn)\" $command" || red "$turn" "$name" "$command"
		fi
	done 3< "$logs"/red.before
	rm "$logs"/red.before
}

limited() { # LOG COMMAND...
	local log=$1 status TIMEFORMAT='%U %S'
	shift
	{ time bash -c 'echo $$ > "$0.pid"; exec timeout --kill-after=30 "$limit" bash -c "\"\$@\"" stage "$@"' \
		"$log" "$@" > "$log" 2>&1 < /dev/null; } 2> "$log.cpu"
	status=$?
	rm -f "$log.pid"
	return $status
}
