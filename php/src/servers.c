/* What is asked of every server: versions, statistics, keys, flushing. */
#include "php_scrubjay.h"

/* `host:port`; so is the path of a socket, as with php-memcached. */
static zend_string *server_name(const sjx_server *server)
{
    return zend_strpprintf(0, "%s:%d", server->host, server->port);
}

/* Keeps which server failed; SOME_ERRORS if others did not. */
static void note_server(sjx_object *object, const sj_result *result, size_t server, size_t *failed)
{
    if (result->status < SJ_ERR) {
        return;
    }
    sjx_note(object, result);
    object->disconnected = (int)server;
    (*failed)++;
}

static bool end_servers(sjx_object *object, size_t failed)
{
    if (failed > 0) {
        object->code = SJX_RES_SOME_ERRORS;
    }
    return failed == 0;
}

/* Asks every server the same. `each` may be NULL. */
static bool ask_servers(sjx_object *object, sj_request request, void (*each)(const sjx_server *, const sj_result *, zval *),
                        zval *into)
{
    sj_client *client = sjx_client(object);
    size_t failed = 0;
    if (client == NULL) {
        return false;
    }
    for (size_t at = 0; at < object->pool->server_count; at++) {
        sj_options there = {.server = (uint32_t)at + 1};
        sj_result result;
        sj_call(client, &request, &there, &result);
        note_server(object, &result, at, &failed);
        if (each != NULL && result.status == SJ_OK) {
            each(&object->pool->servers[at], &result, into);
        }
        sj_result_free(&result);
    }
    return end_servers(object, failed);
}

static void put_version(const sjx_server *server, const sj_result *result, zval *into)
{
    zval version;
    zend_string *name = server_name(server);
    ZVAL_STRINGL(&version, (const char *)result->data, result->len);
    zend_symtable_update(Z_ARRVAL_P(into), name, &version);
    zend_string_release(name);
}

ZEND_METHOD(Scrubjay, getVersion)
{
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    array_init(return_value);
    if (!ask_servers(object, (sj_request){.op = SJ_VERSION}, put_version, return_value)) {
        zval_ptr_dtor(return_value);
        RETURN_FALSE;
    }
}

ZEND_METHOD(Scrubjay, flush)
{
    zend_long delay = 0;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(delay)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    RETURN_BOOL(ask_servers(object, (sj_request){.op = SJ_FLUSH, .exptime = delay}, NULL, NULL));
}

/* What was asked quietly has been done when an answer comes. */
ZEND_METHOD(Scrubjay, flushBuffers)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(ask_servers(SJX_THIS(), (sj_request){.op = SJ_NOOP}, NULL, NULL));
}

static void put_stat(void *context, const char *name, size_t name_len, const char *value, size_t value_len)
{
    zval cell;
    zend_long whole;
    double part;
    zend_string *text = zend_string_init(value, value_len, 0), *key = zend_string_init(name, name_len, 0);
    switch (is_numeric_string(ZSTR_VAL(text), ZSTR_LEN(text), &whole, &part, 0)) {
    case IS_LONG:
        ZVAL_LONG(&cell, whole);
        zend_string_release(text);
        break;
    case IS_DOUBLE:
        ZVAL_DOUBLE(&cell, part);
        zend_string_release(text);
        break;
    default:
        ZVAL_STR(&cell, text);
    }
    zend_symtable_update(context, key, &cell);
    zend_string_release(key);
}

ZEND_METHOD(Scrubjay, getStats)
{
    zend_string *type = NULL;
    size_t failed = 0;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(type)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    sj_client *client = sjx_client(object);
    if (client == NULL) {
        RETURN_FALSE;
    }
    array_init(return_value);
    for (size_t at = 0; at < object->pool->server_count; at++) {
        zval stats;
        sj_result result;
        zend_string *name = server_name(&object->pool->servers[at]);
        array_init(&stats);
        sj_stats(client, (uint32_t)at, type == NULL ? NULL : ZSTR_VAL(type), put_stat, Z_ARRVAL(stats), &result);
        note_server(object, &result, at, &failed);
        if (result.status == SJ_OK) {
            zend_symtable_update(Z_ARRVAL_P(return_value), name, &stats);
        } else {
            zval_ptr_dtor(&stats);
        }
        zend_string_release(name);
        sj_result_free(&result);
    }
    if (!end_servers(object, failed) && zend_hash_num_elements(Z_ARRVAL_P(return_value)) == 0) {
        zval_ptr_dtor(return_value);
        RETURN_FALSE;
    }
}

static void put_key(void *context, const char *key, size_t key_len)
{
    zval name;
    ZVAL_STRINGL(&name, key, key_len);
    zend_hash_next_index_insert(context, &name);
}

ZEND_METHOD(Scrubjay, getAllKeys)
{
    size_t failed = 0;
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    sj_client *client = sjx_client(object);
    if (client == NULL) {
        RETURN_FALSE;
    }
    array_init(return_value);
    for (size_t at = 0; at < object->pool->server_count; at++) {
        sj_result result;
        sj_keys(client, (uint32_t)at, put_key, Z_ARRVAL_P(return_value), &result);
        note_server(object, &result, at, &failed);
        sj_result_free(&result);
    }
    if (!end_servers(object, failed)) {
        zval_ptr_dtor(return_value);
        RETURN_FALSE;
    }
}
