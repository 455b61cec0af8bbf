/* ---- input: arguments, sizes, draws; C and C++ ---- */

typedef struct rt_options {
	const char *sizes, *set, *schedule, *dump;
	uint64_t seed;
	int repeat;
	bool list, help;
} rt_options;

RT_HOST_FUNCTION int rt_named_find(const rt_named *names, const char *text, size_t length) {
	for (int i = 0; names[i].name; i++)
		if (strlen(names[i].name) == length && memcmp(names[i].name, text, length) == 0) return i;
	return -1;
}

RT_HOST_FUNCTION int rt_read_number(const char *text, char **end, int64_t low, int64_t *out,
                                    char error[RT_ERROR]) {
	errno = 0;
	long long number = strtoll(text, end, 10);
	if (*end == text || errno || number < low) return rt_wrong(error, "this is not a size", text);
	*out = number;
	return 0;
}

/* "3:5:7" */
RT_HOST_FUNCTION int rt_read_list(const char *text, char **end, char between, int64_t **out,
                                  int64_t *count, char error[RT_ERROR]) {
	int64_t room = 0;
	for (*count = 0;; text = *end + 1) {
		if (*count == room) {
			int64_t *grown =
				(int64_t *)realloc(*out, (size_t)(room = 2 * room + 16) * sizeof **out);
			if (!grown) return rt_wrong(error, "out of memory", NULL);
			*out = grown;
		}
		if (rt_read_number(text, end, 1, &(*out)[*count], error)) return 1;
		++*count;
		if (**end != between) return 0;
	}
}

/* A number per line; blanks and # comments. */
RT_HOST_FUNCTION int rt_read_file(const char *path, size_t length, int64_t **out, int64_t *count,
                                  char error[RT_ERROR]) {
	char name[1024], line[256], *end;
	int64_t room = 0;
	if (length >= sizeof name) return rt_wrong(error, "the name of a file is too long", NULL);
	memcpy(name, path, length);
	name[length] = '\0';
	FILE *file = fopen(name, "r");
	if (!file) return rt_wrong(error, "cannot be read", name);
	int wrong = 0;
	for (*count = 0; !wrong && fgets(line, sizeof line, file);) {
		line[strcspn(line, "#\n")] = '\0';
		char *text = line + strspn(line, " \t\r");
		if (!*text) continue;
		if (*count == room) {
			int64_t *grown =
				(int64_t *)realloc(*out, (size_t)(room = 2 * room + 16) * sizeof **out);
			if (!grown) wrong = rt_wrong(error, "out of memory", NULL);
			else *out = grown;
		}
		if (!wrong) wrong = rt_read_number(text, &end, 1, &(*out)[*count], error);
		if (!wrong && end[strspn(end, " \t\r")])
			wrong = rt_wrong(error, "this is not a size", text);
		++*count;
	}
	fclose(file);
	return wrong || *count ? wrong : rt_wrong(error, "holds no sizes", name);
}

RT_HOST_FUNCTION int rt_read_each(const rt_program *p, rt_sizes *z, int dim, const char *text,
                                  char **end, char error[RT_ERROR]) {
	int64_t count = 0, *items = &z->items[p->dim[dim].number];
	if (*text == '@') {
		size_t length = strcspn(text + 1, ",");
		*end = (char *)text + 1 + length;
		if (rt_read_file(text + 1, length, &z->each[dim], &count, error)) return 1;
	} else if (rt_read_list(text, end, ':', &z->each[dim], &count, error)) return 1;
	if (*items && *items != count)
		return rt_wrong(error, "dims of one list have different numbers of tensors",
		                p->dim[dim].name);
	*items = count;
	return 0;
}

RT_HOST_FUNCTION int rt_read_sizes(const rt_program *p, const char *text, rt_sizes *z,
                                   char error[RT_ERROR]) {
	char *end;
	for (; text && *text; text = end + (*end == ',')) {
		size_t length = strcspn(text, "=,");
		const char *number = text + length + 1, *dot = (const char *)memchr(text, '.', length);
		if (text[length] != '=') return rt_wrong(error, "sizes are written NAME=N,...", text);
		if (dot) length -= (size_t)(dot + 1 - text), text = dot + 1; /* LIST.DIM */
		int axis = rt_named_find(p->axis, text, length), dim = rt_named_find(p->dim, text, length),
			index = rt_named_find(p->index, text, length);
		int wrong;
		if (axis >= 0) wrong = rt_read_number(number, &end, 1, &z->axis[axis], error);
		else if (dim >= 0 && p->dim[dim].number >= 0)
			wrong = rt_read_each(p, z, dim, number, &end, error);
		else if (dim >= 0) wrong = rt_read_number(number, &end, 1, &z->dim[dim], error);
		else if (index >= 0) wrong = rt_read_number(number, &end, 0, &z->index[index], error);
		else return rt_wrong(error, "there is no axis, dim or index of this name", text);
		if (wrong) return 1;
		if (*end && *end != ',') return rt_wrong(error, "this is not a size", number);
	}
	return 0;
}

