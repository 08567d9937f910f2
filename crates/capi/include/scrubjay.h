/* The client of scrubjay for C: any server that speaks memcached's protocols.
 *
 * A client is made of a configuration and may be shared by all threads; connections are made when they are needed, and survive
 * fork (the child makes its own). Every call fills a result. What it holds is its own, and is given back by sj_result_free,
 * which may be called for any result that was filled or zeroed, once. Nothing here keeps pointers that were passed in, except
 * readers, which read the bytes where they lie. No function unwinds, exits or prints. NULL where something is needed is
 * SJ_ERR_ARGUMENT.
 *
 * Link with libscrubjay_capi; docs/client/c.md shows a program.
 */
#ifndef SCRUBJAY_H
#define SCRUBJAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. From SJ_ERR on nothing is known but that; the result's data tells the reason in words. */
enum {
    SJ_OK = 0,
    SJ_MISS = 1,        /* there is no value */
    SJ_NOT_STORED = 2,  /* add found something, or replace, append, prepend nothing */
    SJ_EXISTS = 3,      /* somebody else has changed the item */
    SJ_NOT_FOUND = 4,   /* there is no such item to change */
    SJ_AS_IS = 5,       /* sj_pack and sj_unpack: the bytes that were passed are the result */

    SJ_ERR = 16,
    SJ_ERR_ARGUMENT = 16,   /* no pointer where one is needed, or no such name or number */
    SJ_ERR_KEY = 17,        /* the key is empty, too long, or cannot be sent to this server */
    SJ_ERR_TOO_LARGE = 18,  /* the value is longer than value_len_max */
    SJ_ERR_REFUSED = 19,    /* the server's protocol cannot say it, or too much is outstanding */
    SJ_ERR_CONNECT = 20,    /* no connection; nothing was sent */
    SJ_ERR_DOWN = 21,       /* held to be down; nothing was sent */
    SJ_ERR_TIMED_OUT = 22,  /* no reply in time: it is not known what became of the request */
    SJ_ERR_BROKEN = 23,     /* the connection had to be closed: the same */
    SJ_ERR_UNKNOWN = 24,    /* the server does not know the command */
    SJ_ERR_CLIENT = 25,     /* the server refuses the request */
    SJ_ERR_SERVER = 26,     /* the server failed */
    SJ_ERR_VALUE = 27,      /* bytes or flags that are no value of their format */
    SJ_ERR_CONFIG = 28,     /* a configuration of which no client can be made */
    SJ_ERR_PANIC = 29       /* a fault of this library; what was called should not be used further */
};

/* Who refills a value, for requests with lease_ttl or recache_below; to others what is to be refilled is a miss. The winner stores
 * with the cas of its result, so that nothing that changed meanwhile is overwritten; or, if it has nothing to store and the result
 * was empty, deletes with it, so that the next one wins. */
enum {
    SJ_LEASE_WON = 1,    /* the asker is to */
    SJ_LEASE_TAKEN = 2,  /* somebody else is to */
    SJ_LEASE_STALE = 4   /* the value was invalidated */
};

typedef struct sj_result {
    int32_t status;
    uint32_t flags;   /* of a value; of what sj_pack made */
    uint64_t cas;     /* if it was asked for */
    uint64_t number;  /* of SJ_INCR and SJ_DECR */
    uint8_t *data;    /* a value, a version, a message; not ended by a zero byte */
    size_t len;
    size_t room;      /* not yours */
    uint32_t lease;
    uint32_t unused;
} sj_result;

/* Gives back what the result holds, and zeroes it. NULL is allowed. */
void sj_result_free(sj_result *result);

/* ---- Configuration ---- */

typedef struct sj_config sj_config;

/* Without servers, with the defaults. */
sj_config *sj_config_new(void);
void sj_config_free(sj_config *config);

/* Adds a server: host, address or path of a socket (then the port is 0), and its share of the keys, at least 1. */
int sj_config_add(sj_config *config, const char *host, uint16_t port, uint32_t weight, sj_result *result);

