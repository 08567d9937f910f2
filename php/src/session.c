/* Sessions: keys, values and locks as php-memcached's handler has them, so that both can serve the same users.
 *
 * A session is locked from its reading to its end by a key that is added. The lock's value is the holder's own: a lock that ran
 * out and was taken by another request is left to it. */
#include "php_scrubjay.h"
#include "ext/session/php_session.h"
#include "ext/standard/php_string.h"
#include "ext/standard/php_random.h"

/* Bytes of a lock's value, and twice as many letters. */
#define TOKEN_LEN 16
/* How long a lock lasts if neither php.ini nor the limit of execution says. */
#define LOCK_SECS 60
/* From here on memcached takes a time for a date. */
#define RELATIVE_SECS_MAX (30 * 24 * 60 * 60)

typedef struct {
    sjx_pool *pool;
    zend_string *locked;  /* the session whose lock we hold */
    char token[2 * TOKEN_LEN + 1];
} sjx_session;

#define SETTINGS() (&SJX_G(session))

/* ---- Requests ---- */

typedef struct {
    char key[SJX_KEY_LEN_MAX];
    size_t len;
    size_t prefix_len;
} session_key;

/* The key of a session or, with "lock.", of its lock. False: too long. */
static bool make_key(const char *lock, const zend_string *id, session_key *key)
{
    int len = snprintf(key->key, sizeof key->key, "%s%s%s", SETTINGS()->prefix, lock, ZSTR_VAL(id));
    key->len = (size_t)len;
    key->prefix_len = strlen(SETTINGS()->prefix);
    return len > 0 && (size_t)len < sizeof key->key && ZSTR_LEN(id) > 0;
}

/* Asks; the result is the caller's to free. Servers that fail are told of in a warning. */
static int ask(sjx_session *session, sj_request *request, const session_key *key, sj_result *result)
{
    sj_client *client = sjx_pool_client(session->pool, result);
    if (client == NULL) {
        php_error_docref(NULL, E_WARNING, "sessions: %.*s", (int)MIN(result->len, 500), (const char *)result->data);
        return result->status;
    }
    request->key = key->key;
    request->key_len = key->len;
    request->route = key->key + key->prefix_len;
    request->route_len = key->len - key->prefix_len;
    sj_call(client, request, NULL, result);
    if (result->status >= SJ_ERR && result->status != SJ_ERR_REFUSED) {
        php_error_docref(NULL, E_WARNING, "sessions: %.*s", (int)MIN(result->len, 500), (const char *)result->data);
    }
    return result->status;
}

static int ask_shortly(sjx_session *session, sj_request *request, const session_key *key)
{
    sj_result result;
    int status = ask(session, request, key, &result);
    sj_result_free(&result);
    return status;
}

static int64_t exptime(zend_long secs)
{
    return secs > RELATIVE_SECS_MAX ? (int64_t)time(NULL) + secs : MAX(secs, 0);
}

/* ---- Locks ---- */

static bool make_token(sjx_session *session)
{
    unsigned char bytes[TOKEN_LEN];
    if (php_random_bytes_silent(bytes, sizeof bytes) == FAILURE) {
        return false;
    }
    for (size_t at = 0; at < TOKEN_LEN; at++) {
        snprintf(session->token + 2 * at, 3, "%02x", bytes[at]);
    }
    return true;
}

static zend_long lock_secs(void)
{
    zend_long limit = zend_ini_long(ZEND_STRL("max_execution_time"), 0);
    return SETTINGS()->lock_expire > 0 ? SETTINGS()->lock_expire : limit > 0 ? limit : LOCK_SECS;
}

/* Tries as often as php.ini says, with pauses that double up to their limit. */
static bool lock(sjx_session *session, const zend_string *id)
{
    session_key key;
    zend_long pause = SETTINGS()->lock_wait_min, again = SETTINGS()->lock_retries;
    if (!make_key("lock.", id, &key) || !make_token(session)) {
        return false;
    }
    for (;;) {
        sj_request add = {.op = SJ_ADD, .value = session->token, .value_len = 2 * TOKEN_LEN, .exptime = exptime(lock_secs())};
        int status = ask_shortly(session, &add, &key);
        if (status == SJ_OK) {
            session->locked = zend_string_copy((zend_string *)id);
            return true;
        }
        if (status != SJ_NOT_STORED || again-- <= 0) {
            break;
        }
        usleep((useconds_t)MIN(pause, 60000) * 1000);
        pause = MIN(MAX(pause, 1) * 2, MAX(SETTINGS()->lock_wait_max, SETTINGS()->lock_wait_min));
    }
    php_error_docref(NULL, E_WARNING, "sessions: no lock of session %s after " ZEND_LONG_FMT " attempts; raise "
                     "scrubjay.sess_lock_retries or scrubjay.sess_lock_wait_max, or end sessions earlier",
                     ZSTR_VAL(id), SETTINGS()->lock_retries + 1);
    return false;
}

