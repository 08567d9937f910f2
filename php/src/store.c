/* Changes: storing, deleting, counting, touching; one and many. */
#include "php_scrubjay.h"

/* What is asked of a server without waiting for its answer. */
static bool is_quiet(const sjx_object *object)
{
    const zend_long *behavior = object->pool->settings.behavior;
    return behavior[SJX_OPT_NOREPLY] != 0 || behavior[SJX_OPT_BUFFER_WRITES] != 0;
}

/* Calls, and notes how it ended. */
static int ask(sjx_object *object, sj_request *request, sj_result *result)
{
    sj_client *client = sjx_client(object);
    memset(result, 0, sizeof *result);
    if (client == NULL) {
        return object->code;
    }
    request->quiet = is_quiet(object);
    sj_call(client, request, NULL, result);
    int code = sjx_note(object, result);
    if (code == SJX_RES_SUCCESS && object->pool->settings.behavior[SJX_OPT_BUFFER_WRITES] != 0) {
        sjx_set_code(object, SJX_RES_BUFFERED);
        return SJX_RES_SUCCESS;
    }
    return code;
}

/* Failures of the server or the way there are tried again as often as OPT_STORE_RETRY_COUNT says. */
static bool store(sjx_object *object, sj_request *request)
{
    zend_long again = object->pool->settings.store_retry_count;
    sj_result result;
    int code;
    do {
        code = ask(object, request, &result);
        bool failed = result.status >= SJ_ERR_CONNECT && result.status <= SJ_ERR_BROKEN;
        sj_result_free(&result);
        if (!failed) {
            break;
        }
    } while (again-- > 0);
    return code == SJX_RES_SUCCESS;
}

static bool store_value(sjx_object *object, sj_request *request, zend_string *name, zend_string *server_key, zval *value)
{
    sjx_key key;
    sjx_payload payload;
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (!sjx_key_make(object, name, server_key, &key)) {
        return false;
    }
    if (!sjx_encode(&object->pool->settings, value, &payload)) {
        sjx_set_code(object, SJX_RES_PAYLOAD_FAILURE);
        return false;
    }
    sjx_key_put(&key, request);
    request->flags = payload.flags;
    request->value = payload.data;
    request->value_len = payload.len;
    bool stored = store(object, request);
    sjx_payload_free(&payload);
    return stored;
}

