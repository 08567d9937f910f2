/* Look-ups: one, many, and those whose values are fetched later. */
#include "php_scrubjay.h"

/* The value of a result, as get returns it. */
static bool read_value(sjx_object *object, const sj_result *result, bool extended, zval *value)
{
    const sjx_settings *settings = &object->pool->settings;
    zval plain, cas;
    if (!sjx_decode(settings, result, extended ? &plain : value)) {
        sjx_set_code(object, SJX_RES_PAYLOAD_FAILURE);
        ZVAL_FALSE(value);
        return false;
    }
    if (extended) {
        array_init_size(value, 4);
        add_assoc_zval(value, "value", &plain);
        sjx_cas_token(result->cas, &cas);
        add_assoc_zval(value, "cas", &cas);
        add_assoc_long(value, "flags", sjx_user_flags(settings, result->flags));
    }
    return true;
}

bool sjx_store_value(sjx_object *object, zend_string *name, zend_string *server_key, zval *value, zend_long exptime,
                     uint64_t cas)
{
    sjx_key key;
    sjx_payload payload;
    sj_result result;
    sj_request request = {.op = SJ_SET, .exptime = exptime, .cas = cas};
    if (!sjx_key_make(object, name, server_key, &key) || !sjx_encode(&object->pool->settings, value, &payload)) {
        return false;
    }
    /* Only now: writing a value may call methods of its own, and those may change the servers. */
    sj_client *client = sjx_client(object);
    if (client == NULL) {
        sjx_payload_free(&payload);
        return false;
    }
    sjx_key_put(&key, &request);
    request.flags = payload.flags;
    request.value = payload.data;
    request.value_len = payload.len;
    sj_call(client, &request, NULL, &result);
    bool stored = sjx_note(object, &result) == SJX_RES_SUCCESS;
    sj_result_free(&result);
    sjx_payload_free(&payload);
    return stored;
}

/* With GET_EXTENDED, the callback gives an array, which may have an expiration. */
static void keep_fresh(sjx_object *object, zend_string *name, zend_string *server_key, bool extended, zval *value,
                       zval *expiration)
{
    zend_long exptime = Z_TYPE_P(expiration) == IS_UNDEF ? 0 : zval_get_long(expiration);
    zval *plain = value, *given;
    if (extended && Z_TYPE_P(value) == IS_ARRAY) {
        plain = zend_hash_str_find_deref(Z_ARRVAL_P(value), ZEND_STRL("value"));
        given = zend_hash_str_find_deref(Z_ARRVAL_P(value), ZEND_STRL("expiration"));
        exptime = given == NULL ? 0 : zval_get_long(given);
    }
    if (plain != NULL) {
        sjx_store_value(object, name, server_key, plain, exptime, 0);
    }
}

/* Asks the program for a value that is not there. */
static void read_through(sjx_object *object, zval *self, zend_string *name, zend_string *server_key, bool extended,
                         zend_fcall_info *info, zend_fcall_info_cache *cache, zval *return_value)
{
    zval arguments[4], answer;
    ZVAL_UNDEF(&answer);
    ZVAL_COPY(&arguments[0], self);
    ZVAL_STR_COPY(&arguments[1], name);
    ZVAL_NEW_EMPTY_REF(&arguments[2]);
    ZVAL_NULL(Z_REFVAL(arguments[2]));
    ZVAL_UNDEF(&arguments[3]);
    if (!extended) {
        ZVAL_NEW_EMPTY_REF(&arguments[3]);
        ZVAL_NULL(Z_REFVAL(arguments[3]));
    }
    info->params = arguments;
    info->param_count = extended ? 3 : 4;
    info->retval = &answer;
    RETVAL_FALSE;
    if (zend_call_function(info, cache) == SUCCESS && EG(exception) == NULL && zend_is_true(&answer)) {
        zval *value = Z_REFVAL(arguments[2]), none;
        ZVAL_UNDEF(&none);
        keep_fresh(object, name, server_key, extended, value, extended ? &none : Z_REFVAL(arguments[3]));
        ZVAL_COPY(return_value, value);
    }
    for (int at = 0; at < 4; at++) {
        zval_ptr_dtor(&arguments[at]);
    }
    zval_ptr_dtor(&answer);
}

