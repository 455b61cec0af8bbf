/* test_store.c: the store that stands for absent ranks: both forms of the protocol, however
 * requests are cut; what absent ranks would have said; what is refused; connections. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/rendezvous.h"
#include "scratch.h"

struct asked {
	lk_store store;
	lk_store_client client;
};

static struct asked *begin(int rank, int world) {
	struct asked *asked = calloc(1, sizeof *asked);
	assert_non_null(asked);
	lk_store_begin(&asked->store, rank, world);
	return asked;
}

static void end(struct asked *asked) {
	lk_store_client_end(&asked->client);
	lk_store_end(&asked->store);
	free(asked);
}

/* ---- requests ---- */

struct message {
	unsigned char at[4096];
	size_t size;
};

static void put(struct message *message, const void *bytes, size_t size) {
	memcpy(message->at + message->size, bytes, size);
	message->size += size;
}
static void put_number(struct message *message, uint64_t value) {
	put(message, &value, sizeof value);
}
static void put_text(struct message *message, const char *text) {
	put_number(message, strlen(text));
	put(message, text, strlen(text));
}
static struct message request(unsigned char number) {
	struct message m = {.size = 1};
	m.at[0] = number;
	return m;
}
static struct message with_key(unsigned char number, const char *key) {
	struct message m = request(number);
	put_text(&m, key);
	return m;
}

static const unsigned char magic[] = {0, 0xCE, 0xF7, 0x85, 0x3C};

/* Sends it byte by byte; the answer must be these bytes. */
static void answers(struct asked *asked, const struct message *message, const void *expected,
                    size_t size) {
	for (size_t i = 0; i < message->size; i++)
		assert_true(lk_store_take(&asked->store, &asked->client, &message->at[i], 1));
	assert_int_equal(asked->client.in.count, 0);
	assert_int_equal(asked->client.out.count, size);
	if (size) assert_memory_equal(asked->client.out.at, expected, size);
	asked->client.out.count = 0;
}
static void answers_number(struct asked *asked, const struct message *message, int64_t expected) {
	answers(asked, message, &expected, sizeof expected);
}
static void answers_byte(struct asked *asked, const struct message *message,
                         unsigned char expected) {
	answers(asked, message, &expected, 1);
}
static void answers_text(struct asked *asked, const struct message *message, const char *expected) {
	struct message answer = {.size = 0};
	put_text(&answer, expected);
	answers(asked, message, answer.at, answer.size);
}

static void set(struct asked *asked, unsigned char number, const char *key, const char *value) {
	struct message m = with_key(number, key);
	put_text(&m, value);
	answers(asked, &m, "", 0);
}
static void adds(struct asked *asked, unsigned char number, const char *key, int64_t by,
                 int64_t expected) {
	struct message m = with_key(number, key);
	put_number(&m, (uint64_t)by);
	answers_number(asked, &m, expected);
}
static struct message keys(unsigned char number, const char *one, const char *other) {
	struct message m = request(number);
	put_number(&m, other ? 2 : 1);
	put_text(&m, one);
	if (other) put_text(&m, other);
	return m;
}

/* ---- both forms ---- */

enum { SET1, COMPARE1, GET1, ADD1, CHECK1, WAIT1, COUNT1, WATCH1, DELETE1 };

static void test_first_form(void **state) {
	(void)state;
	struct asked *asked = begin(5, 1024);
	struct message m;
	set(asked, SET1, "/a", "value");
	answers_text(asked, (m = with_key(GET1, "/a"), &m), "value");
	adds(asked, ADD1, "init/", 1, 1024); /* all ranks come */
	adds(asked, ADD1, "init/", 0, 1024);
	adds(asked, ADD1, "init/", -1, 0);
	answers_byte(asked, (m = keys(CHECK1, "/a", NULL), &m), 0);
	answers_byte(asked, (m = keys(CHECK1, "/a", "/b"), &m), 1);
	answers_byte(asked, (m = keys(WAIT1, "/b", "/c"), &m), 0); /* at once */
	answers_number(asked, (m = request(COUNT1), &m), 2);
	answers_byte(asked, (m = with_key(WATCH1, "/a"), &m), 3);
	m = with_key(COMPARE1, "/a");
	put_text(&m, "value");
	put_text(&m, "new");
	answers_text(asked, &m, "new");
	answers_text(asked, &m, "new"); /* it is another one now */
	m = with_key(COMPARE1, "/none");
	put_text(&m, "value");
	put_text(&m, "new");
	answers_text(asked, &m, "value");
	answers_number(asked, (m = with_key(DELETE1, "/a"), &m), 1);
	answers_number(asked, (m = with_key(DELETE1, "/a"), &m), 0);
	assert_int_equal(asked->client.form, 1);
	end(asked);
}

