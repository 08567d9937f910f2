/* Options: those of php-memcached, those of libmemcached by number, and a few of ours. */
#include "php_scrubjay.h"

int sjx_serializer_by_name(const char *name)
{
    static const char *const NAMES[] = {"php", "igbinary", "json", "json_array", "msgpack"};
    for (int at = 0; at < 5; at++) {
        if (strcmp(name, NAMES[at]) == 0) {
            return at + 1;
        }
    }
    return 0;
}

int sjx_compression_by_name(const char *name)
{
    static const char *const NAMES[] = {"zlib", "fastlz", "zstd"};
    for (int at = 0; at < 3; at++) {
        if (strcmp(name, NAMES[at]) == 0) {
            return at + 1;
        }
    }
    return 0;
}

void sjx_settings_init(sjx_settings *settings, bool drop_in)
{
    int serializer = sjx_serializer_by_name(SJX_G(serializer));
    int compression = sjx_compression_by_name(SJX_G(compression_type));
    settings->serializer = serializer != 0 ? serializer : drop_in ? SJX_SERIALIZER_PHP : SJX_SERIALIZER_MSGPACK;
    settings->compression_type = compression != 0 ? compression : drop_in ? SJX_COMPRESSION_FASTLZ : SJX_COMPRESSION_ZSTD;
    settings->compression = true;
    settings->threshold = SJX_G(compression_threshold);
    settings->saving = SJX_G(compression_factor) > 1 ? 1 - 1 / SJX_G(compression_factor) : 0;
    settings->user_flags = -1;
    settings->store_retry_count = SJX_G(store_retry_count);
    settings->near_ttl = 10000;
    settings->behavior[SJX_OPT_CONNECT_TIMEOUT] =
        SJX_G(default_connect_timeout) > 0 ? SJX_G(default_connect_timeout) : 4000;
    settings->behavior[SJX_OPT_POLL_TIMEOUT] = 5000;
    settings->behavior[SJX_OPT_RETRY_TIMEOUT] = 2;
    settings->behavior[SJX_OPT_SERVER_FAILURE_LIMIT] = 5;
    settings->behavior[SJX_OPT_CACHE_LOOKUPS] = 1;
    settings->behavior[SJX_OPT_BINARY_PROTOCOL] = SJX_G(default_binary_protocol);
    if (SJX_G(default_consistent_hash)) {
        settings->behavior[SJX_OPT_DISTRIBUTION] = SJX_DISTRIBUTION_CONSISTENT;
    }
}

void sjx_settings_free(sjx_settings *settings)
{
    sjx_set_text(&settings->scheme, NULL, 0);
    sjx_set_text(&settings->login, NULL, 0);
    for (size_t at = 0; at < settings->named_count; at++) {
        pefree(settings->named[at].name, 1);
        pefree(settings->named[at].text, 1);
    }
    if (settings->named != NULL) {
        pefree(settings->named, 1);
    }
    settings->named = NULL;
    settings->named_count = 0;
}

void sjx_option_get(sjx_object *object, zend_long option, zval *value)
{
    const sjx_settings *settings = &object->pool->settings;
    switch (option) {
    case SJX_OPT_COMPRESSION:
        ZVAL_BOOL(value, settings->compression);
        return;
    case SJX_OPT_PREFIX_KEY:
        ZVAL_STRINGL(value, settings->prefix, settings->prefix_len);
        return;
    case SJX_OPT_SERIALIZER:
        ZVAL_LONG(value, settings->serializer);
        return;
    case SJX_OPT_COMPRESSION_TYPE:
        ZVAL_LONG(value, settings->compression_type);
        return;
    case SJX_OPT_STORE_RETRY_COUNT:
        ZVAL_LONG(value, settings->store_retry_count);
        return;
    case SJX_OPT_USER_FLAGS:
        ZVAL_LONG(value, settings->user_flags);
        return;
    case SJX_OPT_VALUES:
        ZVAL_LONG(value, settings->values);
        return;
    case SJX_OPT_COMPRESSION_THRESHOLD:
        ZVAL_LONG(value, settings->threshold);
        return;
    case SJX_OPT_COMPRESSION_SAVING:
        ZVAL_DOUBLE(value, settings->saving);
        return;
    case SJX_OPT_SCHEME:
        ZVAL_STRING(value, settings->scheme == NULL ? "" : settings->scheme);
        return;
    case SJX_OPT_NEAR_CACHE_MIB:
        ZVAL_LONG(value, settings->near_mib);
        return;
    case SJX_OPT_NEAR_CACHE_TTL:
        ZVAL_LONG(value, settings->near_ttl);
        return;
    case SJX_OPT_NEAR_CACHE_COHERENCE:
        ZVAL_LONG(value, settings->near_coherence);
        return;
    }
    if (option < 0 || option >= SJX_BEHAVIORS) {
        sjx_set_code(object, SJX_RES_INVALID_ARGUMENTS);
        ZVAL_FALSE(value);
        return;
    }
    ZVAL_LONG(value, settings->behavior[option]);
}

