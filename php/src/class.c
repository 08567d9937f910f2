/* The class: its object, and the methods that concern the object, its servers and its options. */
#include "php_scrubjay.h"
#include "ext/spl/spl_exceptions.h"
#include "zend_exceptions.h"
#include "methods.h"

zend_class_entry *sjx_scrubjay_ce, *sjx_memcached_ce;
zend_class_entry *sjx_exception_ce, *sjx_memcached_exception_ce;

static zend_object_handlers handlers;
static int persistent_type;

static bool is_drop_in(const zend_class_entry *class)
{
    return sjx_memcached_ce != NULL && instanceof_function(class, sjx_memcached_ce);
}

static zend_object *create(zend_class_entry *class)
{
    sjx_object *object = zend_object_alloc(sizeof *object, class);
    memset(object, 0, XtOffsetOf(sjx_object, std));
    zend_object_std_init(&object->std, class);
    object_properties_init(&object->std, class);
    object->std.handlers = &handlers;
    object->disconnected = -1;
    object->pristine = true;
    snprintf(object->error, sizeof object->error, "%s", sjx_message(SJX_RES_SUCCESS));
    object->pool = sjx_pool_new(false, is_drop_in(class));
    return &object->std;
}

static void release(zend_object *std)
{
    sjx_object *object = sjx_from(std);
    if (object->delayed != NULL) {
        zend_array_destroy(object->delayed);
    }
    if (!object->pool->persistent) {
        sjx_pool_free(object->pool);
    }
    zend_object_std_dtor(std);
}

static void release_persistent(zend_resource *resource)
{
    sjx_pool_free(resource->ptr);
}

/* What is ours, objects of the drop-in's class answer as well, unless their class has a method of the name. It is not declared there: a
 * subclass that was written for php-memcached may have one with other arguments. */
static zend_function *method(zend_object **object, zend_string *name, const zval *key)
{
    zend_function *found = zend_std_get_method(object, name, key);
    if (found != NULL || EG(exception) != NULL || !is_drop_in((*object)->ce)) {
        return found;
    }
    zend_string *lower = key != NULL ? zend_string_copy(Z_STR_P(key)) : zend_string_tolower(name);
    found = zend_hash_find_ptr(&sjx_scrubjay_ce->function_table, lower);
    zend_string_release(lower);
    return found;
}

static zend_class_entry *register_class(const char *name, const zend_function_entry *methods, zend_class_entry **exception,
                                        const char *exception_name)
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY_EX(entry, exception_name, strlen(exception_name), NULL);
    *exception = zend_register_internal_class_ex(&entry, spl_ce_RuntimeException);
    INIT_CLASS_ENTRY_EX(entry, name, strlen(name), methods);
    zend_class_entry *class = zend_register_internal_class(&entry);
    class->create_object = create;
    class->ce_flags |= ZEND_ACC_NOT_SERIALIZABLE;
    sjx_class_constants(class);
    return class;
}

void sjx_register_classes(int module_number)
{
    memcpy(&handlers, zend_get_std_object_handlers(), sizeof handlers);
    handlers.offset = XtOffsetOf(sjx_object, std);
    handlers.free_obj = release;
    handlers.clone_obj = NULL;
    handlers.get_method = method;
    persistent_type = zend_register_list_destructors_ex(NULL, release_persistent, "scrubjay pool", module_number);
    sjx_scrubjay_ce = register_class("Scrubjay", sjx_scrubjay_methods, &sjx_exception_ce, "ScrubjayException");
    if (SJX_G(replace_memcached) && !zend_hash_str_exists(CG(class_table), ZEND_STRL("memcached"))) {
        sjx_memcached_ce = register_class("Memcached", sjx_memcached_methods, &sjx_memcached_exception_ce, "MemcachedException");
    }
}

/* ---- Construction ---- */

sjx_object *sjx_constructed(zend_object *std)
{
    sjx_object *object = sjx_from(std);
    if (UNEXPECTED(!object->constructed)) {
        const char *class = is_drop_in(std->ce) ? "Memcached" : "Scrubjay";
        zend_throw_error(NULL, "%s constructor was not called", class);
    }
    return object;
}

/* The pool of an id, made if there is none. */
sjx_pool *sjx_pool_persistent(zend_string *id, bool drop_in, bool *made)
{
    zend_string *name = zend_strpprintf(0, "scrubjay:%d:%s", drop_in, ZSTR_VAL(id));
    zend_resource *found = zend_hash_find_ptr(&EG(persistent_list), name);
    *made = found == NULL || found->type != persistent_type;
    sjx_pool *pool = *made ? sjx_pool_new(true, drop_in) : found->ptr;
    if (*made) {
        zend_register_persistent_resource(ZSTR_VAL(name), ZSTR_LEN(name), pool, persistent_type);
    } else if (pool->unmade) {
        sjx_pool_renew(pool, drop_in);
        *made = true;
    }
    zend_string_release(name);
    return pool;
}

