/* The header against real servers, whose ports stand in SCRUBJAY_PORTS, divided by commas. */
#include "scrubjay.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check(int holds, const char *what)
{
    if (holds) {
        passed++;
    } else {
        failed++;
        fprintf(stderr, "does not hold: %s\n", what);
    }
}
#define CHECK(condition) check((condition), #condition)

static sj_request request(uint32_t op, const char *key)
{
    sj_request request;
    memset(&request, 0, sizeof request);
    request.op = op;
    request.key = key;
    request.key_len = strlen(key);
    return request;
}

static sj_request store(uint32_t op, const char *key, const char *value)
{
    sj_request made = request(op, key);
    made.value = value;
    made.value_len = strlen(value);
    return made;
}

/* The status; the result is freed. */
static int status(const sj_client *client, sj_request asked)
{
    sj_result result;
    int status = sj_call(client, &asked, NULL, &result);
    if (status >= SJ_ERR) {
        fprintf(stderr, "status %d: %.*s\n", status, (int)result.len, (const char *)result.data);
    }
    sj_result_free(&result);
    return status;
}

static int holds(const sj_client *client, const char *key, const char *value)
{
    sj_result result;
    sj_request get = request(SJ_GET, key);
    int same = sj_call(client, &get, NULL, &result) == SJ_OK && result.len == strlen(value) &&
               memcmp(result.data, value, result.len) == 0;
    sj_result_free(&result);
    return same;
}

static sj_client *connected(const char *ports)
{
    sj_config *config = sj_config_new();
    sj_result result;
    for (const char *port = ports; port != NULL; port = strchr(port, ',')) {
        port += *port == ',';
        CHECK(sj_config_add(config, "127.0.0.1", (uint16_t)atoi(port), 1, &result) == SJ_OK);
        sj_result_free(&result);
    }
    CHECK(sj_config_set(config, "timeout_ms", "5000", &result) == SJ_OK);
    sj_result_free(&result);
    CHECK(sj_config_set(config, "tiemout", "5", &result) == SJ_ERR_ARGUMENT);
    CHECK(result.len > 0);
    sj_result_free(&result);
    sj_client *client = sj_client_new(config, &result);
    CHECK(client != NULL && result.status == SJ_OK);
    sj_result_free(&result);
    sj_config_free(config);
    return client;
}

static void single_calls(const sj_client *client)
{
    CHECK(status(client, request(SJ_GET, "c:none")) == SJ_MISS);
    CHECK(status(client, store(SJ_SET, "c:a", "one")) == SJ_OK);
    CHECK(holds(client, "c:a", "one"));
    CHECK(status(client, store(SJ_ADD, "c:a", "two")) == SJ_NOT_STORED);
    CHECK(status(client, store(SJ_REPLACE, "c:a", "two")) == SJ_OK);
    CHECK(status(client, store(SJ_APPEND, "c:a", "!")) == SJ_OK);
    CHECK(status(client, store(SJ_PREPEND, "c:a", "?")) == SJ_OK);
    CHECK(holds(client, "c:a", "?two!"));
    CHECK(status(client, request(SJ_TOUCH, "c:a")) == SJ_OK);
    CHECK(status(client, request(SJ_TOUCH, "c:none")) == SJ_NOT_FOUND);
    CHECK(status(client, request(SJ_DELETE, "c:a")) == SJ_OK);
    CHECK(status(client, request(SJ_DELETE, "c:a")) == SJ_NOT_FOUND);
    CHECK(status(client, request(SJ_GET, "")) == SJ_ERR_KEY);
    CHECK(status(client, request(99, "c:a")) == SJ_ERR_ARGUMENT);
}

static void cas(const sj_client *client)
{
    sj_result result;
    sj_request get = request(SJ_GET, "c:cas"), set = store(SJ_SET, "c:cas", "1");
    set.flags = 77;
    CHECK(status(client, set) == SJ_OK);
    get.with_cas = 1;
    CHECK(sj_call(client, &get, NULL, &result) == SJ_OK);
    CHECK(result.cas != 0 && result.flags == 77);
    set.cas = result.cas;
    sj_result_free(&result);
    CHECK(status(client, set) == SJ_OK);
    CHECK(status(client, set) == SJ_EXISTS);
    set.key = "c:not", set.key_len = 5;
    CHECK(status(client, set) == SJ_NOT_FOUND);
}

