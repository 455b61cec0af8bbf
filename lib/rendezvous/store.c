/* store.c: requests of PyTorch's TCPStore, answered for all ranks but one. A connection may send
 * anything: requests are bounded, and so is the stored data. */
#include "rendezvous/rendezvous.h"
#include "base/check.h"
#include "base/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_MAGIC = 0x3C85F7CE, MADE_UP_BYTES = 128, NUMBER = 24 };

typedef enum what {
	VALIDATE,
	SET,
	COMPARE_SET,
	GET,
	ADD,
	CHECK,
	WAIT,
	COUNT_KEYS,
	WATCH,
	DELETE,
	APPEND,
	MULTI_GET,
	MULTI_SET,
	CANCEL_WAIT,
	PING,
	UNKNOWN,
} what;

/* By their numbers in each form. */
static const what first_form[] = {SET,  COMPARE_SET, GET,   ADD,   CHECK,
                                  WAIT, COUNT_KEYS,  WATCH, DELETE};
static const what second_form[] = {VALIDATE,  SET,       COMPARE_SET, GET,    ADD,
                                   CHECK,     WAIT,      COUNT_KEYS,  DELETE, APPEND,
                                   MULTI_GET, MULTI_SET, CANCEL_WAIT, PING};

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
	bool more;   /* incomplete: wait for the rest */
	bool failed; /* no memory, or over a limit */
};

/* ---- keys and values ---- */

static lk_store_entry **find_key_place(lk_store *store, const void *key, size_t size) {
	lk_store_entry **at = &store->at[lk_hash_bytes(LK_HASH_SEED, key, size) % LK_STORE_PLACES];
	while (*at && ((*at)->key_size != size || memcmp((*at)->key, key, size) != 0))
		at = &(*at)->next;
	return at;
}

static void remove_store_entry(lk_store *store, lk_store_entry **at) {
	LK_ASSERT(*at != NULL && store->keys > 0 && store->bytes >= (*at)->key_size + (*at)->size);
	lk_store_entry *entry = *at;
	*at = entry->next;
	store->keys--;
	store->bytes -= entry->key_size + entry->size;
	free(entry->key);
	free(entry->value);
	free(entry);
}

static lk_store_entry *new_store_entry(lk_store *store, struct span key) {
	LK_ASSERT(store->keys < LK_STORE_MOST_KEYS);
	lk_store_entry *entry = calloc(1, sizeof *entry);
	if (!entry) return NULL;
	entry->key = malloc(key.size + 1);
	if (!entry->key) {
		free(entry);
		return NULL;
	}
	if (key.size) memcpy(entry->key, key.at, key.size);
	entry->key_size = key.size;
	store->keys++;
	store->bytes += key.size;
	lk_store_entry **place = find_key_place(store, key.at, key.size);
	*place = entry;
	return entry;
}

/* Set a key to a value, or append to it. NULL: no room. */
static lk_store_entry *put_store_value(lk_store *store, struct span key, struct span value,
                                       bool append) {
	LK_ASSERT(store->bytes <= LK_STORE_MOST_BYTES && store->keys <= LK_STORE_MOST_KEYS);
	lk_store_entry *entry = *find_key_place(store, key.at, key.size);
	size_t before = entry && append ? entry->size : 0;
	if (store->bytes + key.size + before + value.size > LK_STORE_MOST_BYTES ||
	    (!entry && store->keys >= LK_STORE_MOST_KEYS))
		return NULL;
	if (!entry && !(entry = new_store_entry(store, key))) return NULL;
	unsigned char *room = malloc(before + value.size + 1);
	if (!room) return NULL;
	if (before) memcpy(room, entry->value, before);
	if (value.size) memcpy(room + before, value.at, value.size);
	store->bytes += before + value.size - entry->size;
	free(entry->value);
	entry->value = room;
	entry->size = before + value.size;
	return entry;
}

/* The entry that the rank set under the same key with its own number for another rank's. */
static lk_store_entry *find_own_equivalent(lk_store *store, struct span key) {
	char own[NUMBER], *text = malloc(key.size + NUMBER);
	int digits = snprintf(own, sizeof own, "%d", store->rank);
	lk_store_entry *found = NULL;
	for (size_t i = 0, n; text && i < key.size && !found; i += n ? n : 1) {
		long number = 0;
		for (n = 0;
		     i + n < key.size && n < NUMBER - 1 && key.at[i + n] >= '0' && key.at[i + n] <= '9';
		     n++)
			number = number > store->world ? number : number * 10 + (key.at[i + n] - '0');
		if (!n || number >= store->world || number == store->rank) continue;
		memcpy(text, key.at, i);
		memcpy(text + i, own, (size_t)digits);
		memcpy(text + i + digits, key.at + i + n, key.size - i - n);
		found = *find_key_place(store, text, key.size - n + (size_t)digits);
	}
	free(text);
	return found;
}

