/* PHP's values to bytes and flags, and back. Strings, numbers and truth are written as text, so that servers and other languages
 * understand them; the rest is serialized. The flags are those of php-memcached, or of php-memcache where that was chosen. */
#include "php_scrubjay.h"
#include "Zend/zend_smart_str.h"
#include "ext/json/php_json.h"
#include "ext/standard/php_var.h"

/* What the lowest bits of php-memcached's flags mean, by the serializer that wrote it. */
enum { STRING = 0, INT = 1, FLOAT = 2, BOOL = 3, PHP = 4, IGBINARY = 5, JSON = 6, MSGPACK = 7 };
#define FORM_MASK 0xfu
#define CODEC_MASK 0xff0u
#define USER_SHIFT 16
/* php-memcache's. */
enum { OLD_SERIALIZED = 1, OLD_COMPRESSED = 2, OLD_BOOL = 0x100, OLD_INT = 0x300, OLD_FLOAT = 0x700 };
#define OLD_MASK 0xf01u

static const char *profile(const sjx_settings *settings)
{
    return settings->values == SJX_VALUES_MEMCACHE ? "php-memcache" : "php-memcached";
}

/* ---- Writing ---- */

static void own_text(sjx_payload *payload, zend_string *text)
{
    payload->text = text;
    payload->data = ZSTR_VAL(text);
    payload->len = ZSTR_LEN(text);
}

static void number_text(sjx_payload *payload)
{
    payload->data = payload->number;
    payload->len = strlen(payload->number);
}

