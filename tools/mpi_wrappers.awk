# mpi_wrappers.awk: lib/recorder/mpi/mpi_calls.txt to C: a wrapper for each call, variant, and language binding.
# Usage: awk -f tools/mpi_wrappers.awk lib/recorder/mpi/mpi_calls.txt > mpi_wrappers.c

# The C type of a parameter; `large` for the calls that end in _c.
function type_of(letter, large) {
	if (letter == "s") return "const void *"
	if (letter == "r" || letter == "S") return "void *"
	if (letter == "n") return large ? "lp_count " : "int "
	if (letter == "N") return large ? "const lp_count *" : "const int *"
	if (letter == "D") return large ? "const lp_aint *" : "const int *"
	if (letter == "v") return "const lp_handle *"
	if (letter == "C" || letter == "Q") return "lp_handle *"
	return letter ~ /[tuoc]/ ? "lp_handle " : "int "
}

# The how-manieth parameter is the first (or second) of this letter; 0 none.
function place(letters, letter, nth,    i) {
	for (i = 1; i <= length(letters); i++)
		if (substr(letters, i, 1) == letter && --nth == 0) return i
	return 0
}

# A parameter as a number or handle of C.
function value(at, letter, fortran) {
	if (!fortran) return "a" at
	if (letter == "c") return "lp_mpi_comm_f(*a" at ")"
	if (letter ~ /[tu]/) return "lp_mpi_type_f(*a" at ")"
	return letter ~ /[ND]/ ? "a" at : "*a" at
}

function count_of(letters, bytes, fortran, large,    at, comm, sum) {
	comm = value(place(letters, "c", 1), "c", fortran)
	sum = large ? "lp_mpi_sum_c" : "lp_mpi_sum"
	if (bytes ~ /N/) return sum "(" value(place(letters, "N", 1), "N", fortran) ", " comm ")"
	if (bytes ~ /M/) return sum "(" value(place(letters, "N", 2), "N", fortran) ", " comm ")"
	at = bytes ~ /m/ ? place(letters, "n", place(letters, "n", 2) ? 2 : 1) : place(letters, "n", 1)
	return bytes ~ /[nm]/ ? value(at, "n", fortran) : "0"
}

# What the wrapper tells of the call.
function describe(name, what, part, letters, bytes, fortran, large,    text, at, kind, in_place) {
	text = ".name = \"" name "\", .number = &number, .epoch = &epoch, .what = LK_WHAT_" what ", .part = LK_PART_" part
	at = place(letters, "R", 1) ? place(letters, "R", 1) : place(letters, "p", 1)
	text = text ", .peer = " (at ? value(at, "p", fortran) : "LP_NO_PEER")
	at = place(letters, "P", 1)
	text = text ", .from = " (at ? value(at, "p", fortran) : "LP_NO_PEER")
	at = place(letters, "g", 1)
	if (at) text = text ", .tag = " value(at, "g", fortran)
	text = text ",\n\t                    .comm = " value(place(letters, "c", 1), "c", fortran)
	kind = bytes ~ /u/ ? "u" : "t"
	if (bytes ~ /[tu]/) {
		text = text ", .type = " value(place(letters, kind, 1), kind, fortran)
		# without a send buffer of its own the types and counts of sending mean nothing
		in_place = kind == "t" && place(letters, "u", 1) && !fortran
		text = text ", .count = " (in_place ? "lp_mpi_in_place(a" place(letters, "s", 1) ") ? 0 : " : "") \
			count_of(letters, bytes, fortran, large)
	}
	if (bytes ~ /k/) text = text ", .all = true"
	return text
}

# One field for each parameter, so that a mode can stand in for the library.
function parameter(letter, at, nth, fortran) {
	if (letter == "s" && nth == 1) return ".send = " (fortran ? "lp_mpi_buffer_f(a" at ")" : "a" at)
	if (letter == "r" && nth == 1) return ".recv = " (fortran ? "lp_mpi_buffer_f(a" at ")" : "a" at)
	if (letter == "n") return ".counts[" nth - 1 "] = " value(at, letter, fortran)
	if (letter == "t") return ".types[0] = " value(at, letter, fortran)
	if (letter == "u") return ".types[1] = " value(at, letter, fortran)
	if (letter == "N") return ".lists[" nth - 1 "] = a" at
	if (letter == "D") return ".places[" nth - 1 "] = a" at
	if (letter == "v" && !fortran) return ".type_lists[" nth - 1 "] = a" at
	if (letter == "o" && nth == 1) return ".op = " (fortran ? "lp_mpi_op_f(*a" at ")" : "a" at)
	if (letter == "i") return ".numbers[" nth - 1 "] = " value(at, letter, fortran)
	if (letter == "C") return ".made = a" at
	if (letter == "Q") return ".request = a" at
	return ""
}

