/* The extension: what its files share.
 *
 * A pool is what may outlive a request: servers, settings, and the client made of them. An object of the class refers to a pool,
 * of its own or of a persistent id, and keeps how its last call ended.
 */
#ifndef PHP_SCRUBJAY_H
#define PHP_SCRUBJAY_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "php.h"
#include "scrubjay.h"

#define PHP_SCRUBJAY_VERSION "0.1.0"
/* Whose methods and constants we have. */
#define SJX_MEMCACHED_VERSION "3.2.0"

/* Of a server for which none is given. */
#define SJX_PORT 11211
/* What memcached takes as a key. */
#define SJX_KEY_LEN_MAX 250
/* More servers than this are a mistake. */
#define SJX_SERVERS_MAX 4096
/* Longest value that is sent or received. */
#define SJX_VALUE_LEN_MAX "1073741824"
/* Most bytes that a compressed value may become. */
#define SJX_UNPACKED_LEN_MAX ((size_t)1 << 30)
/* Levels of arrays in arrays. */
#define SJX_DEPTH_MAX 256
/* What copies may take, and how long they may be kept. */
#define SJX_NEAR_MIB_MAX 1048576
#define SJX_NEAR_TTL_MAX 31536000000
/* One more than the highest option of libmemcached. */
#define SJX_BEHAVIORS 38

extern zend_module_entry scrubjay_module_entry;
extern zend_class_entry *sjx_scrubjay_ce, *sjx_memcached_ce;
extern zend_class_entry *sjx_exception_ce, *sjx_memcached_exception_ce;

ZEND_BEGIN_MODULE_GLOBALS(scrubjay)
    bool replace_memcached;
    char *serializer;
    char *compression_type;
    double compression_factor;
    zend_long compression_threshold;
    zend_long default_connect_timeout;
    zend_long store_retry_count;
    bool default_consistent_hash;
    bool default_binary_protocol;
    struct {
        bool locking;
        zend_long lock_wait_min;
        zend_long lock_wait_max;
        zend_long lock_retries;
        zend_long lock_expire;
        bool persistent;
        bool consistent_hash;
        char *consistent_hash_type;
        zend_long connect_timeout;
        zend_long server_failure_limit;
        bool remove_failed_servers;
        char *prefix;
        char *sasl_username;
        char *sasl_password;
    } session;
ZEND_END_MODULE_GLOBALS(scrubjay)
ZEND_EXTERN_MODULE_GLOBALS(scrubjay)
#define SJX_G(name) ZEND_MODULE_GLOBALS_ACCESSOR(scrubjay, name)

/* ---- Numbers that programs see (the names are in constants.c) ---- */

enum {
    SJX_RES_PAYLOAD_FAILURE = -1001,
    SJX_RES_SUCCESS = 0,
    SJX_RES_FAILURE = 1,
    SJX_RES_HOST_LOOKUP_FAILURE = 2,
    SJX_RES_CONNECTION_FAILURE = 3,
    SJX_RES_UNKNOWN_READ_FAILURE = 7,
    SJX_RES_PROTOCOL_ERROR = 8,
    SJX_RES_CLIENT_ERROR = 9,
    SJX_RES_SERVER_ERROR = 10,
    SJX_RES_DATA_EXISTS = 12,
    SJX_RES_NOTSTORED = 14,
    SJX_RES_NOTFOUND = 16,
    SJX_RES_SOME_ERRORS = 19,
    SJX_RES_NO_SERVERS = 20,
    SJX_RES_NOT_SUPPORTED = 28,
    SJX_RES_TIMEOUT = 31,
    SJX_RES_BUFFERED = 32,
    SJX_RES_BAD_KEY_PROVIDED = 33,
    SJX_RES_E2BIG = 37,
    SJX_RES_INVALID_ARGUMENTS = 38,
    SJX_RES_AUTH_FAILURE = 41,
    SJX_RES_SERVER_TEMPORARILY_DISABLED = 47,
    SJX_RES_SERVER_MEMORY_ALLOCATION_FAILURE = 48,
    SJX_RES_MAX = 49
};

