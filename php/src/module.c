/* The module: its settings in php.ini, its start, what phpinfo tells. */
#include "php_scrubjay.h"
#include "php_ini.h"
#include "ext/standard/info.h"
#include "functions.h"

ZEND_DECLARE_MODULE_GLOBALS(scrubjay)

/* A setting that names one of several. Empty: the class's own. */
static bool is_named(const char *what, const zend_string *value, bool known, const char *names)
{
    if (!known && ZSTR_LEN(value) > 0) {
        php_error_docref(NULL, E_WARNING, "there is no %s \"%s\": give %s", what, ZSTR_VAL(value), names);
    }
    return known || ZSTR_LEN(value) == 0;
}

#define PASS(change) change(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage)

static ZEND_INI_MH(OnUpdateSerializer)
{
    bool known = sjx_serializer_by_name(ZSTR_VAL(new_value)) != 0;
    bool good = is_named("serializer", new_value, known, "php, igbinary, json, json_array or msgpack");
    return good ? PASS(OnUpdateString) : FAILURE;
}

static ZEND_INI_MH(OnUpdateCompression)
{
    bool known = sjx_compression_by_name(ZSTR_VAL(new_value)) != 0;
    return is_named("compression_type", new_value, known, "zlib, fastlz or zstd") ? PASS(OnUpdateString) : FAILURE;
}

static ZEND_INI_MH(OnUpdateConsistentHash)
{
    if (!zend_string_equals_literal(new_value, "ketama") && !zend_string_equals_literal(new_value, "ketama_weighted")) {
        php_error_docref(NULL, E_WARNING, "there is no sess_consistent_hash_type \"%s\": give ketama or ketama_weighted",
                         ZSTR_VAL(new_value));
        return FAILURE;
    }
    return PASS(OnUpdateString);
}

static ZEND_INI_MH(OnUpdatePrefix)
{
    if (ZSTR_LEN(new_value) >= SJX_KEY_LEN_MAX || sjx_has_control(ZSTR_VAL(new_value), ZSTR_LEN(new_value))) {
        php_error_docref(NULL, E_WARNING, "a sess_prefix has fewer than %d bytes, without blanks and control characters; this one has "
                         "%zu bytes", SJX_KEY_LEN_MAX, ZSTR_LEN(new_value));
        return FAILURE;
    }
    return PASS(OnUpdateString);
}

/* The class Memcached, where it is ours, also goes by what php.ini says to php-memcached. What that does not say is as our own setting
 * of the rest of the name has it: while the entry is registered, and when a program's value is taken back. */
static zend_string *told(const zend_ini_entry *entry, zend_string *value, int stage)
{
    bool is_default = stage == ZEND_INI_STAGE_STARTUP || value == entry->orig_value;
    if (!is_default || cfg_get_entry_ex(entry->name) != NULL) {
        return value;
    }
    zend_string *name = zend_strpprintf(0, "scrubjay%s", strchr(ZSTR_VAL(entry->name), '.'));
    const zend_ini_entry *own = zend_hash_find_ptr(EG(ini_directives), name);
    zend_string_release(name);
    return own == NULL ? value : own->value;
}