function parameters(letters, fortran, large,    i, letter, text, field, nth) {
	text = (fortran ? ", .fortran = true" : "") (large ? ", .large = true" : "")
	for (i = 1; i <= length(letters); i++) {
		letter = substr(letters, i, 1)
		field = parameter(letter, i, ++nth[letter], fortran)
		if (field) text = text ", " field
	}
	return text
}

function emit(name, what, part, letters, bytes, fortran, large,    i, n, letter, declared, passed, status, request, symbol) {
	n = length(letters)
	declared = passed = status = request = ""
	for (i = 1; i <= n; i++) {
		letter = substr(letters, i, 1)
		declared = declared (i > 1 ? ", " : "") (fortran ? (letter ~ /[sr]/ ? "void *" : "lp_fint *") : type_of(letter, large)) "a" i
		if (letter == "S" && !fortran) status = i
		if (letter == "Q") request = i
		passed = passed (i > 1 ? ", " : "") (letter == "S" && !fortran ? "status" : "a" i)
	}
	symbol = fortran ? tolower(name) "_" : name
	if (fortran) { declared = declared ", lp_fint *error"; passed = passed ", error" }
	printf "%s %s(%s);\n", fortran ? "void" : "int", symbol, declared
	printf "LP_EXPORT %s %s(%s) {\n\tLP_REAL(%s)\n", fortran ? "void" : "int", symbol, declared, symbol
	print "\tstatic uint32_t number, epoch;"
	printf "\tlp_mpi_call call = {%s%s};\n", describe(name, what, part, letters, bytes, fortran, large), \
		parameters(letters, fortran, large)
	print "\tlp_mpi_begin(&call);"
	if (fortran && place(letters, "S", 1)) printf "\tcall.answer = a%d;\n", place(letters, "S", 1)
	if (status) printf "\tlp_mpi_status room;\n\tvoid *status = lp_mpi_status_of(&call, a%d, &room);\n", status
	if (!fortran) {
		printf "\tint result = lp_mpi_replaces(&call) ? call.result : real(%s);\n", passed
		printf "\tlp_mpi_end(&call, result, %s);\n\treturn result;\n}\n\n", request ? "a" request : "NULL"
		return
	}
	printf "\tif (lp_mpi_replaces(&call)) *error = call.result;\n\telse real(%s);\n", passed
	if (request) printf "\tlp_handle request = call.on ? lp_mpi_request_f(*a%d) : (lp_handle)0;\n", request
	printf "\tlp_mpi_end(&call, *error, %s);\n}\n\n", request ? "&request" : "NULL"
}

function bindings(name, what, part, letters, bytes) {
	emit(name, what, part, letters, bytes, 0, 0)
	if (letters ~ /[nN]/) emit(name "_c", what, part, letters, bytes, 0, 1)
	emit(name, what, part, letters, bytes, 1, 0)
}

BEGIN {
	print "/* Made by tools/mpi_wrappers.awk of lib/recorder/mpi/mpi_calls.txt. */"
	print "#include \"recorder/mpi/mpi.h\"\n"
}
/^#/ || NF == 0 { next }
{
	plain = $3
	sub(/S$/, "", plain)
	if ($5 ~ /b/) bindings("MPI_" $1, $2, "WHOLE", $3, $4)
	if ($5 ~ /i/) bindings("MPI_I" tolower(substr($1, 1, 1)) substr($1, 2), $2, "POST", plain "Q", $4)
	# persistent collectives have a parameter more, the info
	if ($5 ~ /p/) bindings("MPI_" $1 "_init", $2, "MAKE", plain ($2 ~ /^(SEND|RECV)$/ ? "" : "o") "Q", $4)
}
