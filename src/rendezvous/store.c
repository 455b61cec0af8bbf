/* store.c: requests of PyTorch's TCPStore, answered for all ranks but one. What a connection sends may be anything: its requests
 * are bounded, and so is what is kept. */
#include "rendezvous/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_MAGIC = 0x3C85F7CE, MADE_UP_BYTES = 128, NUMBER = 24 };

typedef enum what {
	VALIDATE, SET, COMPARE_SET, GET, ADD, CHECK, WAIT, COUNT_KEYS, WATCH, DELETE, APPEND, MULTI_GET, MULTI_SET, CANCEL_WAIT, PING, UNKNOWN,
} what;

/* By their numbers in each form. */
static const what first_form[] = {SET, COMPARE_SET, GET, ADD, CHECK, WAIT, COUNT_KEYS, WATCH, DELETE};
static const what second_form[] = {VALIDATE, SET, COMPARE_SET, GET, ADD, CHECK, WAIT, COUNT_KEYS, DELETE, APPEND, MULTI_GET, MULTI_SET,
                                   CANCEL_WAIT, PING};

enum { READY, NOT_READY };
enum { STOP_WAITING, WAIT_CANCELED };
enum { CALLBACK_REGISTERED = 3 };

struct span {
	const unsigned char *at;
	size_t size;
};

/* A request while it is read. */
struct request {
	lk_store *store;
	lk_store_client *client;
	struct span left;
	bool more;               /* the rest has not come yet */
	bool failed;             /* no memory, or more than there may be */
};

/* ---- keys and values ---- */