/* `--SERVER=HOST:PORT` of libmemcached's configurations, divided by blanks; the rest is set by options. */
static bool connect_by_text(sjx_pool *pool, zend_string *text)
{
    static const char WORD[] = "--SERVER=";
    char *copy = estrndup(ZSTR_VAL(text), ZSTR_LEN(text)), *rest = NULL;
    bool good = true;
    for (char *word = php_strtok_r(copy, " ", &rest); word != NULL && good; word = php_strtok_r(NULL, " ", &rest)) {
        char *host = word + strlen(WORD), *port;
        good = strncasecmp(word, WORD, strlen(WORD)) == 0;
        if (good) {
            port = *host == '/' ? NULL : strrchr(host, ':');
            if (port != NULL) {
                *port++ = 0;
            }
            good = sjx_pool_add(pool, host, port == NULL ? SJX_PORT : ZEND_STRTOL(port, NULL, 10), 0);
        }
    }
    efree(copy);
    return good;
}

static void call_back(zend_fcall_info *info, zend_fcall_info_cache *cache, zval *self, zend_string *id)
{
    zval arguments[2], answer;
    ZVAL_COPY_VALUE(&arguments[0], self);
    if (id == NULL) {
        ZVAL_NULL(&arguments[1]);
    } else {
        ZVAL_STR(&arguments[1], id);
    }
    info->params = arguments;
    info->param_count = 2;
    info->retval = &answer;
    ZVAL_UNDEF(&answer);
    zend_call_function(info, cache);
    zval_ptr_dtor(&answer);
}

ZEND_METHOD(Scrubjay, __construct)
{
    zend_string *id = NULL, *text = NULL;
    zend_fcall_info info = empty_fcall_info;
    zend_fcall_info_cache cache = empty_fcall_info_cache;
    sjx_object *object = sjx_from(Z_OBJ_P(ZEND_THIS));
    ZEND_PARSE_PARAMETERS_START(0, 3)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(id)
        Z_PARAM_FUNC_OR_NULL(info, cache)
        Z_PARAM_STR_OR_NULL(text)
    ZEND_PARSE_PARAMETERS_END();
    bool drop_in = is_drop_in(Z_OBJCE_P(ZEND_THIS));
    if (object->constructed) {
        zend_throw_error(NULL, "a client is constructed once");
        return;
    }
    object->constructed = true;
    if (id != NULL && ZSTR_LEN(id) > 0 && !object->pool->persistent) {
        sjx_pool_free(object->pool);
        object->pool = sjx_pool_persistent(id, drop_in, &object->pristine);
    }
    if (!object->pristine) {
        return;
    }
    if (text != NULL && ZSTR_LEN(text) > 0 && !connect_by_text(object->pool, text)) {
        object->pool->unmade = true;
        zend_throw_exception_ex(drop_in ? sjx_memcached_exception_ce : sjx_exception_ce, 0,
                                "the configuration \"%s\" is not understood: give --SERVER=HOST:PORT, and options by setOption",
                                ZSTR_VAL(text));
        return;
    }
    if (ZEND_FCI_INITIALIZED(info)) {
        call_back(&info, &cache, ZEND_THIS, id);
        object->pool->unmade = EG(exception) != NULL;
    }
}

ZEND_METHOD(Scrubjay, isPersistent)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(SJX_THIS()->pool->persistent);
}

ZEND_METHOD(Scrubjay, isPristine)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(SJX_THIS()->pristine);
}

/* ---- How the last call ended ---- */

ZEND_METHOD(Scrubjay, getResultCode)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(SJX_THIS()->code);
}

ZEND_METHOD(Scrubjay, getResultMessage)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_STRING(sjx_message(SJX_THIS()->code));
}

ZEND_METHOD(Scrubjay, getLastErrorCode)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(SJX_THIS()->error_code);
}

ZEND_METHOD(Scrubjay, getLastErrorMessage)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_STRING(SJX_THIS()->error);
}

ZEND_METHOD(Scrubjay, getLastErrorErrno)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(0);
}

static void put_server(zval *list, const sjx_server *server)
{
    array_init(list);
    add_assoc_string(list, "host", server->host);
    add_assoc_long(list, "port", server->port);
}

ZEND_METHOD(Scrubjay, getLastDisconnectedServer)
{
    sjx_object *object = SJX_THIS();
    ZEND_PARSE_PARAMETERS_NONE();
    if (object->disconnected < 0 || (size_t)object->disconnected >= object->pool->server_count) {
        RETURN_FALSE;
    }
    put_server(return_value, &object->pool->servers[object->disconnected]);
}

