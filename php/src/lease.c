/* What php-memcached has not: of all who miss a value, in all processes, one computes it; and what the near cache counts.
 *
 * The winner of a lease stores with the lease's number, so that what was changed meanwhile is not overwritten; if it has nothing
 * to store it gives the lease up, and the next one wins. The others ask again, at growing intervals.
 */
#include "php_scrubjay.h"
#include <unistd.h>

/* Between two questions of one who waits, in microseconds. */
#define PAUSE_MIN_US 2000
#define PAUSE_MAX_US 50000

/* One call of getOrCompute. */
typedef struct {
    sjx_object *object;
    zval *self;
    zend_string *name;
    zend_fcall_info *info;
    zend_fcall_info_cache *cache;
    zend_long expiration;
    zend_long refresh_below;
    zend_long lease;
} lease_call;

typedef enum { FOUND, WON, TAKEN, LEASELESS, FAILED } lease_look;

/* The value that the program makes; false if it throws. */
static bool compute(const lease_call *call, zval *value)
{
    zval arguments[2];
    ZVAL_UNDEF(value);
    ZVAL_COPY(&arguments[0], call->self);
    ZVAL_STR_COPY(&arguments[1], call->name);
    call->info->params = arguments;
    call->info->param_count = 2;
    call->info->retval = value;
    bool done = zend_call_function(call->info, call->cache) == SUCCESS && EG(exception) == NULL && Z_TYPE_P(value) != IS_UNDEF;
    zval_ptr_dtor(&arguments[0]);
    zval_ptr_dtor(&arguments[1]);
    if (!done) {
        zval_ptr_dtor(value);
        ZVAL_FALSE(value);
    } else if (Z_ISREF_P(value)) {
        zend_unwrap_reference(value);
    }
    return done;
}

/* One request about the key; its result is the caller's. False: nothing was asked, and the object's code says why. */
static bool ask(const lease_call *call, sj_request *request, sj_result *result)
{
    sjx_key key;
    sj_client *client = sjx_client(call->object);
    if (client == NULL || !sjx_key_make(call->object, call->name, NULL, &key)) {
        return false;
    }
    sjx_key_put(&key, request);
    sj_call(client, request, NULL, result);
    return true;
}

static lease_look look(const lease_call *call, sj_result *result)
{
    sj_request request = {
        .op = SJ_GET, .with_cas = true, .lease_ttl = (uint32_t)call->lease, .recache_below = (uint32_t)call->refresh_below,
    };
    memset(result, 0, sizeof *result);
    if (!ask(call, &request, result)) {
        return FAILED;
    }
    if (result->status == SJ_OK) {
        bool empty = result->len == 0 && result->flags == 0 && result->lease != 0;
        return result->lease & SJ_LEASE_WON ? WON : empty ? TAKEN : FOUND;
    }
    /* The server does not speak of leases. */
    return result->status == SJ_ERR_REFUSED || result->status == SJ_MISS ? LEASELESS : FAILED;
}

/* The value as get finds it, copies included. */
static bool plain(const lease_call *call, zval *value)
{
    sj_request request = {.op = SJ_GET};
    sj_result result;
    if (!ask(call, &request, &result)) {
        return false;
    }
    bool found = result.status == SJ_OK && sjx_decode(&call->object->pool->settings, &result, value);
    sj_result_free(&result);
    return found;
}

static void give_up(const lease_call *call, uint64_t cas)
{
    sj_request request = {.op = SJ_DELETE, .cas = cas};
    sj_result result;
    if (ask(call, &request, &result)) {
        sj_result_free(&result);
    }
}

static void refill(const lease_call *call, const sj_result *won, zval *value)
{
    bool placeholder = won->len == 0 && won->flags == 0;
    uint64_t cas = won->cas;
    bool stored = compute(call, value) && sjx_store_value(call->object, call->name, NULL, value, call->expiration, cas);
    /* What was changed meanwhile is not ours to remove: its number is another one. */
    if (!stored && placeholder) {
        int code = call->object->code;
        give_up(call, cas);
        sjx_set_code(call->object, code);
    }
    if (!stored && (call->object->code == SJX_RES_DATA_EXISTS || call->object->code == SJX_RES_NOTFOUND)) {
        sjx_set_code(call->object, SJX_RES_SUCCESS);
    }
}