static uint64_t counted(const sj_client *client, sj_request asked, int expected)
{
    sj_result result;
    CHECK(sj_call(client, &asked, NULL, &result) == expected);
    uint64_t number = result.number;
    sj_result_free(&result);
    return number;
}

static void counters(const sj_client *client)
{
    sj_request incr = request(SJ_INCR, "c:n"), decr = request(SJ_DECR, "c:n");
    incr.delta = 5;
    decr.delta = 2;
    status(client, request(SJ_DELETE, "c:n"));
    counted(client, incr, SJ_NOT_FOUND);
    incr.with_initial = 1;
    incr.initial = 10;
    CHECK(counted(client, incr, SJ_OK) == 10);
    CHECK(counted(client, incr, SJ_OK) == 15);
    CHECK(counted(client, decr, SJ_OK) == 13);
}

enum { MANY = 500 };

static void batches(const sj_client *client, int routed)
{
    static char keys[MANY][16];
    static sj_request requests[MANY];
    static sj_result results[MANY];
    int good = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "c:many:%d", i);
        requests[i] = store(SJ_SET, keys[i], keys[i]);
        requests[i].route = routed ? keys[MANY - 1 - i] : NULL;
        requests[i].route_len = routed ? strlen(keys[MANY - 1 - i]) : 0;
    }
    CHECK(sj_call_all(client, requests, MANY, NULL, results) == SJ_OK);
    for (int i = 0; i < MANY; i++) {
        good += results[i].status == SJ_OK;
        sj_result_free(&results[i]);
        requests[i].op = SJ_GET;
    }
    CHECK(good == MANY);
    CHECK(sj_call_all(client, requests, MANY, NULL, results) == SJ_OK);
    good = 0;
    for (int i = 0; i < MANY; i++) {
        good += results[i].status == SJ_OK && results[i].len == strlen(keys[i]) &&
                memcmp(results[i].data, keys[i], results[i].len) == 0;
        sj_result_free(&results[i]);
    }
    CHECK(good == MANY);
    CHECK(sj_call_all(client, NULL, 1, NULL, results) == SJ_ERR_ARGUMENT);
}

static void count_stat(void *context, const char *name, size_t name_len, const char *value, size_t value_len)
{
    (void)value;
    *(int *)context += name_len == 3 && memcmp(name, "pid", 3) == 0 && value_len > 0;
}

static void count_key(void *context, const char *key, size_t key_len)
{
    *(int *)context += key_len > 7 && memcmp(key, "c:many:", 7) == 0;
}

static void servers(const sj_client *client)
{
    uint32_t count = sj_client_servers(client);
    int keys = 0;
    CHECK(count >= 2);
    CHECK(sj_client_place(client, "c:a", 3) < count);
    for (uint32_t server = 0; server < count; server++) {
        sj_result result;
        sj_options there = {0, server + 1};
        sj_request version = request(SJ_VERSION, ""), flush = request(SJ_FLUSH, "");
        int pids = 0;
        CHECK(sj_call(client, &version, &there, &result) == SJ_OK && result.len > 0);
        sj_result_free(&result);
        CHECK(sj_stats(client, server, NULL, count_stat, &pids, &result) == SJ_OK && pids == 1);
        sj_result_free(&result);
        CHECK(sj_keys(client, server, count_key, &keys, &result) == SJ_OK);
        sj_result_free(&result);
        CHECK(sj_call(client, &flush, &there, &result) == SJ_OK);
        sj_result_free(&result);
    }
    CHECK(keys >= MANY);
    CHECK(status(client, request(SJ_GET, "c:many:1")) == SJ_MISS);
}

