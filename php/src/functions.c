/* The serializers by themselves: for values that go elsewhere, and to measure them. */
#include "php_scrubjay.h"
#include "functions.h"

PHP_FUNCTION(scrubjay_serialize)
{
    zval *value;
    zend_long serializer = SJX_SERIALIZER_MSGPACK;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ZVAL(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(serializer)
    ZEND_PARSE_PARAMETERS_END();
    sj_result bytes;
    if (serializer != SJX_SERIALIZER_MSGPACK && serializer != SJX_SERIALIZER_IGBINARY) {
        zend_argument_value_error(2, "must be Scrubjay::SERIALIZER_MSGPACK or Scrubjay::SERIALIZER_IGBINARY");
        RETURN_THROWS();
    }
    memset(&bytes, 0, sizeof bytes);
    if (sjx_stream_write(serializer == SJX_SERIALIZER_MSGPACK ? SJ_PHP_MSGPACK : SJ_IGBINARY, value, &bytes)) {
        RETVAL_STRINGL((const char *)bytes.data, bytes.len);
    } else {
        php_error_docref(NULL, E_WARNING, "the value holds objects or references, or arrays more than %d deep; use serialize()",
                         SJX_DEPTH_MAX);
        RETVAL_FALSE;
    }
    sj_result_free(&bytes);
}

PHP_FUNCTION(scrubjay_unserialize)
{
    zend_string *bytes;
    zend_long serializer = SJX_SERIALIZER_MSGPACK;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(bytes)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(serializer)
    ZEND_PARSE_PARAMETERS_END();
    int32_t format = serializer == SJX_SERIALIZER_IGBINARY ? SJ_IGBINARY : SJ_PHP_MSGPACK;
    if (sjx_stream_read(format, ZSTR_VAL(bytes), ZSTR_LEN(bytes), return_value) != 1) {
        php_error_docref(NULL, E_WARNING, "these bytes are no value of this format, or hold objects or references");
        RETURN_FALSE;
    }
}