static bool refused(sjx_object *object, const char *why)
{
    sjx_set_code(object, SJX_RES_INVALID_ARGUMENTS);
    if (why != NULL) {
        php_error_docref(NULL, E_WARNING, "%s", why);
    }
    return false;
}

static bool set_prefix(sjx_object *object, zval *value)
{
    sjx_settings *settings = &object->pool->settings;
    zend_string *prefix = zval_get_string(value);
    bool fits = ZSTR_LEN(prefix) < SJX_KEY_LEN_MAX && !sjx_has_control(ZSTR_VAL(prefix), ZSTR_LEN(prefix));
    if (fits) {
        settings->prefix_len = ZSTR_LEN(prefix);
        memcpy(settings->prefix, ZSTR_VAL(prefix), ZSTR_LEN(prefix));
    } else {
        sjx_set_code(object, SJX_RES_INVALID_ARGUMENTS);
        php_error_docref(NULL, E_WARNING, "bad key provided: a prefix has fewer than 250 bytes, without blanks and control "
                         "characters; this one has %zu bytes", ZSTR_LEN(prefix));
    }
    zend_string_release(prefix);
    return fits;
}

static bool set_scheme(sjx_object *object, zval *value)
{
    zend_string *name = zval_get_string(value);
    if (sjx_set_text(&object->pool->settings.scheme, ZSTR_LEN(name) == 0 ? NULL : ZSTR_VAL(name), ZSTR_LEN(name))) {
        sjx_pool_changed(object->pool);
    }
    zend_string_release(name);
    return true;
}

/* The place of a named option, made if there is none. */
static sjx_named *named(sjx_settings *settings, const char *name)
{
    for (size_t at = 0; at < settings->named_count; at++) {
        if (strcmp(settings->named[at].name, name) == 0) {
            return &settings->named[at];
        }
    }
    settings->named = perealloc(settings->named, (settings->named_count + 1) * sizeof(sjx_named), 1);
    settings->named[settings->named_count] = (sjx_named){.name = pestrdup(name, 1), .text = NULL};
    return &settings->named[settings->named_count++];
}

bool sjx_option_set_named(sjx_object *object, const char *name, const char *text, size_t len)
{
    sj_result result = {0};
    sj_config *config = sj_config_new();
    bool known = sj_config_set(config, name, text, &result) == SJ_OK;
    sj_config_free(config);
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (!known) {
        sjx_note(object, &result);
        php_error_docref(NULL, E_WARNING, "%s", object->error);
        sjx_set_code(object, SJX_RES_INVALID_ARGUMENTS);
    } else if (sjx_set_text(&named(&object->pool->settings, name)->text, text, len)) {
        sjx_pool_changed(object->pool);
    }
    sj_result_free(&result);
    return known;
}