static void packing(void)
{
    static char raw[5000];
    sj_packing how = {"php-memcached", SJ_CODEC_ZLIB, SJ_BY_THRESHOLD, 2000, 0.2};
    sj_result packed, unpacked;
    memset(raw, 'x', sizeof raw);
    CHECK(sj_pack(&how, 4, raw, 1999, &packed) == SJ_AS_IS);
    CHECK(sj_pack(&how, 4, raw, sizeof raw, &packed) == SJ_OK);
    CHECK(packed.flags == 0x34 && packed.len < 100);
    CHECK(sj_unpack("php-memcached", packed.flags, packed.data, packed.len, 1 << 20, &unpacked) == SJ_OK);
    CHECK(unpacked.len == sizeof raw && memcmp(unpacked.data, raw, sizeof raw) == 0);
    sj_result_free(&unpacked);
    CHECK(sj_unpack("php-memcached", packed.flags, packed.data, packed.len, 4999, &unpacked) == SJ_ERR_VALUE);
    sj_result_free(&unpacked);
    sj_result_free(&packed);
    CHECK(sj_unpack("nobody", 0, raw, 1, 1, &unpacked) == SJ_ERR_ARGUMENT);
    sj_result_free(&unpacked);
}

static void streams(int32_t format)
{
    sj_writer *writer = sj_writer_new(format);
    sj_result written, result;
    sj_event event;
    sj_writer_map(writer, 2);
    sj_writer_text(writer, "a", 1);
    sj_writer_int(writer, -7);
    sj_writer_int(writer, 3);
    sj_writer_text(writer, "a", 1);
    CHECK(sj_writer_finish(writer, &written) == SJ_OK);
    sj_reader *reader = sj_reader_new(format, written.data, written.len, &result);
    CHECK(reader != NULL);
    CHECK(sj_reader_next(reader, &event) == SJ_EVENT_MAP && event.len == 2);
    CHECK(sj_reader_next(reader, &event) == SJ_EVENT_TEXT && event.len == 1 && *event.data == 'a');
    CHECK(sj_reader_next(reader, &event) == SJ_EVENT_INT && event.number == -7);
    CHECK(sj_reader_next(reader, &event) == SJ_EVENT_INT && event.number == 3);
    CHECK(sj_reader_next(reader, &event) == SJ_EVENT_TEXT && event.len == 1);
    CHECK(sj_reader_left(reader) == 0);
    CHECK(sj_reader_next(reader, &event) == SJ_EVENT_ERROR && event.len > 0);
    sj_reader_free(reader);
    sj_result_free(&written);
    sj_result_free(&result);
}

static void nulls(void)
{
    sj_result result;
    CHECK(sj_call(NULL, NULL, NULL, &result) == SJ_ERR_ARGUMENT);
    sj_result_free(&result);
    sj_result_free(&result);
    sj_result_free(NULL);
    CHECK(sj_call(NULL, NULL, NULL, NULL) == SJ_ERR_ARGUMENT);
    CHECK(sj_client_new(NULL, &result) == NULL);
    sj_result_free(&result);
    sj_config *none = sj_config_new();
    CHECK(sj_client_new(none, &result) == NULL && result.status == SJ_ERR_CONFIG);
    sj_result_free(&result);
    sj_config_free(none);
    sj_client_free(NULL);
    CHECK(sj_writer_new(9) == NULL);
    CHECK(sj_client_servers(NULL) == 0);
}

static void *other_thread(void *client)
{
    char key[16];
    long wrong = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "c:t:%p:%d", (void *)&wrong, i);
        key[15] = 0;
        sj_request set = store(SJ_SET, key, key);
        wrong += status(client, set) != SJ_OK || !holds(client, key, key);
    }
    return (void *)wrong;
}

static void threads(sj_client *client)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, other_thread, client) == 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(wrong == NULL);
    }
}

/* A server that speaks TLS, if there is one: options of the table are all it takes. */
static void encrypted(void)
{
    const char *port = getenv("SCRUBJAY_TLS_PORT"), *authority = getenv("SCRUBJAY_TLS_CA");
    if (port == NULL || authority == NULL) {
        fputs("NOT COVERED: TLS; SCRUBJAY_TLS_PORT and SCRUBJAY_TLS_CA name no server\n", stderr);
        return;
    }
    sj_config *config = sj_config_new();
    sj_result result;
    const char *options[][2] = {{"tls", "yes"}, {"tls_ca", authority}, {"tls_name", "localhost"}};
    CHECK(sj_config_add(config, "127.0.0.1", (uint16_t)atoi(port), 1, &result) == SJ_OK);
    sj_result_free(&result);
    for (int i = 0; i < 3; i++) {
        CHECK(sj_config_set(config, options[i][0], options[i][1], &result) == SJ_OK);
        sj_result_free(&result);
    }
    sj_client *client = sj_client_new(config, &result);
    CHECK(client != NULL && result.status == SJ_OK);
    sj_result_free(&result);
    single_calls(client);
    batches(client, 1);
    threads(client);
    sj_client_free(client);
    CHECK(sj_config_set(config, "tls_name", "elsewhere", &result) == SJ_OK);
    sj_result_free(&result);
    client = sj_client_new(config, &result);
    sj_result_free(&result);
    sj_request get = request(SJ_GET, "c:a");
    CHECK(sj_call(client, &get, NULL, &result) == SJ_ERR_CONNECT && result.len > 0);
    sj_result_free(&result);
    sj_client_free(client);
    sj_config_free(config);
}

