/* Keys: which are good, with their prefix, and by what they are placed. */
#include "php_scrubjay.h"

bool sjx_has_control(const char *text, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        unsigned char byte = (unsigned char)text[at];
        if (byte <= ' ' || byte == 0x7f) {
            return true;
        }
    }
    return false;
}

bool sjx_key_is_valid(const sjx_object *object, const zend_string *key)
{
    const zend_long *behavior = object->pool->settings.behavior;
    bool strict = behavior[SJX_OPT_VERIFY_KEY] != 0;
    /* As in php-memcached. It is sent by the meta commands, which can say such a key. */
    bool blanks = behavior[SJX_OPT_BINARY_PROTOCOL] != 0;
    size_t len = ZSTR_LEN(key);
    if (len == 0 || len > SJX_KEY_LEN_MAX) {
        return false;
    }
    for (size_t at = 0; at < len; at++) {
        unsigned char byte = (unsigned char)ZSTR_VAL(key)[at];
        if ((byte == ' ' && !blanks) || byte == '\n' || (strict && (byte < ' ' || byte == 0x7f))) {
            return false;
        }
    }
    return true;
}

bool sjx_key_make(sjx_object *object, const zend_string *name, const zend_string *server_key, sjx_key *key)
{
    const sjx_settings *settings = &object->pool->settings;
    size_t len = ZSTR_LEN(name) + settings->prefix_len;
    if (!sjx_key_is_valid(object, name) || len > SJX_KEY_LEN_MAX) {
        sjx_set_code(object, SJX_RES_BAD_KEY_PROVIDED);
        return false;
    }
    key->data = ZSTR_VAL(name);
    key->len = len;
    key->route = NULL;
    key->route_len = 0;
    if (settings->prefix_len > 0) {
        memcpy(key->joined, settings->prefix, settings->prefix_len);
        memcpy(key->joined + settings->prefix_len, ZSTR_VAL(name), ZSTR_LEN(name));
        key->data = key->joined;
    }
    if (server_key != NULL) {
        key->route = ZSTR_VAL(server_key);
        key->route_len = ZSTR_LEN(server_key);
    } else if (settings->prefix_len > 0 && settings->behavior[SJX_OPT_HASH_WITH_PREFIX_KEY] == 0 &&
               object->pool->server_count > 1) {
        key->route = ZSTR_VAL(name);
        key->route_len = ZSTR_LEN(name);
    }
    return true;
}

void sjx_key_put(const sjx_key *key, sj_request *request)
{
    request->key = key->data;
    request->key_len = key->len;
    request->route = key->route;
    request->route_len = key->route_len;
}