#define FOLLOW(change) \
    static ZEND_INI_MH(told_##change) \
    { \
        return change(entry, told(entry, new_value, stage), mh_arg1, mh_arg2, mh_arg3, stage); \
    }
FOLLOW(OnUpdateBool)
FOLLOW(OnUpdateString)
FOLLOW(OnUpdateReal)
FOLLOW(OnUpdateLongGEZero)
FOLLOW(OnUpdateSerializer)
FOLLOW(OnUpdateCompression)
FOLLOW(OnUpdateConsistentHash)
FOLLOW(OnUpdatePrefix)

#define ENTRY(name, initial, change, field) \
    STD_PHP_INI_ENTRY(name, initial, PHP_INI_ALL, change, field, zend_scrubjay_globals, scrubjay_globals)
#define TRUTH(name, initial, where, change, field) \
    STD_PHP_INI_BOOLEAN(name, initial, where, change, field, zend_scrubjay_globals, scrubjay_globals)

/* What both extensions have, under a prefix of names, and with one of handlers. */
#define SETTINGS(of, by) \
    ENTRY(of "serializer", "", by##OnUpdateSerializer, serializer) \
    ENTRY(of "compression_type", "", by##OnUpdateCompression, compression_type) \
    ENTRY(of "compression_factor", "1.3", by##OnUpdateReal, compression_factor) \
    ENTRY(of "compression_threshold", "2000", by##OnUpdateLongGEZero, compression_threshold) \
    ENTRY(of "default_connect_timeout", "0", by##OnUpdateLongGEZero, default_connect_timeout) \
    TRUTH(of "default_consistent_hash", "0", PHP_INI_ALL, by##OnUpdateBool, default_consistent_hash) \
    TRUTH(of "default_binary_protocol", "0", PHP_INI_ALL, by##OnUpdateBool, default_binary_protocol) \
    ENTRY(of "store_retry_count", "0", by##OnUpdateLongGEZero, store_retry_count) \
    TRUTH(of "sess_locking", "1", PHP_INI_ALL, by##OnUpdateBool, session.locking) \
    ENTRY(of "sess_lock_wait_min", "150", by##OnUpdateLongGEZero, session.lock_wait_min) \
    ENTRY(of "sess_lock_wait_max", "150", by##OnUpdateLongGEZero, session.lock_wait_max) \
    ENTRY(of "sess_lock_retries", "5", by##OnUpdateLongGEZero, session.lock_retries) \
    ENTRY(of "sess_lock_expire", "0", by##OnUpdateLongGEZero, session.lock_expire) \
    TRUTH(of "sess_persistent", "1", PHP_INI_ALL, by##OnUpdateBool, session.persistent) \
    TRUTH(of "sess_consistent_hash", "1", PHP_INI_ALL, by##OnUpdateBool, session.consistent_hash) \
    ENTRY(of "sess_consistent_hash_type", "ketama", by##OnUpdateConsistentHash, session.consistent_hash_type) \
    ENTRY(of "sess_connect_timeout", "0", by##OnUpdateLongGEZero, session.connect_timeout) \
    ENTRY(of "sess_server_failure_limit", "0", by##OnUpdateLongGEZero, session.server_failure_limit) \
    TRUTH(of "sess_remove_failed_servers", "0", PHP_INI_ALL, by##OnUpdateBool, session.remove_failed_servers) \
    ENTRY(of "sess_prefix", "memc.sess.key.", by##OnUpdatePrefix, session.prefix) \
    ENTRY(of "sess_sasl_username", "", by##OnUpdateString, session.sasl_username) \
    ENTRY(of "sess_sasl_password", "", by##OnUpdateString, session.sasl_password)

PHP_INI_BEGIN()
    TRUTH("scrubjay.replace_memcached", "0", PHP_INI_SYSTEM, OnUpdateBool, replace_memcached)
    SETTINGS("scrubjay.", )
PHP_INI_END()

/* What only php-memcached has, so that programs may set it. Nothing follows from it. */
#define IGNORED(name, initial) PHP_INI_ENTRY("memcached." name, initial, PHP_INI_ALL, NULL)

static const zend_ini_entry_def MEMCACHED_ENTRIES[] = {
    SETTINGS("memcached.", told_)
    IGNORED("sess_binary_protocol", "1")
    IGNORED("sess_lock_wait", "not set")
    IGNORED("sess_lock_max_wait", "not set")
    IGNORED("sess_number_of_replicas", "0")
    IGNORED("sess_randomize_replica_read", "0")
PHP_INI_END()

static PHP_GINIT_FUNCTION(scrubjay)
{
#if defined(COMPILE_DL_SCRUBJAY) && defined(ZTS)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    memset(scrubjay_globals, 0, sizeof *scrubjay_globals);
}

/* So that programs that ask for the extension rather than the class find it. */
static zend_module_entry memcached_module_entry = {
    STANDARD_MODULE_HEADER, "memcached", NULL, NULL, NULL, NULL, NULL, NULL, SJX_MEMCACHED_VERSION, STANDARD_MODULE_PROPERTIES,
};

static PHP_MINIT_FUNCTION(scrubjay)
{
    REGISTER_INI_ENTRIES();
    sjx_register_classes(module_number);
    sjx_session_register(sjx_memcached_ce != NULL);
    if (sjx_memcached_ce != NULL) {
        zend_register_internal_module(&memcached_module_entry);
        zend_register_ini_entries(MEMCACHED_ENTRIES, module_number);
    }
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(scrubjay)
{
    UNREGISTER_INI_ENTRIES();
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(scrubjay)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "scrubjay support", "enabled");
    php_info_print_table_row(2, "Version", PHP_SCRUBJAY_VERSION);
    php_info_print_table_row(2, "class Memcached", sjx_memcached_ce != NULL ? "ours" : "not ours");
    php_info_print_table_end();
    DISPLAY_INI_ENTRIES();
}

static const zend_module_dep DEPENDENCIES[] = {
    ZEND_MOD_REQUIRED("json")
    ZEND_MOD_REQUIRED("session")
    ZEND_MOD_REQUIRED("spl")
    ZEND_MOD_OPTIONAL("memcached")
    ZEND_MOD_OPTIONAL("igbinary")
    ZEND_MOD_OPTIONAL("msgpack")
    ZEND_MOD_END
};

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_serialize, 0, 1, MAY_BE_STRING | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, serializer, IS_LONG, 0, "Scrubjay::SERIALIZER_MSGPACK")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_unserialize, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, bytes, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, serializer, IS_LONG, 0, "Scrubjay::SERIALIZER_MSGPACK")
ZEND_END_ARG_INFO()

static const zend_function_entry FUNCTIONS[] = {
    PHP_FE(scrubjay_serialize, arginfo_serialize)
    PHP_FE(scrubjay_unserialize, arginfo_unserialize)
    PHP_FE_END
};

zend_module_entry scrubjay_module_entry = {
    STANDARD_MODULE_HEADER_EX,
    NULL,
    DEPENDENCIES,
    "scrubjay",
    FUNCTIONS,
    PHP_MINIT(scrubjay),
    PHP_MSHUTDOWN(scrubjay),
    NULL,
    NULL,
    PHP_MINFO(scrubjay),
    PHP_SCRUBJAY_VERSION,
    PHP_MODULE_GLOBALS(scrubjay),
    PHP_GINIT(scrubjay),
    NULL,
    NULL,
    STANDARD_MODULE_PROPERTIES_EX,
};

#ifdef COMPILE_DL_SCRUBJAY
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(scrubjay)
#endif