/* Sets an option by its name, from text: docs/client/c.md lists them. */
int sj_config_set(sj_config *config, const char *name, const char *text, sj_result *result);

/* For scheme vbucket: the server of each bucket, counted from 0. Set the scheme first. */
int sj_config_buckets(sj_config *config, const uint32_t *servers, size_t count, sj_result *result);

/* ---- Clients ---- */

typedef struct sj_client sj_client;

/* The configuration may be used further or freed. NULL if no client can be made of it: result tells why. */
sj_client *sj_client_new(const sj_config *config, sj_result *result);
void sj_client_free(sj_client *client);

uint32_t sj_client_servers(const sj_client *client);

/* The server of a key, counted from 0 in the order in which they were added; UINT32_MAX for arguments that are none. */
uint32_t sj_client_place(const sj_client *client, const void *key, size_t key_len);

/* What the near cache of a client has done, which the option near_cache_mib makes. SJ_MISS: there is none. */
typedef struct sj_near_counts_t {
    uint64_t hits;           /* gets answered by a copy */
    uint64_t misses;         /* asked of a server; may have become a copy */
    uint64_t passed;         /* passed through, as their server was not followed */
    uint64_t invalidations;  /* keys that servers told about */
    uint64_t flushes;        /* how often all copies of a server went */
    uint64_t voids;          /* answers that were overtaken by a change */
    uint64_t copies;
    uint64_t bytes;
} sj_near_counts_t;
int sj_near_counts(const sj_client *client, sj_near_counts_t *counts);

/* ---- Requests ---- */

enum {
    SJ_GET = 1,     /* [with_cas] [touch: exptime] [lease_ttl] [recache_below] */
    SJ_TOUCH,       /* exptime */
    SJ_SET,         /* value, flags, exptime, [cas] */
    SJ_ADD,
    SJ_REPLACE,
    SJ_APPEND,      /* value */
    SJ_PREPEND,
    SJ_DELETE,      /* [cas] [invalidate: exptime, for so long those with a lease_ttl still get it] */
    SJ_INCR,        /* delta, [with_initial: initial, exptime] */
    SJ_DECR,
    SJ_NOOP,        /* with a server in the options */
    SJ_VERSION,     /* the same */
    SJ_FLUSH        /* the same; exptime is the delay in seconds */
};

/* Zero it, and set what the operation needs. */
typedef struct sj_request {
    uint32_t op;
    uint32_t flags;
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
    const void *route;  /* place it as this key, if not NULL: what belongs together lies together */
    size_t route_len;
    int64_t exptime;
    uint64_t cas;       /* 0: whatever it is */
    uint64_t delta;
    uint64_t initial;
    uint32_t lease_ttl;
    uint32_t recache_below;
    uint8_t with_cas;
    uint8_t touch;
    uint8_t with_initial;
    uint8_t quiet;      /* no reply is wanted; SJ_OK says that it is on its way */
    uint8_t plain;      /* of SJ_GET: many at once are cheaper; what was invalidated is given then, as if it were fresh */
    uint8_t invalidate;
    uint8_t unused[2];
} sj_request;

/* How a call differs from others. NULL for all of it: it does not. */
typedef struct sj_options {
    uint32_t timeout_ms;  /* 0: as configured */
    uint32_t server;      /* one more than the server's number; 0: the server of the key */
} sj_options;

/* Asks, waits for the reply, and returns the result's status. */
int sj_call(const sj_client *client, const sj_request *request, const sj_options *options, sj_result *result);

/* Asks many, all servers at the same time. results has room for as many as there are requests, and is filled in their order.
 * Returns SJ_OK, or SJ_ERR_ARGUMENT and then has touched nothing. */
int sj_call_all(const sj_client *client, const sj_request *requests, size_t count, const sj_options *options,
                sj_result *results);

/* What a server tells of itself: called with each name and value. Asked on a connection of its own. */
typedef void (*sj_stat_fn)(void *context, const char *name, size_t name_len, const char *value, size_t value_len);
int sj_stats(const sj_client *client, uint32_t server, const char *argument, sj_stat_fn each, void *context,
             sj_result *result);