enum {
    SJX_OPT_COMPRESSION = -1001,
    SJX_OPT_PREFIX_KEY = -1002,
    SJX_OPT_SERIALIZER = -1003,
    SJX_OPT_COMPRESSION_TYPE = -1004,
    SJX_OPT_STORE_RETRY_COUNT = -1005,
    SJX_OPT_USER_FLAGS = -1006,
    /* Ours. */
    SJX_OPT_VALUES = -2001,
    SJX_OPT_COMPRESSION_THRESHOLD = -2002,
    SJX_OPT_COMPRESSION_SAVING = -2003,
    SJX_OPT_SCHEME = -2004,
    SJX_OPT_NEAR_CACHE_MIB = -2005,
    SJX_OPT_NEAR_CACHE_TTL = -2006,
    SJX_OPT_NEAR_CACHE_COHERENCE = -2007,
    /* libmemcached's. */
    SJX_OPT_NO_BLOCK = 0,
    SJX_OPT_TCP_NODELAY = 1,
    SJX_OPT_HASH = 2,
    SJX_OPT_CACHE_LOOKUPS = 6,
    SJX_OPT_POLL_TIMEOUT = 8,
    SJX_OPT_DISTRIBUTION = 9,
    SJX_OPT_BUFFER_WRITES = 10,
    SJX_OPT_SORT_HOSTS = 12,
    SJX_OPT_VERIFY_KEY = 13,
    SJX_OPT_CONNECT_TIMEOUT = 14,
    SJX_OPT_RETRY_TIMEOUT = 15,
    SJX_OPT_LIBKETAMA_COMPATIBLE = 16,
    SJX_OPT_LIBKETAMA_HASH = 17,
    SJX_OPT_BINARY_PROTOCOL = 18,
    SJX_OPT_SEND_TIMEOUT = 19,
    SJX_OPT_RECV_TIMEOUT = 20,
    SJX_OPT_SERVER_FAILURE_LIMIT = 21,
    SJX_OPT_HASH_WITH_PREFIX_KEY = 25,
    SJX_OPT_NOREPLY = 26,
    SJX_OPT_USE_UDP = 27,
    SJX_OPT_AUTO_EJECT_HOSTS = 28,
    SJX_OPT_RANDOMIZE_REPLICA_READ = 30,
    SJX_OPT_TCP_KEEPALIVE = 32,
    SJX_OPT_REMOVE_FAILED_SERVERS = 35
};

enum {
    SJX_DISTRIBUTION_MODULA = 0,
    SJX_DISTRIBUTION_CONSISTENT = 1,
    SJX_DISTRIBUTION_KETAMA = 2,
    SJX_DISTRIBUTION_WEIGHTED = 5,
    SJX_DISTRIBUTION_BUCKETS = 6
};
enum { SJX_HASH_MD5 = 1 };
enum { SJX_SERIALIZER_PHP = 1, SJX_SERIALIZER_IGBINARY, SJX_SERIALIZER_JSON, SJX_SERIALIZER_JSON_ARRAY, SJX_SERIALIZER_MSGPACK };
enum { SJX_COMPRESSION_ZLIB = 1, SJX_COMPRESSION_FASTLZ, SJX_COMPRESSION_ZSTD };
enum { SJX_VALUES_MEMCACHED = 0, SJX_VALUES_MEMCACHE = 1 };
enum { SJX_NEAR_CACHE_STREAM = 0, SJX_NEAR_CACHE_TTL_ONLY = 1 };
enum { SJX_GET_PRESERVE_ORDER = 1, SJX_GET_EXTENDED = 2 };

/* ---- Pools ---- */

typedef struct {
    char *host;
    uint16_t port;
    uint32_t weight;  /* as it was given; 0 counts as 1 */
} sjx_server;

/* An option of the client's table. */
typedef struct {
    char *name;
    char *text;
} sjx_named;

typedef struct {
    int serializer;
    int values;
    int compression_type;
    bool compression;
    zend_long threshold;
    double saving;
    zend_long user_flags;  /* -1: none */
    zend_long store_retry_count;
    zend_long near_mib;  /* 0: no near cache */
    zend_long near_ttl;  /* ms */
    int near_coherence;
    /* By libmemcached's numbers. SJX_OPT_LIBKETAMA_COMPATIBLE is what libmemcached keeps there: whether a ring heeds weights. */
    zend_long behavior[SJX_BEHAVIORS];
    /* The hash of the ring's points: libmemcached's when the ring was made, for what is set later is that of keys alone. */
    zend_long points_hash;
    size_t prefix_len;
    char prefix[SJX_KEY_LEN_MAX + 1];
    char *scheme;  /* instead of hash and distribution */
    char *login;   /* USER:PASSWORD */
    size_t named_count;
    sjx_named *named;  /* set after all others, in their order */
} sjx_settings;

typedef struct {
    bool persistent;
    bool unmade;  /* the callback that was to set it up threw: whoever asks for it next sets it up anew */
    size_t server_count;
    sjx_server *servers;
    size_t bucket_count;
    uint32_t *buckets;
    sjx_settings settings;
    sj_client *client;  /* NULL: to be made of what is above */
} sjx_pool;

typedef struct {
    sjx_pool *pool;
    bool pristine;
    bool constructed;
    int code;
    int error_code;  /* the last one that was none of a miss's kind */
    char error[256];
    int disconnected;  /* the server of the last failure, -1 without one */
    HashTable *delayed;  /* what getDelayed got and fetch has not taken */
    zend_object std;
} sjx_object;

static inline sjx_object *sjx_from(zend_object *object)
{
    return (sjx_object *)((char *)object - XtOffsetOf(sjx_object, std));
}
/* The object of a method; a subclass whose constructor did not call ours gets an Error, whatever the method does besides. */
#define SJX_THIS() sjx_constructed(Z_OBJ_P(ZEND_THIS))
sjx_object *sjx_constructed(zend_object *object);