static void get(INTERNAL_FUNCTION_PARAMETERS, bool by_key)
{
    zend_string *name, *server_key = NULL;
    zend_long flags = 0;
    zend_fcall_info info = empty_fcall_info;
    zend_fcall_info_cache cache = empty_fcall_info_cache;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 4 : 3)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_FUNC_OR_NULL(info, cache)
        Z_PARAM_LONG(flags)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_key key;
    sj_result result;
    sj_request request = {.op = SJ_GET, .with_cas = (flags & SJX_GET_EXTENDED) != 0};
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (!sjx_key_make(object, name, server_key, &key)) {
        RETURN_FALSE;
    }
    sj_client *client = sjx_client(object);
    if (client == NULL) {
        RETURN_FALSE;
    }
    sjx_key_put(&key, &request);
    if (sj_call(client, &request, NULL, &result) == SJ_OK) {
        read_value(object, &result, request.with_cas, return_value);
    } else {
        int code = sjx_note(object, &result);
        RETVAL_FALSE;
        if (code == SJX_RES_NOTFOUND && ZEND_FCI_INITIALIZED(info)) {
            read_through(object, ZEND_THIS, name, server_key, request.with_cas, &info, &cache, return_value);
        }
    }
    sj_result_free(&result);
}

ZEND_METHOD(Scrubjay, get)
{
    get(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_METHOD(Scrubjay, getByKey)
{
    get(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

/* ---- Many ---- */

/* Asks for all keys that are good. False: nothing was asked, and the code says why. */
static bool ask_many(sjx_object *object, HashTable *keys, zend_string *server_key, bool with_cas, sjx_batch *batch)
{
    zval *entry;
    sjx_batch_init(batch, zend_hash_num_elements(keys));
    ZEND_HASH_FOREACH_VAL(keys, entry) {
        zend_string *name = zval_get_string(entry);
        sj_request *request = sjx_batch_add(batch, object, name, server_key, SJ_GET);
        if (request != NULL) {
            request->with_cas = with_cas;
        }
        zend_string_release(name);
    } ZEND_HASH_FOREACH_END();
    if (batch->count == 0) {
        return false;
    }
    sjx_set_code(object, SJX_RES_SUCCESS);
    return sjx_batch_call(batch, object);
}

/* What a call for many keys ends as: found, nothing found, or the error there was. */
static void note_many(sjx_object *object, const sjx_batch *batch, size_t found)
{
    const sj_result *error = NULL;
    for (size_t at = 0; at < batch->count && error == NULL; at++) {
        error = batch->results[at].status >= SJ_ERR ? &batch->results[at] : NULL;
    }
    if (error != NULL) {
        sjx_note(object, error);
        if (found > 0) {
            sjx_set_code(object, SJX_RES_SOME_ERRORS);
        }
    } else if (found == 0) {
        sjx_set_code(object, SJX_RES_NOTFOUND);
    }
}

static void put_null(HashTable *keys, zval *array)
{
    zval *entry, null;
    ZVAL_NULL(&null);
    ZEND_HASH_FOREACH_VAL(keys, entry) {
        zend_string *name = zval_get_string(entry);
        zend_symtable_update(Z_ARRVAL_P(array), name, &null);
        zend_string_release(name);
    } ZEND_HASH_FOREACH_END();
}

static void get_multi(INTERNAL_FUNCTION_PARAMETERS, bool by_key)
{
    zend_string *server_key = NULL;
    HashTable *keys;
    zend_long flags = 0;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 3 : 2)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_ARRAY_HT(keys)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(flags)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_batch batch;
    size_t found = 0;
    array_init_size(return_value, zend_hash_num_elements(keys));
    if (flags & SJX_GET_PRESERVE_ORDER) {
        put_null(keys, return_value);
    }
    bool asked = ask_many(object, keys, server_key, (flags & SJX_GET_EXTENDED) != 0, &batch);
    if (asked) {
        for (size_t at = 0; at < batch.count; at++) {
            zval value;
            if (batch.results[at].status != SJ_OK) {
                continue;
            }
            found++;
            if (read_value(object, &batch.results[at], (flags & SJX_GET_EXTENDED) != 0, &value)) {
                zend_symtable_update(Z_ARRVAL_P(return_value), batch.names[at], &value);
            }
        }
        note_many(object, &batch, found);
    }
    sjx_batch_free(&batch);
    if (zend_hash_num_elements(keys) == 0) {
        /* What was asked for nothing found nothing. */
        sjx_set_code(object, SJX_RES_NOTFOUND);
    }
    bool failed = asked ? sjx_is_error(object->code) && object->code != SJX_RES_SOME_ERRORS && found == 0
                        : zend_hash_num_elements(keys) > 0;
    if (EG(exception) != NULL || failed) {
        zval_ptr_dtor(return_value);
        RETURN_FALSE;
    }
}

ZEND_METHOD(Scrubjay, getMulti)
{
    get_multi(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_METHOD(Scrubjay, getMultiByKey)
{
    get_multi(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

/* ---- Later ---- */

static bool read_item(sjx_object *object, const sjx_batch *batch, size_t at, bool with_cas, zval *item)
{
    zval value, cas;
    if (!sjx_decode(&object->pool->settings, &batch->results[at], &value)) {
        sjx_set_code(object, SJX_RES_PAYLOAD_FAILURE);
        return false;
    }
    array_init_size(item, 4);
    add_assoc_str(item, "key", zend_string_copy(batch->names[at]));
    add_assoc_zval(item, "value", &value);
    if (with_cas) {
        sjx_cas_token(batch->results[at].cas, &cas);
        add_assoc_zval(item, "cas", &cas);
        add_assoc_long(item, "flags", sjx_user_flags(&object->pool->settings, batch->results[at].flags));
    }
    return true;
}

static void tell_item(zend_fcall_info *info, zend_fcall_info_cache *cache, zval *self, zval *item)
{
    zval arguments[2], answer;
    ZVAL_UNDEF(&answer);
    ZVAL_COPY(&arguments[0], self);
    ZVAL_COPY_VALUE(&arguments[1], item);
    info->params = arguments;
    info->param_count = 2;
    info->retval = &answer;
    zend_call_function(info, cache);
    zval_ptr_dtor(&arguments[0]);
    zval_ptr_dtor(&arguments[1]);
    zval_ptr_dtor(&answer);
}

static void forget_delayed(sjx_object *object)
{
    if (object->delayed != NULL) {
        zend_array_destroy(object->delayed);
        object->delayed = NULL;
    }
}

static void get_delayed(INTERNAL_FUNCTION_PARAMETERS, bool by_key)
{
    zend_string *server_key = NULL;
    HashTable *keys;
    bool with_cas = false;
    zend_fcall_info info = empty_fcall_info;
    zend_fcall_info_cache cache = empty_fcall_info_cache;
    ZEND_PARSE_PARAMETERS_START(by_key ? 2 : 1, by_key ? 4 : 3)
        if (by_key) {
            Z_PARAM_STR(server_key)
        }
        Z_PARAM_ARRAY_HT(keys)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(with_cas)
        Z_PARAM_FUNC_OR_NULL(info, cache)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_batch batch;
    size_t errors = 0;
    forget_delayed(object);
    if (zend_hash_num_elements(keys) == 0) {
        sjx_set_code(object, SJX_RES_BAD_KEY_PROVIDED);
    }
    bool asked = ask_many(object, keys, server_key, with_cas, &batch);
    if (asked && !ZEND_FCI_INITIALIZED(info)) {
        object->delayed = zend_new_array(0);
    }
    for (size_t at = 0; asked && at < batch.count && EG(exception) == NULL; at++) {
        zval item;
        errors += batch.results[at].status >= SJ_ERR;
        if (batch.results[at].status != SJ_OK || !read_item(object, &batch, at, with_cas, &item)) {
            continue;
        }
        if (ZEND_FCI_INITIALIZED(info)) {
            tell_item(&info, &cache, ZEND_THIS, &item);
        } else {
            zend_hash_next_index_insert(object->delayed, &item);
        }
    }
    if (errors > 0) {
        note_many(object, &batch, errors == batch.count ? 0 : 1);
    }
    RETVAL_BOOL(asked && errors == 0);
    sjx_batch_free(&batch);
}

ZEND_METHOD(Scrubjay, getDelayed)
{
    get_delayed(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_METHOD(Scrubjay, getDelayedByKey)
{
    get_delayed(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_METHOD(Scrubjay, fetch)
{
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_object *object = SJX_THIS();
    HashTable *delayed = object->delayed;
    zend_ulong first;
    if (delayed == NULL || zend_hash_num_elements(delayed) == 0) {
        sjx_set_code(object, SJX_RES_NOTFOUND);
        RETURN_FALSE;
    }
    zend_hash_internal_pointer_reset(delayed);
    zend_hash_get_current_key(delayed, NULL, &first);
    ZVAL_COPY(return_value, zend_hash_index_find(delayed, first));
    zend_hash_index_del(delayed, first);
    sjx_set_code(object, SJX_RES_SUCCESS);
}

ZEND_METHOD(Scrubjay, fetchAll)
{
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_object *object = SJX_THIS();
    if (object->delayed == NULL) {
        sjx_set_code(object, SJX_RES_NOTFOUND);
        RETURN_FALSE;
    }
    RETVAL_ARR(zend_array_to_list(object->delayed));
    forget_delayed(object);
    sjx_set_code(object, SJX_RES_SUCCESS);
}