/* ---- Servers ---- */

static bool add_server(sjx_object *object, zend_string *host, zend_long port, zend_long weight)
{
    /* As in libmemcached, for the path of a socket, too: by it the socket has its place on a ring. */
    if (sjx_pool_add(object->pool, ZSTR_VAL(host), port == 0 ? SJX_PORT : port, weight)) {
        return true;
    }
    php_error_docref(NULL, E_WARNING,
                     "%s:" ZEND_LONG_FMT " with weight " ZEND_LONG_FMT " is no server: a port is 0 to 65535, a weight 0 or more",
                     ZSTR_VAL(host), port, weight);
    sjx_set_code(object, SJX_RES_INVALID_ARGUMENTS);
    return false;
}

ZEND_METHOD(Scrubjay, addServer)
{
    zend_string *host;
    zend_long port, weight = 0;
    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(host)
        Z_PARAM_LONG(port)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(weight)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    RETURN_BOOL(add_server(object, host, port, weight));
}

/* One row of addServers: host, port, weight, in this order. One without a port is left out with a warning, as by php-memcached. */
static bool add_row(sjx_object *object, HashTable *row, size_t number)
{
    zval *cell, *cells[3] = {NULL, NULL, NULL};
    size_t count = 0;
    ZEND_HASH_FOREACH_VAL(row, cell) {
        if (count < 3) {
            cells[count++] = cell;
        }
    } ZEND_HASH_FOREACH_END();
    if (count < 2) {
        php_error_docref(NULL, E_WARNING, "could not add entry #%zu to the server list: give host and port", number);
        return true;
    }
    zend_string *host = zval_get_string(cells[0]);
    bool added = add_server(object, host, zval_get_long(cells[1]), cells[2] == NULL ? 0 : zval_get_long(cells[2]));
    zend_string_release(host);
    return added;
}

ZEND_METHOD(Scrubjay, addServers)
{
    HashTable *servers;
    zval *row;
    bool all = true;
    size_t number = 0;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(servers)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    ZEND_HASH_FOREACH_VAL(servers, row) {
        ZVAL_DEREF(row);
        number++;
        if (Z_TYPE_P(row) != IS_ARRAY) {
            php_error_docref(NULL, E_WARNING, "server list entry #%zu is not an array", number);
        } else if (!add_row(object, Z_ARRVAL_P(row), number)) {
            all = false;
        }
    } ZEND_HASH_FOREACH_END();
    RETURN_BOOL(all);
}

ZEND_METHOD(Scrubjay, getServerList)
{
    sjx_pool *pool = SJX_THIS()->pool;
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_set_code(SJX_THIS(), SJX_RES_SUCCESS);
    array_init(return_value);
    for (size_t at = 0; at < pool->server_count; at++) {
        zval server;
        put_server(&server, &pool->servers[at]);
        add_assoc_string(&server, "type", *pool->servers[at].host == '/' ? "SOCKET" : "TCP");
        add_next_index_zval(return_value, &server);
    }
}

ZEND_METHOD(Scrubjay, getServerByKey)
{
    zend_string *key;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (!sjx_key_is_valid(object, key)) {
        sjx_set_code(object, SJX_RES_BAD_KEY_PROVIDED);
        RETURN_FALSE;
    }
    sj_client *client = sjx_client(object);
    if (client == NULL) {
        RETURN_FALSE;
    }
    uint32_t place = sj_client_place(client, ZSTR_VAL(key), ZSTR_LEN(key));
    if (place >= object->pool->server_count) {
        sjx_set_code(object, SJX_RES_FAILURE);
        RETURN_FALSE;
    }
    const sjx_server *server = &object->pool->servers[place];
    put_server(return_value, server);
    add_assoc_long(return_value, "weight", server->weight);
}

ZEND_METHOD(Scrubjay, resetServerList)
{
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_pool_reset(SJX_THIS()->pool);
    RETURN_TRUE;
}

ZEND_METHOD(Scrubjay, quit)
{
    ZEND_PARSE_PARAMETERS_NONE();
    sjx_pool_changed(SJX_THIS()->pool);
    RETURN_TRUE;
}