/* Asks with a lease: status, lease and number of what was found. */
static sj_result leased(const sj_client *client, const char *key)
{
    sj_result result;
    sj_request get = request(SJ_GET, key);
    get.with_cas = 1;
    get.lease_ttl = 30;
    sj_call(client, &get, NULL, &result);
    return result;
}

static void leases(const sj_client *client)
{
    status(client, request(SJ_DELETE, "c:lease"));
    sj_result won = leased(client, "c:lease"), taken = leased(client, "c:lease");
    CHECK(won.status == SJ_OK && (won.lease & SJ_LEASE_WON) && won.len == 0);
    CHECK(taken.status == SJ_OK && !(taken.lease & SJ_LEASE_WON) && (taken.lease & SJ_LEASE_TAKEN));
    CHECK(status(client, request(SJ_GET, "c:lease")) == SJ_MISS);
    sj_request set = store(SJ_SET, "c:lease", "made");
    set.cas = won.cas;
    CHECK(status(client, set) == SJ_OK);
    CHECK(status(client, set) == SJ_EXISTS);
    CHECK(holds(client, "c:lease", "made"));
    sj_request invalidate = request(SJ_DELETE, "c:lease");
    invalidate.invalidate = 1;
    invalidate.exptime = 30;
    CHECK(status(client, invalidate) == SJ_OK);
    CHECK(status(client, request(SJ_GET, "c:lease")) == SJ_MISS);
    sj_result_free(&won);
    sj_result_free(&taken);
}

static void near_cache(const sj_client *plain, const char *ports)
{
    sj_near_counts_t counts;
    sj_config *config = sj_config_new();
    sj_result result;
    CHECK(sj_near_counts(plain, &counts) == SJ_MISS);
    CHECK(sj_near_counts(NULL, &counts) == SJ_ERR_ARGUMENT && sj_near_counts(plain, NULL) == SJ_ERR_ARGUMENT);
    sj_config_add(config, "127.0.0.1", (uint16_t)atoi(ports), 1, &result);
    sj_result_free(&result);
    CHECK(sj_config_set(config, "near_cache_mib", "8", &result) == SJ_OK);
    sj_result_free(&result);
    sj_client *near = sj_client_new(config, &result);
    CHECK(near != NULL);
    sj_result_free(&result);
    sj_config_free(config);
    CHECK(status(near, store(SJ_SET, "c:near", "one")) == SJ_OK);
    /* What is told of the write may remove the first copies. */
    for (int round = 0; round < 1000000 && sj_near_counts(near, &counts) == SJ_OK && counts.hits < 2; round++) {
        CHECK(holds(near, "c:near", "one"));
    }
    CHECK(counts.hits >= 2 && counts.copies >= 1);
    CHECK(status(near, store(SJ_SET, "c:near", "two")) == SJ_OK);
    CHECK(holds(near, "c:near", "two"));
    sj_client_free(near);
}

int main(void)
{
    const char *ports = getenv("SCRUBJAY_PORTS");
    if (ports == NULL) {
        fputs("SCRUBJAY_PORTS names no servers\n", stderr);
        return 2;
    }
    sj_client *client = connected(ports);
    single_calls(client);
    cas(client);
    counters(client);
    batches(client, 0);
    batches(client, 1);
    threads(client);
    servers(client);
    leases(client);
    near_cache(client, ports);
    sj_client_free(client);
    encrypted();
    packing();
    streams(SJ_MSGPACK);
    streams(SJ_PHP_MSGPACK);
    streams(SJ_IGBINARY);
    nulls();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