/* A setting of the near cache. One that is as it was leaves the copies: programs with persistent objects set them in every request. */
static bool set_near(sjx_object *object, zend_long option, zend_long number)
{
    sjx_settings *settings = &object->pool->settings;
    bool mib = option == SJX_OPT_NEAR_CACHE_MIB, ttl = option == SJX_OPT_NEAR_CACHE_TTL;
    zend_long before = mib ? settings->near_mib : ttl ? settings->near_ttl : settings->near_coherence;
    if (number < (ttl ? 1 : 0) || number > (mib ? SJX_NEAR_MIB_MAX : ttl ? SJX_NEAR_TTL_MAX : SJX_NEAR_CACHE_TTL_ONLY)) {
        return refused(object, mib ? "a near cache takes 0 to 1048576 MiB" :
                               ttl ? "a copy is kept 1 ms to a year" : "there is no such coherence of a near cache");
    }
    if (mib) {
        settings->near_mib = number;
    } else if (ttl) {
        settings->near_ttl = number;
    } else {
        settings->near_coherence = (int)number;
    }
    if (number != before) {
        sjx_pool_changed(object->pool);
    }
    return true;
}

static bool set_ours(sjx_object *object, zend_long option, zval *value)
{
    sjx_settings *settings = &object->pool->settings;
    zend_long number = option == SJX_OPT_PREFIX_KEY || option == SJX_OPT_SCHEME ? 0 : zval_get_long(value);
    switch (option) {
    case SJX_OPT_COMPRESSION:
        settings->compression = number != 0;
        return true;
    case SJX_OPT_PREFIX_KEY:
        return set_prefix(object, value);
    case SJX_OPT_SERIALIZER:
        if (number < SJX_SERIALIZER_PHP || number > SJX_SERIALIZER_MSGPACK) {
            return refused(object, "invalid serializer provided");
        }
        settings->serializer = (int)number;
        return true;
    case SJX_OPT_COMPRESSION_TYPE:
        if (number < SJX_COMPRESSION_ZLIB || number > SJX_COMPRESSION_ZSTD) {
            return refused(object, NULL);
        }
        settings->compression_type = (int)number;
        return true;
    case SJX_OPT_STORE_RETRY_COUNT:
        settings->store_retry_count = number;
        return true;
    case SJX_OPT_USER_FLAGS:
        if (number > 65535) {
            sjx_set_code(object, SJX_RES_SUCCESS);
            php_error_docref(NULL, E_WARNING, "MEMC_OPT_USER_FLAGS must be < 65535");
            return false;
        }
        settings->user_flags = number < 0 ? -1 : number;
        return true;
    case SJX_OPT_VALUES:
        if (number != SJX_VALUES_MEMCACHED && number != SJX_VALUES_MEMCACHE) {
            return refused(object, "invalid layout of values provided");
        }
        settings->values = (int)number;
        return true;
    case SJX_OPT_COMPRESSION_THRESHOLD:
        settings->threshold = MAX(number, 0);
        return true;
    case SJX_OPT_COMPRESSION_SAVING:
        if (zval_get_double(value) < 0 || zval_get_double(value) > 1) {
            return refused(object, "the saving is a part, from 0 to 1");
        }
        settings->saving = zval_get_double(value);
        return true;
    case SJX_OPT_SCHEME:
        return set_scheme(object, value);
    case SJX_OPT_NEAR_CACHE_MIB:
    case SJX_OPT_NEAR_CACHE_TTL:
    case SJX_OPT_NEAR_CACHE_COHERENCE:
        return set_near(object, option, number);
    }
    return refused(object, "there is no such option");
}

bool sjx_is_ring(const sjx_settings *settings)
{
    zend_long distribution = settings->behavior[SJX_OPT_DISTRIBUTION];
    return distribution == SJX_DISTRIBUTION_CONSISTENT || distribution == SJX_DISTRIBUTION_KETAMA ||
           distribution == SJX_DISTRIBUTION_WEIGHTED;
}

void sjx_distribute(sjx_settings *settings, zend_long distribution)
{
    settings->behavior[SJX_OPT_DISTRIBUTION] = distribution;
    settings->points_hash = settings->behavior[SJX_OPT_HASH];
    /* Others leave it as it is. */
    if (sjx_is_ring(settings)) {
        settings->behavior[SJX_OPT_LIBKETAMA_COMPATIBLE] = distribution == SJX_DISTRIBUTION_WEIGHTED;
    }
}