/* The value of a key, whichever rank would have set it. */
static lk_store_entry *value_of_key(lk_store *store, struct span key) {
	lk_store_entry *entry = *find_key_place(store, key.at, key.size);
	if (!entry) entry = find_own_equivalent(store, key);
	if (entry) return entry;
	unsigned char id[MADE_UP_BYTES] = {0};
	uint64_t hash = lk_hash_bytes(LK_HASH_SEED, key.at, key.size);
	memcpy(id, &hash, sizeof hash);
	store->made_up++;
	return put_store_value(store, key, (struct span){id, sizeof id}, false);
}

/* Add for all ranks what this rank adds. False: the value is no number. */
static bool add_to_counter(lk_store *store, struct span key, int64_t by, int64_t *out) {
	lk_store_entry *entry = *find_key_place(store, key.at, key.size);
	char text[NUMBER] = "", *end = text;
	size_t size = entry && entry->size < sizeof text ? entry->size : 0;
	if (size) memcpy(text, entry->value, size);
	int64_t all;
	*out = strtoll(text, &end, 10);
	if (entry && (!size || *end)) return false;
	if (__builtin_mul_overflow(by, (int64_t)store->world, &all) ||
	    __builtin_add_overflow(*out, all, out))
		return false;
	int length = snprintf(text, sizeof text, "%lld", (long long)*out);
	return put_store_value(store, key, (struct span){(const unsigned char *)text, (size_t)length},
	                       false) != NULL;
}

/* ---- parsing and replying ---- */

static bool take_request_bytes(struct request *request, void *to, size_t size) {
	if (request->more || request->failed || request->left.size < size)
		return request->more = true, false;
	memcpy(to, request->left.at, size);
	request->left.at += size;
	request->left.size -= size;
	return true;
}

static uint64_t take_request_number(struct request *request) {
	uint64_t value = 0;
	take_request_bytes(request, &value, sizeof value);
	return value;
}

/* A length and that many bytes. */
static struct span take_request_text(struct request *request) {
	struct span out = {request->left.at, (size_t)take_request_number(request)};
	if (request->more || request->failed) return (struct span){NULL, 0};
	if (out.size > LK_STORE_MOST_REQUEST) {
		request->failed = true;
		return (struct span){NULL, 0};
	}
	if (out.size > request->left.size) {
		request->more = true;
		return (struct span){NULL, 0};
	}
	out.at = request->left.at;
	request->left.at += out.size;
	request->left.size -= out.size;
	return out;
}

static bool append_bytes(lk_bytes *to, const void *bytes, size_t size, size_t most) {
	LK_ASSERT(to->count <= most);
	if (to->count + size > most || !lk_reserve(to, size)) return false;
	if (size) memcpy(to->at + to->count, bytes, size);
	to->count += size;
	return true;
}

static void reply_bytes(struct request *request, const void *bytes, size_t size) {
	if (!append_bytes(&request->client->out, bytes, size, LK_STORE_MOST_BYTES))
		request->failed = true;
}
static void reply_byte(struct request *request, unsigned char byte) {
	reply_bytes(request, &byte, 1);
}
static void reply_number(struct request *request, int64_t value) {
	reply_bytes(request, &value, sizeof value);
}
static void reply_text(struct request *request, struct span value) {
	reply_number(request, (int64_t)value.size);
	reply_bytes(request, value.at, value.size);
}

static void reply_value_of(struct request *request, struct span key) {
	lk_store_entry *entry = value_of_key(request->store, key);
	if (!entry) request->failed = true;
	else reply_text(request, (struct span){entry->value, entry->size});
}

/* ---- requests ---- */

/* Several keys, for MULTI_SET with values: they take effect only when complete. */
static void answer_key_list(struct request *request, what kind) {
	uint64_t count = take_request_number(request);
	struct span begin = request->left;
	bool all = true;
	if (count > LK_STORE_MOST_KEYS) request->failed = true;
	for (int real = 0; real < 2 && !request->more && !request->failed; real++) {
		request->left = begin;
		for (uint64_t i = 0; i < count && !request->more && !request->failed; i++) {
			struct span key = take_request_text(request), value = kind == MULTI_SET
			                                                          ? take_request_text(request)
			                                                          : (struct span){NULL, 0};
			if (!real || request->more || request->failed) continue;
			if (kind == MULTI_SET)
				request->failed = !put_store_value(request->store, key, value, false);
			else if (kind == MULTI_GET) reply_value_of(request, key);
			else if (kind == CHECK)
				all = all && (*find_key_place(request->store, key.at, key.size) ||
				              find_own_equivalent(request->store, key));
		}
	}
	if (request->more || request->failed) return;
	if (kind == CHECK) reply_byte(request, all ? READY : NOT_READY);
	if (kind == WAIT) reply_byte(request, STOP_WAITING);
}