enum {
	VALIDATE2,
	SET2,
	COMPARE2,
	GET2,
	ADD2,
	CHECK2,
	WAIT2,
	COUNT2,
	DELETE2,
	APPEND2,
	MULTI_GET2,
	MULTI_SET2,
	CANCEL2,
	PING2
};

static void test_second_form(void **state) {
	(void)state;
	struct asked *asked = begin(0, 8);
	struct message m = {.size = 0}, answer = {.size = 0};
	put(&m, magic, sizeof magic);
	answers(asked, &m, "", 0);
	assert_int_equal(asked->client.form, 2);
	m = request(PING2);
	put(&m, "\1\2\3\4", 4);
	answers(asked, &m, "\1\2\3\4", 4);
	adds(asked, ADD2, "init/", 1, 8);
	set(asked, SET2, "x", "one");
	set(asked, APPEND2, "x", " more");
	m = request(MULTI_SET2);
	put_number(&m, 2);
	put_text(&m, "y");
	put_text(&m, "1");
	put_text(&m, "z");
	put_text(&m, "2");
	answers(asked, &m, "", 0);
	m = keys(MULTI_GET2, "x", "z");
	put_text(&answer, "one more");
	put_text(&answer, "2");
	answers(asked, &m, answer.at, answer.size);
	answers_byte(asked, (m = keys(WAIT2, "nobody's", NULL), &m), 0);
	answers_byte(asked, (m = request(CANCEL2), &m), 1);
	answers_number(asked, (m = request(COUNT2), &m), 4);
	answers_number(asked, (m = with_key(DELETE2, "y"), &m), 1);
	answers_byte(asked, (m = keys(CHECK2, "y", NULL), &m), 1);
	m = with_key(COMPARE2, "fresh");
	put_text(&m, "");
	put_text(&m, "new");
	answers_text(asked, &m, "new");
	end(asked);
}

/* ---- absent ranks ---- */

/* What others would say is what the rank says of itself; what nobody says is an identifier, another
 * for each key. */
static void test_absent(void **state) {
	(void)state;
	struct asked *asked = begin(3, 16);
	struct message m, one;
	set(asked, SET1, "group/rank_3/address", "mine");
	answers_text(asked, (m = with_key(GET1, "group/rank_12/address"), &m), "mine");
	answers_byte(asked, (m = keys(CHECK1, "group/rank_12/address", NULL), &m), 0);
	answers_byte(asked, (m = keys(CHECK1, "group/rank_16/address", NULL), &m),
	             1); /* no such rank */
	assert_int_equal(asked->store.made_up, 0);
	m = with_key(GET1, "default_pg/0//0");
	assert_true(lk_store_take(&asked->store, &asked->client, m.at, m.size));
	assert_int_equal(asked->client.out.count, 8 + 128);
	memcpy(one.at, asked->client.out.at, 8 + 128);
	asked->client.out.count = 0;
	answers(asked, &m, one.at, 8 + 128); /* the same again */
	m = with_key(GET1, "default_pg/0//1");
	assert_true(lk_store_take(&asked->store, &asked->client, m.at, m.size));
	assert_memory_not_equal(asked->client.out.at, one.at, 8 + 128);
	assert_int_equal(asked->store.made_up, 2);
	end(asked);
}

/* ---- what cannot be ---- */

static void refused(const struct message *message, const char *why) {
	struct asked *asked = begin(0, 65536);
	assert_false(lk_store_take(&asked->store, &asked->client, message->at, message->size));
	if (!strstr(asked->client.wrong, why))
		fail_msg("said \"%s\", not \"%s\"", asked->client.wrong, why);
	assert_false(lk_store_take(&asked->store, &asked->client, message->at, message->size));
	end(asked);
}

