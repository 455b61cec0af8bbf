/* test_shell.c: what a script leaves in a variable, as bash itself has it: expansions, arrays,
 * arithmetic, conditions, functions, subshells. What only an execution could tell is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/arena.h"
#include "launch/read.h"
#include "model/layout/job.h"
#include "scratch.h"

/* The text of V at the end of a script, as it is read; NULL: it is refused, with the error. */
static const char *read_value(lk_arena *arena, const char *body, char message[1024]) {
	const char *text =
		lk_arena_printf(arena, "%s\npython run_clm.py --model_name_or_path \"=$V=\"\n", body);
	lk_launch launch = {0};
	lk_error err = {0};
	lk_status status = lk_launch_text(arena, text, strlen(text), "test.sh", NULL, &launch, &err);
	lk_error_text(&err, message, 1024);
	for (int i = 0; status == LK_OK && launch.network == NULL && i < launch.ignored_count; i++)
		snprintf(message, 1024, "%s: %s", launch.ignored[i].flag, launch.ignored[i].reason);
	return status == LK_OK ? launch.network : NULL;
}

/* What bash says. */
static void bash_value(const char *body, char out[512]) {
	char path[64], command[128];
	FILE *file = fopen(new_file(path, ".sh"), "w");
	fprintf(file, "%s\nprintf '=%%s=' \"$V\"\n", body);
	fclose(file);
	snprintf(command, sizeof command, "bash %s 2>&1", path);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	size_t size = fread(out, 1, 511, pipe);
	out[size] = '\0';
	pclose(pipe);
	remove(path);
}

static void check_bodies(const char *const *bodies, size_t count) {
	int wrong = 0;
	for (size_t i = 0; i < count; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char message[1024], said[512];
		const char *value = read_value(&arena, bodies[i], message);
		bash_value(bodies[i], said);
		if (value == NULL || strcmp(value, said) != 0) {
			print_error("%s\nis %s, and %s for bash\n", bodies[i], value ? value : message, said);
			wrong++;
		}
		lk_arena_free(&arena);
	}
	assert_int_equal(wrong, 0);
}
#define CHECK(bodies) check_bodies(bodies, sizeof bodies / sizeof *bodies)

static void expansions(void **state) {
	(void)state;
	static const char *const bodies[] = {
		"P=a/b.c/d.sh; V=${P%.sh}",
		"P=a/b.c/d.sh; V=${P%.*}",
		"P=a/b.c/d.sh; V=${P%%.*}",
		"P=a/b.c/d.sh; V=${P#*/}",
		"P=a/b.c/d.sh; V=${P##*/}",
		"P=a/b.c/d.sh; V=${P%x}${P#x}${P%%x*}${P##*x}",
		"P=a-b-c; X=b; V=${P/$X/yy}${P//-/_}${P//-}${P/q/r}",
		"P=heLLo; V=${P^}${P^^}${P,}${P,,}",
		"P=HELLO; V=${P,}",
		"P=0123456789; V=${P:3}.${P:3:2}.${P: -4}.${P: -4:2}.${P:1:-2}.${P:9:100}.${P:20}",
		"P=0123456789; N=2; V=${P:N*2:N+1}.${P:$N}",
		"P=0123; V=${P: -9}",
		"P=heLLo; V=${#P}",
		"V=${X:-d}${X-e}; X=; V=$V${X:-f}${X-g}",
		"Y=${X:=d}; V=$X$Y",
		"X=1; V=${X:+yes}${Y:+no}${Y+no}",
		"X=1; V=${X:?missing}",
		"V=a; V+=b; V+=\"c d\"",
		"X=\"a  b\"; V=$X; V=\"$V|$(echo $X)\"",
		"V='a\"b'\"c'd\"\\\"e",
		"X='<path to x>'; V=$X",
		"declare -x N=w; export \"X$N=7\"; V=$Xw",
		"V=1; unset V; V=$V.",
		"N=3; V=$(expr $N \\* 2)",
		"V=$(basename /a/b.sh .sh)$(dirname /a/b.sh)$(dirname x)",
		"V=$(seq 3 -1 1)",
		"V=$(seq 1 2 7)",
		"V=$(echo k=v=w | cut -d= -f2)$(echo k=v | cut -f 3 -d =)$(echo kv | cut -d= -f1)",
		"V=$(echo '2 * 4' | bc)",
		"V=$(cat <<END\none\ntwo $((1+1))\nEND\n)",
		"V=$(cat <<'END'\none $X\nEND\n)",
		"read V <<END\nfirst line\nsecond\nEND",
		"V=a\\\nb",
		"true; V=$?; false; V=$V$?",
		"set -- a 'b c' d; V=\"$# $2 $*\"; shift; V=\"$V|$1|${2}|${9-none}\"",
		"set -- 1 2; V=${1:-5}${3:-7}",
	};
	CHECK(bodies);
}