/* What was not given: the last axis gets the ranks that are left, other axes 1; dims must be given.
 */
RT_HOST_FUNCTION int rt_complete(const rt_program *p, rt_sizes *z, int ranks,
                                 char error[RT_ERROR]) {
	int64_t left = ranks;
	int last = -1;
	for (int a = 0; p->axis[a].name; a++) {
		if (!z->axis[a] && p->axis[a].number) z->axis[a] = p->axis[a].number;
		if (!z->axis[a]) last = a;
	}
	for (int a = 0; p->axis[a].name; a++) {
		if (!z->axis[a] && a != last) z->axis[a] = 1;
		if (z->axis[a]) left /= z->axis[a];
	}
	if (last >= 0) z->axis[last] = left > 0 ? left : 1;
	for (int d = 0; p->dim[d].name; d++)
		if (p->dim[d].number < 0 ? !z->dim[d] : !z->each[d])
			return rt_wrong(error, "its size is not given; write --sizes NAME=N,...",
			                p->dim[d].name);
	return 0;
}

RT_HOST_FUNCTION uint64_t rt_name_key(const char *name) {
	uint64_t h = 0xcbf29ce484222325u;
	for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h;
}

RT_HOST_FUNCTION double rt_rounded(rt_format f, double x) {
	switch (f) {
	case RT_F32: return (float)x;
	case RT_F16: return rt_round_f16(rt_odd(x));
	case RT_BF16: return rt_round_bf16(rt_odd(x));
	case RT_F8: return rt_round_f8(rt_odd(x));
	default: return x;
	}
}

/* (-1,1) for inputs; (1/16,1) for states and scalars, for roots and divisors are taken of them;
 * whole numbers below bound. */
RT_HOST_FUNCTION double rt_draw(rt_format f, bool input, uint32_t u, int64_t bound) {
	if (f == RT_BOOL) return u & 1;
	if (f >= RT_I64) return (double)(u % (uint64_t)bound);
	return rt_rounded(f, input ? (u + 0.5) / 0x1p31 - 1 : (u + 0.5) / 0x1p32 * 15 / 16 + 1.0 / 16);
}

RT_HOST_FUNCTION int rt_scalars(const rt_program *p, const rt_options *o, rt_sizes *z,
                                char error[RT_ERROR]) {
	int count = 0;
	while (p->scalar[count].name) count++;
	z->scalar = (double *)calloc((size_t)count + 1, sizeof *z->scalar);
	if (!z->scalar) return rt_wrong(error, "out of memory", NULL);
	for (int i = 0; i < count; i++)
		z->scalar[i] = rt_draw((rt_format)p->scalar[i].number, false,
		                       rt_philox(0, 0, 0, o->seed ^ rt_name_key(p->scalar[i].name)), 8);
	char *end;
	for (const char *text = o->set; text && *text; text = end + (*end == ',')) {
		size_t length = strcspn(text, "=,");
		int which = rt_named_find(p->scalar, text, length);
		if (which < 0 || text[length] != '=')
			return rt_wrong(error, "scalars are set by NAME=X,..., and this is none", text);
		double number = strtod(text + length + 1, &end);
		if (end == text + length + 1 || (*end && *end != ','))
			return rt_wrong(error, "this is not a number", text);
		z->scalar[which] = rt_rounded((rt_format)p->scalar[which].number, number);
	}
	return 0;
}

