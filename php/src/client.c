/* Pools: servers and settings, and the client made of them when it is first needed. */
#include "php_scrubjay.h"

/* libmemcached's names of hash functions to those of placement. */
static const char *const HASHES[] = {
    "one_at_a_time", "md5", "crc", "fnv1_64", "fnv1a_64", "fnv1_32", "fnv1a_32", "hsieh", "murmur", "jenkins", "murmur3",
};

/* Time-outs that libmemcached takes for "as long as it needs". */
#define FOREVER_MS 600000

sjx_pool *sjx_pool_new(bool persistent, bool drop_in)
{
    sjx_pool *pool = pecalloc(1, sizeof *pool, 1);
    pool->persistent = persistent;
    sjx_settings_init(&pool->settings, drop_in);
    return pool;
}

bool sjx_set_text(char **place, const char *text, size_t len)
{
    bool same = *place == NULL ? text == NULL : text != NULL && strlen(*place) == len && memcmp(*place, text, len) == 0;
    if (same) {
        return false;
    }
    if (*place != NULL) {
        pefree(*place, 1);
    }
    *place = text == NULL ? NULL : zend_strndup(text, len);
    return true;
}

void sjx_pool_changed(sjx_pool *pool)
{
    sj_client_free(pool->client);
    pool->client = NULL;
}

void sjx_pool_reset(sjx_pool *pool)
{
    sjx_pool_changed(pool);
    for (size_t at = 0; at < pool->server_count; at++) {
        pefree(pool->servers[at].host, 1);
    }
    if (pool->servers != NULL) {
        pefree(pool->servers, 1);
    }
    pool->servers = NULL;
    pool->server_count = 0;
}

/* Frees what it refers to. */
static void empty(sjx_pool *pool)
{
    sjx_pool_reset(pool);
    if (pool->buckets != NULL) {
        pefree(pool->buckets, 1);
    }
    sjx_settings_free(&pool->settings);
}

void sjx_pool_renew(sjx_pool *pool, bool drop_in)
{
    bool persistent = pool->persistent;
    empty(pool);
    memset(pool, 0, sizeof *pool);
    pool->persistent = persistent;
    sjx_settings_init(&pool->settings, drop_in);
}

void sjx_pool_free(sjx_pool *pool)
{
    empty(pool);
    pefree(pool, 1);
}

static bool is_there(const sjx_pool *pool, const char *host, zend_long port)
{
    for (size_t at = 0; at < pool->server_count; at++) {
        if (pool->servers[at].port == port && strcmp(pool->servers[at].host, host) == 0) {
            return true;
        }
    }
    return false;
}

/* As in libmemcached, the ring is made anew when a server joins it, and heeds weights from the first one above 1 on. */
static void make_ring(sjx_pool *pool, zend_long weight)
{
    sjx_settings *settings = &pool->settings;
    zend_long *behavior = settings->behavior;
    bool begins = weight > 1 && sjx_is_ring(settings) && behavior[SJX_OPT_LIBKETAMA_COMPATIBLE] == 0;
    if (begins || settings->points_hash != behavior[SJX_OPT_HASH]) {
        behavior[SJX_OPT_LIBKETAMA_COMPATIBLE] |= begins;
        settings->points_hash = behavior[SJX_OPT_HASH];
        sjx_pool_changed(pool);
    }
}

bool sjx_pool_add(sjx_pool *pool, const char *host, zend_long port, zend_long weight)
{
    if (*host == 0 || port < 0 || port > 65535 || weight < 0 || weight > UINT32_MAX ||
        pool->server_count >= SJX_SERVERS_MAX) {
        return false;
    }
    /* Programs with persistent objects add their servers again in every request. */
    if (is_there(pool, host, port)) {
        return true;
    }
    make_ring(pool, weight);
    pool->servers = perealloc(pool->servers, (pool->server_count + 1) * sizeof(sjx_server), 1);
    pool->servers[pool->server_count++] =
        (sjx_server){.host = pestrdup(host, 1), .port = (uint16_t)port, .weight = (uint32_t)weight};
    sjx_pool_changed(pool);
    return true;
}

/* An option by its name; false: result says why. */
static bool set(sj_config *config, const char *name, const char *text, sj_result *result)
{
    sj_result_free(result);
    return sj_config_set(config, name, text, result) == SJ_OK;
}

static bool set_number(sj_config *config, const char *name, zend_long number, sj_result *result)
{
    char text[32];
    snprintf(text, sizeof text, ZEND_LONG_FMT, number < 1 ? 1 : number);
    return set(config, name, text, result);
}

/* The name of the scheme that libmemcached's options stand for. */
static void scheme(const sjx_settings *settings, char *text, size_t room)
{
    zend_long hash = settings->behavior[SJX_OPT_HASH];
    const char *name = hash >= 0 && hash < (zend_long)(sizeof HASHES / sizeof *HASHES) ? HASHES[hash] : NULL;
    const char *of = "libmemcached-modula";
    if (settings->scheme != NULL) {
        snprintf(text, room, "%s", settings->scheme);
        return;
    }
    if (sjx_is_ring(settings) && settings->behavior[SJX_OPT_LIBKETAMA_COMPATIBLE] == 0) {
        snprintf(text, room, "libmemcached-consistent/%s/%s", HASHES[hash], HASHES[settings->points_hash]);
        return;
    }
    if (sjx_is_ring(settings)) {
        of = "ketama";
    } else if (settings->behavior[SJX_OPT_DISTRIBUTION] == SJX_DISTRIBUTION_BUCKETS) {
        of = "vbucket";
    }
    snprintf(text, room, name == NULL ? "%s" : "%s/%s", of, name);
}