static void store_one(INTERNAL_FUNCTION_PARAMETERS, uint32_t op, bool by_key)
{
    zend_string *name, *server_key = NULL;
    zval *value;
    zend_long exptime = 0;
    ZEND_PARSE_PARAMETERS_START(by_key ? 3 : 2, by_key ? 4 : 3)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_STR(name)
        Z_PARAM_ZVAL(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(exptime)
    ZEND_PARSE_PARAMETERS_END();
    sj_request request = {.op = op, .exptime = exptime};
    RETURN_BOOL(store_value(SJX_THIS(), &request, name, server_key, value));
}

static void extend(INTERNAL_FUNCTION_PARAMETERS, uint32_t op, bool by_key)
{
    zend_string *name, *server_key = NULL, *value;
    zval text;
    ZEND_PARSE_PARAMETERS_START(by_key ? 3 : 2, by_key ? 3 : 2)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_STR(name)
        Z_PARAM_STR(value)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    if (object->pool->settings.compression) {
        sjx_set_code(object, SJX_RES_SUCCESS);
        php_error_docref(NULL, E_WARNING, "cannot append/prepend with compression turned on");
        RETURN_NULL();
    }
    sj_request request = {.op = op};
    ZVAL_STR(&text, value);
    RETURN_BOOL(store_value(object, &request, name, server_key, &text));
}

/* The number of a token: what GET_EXTENDED gave, an integer or text. 0, which no item has: it is none. */
static uint64_t cas_of(const zval *token)
{
    char *end;
    switch (Z_TYPE_P(token)) {
    case IS_LONG:
        return (uint64_t)Z_LVAL_P(token);
    case IS_DOUBLE:
        return Z_DVAL_P(token) >= 0 && Z_DVAL_P(token) < 18446744073709551616.0 ? (uint64_t)Z_DVAL_P(token) : 0;
    case IS_STRING: {
        uint64_t cas = ZEND_STRTOUL(Z_STRVAL_P(token), &end, 10);
        return *end == 0 ? cas : 0;
    }
    default:
        return 0;
    }
}

static void cas(INTERNAL_FUNCTION_PARAMETERS, bool by_key)
{
    zend_string *name, *server_key = NULL;
    zval *value, *token;
    zend_long exptime = 0;
    ZEND_PARSE_PARAMETERS_START(by_key ? 4 : 3, by_key ? 5 : 4)
        Z_PARAM_ZVAL(token)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_STR(name)
        Z_PARAM_ZVAL(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(exptime)
    ZEND_PARSE_PARAMETERS_END();
    sj_request request = {.op = SJ_SET, .exptime = exptime, .cas = cas_of(token)};
    if (request.cas == 0) {
        sjx_set_code(SJX_THIS(), SJX_RES_DATA_EXISTS);
        RETURN_FALSE;
    }
    RETURN_BOOL(store_value(SJX_THIS(), &request, name, server_key, value));
}

/* The methods of a pair: by the key itself, and by a server's. */
#define PAIR(name, implementation, ...) \
    ZEND_METHOD(Scrubjay, name) { implementation(INTERNAL_FUNCTION_PARAM_PASSTHRU, __VA_ARGS__ false); } \
    ZEND_METHOD(Scrubjay, name##ByKey) { implementation(INTERNAL_FUNCTION_PARAM_PASSTHRU, __VA_ARGS__ true); }
#define WITH(op) op,

PAIR(set, store_one, WITH(SJ_SET))
PAIR(add, store_one, WITH(SJ_ADD))
PAIR(replace, store_one, WITH(SJ_REPLACE))
PAIR(append, extend, WITH(SJ_APPEND))
PAIR(prepend, extend, WITH(SJ_PREPEND))
PAIR(cas, cas, )

/* ---- Without a value ---- */

static bool change(sjx_object *object, sj_request *request, zend_string *name, zend_string *server_key, sj_result *result)
{
    sjx_key key;
    memset(result, 0, sizeof *result);
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (!sjx_key_make(object, name, server_key, &key)) {
        return false;
    }
    sjx_key_put(&key, request);
    return ask(object, request, result) == SJX_RES_SUCCESS;
}

static void touch(INTERNAL_FUNCTION_PARAMETERS, uint32_t op, bool by_key)
{
    zend_string *name, *server_key = NULL;
    zend_long time = 0;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 3 : 2)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(time)
    ZEND_PARSE_PARAMETERS_END();
    /* The time of a delete has had no meaning since memcached 1.4. */
    sj_request request = {.op = op, .exptime = op == SJ_TOUCH ? time : 0};
    sj_result result;
    bool done = change(SJX_THIS(), &request, name, server_key, &result);
    sj_result_free(&result);
    RETURN_BOOL(done);
}

PAIR(touch, touch, WITH(SJ_TOUCH))
PAIR(delete, touch, WITH(SJ_DELETE))

static void count(INTERNAL_FUNCTION_PARAMETERS, uint32_t op, bool by_key)
{
    zend_string *name, *server_key = NULL;
    zend_long offset = 1, initial = 0, exptime = 0;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 5 : 4)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(offset)
        Z_PARAM_LONG(initial)
        Z_PARAM_LONG(exptime)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sj_result result;
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (offset < 0 || initial < 0) {
        php_error_docref(NULL, E_WARNING, offset < 0 ? "offset cannot be a negative value" : "initial value cannot be negative");
        RETURN_FALSE;
    }
    sj_request request = {
        .op = op,
        .delta = (uint64_t)offset,
        .with_initial = ZEND_NUM_ARGS() > (by_key ? 3u : 2u),
        .initial = (uint64_t)initial,
        .exptime = exptime,
    };
    if (change(object, &request, name, server_key, &result)) {
        sjx_cas_token(result.number, return_value);
    } else {
        RETVAL_FALSE;
    }
    sj_result_free(&result);
}

PAIR(increment, count, WITH(SJ_INCR))
PAIR(decrement, count, WITH(SJ_DECR))

/* ---- Many ---- */

/* The code of a batch: the worst of its results. */
static bool note_batch(sjx_object *object, const sjx_batch *batch, size_t failed)
{
    for (size_t at = 0; at < batch->count; at++) {
        if (sjx_code(&batch->results[at]) != SJX_RES_SUCCESS) {
            sjx_note(object, &batch->results[at]);
        }
    }
    if (batch->refused) {
        sjx_set_code(object, SJX_RES_BAD_KEY_PROVIDED);
    } else if (failed == 0 && object->pool->settings.behavior[SJX_OPT_BUFFER_WRITES] != 0) {
        sjx_set_code(object, SJX_RES_BUFFERED);
    }
    return failed == 0 && !batch->refused;
}

static size_t call_batch(sjx_object *object, sjx_batch *batch)
{
    size_t failed = 0;
    for (size_t at = 0; at < batch->count; at++) {
        batch->requests[at].quiet = is_quiet(object);
    }
    if (batch->count == 0 || !sjx_batch_call(batch, object)) {
        return batch->count;
    }
    for (size_t at = 0; at < batch->count; at++) {
        failed += batch->results[at].status != SJ_OK;
    }
    return failed;
}

static bool add_item(sjx_object *object, sjx_batch *batch, zend_string *name, zend_string *server_key, zval *value)
{
    sjx_payload *payload = &batch->payloads[batch->count];
    if (!sjx_key_is_valid(object, name)) {
        batch->refused = true;
        return true;
    }
    if (!sjx_encode(&object->pool->settings, value, payload)) {
        sjx_set_code(object, SJX_RES_PAYLOAD_FAILURE);
        return false;
    }
    sj_request *request = sjx_batch_add(batch, object, name, server_key, SJ_SET);
    if (request == NULL) {
        sjx_payload_free(payload);
        return true;
    }
    request->flags = payload->flags;
    /* Numbers stand in the payload itself, which stays where it is. */
    request->value = payload->data;
    request->value_len = payload->len;
    return true;
}

static void set_multi(INTERNAL_FUNCTION_PARAMETERS, bool by_key)
{
    zend_string *server_key = NULL, *name;
    HashTable *items;
    zend_ulong number;
    zend_long exptime = 0;
    zval *value;
    bool encoded = true;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 3 : 2)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_ARRAY_HT(items)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(exptime)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_batch batch;
    sjx_set_code(object, SJX_RES_SUCCESS);
    sjx_batch_init(&batch, zend_hash_num_elements(items));
    batch.payloads = safe_emalloc(MAX(zend_hash_num_elements(items), 1), sizeof(sjx_payload), 0);
    ZEND_HASH_FOREACH_KEY_VAL(items, number, name, value) {
        zend_string *key = name == NULL ? zend_long_to_str((zend_long)number) : zend_string_copy(name);
        encoded = add_item(object, &batch, key, server_key, value);
        zend_string_release(key);
        if (!encoded) {
            break;
        }
        if (batch.count > 0) {
            batch.requests[batch.count - 1].exptime = exptime;
        }
    } ZEND_HASH_FOREACH_END();
    bool stored = encoded && note_batch(object, &batch, call_batch(object, &batch));
    sjx_batch_free(&batch);
    RETURN_BOOL(stored);
}