static void unlock(sjx_session *session)
{
    session_key key;
    sj_result result;
    sj_request get = {.op = SJ_GET, .with_cas = 1}, delete = {.op = SJ_DELETE};
    if (session->locked == NULL) {
        return;
    }
    make_key("lock.", session->locked, &key);
    bool ours = ask(session, &get, &key, &result) == SJ_OK && result.len == 2 * TOKEN_LEN &&
                memcmp(result.data, session->token, result.len) == 0;
    delete.cas = result.cas;
    sj_result_free(&result);
    if (ours && ask_shortly(session, &delete, &key) == SJ_ERR_REFUSED) {
        /* A server without the meta protocol deletes whatever is there. */
        delete.cas = 0;
        ask_shortly(session, &delete, &key);
    }
    zend_string_release(session->locked);
    session->locked = NULL;
}

/* ---- Opening ---- */

/* `host`, `host:port`, `host:port:weight`, `[address]:port`, or the path of a socket with `:0` or without. */
static bool add_server(sjx_pool *pool, char *text)
{
    char *host = text, *rest = strchr(text, ':');
    zend_long port = SJX_PORT, weight = 0;
    if (*text == '[') {
        host = text + 1;
        rest = strchr(host, ']');
        if (rest == NULL) {
            return false;
        }
        *rest++ = 0;
    }
    if (rest != NULL && *rest == ':') {
        *rest++ = 0;
        port = ZEND_STRTOL(rest, &rest, 10);
        if (*rest == ':') {
            weight = ZEND_STRTOL(rest + 1, &rest, 10);
        }
    }
    /* A path has none here, unlike in addServer: so it is in libmemcached, and by it a socket has its place on a ring. */
    return (rest == NULL || *rest == 0) && sjx_pool_add(pool, host, *host == '/' ? 0 : port, weight);
}

static bool add_servers(sjx_pool *pool, const char *path)
{
    char *copy = estrdup(path), *rest = NULL;
    bool good = true;
    for (char *word = php_strtok_r(copy, ", \t", &rest); word != NULL && good; word = php_strtok_r(NULL, ", \t", &rest)) {
        /* php-memcached's option of old; sess_persistent says it now. */
        good = strncmp(word, "PERSISTENT=", strlen("PERSISTENT=")) == 0 || add_server(pool, word);
    }
    efree(copy);
    return good && pool->server_count > 0;
}

static void configure(sjx_pool *pool)
{
    zend_long *behavior = pool->settings.behavior;
    if (SETTINGS()->consistent_hash) {
        bool weighted = strcmp(SETTINGS()->consistent_hash_type, "ketama_weighted") == 0;
        behavior[SJX_OPT_HASH] = weighted ? SJX_HASH_MD5 : 0;
        sjx_distribute(&pool->settings, weighted ? SJX_DISTRIBUTION_WEIGHTED : SJX_DISTRIBUTION_KETAMA);
    }
    if (SETTINGS()->connect_timeout > 0) {
        behavior[SJX_OPT_CONNECT_TIMEOUT] = SETTINGS()->connect_timeout;
    }
    if (SETTINGS()->server_failure_limit > 0) {
        behavior[SJX_OPT_SERVER_FAILURE_LIMIT] = SETTINGS()->server_failure_limit;
    }
    behavior[SJX_OPT_REMOVE_FAILED_SERVERS] = SETTINGS()->remove_failed_servers;
    if (*SETTINGS()->sasl_username != 0) {
        zend_string *login = zend_strpprintf(0, "%s:%s", SETTINGS()->sasl_username, SETTINGS()->sasl_password);
        sjx_set_text(&pool->settings.login, ZSTR_VAL(login), ZSTR_LEN(login));
        zend_string_release(login);
    }
}

/* One pool for all requests of the process that have the same servers and settings. NULL: the path names no servers. */
static sjx_pool *open_pool(const char *path)
{
    bool made = true, good = true;
    sjx_pool *pool;
    if (SETTINGS()->persistent) {
        zend_string *id = zend_strpprintf(0, "session:%s:%d:%s:" ZEND_LONG_FMT ":" ZEND_LONG_FMT ":%d:%s", path,
                                          SETTINGS()->consistent_hash, SETTINGS()->consistent_hash_type,
                                          SETTINGS()->connect_timeout, SETTINGS()->server_failure_limit,
                                          SETTINGS()->remove_failed_servers, SETTINGS()->sasl_username);
        pool = sjx_pool_persistent(id, true, &made);
        zend_string_release(id);
    } else {
        pool = sjx_pool_new(false, true);
    }
    if (made) {
        /* In this order, as in php-memcached: with ketama, weights are not heeded. */
        good = add_servers(pool, path);
        configure(pool);
        pool->unmade = !good;
    }
    if (!good && !pool->persistent) {
        sjx_pool_free(pool);
    }
    return good ? pool : NULL;
}