static void arrays(void **state) {
	(void)state;
	static const char *const bodies[] = {
		"A=(x y z); V=${A[1]}${A[-1]}${#A[@]}\"${A[*]}\"${A[0]}$A",
		"A=(x y); A+=(z \"u v\"); V=\"${A[@]}\"",
		"A=(x y z); A[1]=q; A[3]=n; V=\"${A[*]} ${#A[@]}\"",
		"N=1; A=(x y z); A[$N]=q; V=${A[$N]}",
		"A[0]=x; A[1]=y; V=\"${A[*]}\"",
		"declare -A M=([k]=v [l]=w); M[k2]=z; V=${M[k]}${M[l]}${M[k2]}",
		"declare -A M; M[k]=v; M[k]=w; V=${M[k]}",
		"A=(a # it's a comment\n  b \\\n  c\n); V=\"${A[*]}\"",
		"A=(1 2 3); S=0; for x in ${A[@]}; do S=$((S + x)); done; V=$S",
		"A=(); A+=(b); V=\"${A[@]}\"",
		"A=(a b); unset A; A=(c); V=\"${A[*]}\"",
		"A=(3 4); V=$((A[0] + A[1] * 2))",
	};
	CHECK(bodies);
}

static void arithmetic(void **state) {
	(void)state;
	static const char *const bodies[] = {
		"V=$((7 / 2))$((-7 / 2))$((-7 % 3))$((2 ** 10))$((2 ** 3 ** 2))",
		"V=$((1 << 4))$((255 >> 3))$((6 & 3))$((6 | 3))$((6 ^ 3))$((~5))$((!5))$((!0))",
		"V=$((3 > 2))$((3 < 2))$((3 >= 3))$((3 <= 2))$((3 == 3))$((3 != 3))",
		"V=$((1 && 0))$((1 || 0))$((0 && 1 / 0))$((1 || 1 / 0))",
		"V=$((1 ? 2 : 3 / 0))$((0 ? 1 / 0 : 4))",
		"X=5; Y=; V=$((X + Y + ${Z:-2}))$(( -X ))$(( +X - -1 ))$((- - 3))",
		"X=' 4 '; V=$((X * 2))",
		"V=$((5 / -1))$((5 % -1))$(((2 + 3) * (4 - 1)))",
		"V=$(( (-1) ** 5 ))$((0 ** 0))",
		"N=`echo 4`; V=$((`echo 3` + $(echo 2) + ${N} + $N))",
		"let V=2*3; let 'V = V + 1' V*=2 V-=4 V/=2 V%=4",
		"printf -v V '%s-%s' a b",
	};
	CHECK(bodies);
}