static void answer_compare_set(struct request *request, struct span key, struct span expected,
                               struct span wanted) {
	lk_store_entry *entry = *find_key_place(request->store, key.at, key.size);
	if (!entry && expected.size) {
		reply_text(request, expected); /* like PyTorch's store */
		return;
	}
	bool same = entry && entry->size == expected.size &&
	            memcmp(entry->value, expected.at, entry->size) == 0;
	if (!entry || same) entry = put_store_value(request->store, key, wanted, false);
	if (!entry) request->failed = true;
	else reply_text(request, (struct span){entry->value, entry->size});
}

static void answer_key_request(struct request *request, what kind) {
	struct span key = take_request_text(request), value = {NULL, 0}, other = {NULL, 0};
	int64_t by = 0;
	if (kind == SET || kind == APPEND || kind == COMPARE_SET) value = take_request_text(request);
	if (kind == COMPARE_SET) other = take_request_text(request);
	if (kind == ADD) by = (int64_t)take_request_number(request);
	if (request->more || request->failed) return;
	lk_store_entry **at = find_key_place(request->store, key.at, key.size);
	switch (kind) {
	case SET:
	case APPEND:
		request->failed = !put_store_value(request->store, key, value, kind == APPEND);
		break;
	case COMPARE_SET: answer_compare_set(request, key, value, other); break;
	case GET: reply_value_of(request, key); break;
	case ADD:
		request->failed = !add_to_counter(request->store, key, by, &by);
		reply_number(request, by);
		break;
	case DELETE:
		reply_number(request, *at ? 1 : 0);
		if (*at) remove_store_entry(request->store, at);
		break;
	default:
		reply_byte(request, CALLBACK_REGISTERED);
		break; /* WATCH: only the rank itself changes keys */
	}
}

static void answer_request(struct request *request, what kind) {
	uint32_t word = 0;
	switch (kind) {
	case VALIDATE:
		if (take_request_bytes(request, &word, sizeof word) && word != FORM_MAGIC)
			request->failed = true;
		break;
	case PING:
		if (take_request_bytes(request, &word, sizeof word))
			reply_bytes(request, &word, sizeof word);
		break;
	case COUNT_KEYS: reply_number(request, (int64_t)request->store->keys); break;
	case CANCEL_WAIT: reply_byte(request, WAIT_CANCELED); break;
	case CHECK:
	case WAIT:
	case MULTI_GET:
	case MULTI_SET: answer_key_list(request, kind); break;
	default: answer_key_request(request, kind); break;
	}
}

/* Determine the form from the first request: in the second it is a zero and the magic number, which
 * in the first would be the length of a key of a gigabyte. False: not enough bytes yet. */
static bool find_protocol_form(lk_store_client *client) {
	uint32_t magic = 0;
	if (client->form) return true;
	if (!client->in.count) return false;
	if (client->in.at[0] == 0 && client->in.count < 1 + sizeof magic) return false;
	if (client->in.at[0] == 0) memcpy(&magic, client->in.at + 1, sizeof magic);
	return client->form = magic == FORM_MAGIC ? 2 : 1, true;
}

static what request_kind_of(const lk_store_client *client, unsigned char number) {
	if (client->form == 1)
		return number < sizeof first_form / sizeof *first_form ? first_form[number] : UNKNOWN;
	return number < sizeof second_form / sizeof *second_form ? second_form[number] : UNKNOWN;
}

static bool reject_client(lk_store_client *client, const char *why) {
	client->wrong = why;
	return false;
}

bool lk_store_take(lk_store *store, lk_store_client *client, const unsigned char *bytes,
                   size_t size) {
	if (client->wrong) return false;
	if (!append_bytes(&client->in, bytes, size, 2 * (size_t)LK_STORE_MOST_REQUEST))
		return reject_client(client, "sent a request that is too large");
	size_t done = 0;
	while (done < client->in.count && find_protocol_form(client)) {
		struct request r = {
			store, client, {client->in.at + done + 1, client->in.count - done - 1}, false, false};
		what kind = request_kind_of(client, client->in.at[done]);
		if (kind == UNKNOWN)
			return reject_client(client, "sent a request that this store does not know");
		size_t said = client->out.count;
		answer_request(&r, kind);
		if (r.failed)
			return reject_client(client, "sent an impossible request: too large, or an addition to "
			                             "a value that is not a number");
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
	LK_ASSERT(rank >= 0 && rank < world);
	memset(store, 0, sizeof *store);
	store->rank = rank;
	store->world = world;
}

void lk_store_end(lk_store *store) {
	for (size_t i = 0; i < LK_STORE_PLACES; i++)
		while (store->at[i]) remove_store_entry(store, &store->at[i]);
	LK_ASSERT(store->keys == 0 && store->bytes == 0);
}

void lk_store_client_end(lk_store_client *client) {
	lk_vec_free(&client->in);
	lk_vec_free(&client->out);
}