/* The keys of a server, as far as it lists them. The same. */
typedef void (*sj_key_fn)(void *context, const char *key, size_t key_len);
int sj_keys(const sj_client *client, uint32_t server, sj_key_fn each, void *context, sj_result *result);

/* ---- Values: compression ---- */

enum { SJ_CODEC_ZSTD = 1, SJ_CODEC_LZ4, SJ_CODEC_ZLIB, SJ_CODEC_FASTLZ };
enum { SJ_BY_THRESHOLD = 0, SJ_COMPRESS, SJ_RAW };

typedef struct sj_packing {
    const char *profile;  /* whose flags: "scrubjay", "php-memcached", "php-memcache"; docs/client/values.md lists them */
    int32_t codec;
    int32_t choice;
    size_t threshold;     /* nothing shorter is compressed */
    double saving_min;    /* the part that must be saved, from 0 to 1 */
} sj_packing;

/* Compresses serialized bytes whose flags are flags: SJ_OK with data and flags, or SJ_AS_IS. */
int sj_pack(const sj_packing *packing, uint32_t flags, const void *raw, size_t len, sj_result *result);

/* Takes the compression off: SJ_OK with data, or SJ_AS_IS. Nothing longer than len_max is made. */
int sj_unpack(const char *profile, uint32_t flags, const void *bytes, size_t len, size_t len_max, sj_result *result);

/* ---- Values: serializers, piece by piece ---- */

enum {
    SJ_MSGPACK = 1,      /* text is text, bytes are bytes */
    SJ_PHP_MSGPACK = 2,  /* all strings are text, as PHP's extension writes them */
    SJ_IGBINARY = 3
};

typedef struct sj_writer sj_writer;

/* NULL: there is no such format. */
sj_writer *sj_writer_new(int32_t format);
void sj_writer_free(sj_writer *writer);
void sj_writer_null(sj_writer *writer);
void sj_writer_bool(sj_writer *writer, int value);
void sj_writer_int(sj_writer *writer, int64_t value);
void sj_writer_float(sj_writer *writer, double value);
void sj_writer_text(sj_writer *writer, const void *data, size_t len);
void sj_writer_bytes(sj_writer *writer, const void *data, size_t len);
/* So many values follow. igbinary has no lists. */
void sj_writer_list(sj_writer *writer, size_t len);
/* So many pairs follow: a key, by _int or _text, and a value each. */
void sj_writer_map(sj_writer *writer, size_t len);
/* The bytes, or the first error there was; the writer is gone. */
int sj_writer_finish(sj_writer *writer, sj_result *result);

enum {
    SJ_EVENT_NULL = 1,
    SJ_EVENT_FALSE,
    SJ_EVENT_TRUE,
    SJ_EVENT_INT,
    SJ_EVENT_FLOAT,
    SJ_EVENT_TEXT,
    SJ_EVENT_BYTES,
    SJ_EVENT_LIST,
    SJ_EVENT_MAP,
    SJ_EVENT_OBJECT,     /* not read further */
    SJ_EVENT_REFERENCE,  /* not read further */
    SJ_EVENT_ERROR       /* data is a message that lasts as long as the reader */
};

typedef struct sj_event {
    const char *data;  /* of text, bytes and errors: in the bytes that are read */
    size_t len;        /* of data; how many values or pairs follow */
    int64_t number;
    double real;
} sj_event;

typedef struct sj_reader sj_reader;

/* The bytes must stay where they are until the reader is freed. NULL if they are not of the format: result tells why. */
sj_reader *sj_reader_new(int32_t format, const void *bytes, size_t len, sj_result *result);
void sj_reader_free(sj_reader *reader);
/* Returns what comes next. */
int sj_reader_next(sj_reader *reader, sj_event *event);
/* Bytes that are left: 0 after the last value. No more values than this can follow. */
size_t sj_reader_left(const sj_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