static void get_or_compute(const lease_call *call, double wait, zval *value)
{
    sjx_object *object = call->object;
    useconds_t pause = PAUSE_MIN_US;
    double left = wait * 1e6;
    if (object->pool->settings.near_mib > 0 && call->refresh_below == 0 && plain(call, value)) {
        return;
    }
    for (;;) {
        sj_result result;
        lease_look seen = look(call, &result);
        if (seen == FOUND && !sjx_decode(&object->pool->settings, &result, value)) {
            sjx_set_code(object, SJX_RES_PAYLOAD_FAILURE);
            ZVAL_FALSE(value);
        } else if (seen == WON) {
            refill(call, &result, value);
        } else if (seen == LEASELESS) {
            if (!plain(call, value) && compute(call, value)) {
                sjx_store_value(object, call->name, NULL, value, call->expiration, 0);
            }
        } else if (seen == FAILED && object->code != SJX_RES_BAD_KEY_PROVIDED && object->code != SJX_RES_NO_SERVERS) {
            /* The program goes on without its cache; the code says why. */
            sjx_note(object, &result);
            compute(call, value);
        } else if (seen == TAKEN && left <= 0) {
            compute(call, value);
        }
        sj_result_free(&result);
        if (seen != TAKEN || left <= 0) {
            return;
        }
        pause = MIN(pause, (useconds_t)left + 1);
        usleep(pause);
        left -= pause;
        pause = MIN(2 * pause, PAUSE_MAX_US);
    }
}

ZEND_METHOD(Scrubjay, getOrCompute)
{
    zend_fcall_info info;
    zend_fcall_info_cache cache;
    double wait = 1;
    lease_call call = {.object = SJX_THIS(), .self = ZEND_THIS, .info = &info, .cache = &cache, .lease = 30};
    ZEND_PARSE_PARAMETERS_START(2, 6)
        Z_PARAM_STR(call.name)
        Z_PARAM_FUNC(info, cache)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(call.expiration)
        Z_PARAM_LONG(call.refresh_below)
        Z_PARAM_DOUBLE(wait)
        Z_PARAM_LONG(call.lease)
    ZEND_PARSE_PARAMETERS_END();
    if (call.refresh_below < 0 || call.refresh_below > INT32_MAX || call.lease < 1 || call.lease > INT32_MAX || !(wait >= 0)) {
        zend_value_error("Scrubjay::getOrCompute(): a lease takes 1 second or more, refresh_below and wait are 0 or more");
        RETURN_THROWS();
    }
    sjx_set_code(call.object, SJX_RES_SUCCESS);
    RETVAL_FALSE;
    get_or_compute(&call, wait, return_value);
}

ZEND_METHOD(Scrubjay, invalidate)
{
    zend_long keep = 30;
    lease_call call = {.object = SJX_THIS()};
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(call.name)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(keep)
    ZEND_PARSE_PARAMETERS_END();
    sj_request request = {.op = SJ_DELETE, .invalidate = true, .exptime = keep};
    sj_result result;
    sjx_set_code(call.object, SJX_RES_SUCCESS);
    if (!ask(&call, &request, &result)) {
        RETURN_FALSE;
    }
    RETVAL_BOOL(sjx_note(call.object, &result) == SJX_RES_SUCCESS);
    sj_result_free(&result);
}

ZEND_METHOD(Scrubjay, getNearCacheCounts)
{
    ZEND_PARSE_PARAMETERS_NONE();
    sj_near_counts_t counts;
    sj_client *client = sjx_client(SJX_THIS());
    if (client == NULL || sj_near_counts(client, &counts) != SJ_OK) {
        RETURN_FALSE;
    }
    array_init_size(return_value, 8);
    add_assoc_long(return_value, "hits", (zend_long)counts.hits);
    add_assoc_long(return_value, "misses", (zend_long)counts.misses);
    add_assoc_long(return_value, "passed", (zend_long)counts.passed);
    add_assoc_long(return_value, "invalidations", (zend_long)counts.invalidations);
    add_assoc_long(return_value, "flushes", (zend_long)counts.flushes);
    add_assoc_long(return_value, "voids", (zend_long)counts.voids);
    add_assoc_long(return_value, "copies", (zend_long)counts.copies);
    add_assoc_long(return_value, "bytes", (zend_long)counts.bytes);
}
