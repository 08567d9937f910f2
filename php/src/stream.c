/* PHP's arrays to MessagePack and igbinary and back, without a tree in between. Objects and references are left to others. */
#include "php_scrubjay.h"

static bool write_value(sj_writer *writer, int32_t format, zval *value, int depth);

static void write_key(sj_writer *writer, zend_ulong number, zend_string *text)
{
    if (text == NULL) {
        sj_writer_int(writer, (int64_t)number);
    } else {
        sj_writer_text(writer, ZSTR_VAL(text), ZSTR_LEN(text));
    }
}

static bool write_array(sj_writer *writer, int32_t format, HashTable *array, int depth)
{
    zend_ulong number;
    zend_string *text;
    zval *value;
    bool list = format != SJ_IGBINARY && zend_array_is_list(array);
    if (depth >= SJX_DEPTH_MAX) {
        return false;
    }
    if (list) {
        sj_writer_list(writer, zend_hash_num_elements(array));
    } else {
        sj_writer_map(writer, zend_hash_num_elements(array));
    }
    ZEND_HASH_FOREACH_KEY_VAL(array, number, text, value) {
        if (!list) {
            write_key(writer, number, text);
        }
        if (EXPECTED(Z_TYPE_P(value) == IS_LONG)) {
            sj_writer_int(writer, Z_LVAL_P(value));
        } else if (!write_value(writer, format, value, depth + 1)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

static bool write_value(sj_writer *writer, int32_t format, zval *value, int depth)
{
    switch (Z_TYPE_P(value)) {
    case IS_NULL:
        sj_writer_null(writer);
        return true;
    case IS_FALSE:
    case IS_TRUE:
        sj_writer_bool(writer, Z_TYPE_P(value) == IS_TRUE);
        return true;
    case IS_LONG:
        sj_writer_int(writer, Z_LVAL_P(value));
        return true;
    case IS_DOUBLE:
        sj_writer_float(writer, Z_DVAL_P(value));
        return true;
    case IS_STRING:
        sj_writer_text(writer, Z_STRVAL_P(value), Z_STRLEN_P(value));
        return true;
    case IS_ARRAY:
        return write_array(writer, format, Z_ARRVAL_P(value), depth);
    case IS_REFERENCE:
        /* One that nobody shares is none. */
        return Z_REFCOUNT_P(value) == 1 && write_value(writer, format, Z_REFVAL_P(value), depth);
    default:
        return false;
    }
}

bool sjx_stream_write(int32_t format, zval *value, sj_result *bytes)
{
    sj_writer *writer = sj_writer_new(format);
    if (!write_value(writer, format, value, 0)) {
        sj_writer_free(writer);
        return false;
    }
    return sj_writer_finish(writer, bytes) == SJ_OK;
}

enum { READ_FAILED = -1, READ_OTHER = 0, READ_DONE = 1 };

/* Keys that were read lately: those of rows come again with every row, and are shared then. */
#define RECENT 64
/* Longer ones are not looked for. */
#define RECENT_LEN_MAX 32

typedef struct {
    sj_reader *stream;
    zend_string *recent[RECENT];
} value_reader;

/* A key of its own, or one that is there already; with a reference for the caller. */
static zend_string *key_of(value_reader *reader, const char *data, size_t len)
{
    if (len <= 1) {
        return len == 0 ? ZSTR_EMPTY_ALLOC() : ZSTR_CHAR((zend_uchar)*data);
    }
    if (len > RECENT_LEN_MAX) {
        return zend_string_init(data, len, 0);
    }
    size_t place = ((unsigned char)data[0] * 3 + (unsigned char)data[len - 1] * 7 + (unsigned char)data[len / 2] + len * 31) % RECENT;
    zend_string *found = reader->recent[place];
    if (found != NULL && zend_string_equals_cstr(found, data, len)) {
        return zend_string_copy(found);
    }
    if (found != NULL) {
        zend_string_release(found);
    }
    found = zend_string_init(data, len, 0);
    reader->recent[place] = zend_string_copy(found);
    return found;
}

static void forget_keys(value_reader *reader)
{
    for (size_t at = 0; at < RECENT; at++) {
        if (reader->recent[at] != NULL) {
            zend_string_release(reader->recent[at]);
        }
    }
}

static int read_value(value_reader *reader, zval *value, int depth);

/* The value after an event; what is no container is there already. */
static int take(value_reader *reader, int kind, const sj_event *event, zval *value, int depth);

/* How many elements to make room for at once: half as many with each level, so that counts in counts do not multiply. */
static uint32_t room(const value_reader *reader, size_t len, int depth)
{
    size_t likely = sj_reader_left(reader->stream) >> MIN(depth, 30);
    return (uint32_t)MIN(len, MAX(likely, 16));
}

/* A list for all of which there is room. */
static int fill_list(value_reader *reader, size_t len, HashTable *list, int depth)
{
    int outcome = READ_DONE;
    ZEND_HASH_FILL_PACKED(list) {
        for (size_t at = 0; at < len && outcome == READ_DONE; at++) {
            sj_event event;
            int kind = sj_reader_next(reader->stream, &event);
            if (EXPECTED(kind == SJ_EVENT_INT)) {
                ZEND_HASH_FILL_SET_LONG(event.number);
            } else {
                zval element;
                outcome = take(reader, kind, &event, &element, depth);
                ZEND_HASH_FILL_SET(&element);
            }
            ZEND_HASH_FILL_NEXT();
        }
    } ZEND_HASH_FILL_END();
    return outcome;
}

static int read_list(value_reader *reader, size_t len, zval *value, int depth)
{
    int outcome = READ_DONE;
    if (depth >= SJX_DEPTH_MAX || len > sj_reader_left(reader->stream)) {
        ZVAL_NULL(value);
        return READ_FAILED;
    }
    uint32_t roomy = room(reader, len, depth);
    array_init_size(value, roomy);
    zend_hash_real_init_packed(Z_ARRVAL_P(value));
    if (roomy == len) {
        return fill_list(reader, len, Z_ARRVAL_P(value), depth + 1);
    }
    for (size_t at = 0; at < len && outcome == READ_DONE; at++) {
        zval element;
        outcome = read_value(reader, &element, depth + 1);
        zend_hash_next_index_insert_new(Z_ARRVAL_P(value), &element);
    }
    return outcome;
}

static int put_pair(value_reader *reader, HashTable *array, int kind, const sj_event *key, int depth)
{
    zval element;
    int outcome;
    if (kind == SJ_EVENT_INT) {
        outcome = read_value(reader, &element, depth);
        zend_hash_index_update(array, (zend_ulong)key->number, &element);
        return outcome;
    }
    if (kind != SJ_EVENT_TEXT && kind != SJ_EVENT_BYTES) {
        /* PHP's MessagePack marks objects by a key that is null. */
        return kind == SJ_EVENT_NULL ? READ_OTHER : READ_FAILED;
    }
    zend_string *text = key_of(reader, key->data, key->len);
    outcome = read_value(reader, &element, depth);
    zend_symtable_update(array, text, &element);
    zend_string_release(text);
    return outcome;
}

static int read_map(value_reader *reader, size_t len, zval *value, int depth)
{
    sj_event key;
    int outcome = READ_DONE;
    /* Each pair takes two bytes at least. */
    if (depth >= SJX_DEPTH_MAX || len > sj_reader_left(reader->stream) / 2) {
        ZVAL_NULL(value);
        return READ_FAILED;
    }
    array_init_size(value, room(reader, len, depth));
    for (size_t at = 0; at < len && outcome == READ_DONE; at++) {
        int kind = sj_reader_next(reader->stream, &key);
        if (at == 0 && kind == SJ_EVENT_INT && key.number == 0) {
            zend_hash_real_init_packed(Z_ARRVAL_P(value));
        }
        outcome = put_pair(reader, Z_ARRVAL_P(value), kind, &key, depth + 1);
    }
    return outcome;
}

static int take(value_reader *reader, int kind, const sj_event *event, zval *value, int depth)
{
    switch (kind) {
    case SJ_EVENT_NULL:
        ZVAL_NULL(value);
        return READ_DONE;
    case SJ_EVENT_FALSE:
    case SJ_EVENT_TRUE:
        ZVAL_BOOL(value, kind == SJ_EVENT_TRUE);
        return READ_DONE;
    case SJ_EVENT_INT:
        ZVAL_LONG(value, event->number);
        return READ_DONE;
    case SJ_EVENT_FLOAT:
        ZVAL_DOUBLE(value, event->real);
        return READ_DONE;
    case SJ_EVENT_TEXT:
    case SJ_EVENT_BYTES:
        ZVAL_STRINGL_FAST(value, event->data, event->len);
        return READ_DONE;
    case SJ_EVENT_LIST:
        return read_list(reader, event->len, value, depth);
    case SJ_EVENT_MAP:
        return read_map(reader, event->len, value, depth);
    default:
        ZVAL_NULL(value);
        return kind == SJ_EVENT_OBJECT || kind == SJ_EVENT_REFERENCE ? READ_OTHER : READ_FAILED;
    }
}

static int read_value(value_reader *reader, zval *value, int depth)
{
    sj_event event;
    int kind = sj_reader_next(reader->stream, &event);
    return take(reader, kind, &event, value, depth);
}

int sjx_stream_read(int32_t format, const char *bytes, size_t len, zval *value)
{
    sj_result error;
    value_reader reader = {.stream = sj_reader_new(format, bytes, len, &error)};
    sj_result_free(&error);
    ZVAL_NULL(value);
    if (reader.stream == NULL) {
        return READ_FAILED;
    }
    int outcome = read_value(&reader, value, 0);
    if (outcome == READ_DONE && sj_reader_left(reader.stream) > 0) {
        outcome = READ_FAILED;
    }
    if (outcome != READ_DONE) {
        zval_ptr_dtor(value);
        ZVAL_NULL(value);
    }
    forget_keys(&reader);
    sj_reader_free(reader.stream);
    return outcome;
}