static bool buckets_of(HashTable *map, sjx_pool *pool)
{
    zval *server;
    size_t count = zend_hash_num_elements(map), at = 0;
    uint32_t *buckets = safe_pemalloc(count, sizeof(uint32_t), 0, 1);
    ZEND_HASH_FOREACH_VAL(map, server) {
        zend_long number = zval_get_long(server);
        if (number < 0 || number > UINT32_MAX) {
            pefree(buckets, 1);
            return false;
        }
        buckets[at++] = (uint32_t)number;
    } ZEND_HASH_FOREACH_END();
    if (pool->buckets != NULL) {
        pefree(pool->buckets, 1);
    }
    pool->buckets = buckets;
    pool->bucket_count = count;
    sjx_pool_changed(pool);
    return true;
}

ZEND_METHOD(Scrubjay, setBucket)
{
    HashTable *map, *forward;
    zend_long replicas;
    ZEND_PARSE_PARAMETERS_START(3, 3)
        Z_PARAM_ARRAY_HT(map)
        Z_PARAM_ARRAY_HT_OR_NULL(forward)
        Z_PARAM_LONG(replicas)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (zend_hash_num_elements(map) == 0 || (forward != NULL && zend_hash_num_elements(forward) != zend_hash_num_elements(map))) {
        php_error_docref(NULL, E_WARNING, "server map cannot be empty, and a forward map has as many entries");
        RETURN_FALSE;
    }
    if (replicas < 0 || !buckets_of(map, object->pool)) {
        php_error_docref(NULL, E_WARNING, "the map must contain positive integers, and replicas be no fewer than 0");
        RETURN_FALSE;
    }
    RETURN_TRUE;
}

ZEND_METHOD(Scrubjay, setSaslAuthData)
{
    zend_string *user, *password;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(user)
        Z_PARAM_STR(password)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    zend_string *login = zend_strpprintf(0, "%s:%s", ZSTR_VAL(user), ZSTR_VAL(password));
    if (sjx_set_text(&object->pool->settings.login, ZSTR_VAL(login), ZSTR_LEN(login))) {
        sjx_pool_changed(object->pool);
    }
    zend_string_release(login);
    sjx_set_code(object, SJX_RES_SUCCESS);
    RETURN_TRUE;
}

ZEND_METHOD(Scrubjay, setEncodingKey)
{
    zend_string *key;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    php_error_docref(NULL, E_WARNING, "values are not encrypted here: encrypt them before they are stored, or use TLS to the server");
    sjx_set_code(SJX_THIS(), SJX_RES_NOT_SUPPORTED);
    RETURN_FALSE;
}

/* ---- Options ---- */

ZEND_METHOD(Scrubjay, getOption)
{
    zend_long option;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(option)
    ZEND_PARSE_PARAMETERS_END();
    sjx_option_get(SJX_THIS(), option, return_value);
}

ZEND_METHOD(Scrubjay, setOption)
{
    zend_long option;
    zval *value;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_LONG(option)
        Z_PARAM_ZVAL(value)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_BOOL(sjx_option_set(SJX_THIS(), option, value));
}

ZEND_METHOD(Scrubjay, setClientOption)
{
    char *name, *text;
    size_t name_len, len;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_PATH(name, name_len)
        Z_PARAM_PATH(text, len)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_BOOL(sjx_option_set_named(SJX_THIS(), name, text, len));
}

ZEND_METHOD(Scrubjay, setOptions)
{
    HashTable *options;
    zend_ulong option;
    zend_string *name;
    zval *value;
    bool all = true;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(options)
    ZEND_PARSE_PARAMETERS_END();
    ZEND_HASH_FOREACH_KEY_VAL(options, option, name, value) {
        if (name != NULL) {
            php_error_docref(NULL, E_WARNING, "invalid configuration option");
            all = false;
        } else {
            ZVAL_DEREF(value);
            all = sjx_option_set(SJX_THIS(), (zend_long)option, value) && all;
        }
    } ZEND_HASH_FOREACH_END();
    RETURN_BOOL(all);
}

ZEND_METHOD(Scrubjay, setCompressThreshold)
{
    zend_long threshold;
    double saving = 0.2;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_LONG(threshold)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE(saving)
    ZEND_PARSE_PARAMETERS_END();
    sjx_settings *settings = &SJX_THIS()->pool->settings;
    if (threshold < 0 || !(saving >= 0 && saving <= 1)) {
        php_error_docref(NULL, E_WARNING, "a threshold is 0 or more bytes, a saving 0 to 1");
        RETURN_FALSE;
    }
    settings->compression = threshold > 0;
    settings->threshold = threshold;
    settings->saving = saving;
    RETURN_TRUE;
}

ZEND_METHOD(Scrubjay, checkKey)
{
    zend_string *key;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    sjx_object *object = SJX_THIS();
    bool valid = sjx_key_is_valid(object, key);
    sjx_set_code(object, valid ? SJX_RES_SUCCESS : SJX_RES_BAD_KEY_PROVIDED);
    RETURN_BOOL(valid);
}