static void conditions(void **state) {
	(void)state;
	static const char *const bodies[] = {
		"V=; for t in '1 -eq 1' '1 -ne 1' '2 -gt 1'; do if [ $t ]; then V=$V+; else V=$V-; fi; "
		"done",
		"V=; for t in '2 -ge 3' '1 -lt 2' '3 -le 2'; do if [ $t ]; then V=$V+; else V=$V-; fi; "
		"done",
		"V=; for t in 'a = a' 'a != a' 'a == b'; do if [ $t ]; then V=$V+; else V=$V-; fi; done",
		"X=; if [ -z \"$X\" ] && [ -n a ] && ! [ -n \"$X\" ]; then V=1; else V=2; fi",
		"if [[ abc == a* && abc != *b ]]; then V=1; else V=2; fi",
		"if [ a ]; then V=1; fi; if [ '' ]; then V=2; fi",
		"case abc in x|a*) V=1;; *) V=2;; esac",
		"case abc in (x) V=1;; (a?c) V=3;; esac",
		"if ((3 > 2)); then V=1; elif ((0)); then V=2; else V=3; fi",
		"V=; N=0; while [ $N -lt 3 ]; do V=$V$N; N=$((N+1)); [ $N = 2 ] && break; done",
		"V=; N=0; until [ $N -ge 3 ]; do N=$((N+1)); [ $N = 2 ] && continue; V=$V$N; done",
		/* a group runs as a whole, or not */
		"V=1; [ a = b ] && { V=2; V=3; }; V=$V.",
		"V=1; [ a = a ] && { V=2; V=${V}3; } || { V=4; V=5; }",
		"V=1; [ a = b ] && { V=2; V=3; } || { V=4; V=${V}5; }",
		"V=1; [ a = b ] || { V=2; V=${V}3; }; V=$V.",
		"V=1; [ a = b ] && { echo usage; exit 1; }; V=2",
		"V=1; [ a = b ] && { [ a = a ] && { V=2; }; V=3; }; V=$V.",
	};
	CHECK(bodies);
}

/* What is set in brackets does not leave them. */
static void subshells(void **state) {
	(void)state;
	static const char *const bodies[] = {
		"V=1; (V=2); V=$V.",
		"V=1; A=(a b); (V=2; A+=(c); unset A); V=$V${#A[@]}",
		"V=1; ( V=2; exit 3 ); V=${V}a",
		"V=1; (V=2; (V=3; V=4); V=5) && V=${V}b",
		"V=1; [ a = b ] && (V=2; V=3) || V=${V}c",
		"V=1; [ a = a ] && ( cd /; V=2 ); V=${V}d",
		"set -- a b; (shift; V=$1); V=$1",
		"set -- a b; set --; V=$#${1-none}",
		"set -- a b; shift 3; V=$1; shift 0; V=$V$1; shift 2; V=$V$#",
		"V=1; (case x in y) V=2;; x) V=3;; esac; f() { V=4; }; f); V=$V.",
		"V=1; if ( [ a = a ] ); then V=2; fi",
		"V=1; for i in 1 2; do (V=9); V=$V$i; done",
		/* functions */
		"f() { V=$1; }; f a",
		"f(){ V=$1; }; f b",
		"f()\n{\n  V=$1\n}\nf c",
		"function f { V=$1; }; f d",
		"function f() { V=$1; }; f e",
		"V=1; f() ( V=2 ); f; V=$V.",
		"V=1; f()(V=2); f; V=$V.",
		"V=1; f()\n(\n  V=2\n)\nf\nV=$V.",
		"V=1; function f ( V=2; ); f; V=$V.",
		"V=1; function f() ( V=2; ); f; V=$V.",
		"V=1; f() ( W=$1; g; exit 4 ); g() { V=$W; }; f 7; V=$V${W:-u}.",
		"V=1; f() ( for x in a b; do case $x in a) V=2;; esac; done; ( V=3 ) ); f; V=$V.",
		"f() ( echo $(($1 * 2)) ); V=$(f 4)",
		"V=1; f() ( return 1 ); f; V=${V}x",
	};
	CHECK(bodies);
	/* a launch inside of them is one */
	lk_arena arena = LK_ARENA_INIT;
	static const char *const texts[] = {
		"N=2\nrun() (\n  N=4\n  torchrun --nproc_per_node $N train.py\n)\nrun\n",
		"N=2\n( cd x; N=4; torchrun --nproc_per_node $N train.py ) 2>&1 | tee log\n",
		"N=2\nmkdir -p x && ( N=4; exec torchrun --nproc_per_node $N train.py )\n",
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lk_launch launch = {0};
		lk_error err = {0};
		char message[1024];
		if (lk_launch_text(&arena, texts[i], strlen(texts[i]), "t.sh", NULL, &launch, &err) !=
		    LK_OK)
			fail_msg("%s%s", texts[i], lk_error_text(&err, message, sizeof message));
		assert_int_equal(launch.gpus, 4);
	}
	lk_arena_free(&arena);
}