static void test_refused(void **state) {
	(void)state;
	struct message m;
	refused((m = request(77), &m), "does not know");
	m = request(GET1);
	put_number(&m, UINT64_MAX);
	refused(&m, "impossible");
	m = request(WAIT1);
	put_number(&m, UINT64_C(1) << 60);
	refused(&m, "impossible");
	m = with_key(SET1, "a");
	put_text(&m, "no number");
	struct message more = with_key(ADD1, "a");
	put_number(&more, 1);
	put(&m, more.at, more.size);
	refused(&m, "impossible");
	m = with_key(ADD1, "a");
	put_number(&m, UINT64_C(1) << 62);
	refused(&m, "impossible"); /* times all ranks */
	m = (struct message){.size = 0};
	put(&m, magic, sizeof magic);
	put(&m, "\x0e", 1);
	refused(&m, "does not know");
}

/* What is kept has an end. */
static void test_bounded(void **state) {
	(void)state;
	struct asked *asked = begin(0, 2);
	static unsigned char megabytes[4 << 20];
	bool good = true;
	for (int i = 0; good && i < 100; i++) {
		char key[16];
		snprintf(key, sizeof key, "%d", i);
		struct message m = with_key(SET1, key);
		put_number(&m, sizeof megabytes);
		good = lk_store_take(&asked->store, &asked->client, m.at, m.size);
		for (size_t at = 0; good && at < sizeof megabytes; at += 1 << 16)
			good = lk_store_take(&asked->store, &asked->client, megabytes + at, 1 << 16);
		assert_true(asked->store.bytes <= LK_STORE_MOST_BYTES);
	}
	assert_false(good);
	end(asked);
}

/* Bytes of no meaning leave no harm. */
static void test_any_bytes(void **state) {
	(void)state;
	uint64_t seed = 1;
	for (int i = 0; i < 2000; i++) {
		struct asked *asked = begin(i % 4, 4);
		bool good =
			i % 2 ? lk_store_take(&asked->store, &asked->client, magic, sizeof magic) : true;
		for (int k = 0; good && k < 200; k++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			unsigned char byte = (unsigned char)(seed >> 60 ? seed >> 59 & 3 : seed >> 40);
			good = lk_store_take(&asked->store, &asked->client, &byte, 1);
			assert_true(asked->client.in.count <= 200 && asked->store.bytes < 1 << 20);
		}
		end(asked);
	}
}

/* ---- connections ---- */

static int connect_to(int port) {
	struct sockaddr_in at = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)port),
	                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
	return fd;
}

static void test_served(void **state) {
	(void)state;
	lk_store_server *server = NULL;
	lk_store_served served;
	lk_error err = {0};
	assert_int_equal(lk_store_serve(1, 64, 0, &server, &err), LK_OK);
	int good = connect_to(lk_store_port(server)), bad = connect_to(lk_store_port(server)),
		silent = connect_to(lk_store_port(server));
	unsigned char byte;
	assert_int_equal(send(bad, "\xff\xff", 2, 0), 2);
	assert_true(recv(bad, &byte, 1, 0) <= 0); /* closed */
	struct message m = with_key(ADD1, "init/");
	put_number(&m, 1);
	for (int i = 1; i <= 3; i++) {
		int64_t value = 0;
		assert_int_equal(send(good, m.at, m.size, 0), (ssize_t)m.size);
		assert_int_equal(recv(good, &value, sizeof value, MSG_WAITALL), sizeof value);
		assert_int_equal(value, 64 * i);
	}
	lk_store_server *second = NULL;
	assert_int_not_equal(lk_store_serve(1, 64, lk_store_port(server), &second, &err), LK_OK);
	assert_non_null(strstr(err.what, "cannot bind"));
	close(good);
	close(bad);
	close(silent);
	lk_store_stop(server, &served);
	assert_int_equal(served.connections, 3);
	assert_int_equal(served.requests, 3);
	assert_non_null(strstr(served.wrong, "does not know"));
	lk_store_stop(NULL, NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_form), cmocka_unit_test(test_second_form),
		cmocka_unit_test(test_absent),     cmocka_unit_test(test_refused),
		cmocka_unit_test(test_bounded),    cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_served)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