PAIR(setMulti, set_multi, )

static void delete_multi(INTERNAL_FUNCTION_PARAMETERS, bool by_key)
{
    zend_string *server_key = NULL;
    HashTable *keys;
    zend_long time = 0;
    zval *entry;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 3 : 2)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_ARRAY_HT(keys)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(time)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_batch batch;
    array_init(return_value);
    sjx_set_code(object, SJX_RES_SUCCESS);
    sjx_batch_init(&batch, zend_hash_num_elements(keys));
    ZEND_HASH_FOREACH_VAL(keys, entry) {
        zend_string *name = zval_get_string(entry);
        /* As php-memcached: what is empty is left out. */
        if (ZSTR_LEN(name) > 0 && sjx_batch_add(&batch, object, name, server_key, SJ_DELETE) == NULL) {
            zval refused;
            ZVAL_LONG(&refused, SJX_RES_BAD_KEY_PROVIDED);
            zend_symtable_update(Z_ARRVAL_P(return_value), name, &refused);
        }
        zend_string_release(name);
    } ZEND_HASH_FOREACH_END();
    note_batch(object, &batch, call_batch(object, &batch));
    for (size_t at = 0; at < batch.count; at++) {
        zval outcome;
        int code = sjx_client(object) == NULL ? object->code : sjx_code(&batch.results[at]);
        ZVAL_LONG(&outcome, code);
        if (code == SJX_RES_SUCCESS) {
            ZVAL_TRUE(&outcome);
        }
        zend_symtable_update(Z_ARRVAL_P(return_value), batch.names[at], &outcome);
    }
    sjx_batch_free(&batch);
}

PAIR(deleteMulti, delete_multi, )