RT_HOST_FUNCTION double rt_get(const rt_part *p, int64_t i) {
	switch (p->format) {
	case RT_F64: return ((const double *)p->data)[i];
	case RT_F32: return ((const float *)p->data)[i];
	case RT_F16: return rt_from_f16(((const uint16_t *)p->data)[i]);
	case RT_BF16: return rt_from_bf16(((const uint16_t *)p->data)[i]);
	case RT_F8: return rt_from_f8(((const uint8_t *)p->data)[i]);
	case RT_I64: return (double)((const int64_t *)p->data)[i];
	case RT_I32: return ((const int32_t *)p->data)[i];
	case RT_I16: return ((const int16_t *)p->data)[i];
	case RT_I8: return ((const int8_t *)p->data)[i];
	case RT_U64: return (double)((const uint64_t *)p->data)[i];
	case RT_U32: return ((const uint32_t *)p->data)[i];
	case RT_U16: return ((const uint16_t *)p->data)[i];
	default: return ((const uint8_t *)p->data)[i];
	}
}

RT_HOST_FUNCTION void rt_put(rt_part *p, int64_t i, double x) {
	switch (p->format) {
	case RT_F64: ((double *)p->data)[i] = x; break;
	case RT_F32: ((float *)p->data)[i] = (float)x; break;
	case RT_F16: ((uint16_t *)p->data)[i] = rt_to_f16(rt_odd(x)); break;
	case RT_BF16: ((uint16_t *)p->data)[i] = rt_to_bf16(rt_odd(x)); break;
	case RT_F8: ((uint8_t *)p->data)[i] = rt_to_f8(rt_odd(x)); break;
	case RT_I64:
	case RT_U64: ((int64_t *)p->data)[i] = (int64_t)x; break;
	case RT_I32:
	case RT_U32: ((int32_t *)p->data)[i] = (int32_t)x; break;
	case RT_I16:
	case RT_U16: ((int16_t *)p->data)[i] = (int16_t)x; break;
	default: ((uint8_t *)p->data)[i] = (uint8_t)x;
	}
}

/* Every element is drawn by its index in the whole tensor, and by the rank along axes where ranks
 * differ. */
RT_HOST_FUNCTION void rt_draw_part(const rt_run *run, int value, int64_t item, uint64_t seed) {
	const rt_value *v = &run->schedule->value[value];
	rt_part *p = &run->part[value][item];
	uint32_t rank = 0, differ = 0;
	uint64_t key = seed ^ rt_name_key(v->name);
	int64_t bound = run->schedule->bound(run->sizes, &run->mesh, value, item);
	for (int a = 0; a < run->mesh.axes; a++) {
		if (v->layout[a].way != RT_P && v->layout[a].way != RT_L) continue;
		rank = rank * (uint32_t)run->mesh.ranks[a] + (uint32_t)run->mesh.at[a];
		differ = 1;
	}
	for (int64_t i = 0; i < p->count; i++) {
		uint64_t index = 0;
		int64_t place[RT_RANK], rest = i;
		for (int d = p->rank; d-- > 0; rest /= p->extent[d]) place[d] = rest % p->extent[d];
		for (int d = 0; d < p->rank; d++)
			index = index * (uint64_t)p->whole[d] + (uint64_t)(p->begin[d] + place[d]);
		rt_put(p, i,
		       rt_draw(v->format, v->kind == RT_INPUT,
		               rt_philox(index, differ ? rank + 1 : 0, (uint32_t)item, key),
		               bound < 1 ? 1 : bound));
	}
}

RT_HOST_FUNCTION int rt_arguments(int argc, char **argv, rt_options *o, char error[RT_ERROR]) {
	for (int i = 1; i < argc; i++) {
		const char **text = strcmp(argv[i], "--sizes") == 0      ? &o->sizes
		                    : strcmp(argv[i], "--set") == 0      ? &o->set
		                    : strcmp(argv[i], "--schedule") == 0 ? &o->schedule
		                    : strcmp(argv[i], "--dump") == 0     ? &o->dump
		                                                         : NULL;
		bool seed = strcmp(argv[i], "--seed") == 0, repeat = strcmp(argv[i], "--repeat") == 0;
		if (strcmp(argv[i], "--list") == 0) o->list = true;
		else if (strcmp(argv[i], "--help") == 0) o->help = true;
		else if (!text && !seed && !repeat)
			return rt_wrong(error, "there is no such option; --help lists them", argv[i]);
		else if (i + 1 == argc) return rt_wrong(error, "this option takes a value", argv[i]);
		else if (text) *text = argv[++i];
		else {
			char *end;
			errno = 0;
			long long number = strtoll(argv[++i], &end, 10);
			if (*end || end == argv[i] || errno || number < repeat || (repeat && number > 1000000))
				return rt_wrong(error, "this is no such number", argv[i]);
			if (seed) o->seed = (uint64_t)number;
			else o->repeat = (int)number;
		}
	}
	return 0;
}