static void encode_float(double value, sjx_payload *payload)
{
    if (zend_finite(value)) {
        /* The fewest digits that read back as the same number. */
        smart_str text = {0};
        smart_str_append_double(&text, value, -1, false);
        smart_str_0(&text);
        snprintf(payload->number, sizeof payload->number, "%s", ZSTR_VAL(text.s));
        smart_str_free(&text);
    } else {
        strcpy(payload->number, zend_isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    }
    number_text(payload);
}

static bool encode_php(zval *value, sjx_payload *payload)
{
    php_serialize_data_t seen;
    smart_str text = {0};
    PHP_VAR_SERIALIZE_INIT(seen);
    php_var_serialize(&text, value, &seen);
    PHP_VAR_SERIALIZE_DESTROY(seen);
    if (text.s == NULL || EG(exception) != NULL) {
        smart_str_free(&text);
        return false;
    }
    payload->flags = PHP;
    own_text(payload, smart_str_extract(&text));
    return true;
}

static bool encode_json(zval *value, sjx_payload *payload)
{
    smart_str text = {0};
    if (php_json_encode(&text, value, 0) == FAILURE) {
        smart_str_free(&text);
        return false;
    }
    payload->flags = JSON;
    own_text(payload, smart_str_extract(&text));
    return true;
}

/* Calls another extension's function of one argument, if it is there. */
static bool ask_extension(const char *name, zval *argument, zval *answer)
{
    zval function;
    if (zend_hash_str_find_ptr(CG(function_table), name, strlen(name)) == NULL) {
        return false;
    }
    ZVAL_STRING(&function, name);
    bool called = call_user_function(NULL, NULL, &function, answer, 1, argument) == SUCCESS && EG(exception) == NULL;
    zval_ptr_dtor(&function);
    return called;
}

/* What has objects or references goes to the extension of that name, or else to PHP's own serializer: flags tell which. */
static bool encode_stream(int32_t format, uint32_t flags, const char *other, zval *value, sjx_payload *payload)
{
    zval answer;
    if (sjx_stream_write(format, value, &payload->serialized)) {
        payload->flags = flags;
        payload->data = (const char *)payload->serialized.data;
        payload->len = payload->serialized.len;
        return true;
    }
    sj_result_free(&payload->serialized);
    if (!ask_extension(other, value, &answer)) {
        return EG(exception) == NULL && encode_php(value, payload);
    }
    if (Z_TYPE(answer) != IS_STRING) {
        zval_ptr_dtor(&answer);
        return false;
    }
    payload->flags = flags;
    own_text(payload, Z_STR(answer));
    return true;
}

static bool serialize(const sjx_settings *settings, zval *value, sjx_payload *payload)
{
    if (settings->values == SJX_VALUES_MEMCACHE) {
        return encode_php(value, payload);
    }
    switch (settings->serializer) {
    case SJX_SERIALIZER_IGBINARY:
        return encode_stream(SJ_IGBINARY, IGBINARY, "igbinary_serialize", value, payload);
    case SJX_SERIALIZER_MSGPACK:
        return encode_stream(SJ_PHP_MSGPACK, MSGPACK, "msgpack_serialize", value, payload);
    case SJX_SERIALIZER_JSON:
    case SJX_SERIALIZER_JSON_ARRAY:
        return encode_json(value, payload);
    default:
        return encode_php(value, payload);
    }
}

static void compress(const sjx_settings *settings, sjx_payload *payload)
{
    static const int32_t CODECS[] = {0, SJ_CODEC_ZLIB, SJ_CODEC_ZLIB, SJ_CODEC_ZSTD};
    sj_packing how = {
        .profile = profile(settings),
        .codec = settings->values == SJX_VALUES_MEMCACHE ? SJ_CODEC_ZLIB : CODECS[settings->compression_type],
        .choice = SJ_BY_THRESHOLD,
        .threshold = (size_t)settings->threshold,
        .saving_min = settings->saving,
    };
    if (!settings->compression || payload->len < how.threshold) {
        return;
    }
    if (sj_pack(&how, payload->flags, payload->data, payload->len, &payload->packed) == SJ_OK) {
        payload->flags = payload->packed.flags;
        payload->data = (const char *)payload->packed.data;
        payload->len = payload->packed.len;
    }
}

/* php-memcached's form to php-memcache's. */
static uint32_t old_form(uint32_t form)
{
    static const uint32_t FORMS[] = {0, OLD_INT, OLD_FLOAT, OLD_BOOL, OLD_SERIALIZED};
    return FORMS[form];
}

static bool encode_form(const sjx_settings *settings, zval *value, sjx_payload *payload)
{
    switch (Z_TYPE_P(value)) {
    case IS_STRING:
        own_text(payload, zend_string_copy(Z_STR_P(value)));
        return true;
    case IS_LONG:
        payload->flags = INT;
        snprintf(payload->number, sizeof payload->number, ZEND_LONG_FMT, Z_LVAL_P(value));
        number_text(payload);
        return true;
    case IS_DOUBLE:
        payload->flags = FLOAT;
        encode_float(Z_DVAL_P(value), payload);
        return true;
    case IS_FALSE:
    case IS_TRUE:
        payload->flags = BOOL;
        strcpy(payload->number, Z_TYPE_P(value) == IS_TRUE ? "1" : settings->values == SJX_VALUES_MEMCACHE ? "0" : "");
        number_text(payload);
        return true;
    default:
        return serialize(settings, value, payload);
    }
}

bool sjx_encode(const sjx_settings *settings, zval *value, sjx_payload *payload)
{
    memset(payload, 0, offsetof(sjx_payload, number));
    ZVAL_DEREF(value);
    if (!encode_form(settings, value, payload)) {
        sjx_payload_free(payload);
        return false;
    }
    bool number = payload->data == payload->number;
    if (settings->values == SJX_VALUES_MEMCACHE) {
        payload->flags = old_form(payload->flags);
    }
    if (!number) {
        compress(settings, payload);
    }
    if (settings->user_flags >= 0) {
        payload->flags |= (uint32_t)settings->user_flags << USER_SHIFT;
    }
    return true;
}

void sjx_payload_free(sjx_payload *payload)
{
    if (payload->text != NULL) {
        zend_string_release(payload->text);
        payload->text = NULL;
    }
    sj_result_free(&payload->serialized);
    sj_result_free(&payload->packed);
}

/* ---- Reading ---- */

static bool decode_php(const char *data, size_t len, zval *value)
{
    php_unserialize_data_t seen;
    const unsigned char *at = (const unsigned char *)data;
    PHP_VAR_UNSERIALIZE_INIT(seen);
    bool read = php_var_unserialize(value, &at, at + len, &seen) != 0;
    PHP_VAR_UNSERIALIZE_DESTROY(seen);
    if (!read) {
        zval_ptr_dtor(value);
        ZVAL_FALSE(value);
    }
    return read;
}

static bool decode_json(const sjx_settings *settings, const char *data, size_t len, zval *value)
{
    zend_long options = settings->serializer == SJX_SERIALIZER_JSON ? 0 : PHP_JSON_OBJECT_AS_ARRAY;
    return php_json_decode_ex(value, data, len, options, PHP_JSON_PARSER_DEFAULT_DEPTH) == SUCCESS;
}

static bool decode_stream(int32_t format, const char *other, const char *data, size_t len, zval *value)
{
    int outcome = sjx_stream_read(format, data, len, value);
    if (outcome != 0) {
        return outcome > 0;
    }
    zval bytes;
    ZVAL_STRINGL(&bytes, data, len);
    bool read = ask_extension(other, &bytes, value);
    zval_ptr_dtor(&bytes);
    if (!read) {
        php_error_docref(NULL, E_WARNING, "the value holds objects or references: load the extension with %s to read it", other);
    }
    return read;
}

static bool decode_float(const char *data, size_t len, zval *value)
{
    char text[64];
    if (len >= sizeof text) {
        return false;
    }
    memcpy(text, data, len);
    text[len] = 0;
    if (strcmp(text, "Infinity") == 0 || strcmp(text, "INF") == 0) {
        ZVAL_DOUBLE(value, ZEND_INFINITY);
    } else if (strcmp(text, "-Infinity") == 0 || strcmp(text, "-INF") == 0) {
        ZVAL_DOUBLE(value, -ZEND_INFINITY);
    } else if (strcmp(text, "NaN") == 0 || strcmp(text, "NAN") == 0) {
        ZVAL_DOUBLE(value, ZEND_NAN);
    } else {
        ZVAL_DOUBLE(value, zend_strtod(text, NULL));
    }
    return true;
}

static bool decode_int(const char *data, size_t len, zval *value)
{
    char text[32];
    if (len >= sizeof text) {
        return false;
    }
    memcpy(text, data, len);
    text[len] = 0;
    ZVAL_LONG(value, ZEND_STRTOL(text, NULL, 10));
    return true;
}

static bool decode_form(const sjx_settings *settings, uint32_t form, const char *data, size_t len, zval *value)
{
    switch (form) {
    case STRING:
        ZVAL_STRINGL_FAST(value, data, len);
        return true;
    case INT:
        return decode_int(data, len, value);
    case FLOAT:
        return decode_float(data, len, value);
    case BOOL:
        ZVAL_BOOL(value, len > 0 && *data == '1');
        return true;
    case PHP:
        return decode_php(data, len, value);
    case IGBINARY:
        return decode_stream(SJ_IGBINARY, "igbinary_unserialize", data, len, value);
    case JSON:
        return decode_json(settings, data, len, value);
    case MSGPACK:
        return decode_stream(SJ_PHP_MSGPACK, "msgpack_unserialize", data, len, value);
    default:
        php_error_docref(NULL, E_WARNING, "unknown payload type");
        return false;
    }
}

/* php-memcached's form of php-memcache's flags; what is unknown stays so. */
static uint32_t form_of_old(uint32_t flags)
{
    switch (flags & OLD_MASK) {
    case 0:
        return STRING;
    case OLD_INT:
        return INT;
    case OLD_FLOAT:
        return FLOAT;
    case OLD_BOOL:
        return BOOL;
    case OLD_SERIALIZED:
        return PHP;
    default:
        return FORM_MASK;
    }
}

bool sjx_decode(const sjx_settings *settings, const sj_result *result, zval *value)
{
    bool old = settings->values == SJX_VALUES_MEMCACHE;
    uint32_t form = old ? form_of_old(result->flags) : result->flags & FORM_MASK;
    uint32_t packed = result->flags & (old ? (uint32_t)OLD_COMPRESSED : CODEC_MASK);
    sj_result unpacked;
    ZVAL_FALSE(value);
    if (EXPECTED(packed == 0)) {
        return decode_form(settings, form, (const char *)result->data, result->len, value);
    }
    int status = sj_unpack(profile(settings), result->flags, result->data, result->len, SJX_UNPACKED_LEN_MAX, &unpacked);
    bool read = status == SJ_OK;
    if (read) {
        read = decode_form(settings, form, (const char *)unpacked.data, unpacked.len, value);
    } else {
        php_error_docref(NULL, E_WARNING, "could not decompress value: %.*s", (int)MIN(unpacked.len, 200),
                         (const char *)unpacked.data);
    }
    sj_result_free(&unpacked);
    return read;
}

void sjx_cas_token(uint64_t cas, zval *token)
{
    if (cas <= (uint64_t)ZEND_LONG_MAX) {
        ZVAL_LONG(token, (zend_long)cas);
    } else {
        ZVAL_STR(token, zend_strpprintf(0, "%" PRIu64, cas));
    }
}

zend_long sjx_user_flags(const sjx_settings *settings, uint32_t flags)
{
    return flags >> USER_SHIFT;
}