/* Sets an option that libmemcached keeps as a number, with what follows from it for others. */
static bool set_behavior(sjx_object *object, zend_long option, zend_long number)
{
    sjx_settings *settings = &object->pool->settings;
    zend_long *behavior = settings->behavior, before[SJX_BEHAVIORS];
    memcpy(before, behavior, sizeof before);
    behavior[option] = number;
    switch (option) {
    case SJX_OPT_LIBKETAMA_COMPATIBLE:
        behavior[SJX_OPT_HASH] = number != 0 ? SJX_HASH_MD5 : 0;
        behavior[SJX_OPT_LIBKETAMA_HASH] = behavior[SJX_OPT_HASH];
        sjx_distribute(settings, number != 0 ? SJX_DISTRIBUTION_WEIGHTED : SJX_DISTRIBUTION_MODULA);
        break;
    case SJX_OPT_DISTRIBUTION:
        if (number != SJX_DISTRIBUTION_MODULA && number != SJX_DISTRIBUTION_CONSISTENT && number != SJX_DISTRIBUTION_KETAMA &&
            number != SJX_DISTRIBUTION_WEIGHTED && number != SJX_DISTRIBUTION_BUCKETS) {
            behavior[option] = before[option];
            return refused(object, "error setting memcached option: INVALID ARGUMENTS");
        }
        sjx_distribute(settings, number);
        break;
    case SJX_OPT_HASH:
        if (number < 0 || number > 10) {
            behavior[option] = before[option];
        }
        break;
    case SJX_OPT_SORT_HOSTS:
        /* libmemcached makes its ring anew. */
        settings->points_hash = behavior[SJX_OPT_HASH];
        break;
    case SJX_OPT_AUTO_EJECT_HOSTS:
    case SJX_OPT_REMOVE_FAILED_SERVERS:
        /* Two names of one. */
        behavior[SJX_OPT_AUTO_EJECT_HOSTS] = behavior[SJX_OPT_REMOVE_FAILED_SERVERS] = number;
        break;
    }
    bool of_client = option != SJX_OPT_NOREPLY && option != SJX_OPT_BUFFER_WRITES && option != SJX_OPT_VERIFY_KEY &&
                     option != SJX_OPT_HASH_WITH_PREFIX_KEY;
    if (of_client && memcmp(before, behavior, sizeof before) != 0) {
        sjx_pool_changed(object->pool);
    }
    return true;
}

/* Which options libmemcached keeps as yes or no. */
static bool is_truth(zend_long option)
{
    switch (option) {
    case SJX_OPT_NO_BLOCK:
    case SJX_OPT_TCP_NODELAY:
    case SJX_OPT_BUFFER_WRITES:
    case SJX_OPT_SORT_HOSTS:
    case SJX_OPT_VERIFY_KEY:
    case SJX_OPT_LIBKETAMA_COMPATIBLE:
    case SJX_OPT_BINARY_PROTOCOL:
    case SJX_OPT_HASH_WITH_PREFIX_KEY:
    case SJX_OPT_NOREPLY:
    case SJX_OPT_USE_UDP:
    case SJX_OPT_AUTO_EJECT_HOSTS:
    case SJX_OPT_RANDOMIZE_REPLICA_READ:
    case SJX_OPT_TCP_KEEPALIVE:
    case SJX_OPT_REMOVE_FAILED_SERVERS:
        return true;
    default:
        return false;
    }
}

bool sjx_option_set(sjx_object *object, zend_long option, zval *value)
{
    sjx_set_code(object, SJX_RES_SUCCESS);
    if (option < 0) {
        return set_ours(object, option, value);
    }
    if (option >= SJX_BEHAVIORS) {
        return refused(object, "error setting memcached option: INVALID ARGUMENTS");
    }
    zend_long number = zval_get_long(value);
    if (is_truth(option)) {
        number = number != 0;
    }
    /* This one is set anew even if it is set: other options may have changed what follows from it. */
    bool same = object->pool->settings.behavior[option] == number && option != SJX_OPT_LIBKETAMA_COMPATIBLE;
    return same || set_behavior(object, option, number);
}
