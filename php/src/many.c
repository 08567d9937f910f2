/* Many requests at once: what they need until the replies are read. */
#include "php_scrubjay.h"

void sjx_batch_init(sjx_batch *batch, size_t room)
{
    memset(batch, 0, sizeof *batch);
    room = MAX(room, 1);
    batch->requests = safe_emalloc(room, sizeof(sj_request), 0);
    batch->results = ecalloc(room, sizeof(sj_result));
    batch->names = safe_emalloc(room, sizeof(zend_string *), 0);
    batch->keys = safe_emalloc(room, sizeof(sjx_key), 0);
    batch->payloads = NULL;
}

void sjx_batch_free(sjx_batch *batch)
{
    for (size_t at = 0; at < batch->count; at++) {
        sj_result_free(&batch->results[at]);
        zend_string_release(batch->names[at]);
        if (batch->payloads != NULL) {
            sjx_payload_free(&batch->payloads[at]);
        }
    }
    efree(batch->requests);
    efree(batch->results);
    efree(batch->names);
    efree(batch->keys);
    if (batch->payloads != NULL) {
        efree(batch->payloads);
    }
}

/* The next request; NULL if the key is no good, which is remembered. */
sj_request *sjx_batch_add(sjx_batch *batch, sjx_object *object, zend_string *name, zend_string *server_key, uint32_t op)
{
    sjx_key *key = &batch->keys[batch->count];
    if (!sjx_key_make(object, name, server_key, key)) {
        batch->refused = true;
        return NULL;
    }
    sj_request *request = &batch->requests[batch->count];
    memset(request, 0, sizeof *request);
    request->op = op;
    sjx_key_put(key, request);
    batch->names[batch->count] = zend_string_copy(name);
    batch->count++;
    return request;
}

bool sjx_batch_call(sjx_batch *batch, sjx_object *object)
{
    sj_client *client = sjx_client(object);
    if (client == NULL) {
        return false;
    }
    return sj_call_all(client, batch->requests, batch->count, NULL, batch->results) == SJ_OK;
}