/* The shorter of what libmemcached waits for a server and for its bytes. */
static zend_long timeout(const sjx_settings *settings)
{
    zend_long poll = settings->behavior[SJX_OPT_POLL_TIMEOUT];
    zend_long receive = settings->behavior[SJX_OPT_RECV_TIMEOUT] / 1000;
    zend_long wait = poll < 0 ? FOREVER_MS : poll;
    return receive > 0 && receive < wait ? receive : wait;
}

static bool near_cache(const sjx_settings *settings, sj_config *config, sj_result *result)
{
    bool told = settings->near_coherence == SJX_NEAR_CACHE_STREAM;
    return settings->near_mib == 0 ||
           (set_number(config, "near_cache_mib", settings->near_mib, result) &&
            set_number(config, "near_cache_ttl_ms", settings->near_ttl, result) &&
            set(config, "near_cache_coherence", told ? "stream" : "ttl", result));
}

static bool configure(const sjx_settings *settings, sj_config *config, sj_result *result)
{
    char text[128];
    const zend_long *behavior = settings->behavior;
    zend_long connect = behavior[SJX_OPT_CONNECT_TIMEOUT];
    bool ejects = behavior[SJX_OPT_AUTO_EJECT_HOSTS] != 0 || behavior[SJX_OPT_REMOVE_FAILED_SERVERS] != 0;
    scheme(settings, text, sizeof text);
    return set(config, "scheme", text, result) &&
           set_number(config, "connect_timeout_ms", connect < 1 ? FOREVER_MS : connect, result) &&
           set_number(config, "timeout_ms", timeout(settings), result) &&
           set_number(config, "failure_limit", behavior[SJX_OPT_SERVER_FAILURE_LIMIT], result) &&
           /* As in libmemcached, so that a server that is gone costs one of these time-outs. */
           set_number(config, "connect_failure_limit", 1, result) &&
           set_number(config, "retry_interval_ms", behavior[SJX_OPT_RETRY_TIMEOUT] * 1000, result) &&
           set(config, "value_len_max", SJX_VALUE_LEN_MAX, result) &&
           near_cache(settings, config, result) && (!ejects || set(config, "failover", "next:1", result)) &&
           (settings->login == NULL || set(config, "login", settings->login, result));
}

static bool configure_by_name(const sjx_settings *settings, sj_config *config, sj_result *result)
{
    for (size_t at = 0; at < settings->named_count; at++) {
        if (!set(config, settings->named[at].name, settings->named[at].text, result)) {
            return false;
        }
    }
    return true;
}

/* Without a map, libmemcached masks the hash by one less than there are servers: as this map does, of a power of two of buckets. */
static bool add_buckets(const sjx_pool *pool, sj_config *config, sj_result *result)
{
    uint32_t masked[2 * SJX_SERVERS_MAX], count = 1;
    sj_result_free(result);
    if (pool->bucket_count > 0) {
        return sj_config_buckets(config, pool->buckets, pool->bucket_count, result) == SJ_OK;
    }
    while (count < pool->server_count) {
        count *= 2;
    }
    for (uint32_t at = 0; at < count; at++) {
        masked[at] = at & ((uint32_t)pool->server_count - 1);
    }
    return sj_config_buckets(config, masked, count, result) == SJ_OK;
}

static bool add_servers(const sjx_pool *pool, sj_config *config, sj_result *result)
{
    const sjx_settings *settings = &pool->settings;
    /* libmemcached-consistent goes by weights wherever there are some. */
    bool even = settings->scheme == NULL && sjx_is_ring(settings) && settings->behavior[SJX_OPT_LIBKETAMA_COMPATIBLE] == 0;
    for (size_t at = 0; at < pool->server_count; at++) {
        const sjx_server *server = &pool->servers[at];
        sj_result_free(result);
        if (sj_config_add(config, server->host, server->port, even ? 1 : MAX(server->weight, 1), result) != SJ_OK) {
            return false;
        }
    }
    /* A scheme that was named has the map that was given, and no other. */
    bool mapped = settings->behavior[SJX_OPT_DISTRIBUTION] == SJX_DISTRIBUTION_BUCKETS &&
                  (settings->scheme == NULL || pool->bucket_count > 0);
    return !mapped || add_buckets(pool, config, result);
}

sj_client *sjx_pool_client(sjx_pool *pool, sj_result *error)
{
    memset(error, 0, sizeof *error);
    if (pool->client == NULL) {
        sj_config *config = sj_config_new();
        if (configure(&pool->settings, config, error) && configure_by_name(&pool->settings, config, error) &&
            add_servers(pool, config, error)) {
            sj_result_free(error);
            pool->client = sj_client_new(config, error);
        }
        sj_config_free(config);
    }
    return pool->client;
}

sj_client *sjx_client(sjx_object *object)
{
    sj_result error;
    if (EXPECTED(object->pool->client != NULL)) {
        return object->pool->client;
    }
    if (object->pool->server_count == 0) {
        sjx_set_code(object, SJX_RES_NO_SERVERS);
        return NULL;
    }
    sj_client *client = sjx_pool_client(object->pool, &error);
    if (client == NULL) {
        sjx_note(object, &error);
        php_error_docref(NULL, E_WARNING, "%s", object->error);
    }
    sj_result_free(&error);
    return client;
}
