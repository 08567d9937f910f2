/* How calls end: our statuses to the codes that programs of php-memcached know, and the words for them. */
#include "php_scrubjay.h"

static const char *const MESSAGES[SJX_RES_MAX] = {
    "SUCCESS",
    "FAILURE",
    "getaddrinfo() or getnameinfo() HOSTNAME LOOKUP FAILURE",
    "CONNECTION FAILURE",
    "CONNECTION BIND FAILURE",
    "WRITE FAILURE",
    "READ FAILURE",
    "UNKNOWN READ FAILURE",
    "PROTOCOL ERROR",
    "CLIENT ERROR",
    "SERVER ERROR",
    "ERROR was returned by server",
    "CONNECTION DATA EXISTS",
    "CONNECTION DATA DOES NOT EXIST",
    "NOT STORED",
    "STORED",
    "NOT FOUND",
    "MEMORY ALLOCATION FAILURE",
    "PARTIAL READ",
    "SOME ERRORS WERE REPORTED",
    "NO SERVERS DEFINED",
    "SERVER END",
    "SERVER DELETE",
    "SERVER VALUE",
    "STAT VALUE",
    "ITEM VALUE",
    "SYSTEM ERROR",
    "COULD NOT OPEN UNIX SOCKET",
    "ACTION NOT SUPPORTED",
    "A KEY LENGTH OF ZERO WAS PROVIDED",
    "FETCH WAS NOT COMPLETED",
    "A TIMEOUT OCCURRED",
    "ACTION QUEUED",
    "A BAD KEY WAS PROVIDED/CHARACTERS OUT OF RANGE",
    "THE HOST TRANSPORT PROTOCOL DOES NOT MATCH THAT OF THE CLIENT",
    "SERVER IS MARKED DEAD",
    "ENCOUNTERED AN UNKNOWN STAT KEY",
    "ITEM TOO BIG",
    "INVALID ARGUMENTS",
    "KEY RETURNED FROM SERVER WAS TOO LARGE",
    "FAILED TO SEND AUTHENTICATION TO SERVER",
    "AUTHENTICATION FAILURE",
    "CONTINUE AUTHENTICATION",
    "ERROR OCCURED WHILE PARSING",
    "USER INITIATED ERROR OCCURED WHILE PARSING",
    "DEPRECATED",
    "OPERATION IN PROCESS",
    "SERVER HAS FAILED AND IS DISABLED UNTIL TIMED RETRY",
    "SERVER FAILED TO ALLOCATE OBJECT",
};

const char *sjx_message(int code)
{
    if (code == SJX_RES_PAYLOAD_FAILURE) {
        return "PAYLOAD FAILURE";
    }
    return code >= 0 && code < SJX_RES_MAX ? MESSAGES[code] : "INVALID memcached_return_t";
}

static bool says(const sj_result *result, const char *words)
{
    return result->data != NULL &&
           php_memnstr((const char *)result->data, words, strlen(words), (const char *)result->data + result->len) != NULL;
}

static int server_error(const sj_result *result)
{
    if (says(result, "too large")) {
        return SJX_RES_E2BIG;
    }
    return says(result, "out of memory") ? SJX_RES_SERVER_MEMORY_ALLOCATION_FAILURE : SJX_RES_SERVER_ERROR;
}

/* Which kind of no connection it was, as libmemcached tells them apart; the library has only words for it. */
static int connect_error(const sj_result *result)
{
    if (says(result, "failed to lookup address") || says(result, "the name has no address")) {
        return SJX_RES_HOST_LOOKUP_FAILURE;
    }
    bool timed_out = says(result, "no connection: no answer in ") || says(result, "no connection: none in ");
    return timed_out ? SJX_RES_TIMEOUT : SJX_RES_CONNECTION_FAILURE;
}

int sjx_code(const sj_result *result)
{
    switch (result->status) {
    case SJ_OK:
    case SJ_AS_IS:
        return SJX_RES_SUCCESS;
    case SJ_MISS:
    case SJ_NOT_FOUND:
        return SJX_RES_NOTFOUND;
    case SJ_NOT_STORED:
        return SJX_RES_NOTSTORED;
    case SJ_EXISTS:
        return SJX_RES_DATA_EXISTS;
    case SJ_ERR_KEY:
        return SJX_RES_BAD_KEY_PROVIDED;
    case SJ_ERR_TOO_LARGE:
        return SJX_RES_E2BIG;
    case SJ_ERR_REFUSED:
        return SJX_RES_NOT_SUPPORTED;
    case SJ_ERR_CONNECT:
        return connect_error(result);
    case SJ_ERR_DOWN:
        return SJX_RES_SERVER_TEMPORARILY_DISABLED;
    case SJ_ERR_TIMED_OUT:
        return SJX_RES_TIMEOUT;
    case SJ_ERR_BROKEN:
        return SJX_RES_UNKNOWN_READ_FAILURE;
    case SJ_ERR_UNKNOWN:
        return SJX_RES_PROTOCOL_ERROR;
    case SJ_ERR_CLIENT:
        return says(result, "too large") ? SJX_RES_E2BIG : SJX_RES_CLIENT_ERROR;
    case SJ_ERR_SERVER:
        return server_error(result);
    case SJ_ERR_VALUE:
        return SJX_RES_PAYLOAD_FAILURE;
    case SJ_ERR_ARGUMENT:
    case SJ_ERR_CONFIG:
        return SJX_RES_INVALID_ARGUMENTS;
    default:
        return SJX_RES_FAILURE;
    }
}

void sjx_set_code(sjx_object *object, int code)
{
    object->code = code;
    if (code == SJX_RES_SUCCESS || sjx_is_error(code)) {
        object->error_code = code;
        snprintf(object->error, sizeof object->error, "%s", sjx_message(code));
    }
}

int sjx_note(sjx_object *object, const sj_result *result)
{
    int code = sjx_code(result);
    sjx_set_code(object, code);
    if (sjx_is_error(code) && result->data != NULL) {
        snprintf(object->error, sizeof object->error, "%.*s", (int)MIN(result->len, sizeof object->error - 1),
                 (const char *)result->data);
    }
    return code;
}