/* client.c */
sjx_pool *sjx_pool_new(bool persistent, bool drop_in);
void sjx_pool_free(sjx_pool *pool);
bool sjx_pool_add(sjx_pool *pool, const char *host, zend_long port, zend_long weight);
void sjx_pool_reset(sjx_pool *pool);
/* As it was when it was new. */
void sjx_pool_renew(sjx_pool *pool, bool drop_in);
/* The pool of an id, made if there is none. */
sjx_pool *sjx_pool_persistent(zend_string *id, bool drop_in, bool *made);
/* The client is made anew before the next call. */
void sjx_pool_changed(sjx_pool *pool);
/* NULL: then error has been filled, and is to be freed. */
sj_client *sjx_pool_client(sjx_pool *pool, sj_result *error);
/* The object's client; NULL: then its code says why. */
sj_client *sjx_client(sjx_object *object);
/* Whether it was another text. */
bool sjx_set_text(char **place, const char *text, size_t len);

/* result.c */
const char *sjx_message(int code);
/* Keeps how a call ended, and returns the code. */
int sjx_note(sjx_object *object, const sj_result *result);
int sjx_code(const sj_result *result);
void sjx_set_code(sjx_object *object, int code);
static inline bool sjx_is_error(int code)
{
    return code != SJX_RES_SUCCESS && code != SJX_RES_NOTFOUND && code != SJX_RES_NOTSTORED &&
           code != SJX_RES_DATA_EXISTS && code != SJX_RES_BUFFERED;
}

/* options.c */
void sjx_settings_init(sjx_settings *settings, bool drop_in);
void sjx_settings_free(sjx_settings *settings);
/* Sets an option of the client's table; false, after a warning, if it is none or has no such value. */
bool sjx_option_set_named(sjx_object *object, const char *name, const char *text, size_t len);
void sjx_option_get(sjx_object *object, zend_long option, zval *value);
bool sjx_option_set(sjx_object *object, zend_long option, zval *value);
/* Sets the distribution, and what is so of its ring, as libmemcached does. */
void sjx_distribute(sjx_settings *settings, zend_long distribution);
/* Whether servers lie on a ring. */
bool sjx_is_ring(const sjx_settings *settings);
/* 0: there is none of this name. */
int sjx_serializer_by_name(const char *name);
int sjx_compression_by_name(const char *name);

/* keys.c */
typedef struct {
    const char *data;
    size_t len;
    const char *route;  /* NULL: by itself */
    size_t route_len;
    char joined[SJX_KEY_LEN_MAX];
} sjx_key;
/* Whether there is a blank or control character in it. */
bool sjx_has_control(const char *text, size_t len);
bool sjx_key_is_valid(const sjx_object *object, const zend_string *key);
/* False: the object's code says why. */
bool sjx_key_make(sjx_object *object, const zend_string *name, const zend_string *server_key, sjx_key *key);
void sjx_key_put(const sjx_key *key, sj_request *request);

/* zval.c */
typedef struct {
    uint32_t flags;
    const char *data;
    size_t len;
    zend_string *text;  /* whose bytes they are, one of these or neither */
    sj_result serialized;
    sj_result packed;
    char number[64];
} sjx_payload;
bool sjx_encode(const sjx_settings *settings, zval *value, sjx_payload *payload);
void sjx_payload_free(sjx_payload *payload);
bool sjx_decode(const sjx_settings *settings, const sj_result *result, zval *value);
void sjx_cas_token(uint64_t cas, zval *token);
zend_long sjx_user_flags(const sjx_settings *settings, uint32_t flags);

/* stream.c */
bool sjx_stream_write(int32_t format, zval *value, sj_result *bytes);
/* 1: done; 0: objects or references, which this does not read; -1: no value of the format. */
int sjx_stream_read(int32_t format, const char *bytes, size_t len, zval *value);

/* get.c */
/* Stores a value, if cas is not 0 only as long as the item has that number. */
bool sjx_store_value(sjx_object *object, zend_string *name, zend_string *server_key, zval *value, zend_long exptime,
                     uint64_t cas);

/* many.c */
typedef struct {
    size_t count;
    sj_request *requests;
    sj_result *results;
    zend_string **names;
    sjx_key *keys;
    sjx_payload *payloads;
    bool refused;  /* some key was no good and was left out */
} sjx_batch;
void sjx_batch_init(sjx_batch *batch, size_t room);
void sjx_batch_free(sjx_batch *batch);
sj_request *sjx_batch_add(sjx_batch *batch, sjx_object *object, zend_string *name, zend_string *server_key, uint32_t op);
bool sjx_batch_call(sjx_batch *batch, sjx_object *object);

/* constants.c */
void sjx_class_constants(zend_class_entry *class);

/* class.c */
void sjx_register_classes(int module_number);

/* session.c */
void sjx_session_register(bool drop_in);

#endif