static void refusals(void **state) {
	(void)state;
	static const struct {
		const char *body, *words;
	} cases[] = {
		{"V=1; if [ -f x ]; then unset V; fi", "V is set in a line that may not run"},
		{"[ -f x ] && { echo; V=2; }", "V is set in a line that may not run"},
		{"V=1; if [ ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! a = b ]; then V=2; fi",
	     "V is set in a line that may not run"},
		{"[ -f x ] || ( V=2 ); V=$(date)", "$(date) is not executed"},
		{"A=(a b); V=${A[-7]}", "${A[-7]} is not evaluated"},
		{"P=abc; V=${P/[ab]/&x}", "${P/[ab]/&x} is not evaluated"},
		{"V=${X:?gone}", "${X:?gone} is not set in the script"},
		{"P=abc; V=${P:1:-9}", "${P:1:-9} is not evaluated"},
		{"V=${!X}", "${!X} is not evaluated"},
		{"V=$((08 + 1))", "$((08 + 1)) is not known"},
		{"X=abc; V=$((X))", "abc is not set in the script"},
		{"V=$((3 +))", "$((...)) ends where a number is expected"},
		{"V=$((${X))", "not closed"},
		{"V=$((1 << 60))", "$((...)) overflows"},
		{"V=$((1 << 52 << 1 << 1))", "$((...)) is too large"},
		{"V=$((5 % 0))", "division by zero"},
		{"V=$((1 ? 2))", "$((1 ? 2)) is not known"},
		{"V=$(((((((((((((((((((((((((((((((((((((((((("
	     "((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))"
	     "))))))))))))))))))))))))))))))))",
	     "$((...)) is nested too deeply"},
		{"( V=1", "test.sh:1: a block that begins here does not end"},
		{"f() ( V=1", "a block that begins here does not end"},
		{"((V = 1", "a '((' is not closed"},
		{"diff <(ls", "a bracket is not closed"},
		{"V=\"abc", "a quote or bracket is not closed"},
		{"cat <<A <<B <<C <<D <<E <<F <<G <<H <<I\n", "more than 8 here-documents in a line"},
		{"V=`date", "not closed"},
		{"then V=1", "then without if"},
		{"else V=1", "else without if"},
		{"done", "a block ends that did not begin"},
		{"case", "case without a word"},
	};
	int wrong = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char message[1024];
		const char *value = "read", *body = cases[i].body;
		const char *text = lk_arena_printf(
			&arena, "%s\ntorchrun pretrain_gpt.py --tensor-model-parallel-size $V\n", body);
		lk_launch launch = {0};
		lk_error err = {0};
		if (lk_launch_text(&arena, text, strlen(text), "test.sh", NULL, &launch, &err) != LK_OK)
			value = NULL;
		lk_error_text(&err, message, sizeof message);
		if (value != NULL || strstr(message, cases[i].words) == NULL) {
			print_error("%s\n\"%s\" should hold \"%s\"\n", cases[i].body, value ? value : message,
			            cases[i].words);
			wrong++;
		}
		lk_arena_free(&arena);
	}
	assert_int_equal(wrong, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expansions), cmocka_unit_test(arrays),    cmocka_unit_test(arithmetic),
		cmocka_unit_test(conditions), cmocka_unit_test(subshells), cmocka_unit_test(refusals),
	};
	return cmocka_run_group_tests_name("shell", tests, NULL, NULL);
}