static uint64_t hash_of(const void *bytes, size_t size) {
	const unsigned char *at = bytes;
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static lk_store_entry **place_of(lk_store *s, const void *key, size_t size) {
	lk_store_entry **at = &s->at[hash_of(key, size) % LK_STORE_PLACES];
	while (*at && ((*at)->key_size != size || memcmp((*at)->key, key, size) != 0)) at = &(*at)->next;
	return at;
}

static void remove_entry(lk_store *s, lk_store_entry **at) {
	lk_store_entry *e = *at;
	*at = e->next;
	s->keys--, s->bytes -= e->key_size + e->size;
	free(e->key);
	free(e->value);
	free(e);
}

static lk_store_entry *new_entry(lk_store *s, struct span key) {
	lk_store_entry *e = calloc(1, sizeof *e);
	if (!e) return NULL;
	e->key = malloc(key.size + 1);
	if (!e->key) return free(e), NULL;
	if (key.size) memcpy(e->key, key.at, key.size);
	e->key_size = key.size;
	s->keys++, s->bytes += key.size;
	lk_store_entry **place = place_of(s, key.at, key.size);
	*place = e;
	return e;
}

/* Sets a key to a value, or appends to it. NULL: there is no room. */
static lk_store_entry *put(lk_store *s, struct span key, struct span value, bool append) {
	lk_store_entry *e = *place_of(s, key.at, key.size);
	size_t before = e && append ? e->size : 0;
	if (s->bytes + key.size + before + value.size > LK_STORE_MOST_BYTES || (!e && s->keys >= LK_STORE_MOST_KEYS)) return NULL;
	if (!e && !(e = new_entry(s, key))) return NULL;
	unsigned char *room = malloc(before + value.size + 1);
	if (!room) return NULL;
	if (before) memcpy(room, e->value, before);
	if (value.size) memcpy(room + before, value.at, value.size);
	s->bytes += before + value.size - e->size;
	free(e->value);
	e->value = room, e->size = before + value.size;
	return e;
}

/* What the rank set under the same key with its own number for another rank's. */
static lk_store_entry *own_of(lk_store *s, struct span key) {
	char own[NUMBER], *text = malloc(key.size + NUMBER);
	int digits = snprintf(own, sizeof own, "%d", s->rank);
	lk_store_entry *found = NULL;
	for (size_t i = 0, n; text && i < key.size && !found; i += n ? n : 1) {
		long number = 0;
		for (n = 0; i + n < key.size && n < NUMBER - 1 && key.at[i + n] >= '0' && key.at[i + n] <= '9'; n++)
			number = number > s->world ? number : number * 10 + (key.at[i + n] - '0');
		if (!n || number >= s->world || number == s->rank) continue;
		memcpy(text, key.at, i);
		memcpy(text + i, own, (size_t)digits);
		memcpy(text + i + digits, key.at + i + n, key.size - i - n);
		found = *place_of(s, text, key.size - n + (size_t)digits);
	}
	free(text);
	return found;
}

/* The value of a key, whoever would have set it. */
static lk_store_entry *value_of(lk_store *s, struct span key) {
	lk_store_entry *e = *place_of(s, key.at, key.size);
	if (!e) e = own_of(s, key);
	if (e) return e;
	unsigned char id[MADE_UP_BYTES] = {0};
	uint64_t hash = hash_of(key.at, key.size);
	memcpy(id, &hash, sizeof hash);
	s->made_up++;
	return put(s, key, (struct span){id, sizeof id}, false);
}

/* What the rank adds, all add. False: the value is no number. */
static bool add(lk_store *s, struct span key, int64_t by, int64_t *out) {
	lk_store_entry *e = *place_of(s, key.at, key.size);
	char text[NUMBER] = "", *end = text;
	size_t size = e && e->size < sizeof text ? e->size : 0;
	if (size) memcpy(text, e->value, size);
	int64_t all;
	*out = strtoll(text, &end, 10);
	if (e && (!size || *end)) return false;
	if (__builtin_mul_overflow(by, (int64_t)s->world, &all) || __builtin_add_overflow(*out, all, out)) return false;
	int length = snprintf(text, sizeof text, "%lld", (long long)*out);
	return put(s, key, (struct span){(const unsigned char *)text, (size_t)length}, false) != NULL;
}

/* ---- reading and answering ---- */

static bool take(struct request *r, void *to, size_t size) {
	if (r->more || r->failed || r->left.size < size) return r->more = true, false;
	memcpy(to, r->left.at, size);
	r->left.at += size, r->left.size -= size;
	return true;
}

static uint64_t number(struct request *r) {
	uint64_t value = 0;
	take(r, &value, sizeof value);
	return value;
}

/* A length and so many bytes. */
static struct span text(struct request *r) {
	struct span out = {r->left.at, (size_t)number(r)};
	if (r->more || r->failed) return (struct span){NULL, 0};
	if (out.size > LK_STORE_MOST_REQUEST) return r->failed = true, (struct span){NULL, 0};
	if (out.size > r->left.size) return r->more = true, (struct span){NULL, 0};
	out.at = r->left.at;
	r->left.at += out.size, r->left.size -= out.size;
	return out;
}

static bool append(lk_bytes *to, const void *bytes, size_t size, size_t most) {
	if (to->count + size > most || !lk_reserve(to, size)) return false;
	if (size) memcpy(to->at + to->count, bytes, size);
	to->count += size;
	return true;
}

static void say(struct request *r, const void *bytes, size_t size) {
	if (!append(&r->client->out, bytes, size, LK_STORE_MOST_BYTES)) r->failed = true;
}
static void say_byte(struct request *r, unsigned char byte) { say(r, &byte, 1); }
static void say_number(struct request *r, int64_t value) { say(r, &value, sizeof value); }
static void say_text(struct request *r, struct span value) {
	say_number(r, (int64_t)value.size);
	say(r, value.at, value.size);
}

static void say_value(struct request *r, struct span key) {
	lk_store_entry *e = value_of(r->store, key);
	if (!e) r->failed = true;
	else say_text(r, (struct span){e->value, e->size});
}

/* ---- requests ---- */

/* Several keys, of MULTI_SET with values: all of them are there before one counts. */
static void each_key(struct request *r, what kind) {
	uint64_t count = number(r);
	struct span begin = r->left;
	bool all = true;
	if (count > LK_STORE_MOST_KEYS) r->failed = true;
	for (int real = 0; real < 2 && !r->more && !r->failed; real++) {
		r->left = begin;
		for (uint64_t i = 0; i < count && !r->more && !r->failed; i++) {
			struct span key = text(r), value = kind == MULTI_SET ? text(r) : (struct span){NULL, 0};
			if (!real || r->more || r->failed) continue;
			if (kind == MULTI_SET) r->failed = !put(r->store, key, value, false);
			else if (kind == MULTI_GET) say_value(r, key);
			else if (kind == CHECK) all = all && (*place_of(r->store, key.at, key.size) || own_of(r->store, key));
		}
	}
	if (r->more || r->failed) return;
	if (kind == CHECK) say_byte(r, all ? READY : NOT_READY);
	if (kind == WAIT) say_byte(r, STOP_WAITING);
}

static void compare_and_set(struct request *r, struct span key, struct span expected, struct span wanted) {
	lk_store_entry *e = *place_of(r->store, key.at, key.size);
	if (!e && expected.size) {
		say_text(r, expected); /* as PyTorch's does */
		return;
	}
	bool same = e && e->size == expected.size && memcmp(e->value, expected.at, e->size) == 0;
	if (!e || same) e = put(r->store, key, wanted, false);
	if (!e) r->failed = true;
	else say_text(r, (struct span){e->value, e->size});
}

static void answer_key(struct request *r, what kind) {
	struct span key = text(r), value = {NULL, 0}, other = {NULL, 0};
	int64_t by = 0;
	if (kind == SET || kind == APPEND || kind == COMPARE_SET) value = text(r);
	if (kind == COMPARE_SET) other = text(r);
	if (kind == ADD) by = (int64_t)number(r);
	if (r->more || r->failed) return;
	lk_store_entry **at = place_of(r->store, key.at, key.size);
	switch (kind) {
	case SET: case APPEND: r->failed = !put(r->store, key, value, kind == APPEND); break;
	case COMPARE_SET: compare_and_set(r, key, value, other); break;
	case GET: say_value(r, key); break;
	case ADD:
		r->failed = !add(r->store, key, by, &by);
		say_number(r, by);
		break;
	case DELETE:
		say_number(r, *at ? 1 : 0);
		if (*at) remove_entry(r->store, at);
		break;
	default: say_byte(r, CALLBACK_REGISTERED); break; /* WATCH: nobody but the rank itself changes a key */
	}
}

static void answer(struct request *r, what kind) {
	uint32_t word = 0;
	switch (kind) {
	case VALIDATE:
		if (take(r, &word, sizeof word) && word != FORM_MAGIC) r->failed = true;
		break;
	case PING:
		if (take(r, &word, sizeof word)) say(r, &word, sizeof word);
		break;
	case COUNT_KEYS: say_number(r, (int64_t)r->store->keys); break;
	case CANCEL_WAIT: say_byte(r, WAIT_CANCELED); break;
	case CHECK: case WAIT: case MULTI_GET: case MULTI_SET: each_key(r, kind); break;
	default: answer_key(r, kind); break;
	}
}

/* The first request tells the form: in the second it is a zero and the magic number, which in the first would be the length of
 * a key of a gigabyte. False: not enough has come. */
static bool find_form(lk_store_client *c) {
	uint32_t magic = 0;
	if (c->form) return true;
	if (!c->in.count) return false;
	if (c->in.at[0] == 0 && c->in.count < 1 + sizeof magic) return false;
	if (c->in.at[0] == 0) memcpy(&magic, c->in.at + 1, sizeof magic);
	return c->form = magic == FORM_MAGIC ? 2 : 1, true;
}

static what what_of(const lk_store_client *c, unsigned char number) {
	if (c->form == 1) return number < sizeof first_form / sizeof *first_form ? first_form[number] : UNKNOWN;
	return number < sizeof second_form / sizeof *second_form ? second_form[number] : UNKNOWN;
}

static bool wrong(lk_store_client *c, const char *why) {
	c->wrong = why;
	return false;
}

bool lk_store_take(lk_store *store, lk_store_client *client, const unsigned char *bytes, size_t size) {
	if (client->wrong) return false;
	if (!append(&client->in, bytes, size, 2 * (size_t)LK_STORE_MOST_REQUEST)) return wrong(client, "sent more than fits a request");
	size_t done = 0;
	while (done < client->in.count && find_form(client)) {
		struct request r = {store, client, {client->in.at + done + 1, client->in.count - done - 1}, false, false};
		what kind = what_of(client, client->in.at[done]);
		if (kind == UNKNOWN) return wrong(client, "sent what is no request that this store knows");
		size_t said = client->out.count;
		answer(&r, kind);
		if (r.failed) return wrong(client, "asked for what cannot be: too much, or a sum of what is no number");
		if (r.more) {
			client->out.count = said;
			break;
		}
		store->requests++;
		done = client->in.count - r.left.size;
	}
	if (done) memmove(client->in.at, client->in.at + done, client->in.count - done);
	client->in.count -= done;
	return true;
}

/* ---- begin and end ---- */

void lk_store_begin(lk_store *store, int rank, int world) {
	memset(store, 0, sizeof *store);
	store->rank = rank, store->world = world;
}

void lk_store_end(lk_store *store) {
	for (size_t i = 0; i < LK_STORE_PLACES; i++)
		while (store->at[i]) remove_entry(store, &store->at[i]);
}

void lk_store_client_end(lk_store_client *client) {
	lk_vec_free(&client->in);
	lk_vec_free(&client->out);
}