PS_OPEN_FUNC(scrubjay)
{
    sjx_pool *pool = open_pool(save_path);
    PS_SET_MOD_DATA(NULL);
    if (pool == NULL) {
        php_error_docref(NULL, E_WARNING, "session.save_path \"%s\" names no servers: give HOST:PORT, or HOST:PORT:WEIGHT, divided by commas",
                         save_path);
        return FAILURE;
    }
    sjx_session *session = ecalloc(1, sizeof *session);
    session->pool = pool;
    PS_SET_MOD_DATA(session);
    return SUCCESS;
}

PS_CLOSE_FUNC(scrubjay)
{
    sjx_session *session = PS_GET_MOD_DATA();
    if (session == NULL) {
        return FAILURE;
    }
    unlock(session);
    if (!session->pool->persistent) {
        sjx_pool_free(session->pool);
    }
    efree(session);
    PS_SET_MOD_DATA(NULL);
    return SUCCESS;
}

/* ---- Reading and writing ---- */

PS_READ_FUNC(scrubjay)
{
    sjx_session *session = PS_GET_MOD_DATA();
    session_key name;
    sj_result result;
    sj_request get = {.op = SJ_GET};
    if (!make_key("", key, &name)) {
        return FAILURE;
    }
    if (SETTINGS()->locking && session->locked == NULL && !lock(session, key)) {
        return FAILURE;
    }
    int status = ask(session, &get, &name, &result);
    if (status == SJ_OK) {
        *val = zend_string_init((const char *)result.data, result.len, 0);
    } else if (status == SJ_MISS) {
        *val = ZSTR_EMPTY_ALLOC();
    }
    sj_result_free(&result);
    return status == SJ_OK || status == SJ_MISS ? SUCCESS : FAILURE;
}

PS_WRITE_FUNC(scrubjay)
{
    sjx_session *session = PS_GET_MOD_DATA();
    session_key name;
    sj_request set = {.op = SJ_SET, .value = ZSTR_VAL(val), .value_len = ZSTR_LEN(val), .exptime = exptime(maxlifetime)};
    if (!make_key("", key, &name)) {
        return FAILURE;
    }
    return ask_shortly(session, &set, &name) == SJ_OK ? SUCCESS : FAILURE;
}

PS_DESTROY_FUNC(scrubjay)
{
    sjx_session *session = PS_GET_MOD_DATA();
    session_key name;
    sj_request delete = {.op = SJ_DELETE};
    if (session == NULL || !make_key("", key, &name)) {
        return FAILURE;
    }
    int status = ask_shortly(session, &delete, &name);
    unlock(session);
    return status == SJ_OK || status == SJ_NOT_FOUND ? SUCCESS : FAILURE;
}

/* Servers forget by themselves. */
PS_GC_FUNC(scrubjay)
{
    *nrdels = 0;
    return SUCCESS;
}

PS_CREATE_SID_FUNC(scrubjay)
{
    return php_session_create_id(mod_data);
}

PS_VALIDATE_SID_FUNC(scrubjay)
{
    sjx_session *session = PS_GET_MOD_DATA();
    session_key name;
    sj_request get = {.op = SJ_GET};
    return session != NULL && make_key("", key, &name) && ask_shortly(session, &get, &name) == SJ_OK ? SUCCESS : FAILURE;
}

PS_UPDATE_TIMESTAMP_FUNC(scrubjay)
{
    sjx_session *session = PS_GET_MOD_DATA();
    session_key name;
    sj_request touch = {.op = SJ_TOUCH, .exptime = exptime(maxlifetime)};
    if (!make_key("", key, &name)) {
        return FAILURE;
    }
    int status = ask_shortly(session, &touch, &name);
    return status == SJ_NOT_FOUND ? ps_write_scrubjay(mod_data, key, val, maxlifetime) : status == SJ_OK ? SUCCESS : FAILURE;
}

static const ps_module ps_mod_scrubjay = {PS_MOD_UPDATE_TIMESTAMP(scrubjay)};
static ps_module ps_mod_memcached = {PS_MOD_UPDATE_TIMESTAMP(scrubjay)};

void sjx_session_register(bool drop_in)
{
    php_session_register_module(&ps_mod_scrubjay);
    if (drop_in) {
        ps_mod_memcached.s_name = "memcached";
        php_session_register_module(&ps_mod_memcached);
    }
}
