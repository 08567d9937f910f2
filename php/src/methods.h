/* Every method: its arguments, as in php-memcached 3.2, where it is implemented, and which class has it. */
#ifndef SJX_METHODS_H
#define SJX_METHODS_H

ZEND_BEGIN_ARG_INFO_EX(arginfo___construct, 0, 0, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, persistent_id, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, callback, IS_CALLABLE, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, connection_str, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getResultCode, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getResultMessage, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_get, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cache_cb, IS_CALLABLE, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, get_flags, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getByKey, 0, 2, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cache_cb, IS_CALLABLE, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, get_flags, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_getMulti, 0, 1, MAY_BE_ARRAY | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, get_flags, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_getMultiByKey, 0, 2, MAY_BE_ARRAY | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, get_flags, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getDelayed, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, with_cas, _IS_BOOL, 0, "false")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, value_cb, IS_CALLABLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getDelayedByKey, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, with_cas, _IS_BOOL, 0, "false")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, value_cb, IS_CALLABLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_fetch, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_set, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setByKey, 0, 3, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_touch, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_touchByKey, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setMulti, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, items, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setMultiByKey, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, items, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

/* The token may be a number, too. It is declared as in php-memcached, so that subclasses that declare it as they had to there go on. */
ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_cas, 0, 3, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, cas_token, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_casByKey, 0, 4, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, cas_token, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_append, 0, 2, _IS_BOOL, 1)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_appendByKey, 0, 3, _IS_BOOL, 1)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_delete, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, time, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_deleteMulti, 0, 1, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, time, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_deleteByKey, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, time, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_deleteMultiByKey, 0, 2, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, time, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_increment, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, offset, IS_LONG, 0, "1")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, initial_value, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiry, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_incrementByKey, 0, 2, MAY_BE_LONG | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, offset, IS_LONG, 0, "1")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, initial_value, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiry, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_addServer, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, host, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, port, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, weight, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_addServers, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, servers, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getServerList, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_getServerByKey, 0, 1, MAY_BE_ARRAY | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, server_key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_resetServerList, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_MASK_EX(arginfo_getStats, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, type, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_flush, 0, 0, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, delay, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getOption, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, option, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setOption, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, option, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setClientOption, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setOptions, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, options, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setBucket, 0, 3, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, host_map, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO(0, forward_map, IS_ARRAY, 1)
    ZEND_ARG_TYPE_INFO(0, replicas, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setSaslAuthData, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, username, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, password, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setEncodingKey, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_setCompressThreshold, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, threshold, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, min_savings, IS_DOUBLE, 0, "0.2")
ZEND_END_ARG_INFO()

/* Ours. */
ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_getOrCompute, 0, 2, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, compute, IS_CALLABLE, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, expiration, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, refresh_below, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, wait, IS_DOUBLE, 0, "1.0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, lease, IS_LONG, 0, "30")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_TENTATIVE_RETURN_TYPE_INFO_EX(arginfo_invalidate, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, keep, IS_LONG, 0, "30")
ZEND_END_ARG_INFO()

ZEND_METHOD(Scrubjay, getOrCompute);
ZEND_METHOD(Scrubjay, invalidate);
ZEND_METHOD(Scrubjay, getNearCacheCounts);
ZEND_METHOD(Scrubjay, __construct);
ZEND_METHOD(Scrubjay, getResultCode);
ZEND_METHOD(Scrubjay, getResultMessage);
ZEND_METHOD(Scrubjay, get);
ZEND_METHOD(Scrubjay, getByKey);
ZEND_METHOD(Scrubjay, getMulti);
ZEND_METHOD(Scrubjay, getMultiByKey);
ZEND_METHOD(Scrubjay, getDelayed);
ZEND_METHOD(Scrubjay, getDelayedByKey);
ZEND_METHOD(Scrubjay, fetch);
ZEND_METHOD(Scrubjay, fetchAll);
ZEND_METHOD(Scrubjay, set);
ZEND_METHOD(Scrubjay, setByKey);
ZEND_METHOD(Scrubjay, touch);
ZEND_METHOD(Scrubjay, touchByKey);
ZEND_METHOD(Scrubjay, setMulti);
ZEND_METHOD(Scrubjay, setMultiByKey);
ZEND_METHOD(Scrubjay, cas);
ZEND_METHOD(Scrubjay, casByKey);
ZEND_METHOD(Scrubjay, add);
ZEND_METHOD(Scrubjay, addByKey);
ZEND_METHOD(Scrubjay, append);
ZEND_METHOD(Scrubjay, appendByKey);
ZEND_METHOD(Scrubjay, prepend);
ZEND_METHOD(Scrubjay, prependByKey);
ZEND_METHOD(Scrubjay, replace);
ZEND_METHOD(Scrubjay, replaceByKey);
ZEND_METHOD(Scrubjay, delete);
ZEND_METHOD(Scrubjay, deleteMulti);
ZEND_METHOD(Scrubjay, deleteByKey);
ZEND_METHOD(Scrubjay, deleteMultiByKey);
ZEND_METHOD(Scrubjay, increment);
ZEND_METHOD(Scrubjay, decrement);
ZEND_METHOD(Scrubjay, incrementByKey);
ZEND_METHOD(Scrubjay, decrementByKey);
ZEND_METHOD(Scrubjay, addServer);
ZEND_METHOD(Scrubjay, addServers);
ZEND_METHOD(Scrubjay, getServerList);
ZEND_METHOD(Scrubjay, getServerByKey);
ZEND_METHOD(Scrubjay, resetServerList);
ZEND_METHOD(Scrubjay, quit);
ZEND_METHOD(Scrubjay, flushBuffers);
ZEND_METHOD(Scrubjay, getLastErrorMessage);
ZEND_METHOD(Scrubjay, getLastErrorCode);
ZEND_METHOD(Scrubjay, getLastErrorErrno);
ZEND_METHOD(Scrubjay, getLastDisconnectedServer);
ZEND_METHOD(Scrubjay, getStats);
ZEND_METHOD(Scrubjay, getVersion);
ZEND_METHOD(Scrubjay, getAllKeys);
ZEND_METHOD(Scrubjay, flush);
ZEND_METHOD(Scrubjay, getOption);
ZEND_METHOD(Scrubjay, setOption);
ZEND_METHOD(Scrubjay, setClientOption);
ZEND_METHOD(Scrubjay, setOptions);
ZEND_METHOD(Scrubjay, setBucket);
ZEND_METHOD(Scrubjay, setSaslAuthData);
ZEND_METHOD(Scrubjay, setEncodingKey);
ZEND_METHOD(Scrubjay, isPersistent);
ZEND_METHOD(Scrubjay, isPristine);
ZEND_METHOD(Scrubjay, checkKey);
ZEND_METHOD(Scrubjay, setCompressThreshold);

/* php-memcached's. */
#define SJX_THEIR_METHODS \
    ZEND_ME(Scrubjay, __construct, arginfo___construct, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getResultCode, arginfo_getResultCode, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getResultMessage, arginfo_getResultMessage, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, get, arginfo_get, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getByKey, arginfo_getByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getMulti, arginfo_getMulti, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getMultiByKey, arginfo_getMultiByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getDelayed, arginfo_getDelayed, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getDelayedByKey, arginfo_getDelayedByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, fetch, arginfo_fetch, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, fetchAll, arginfo_fetch, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, set, arginfo_set, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setByKey, arginfo_setByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, touch, arginfo_touch, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, touchByKey, arginfo_touchByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setMulti, arginfo_setMulti, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setMultiByKey, arginfo_setMultiByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, cas, arginfo_cas, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, casByKey, arginfo_casByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, add, arginfo_set, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, addByKey, arginfo_setByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, append, arginfo_append, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, appendByKey, arginfo_appendByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, prepend, arginfo_append, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, prependByKey, arginfo_appendByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, replace, arginfo_set, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, replaceByKey, arginfo_setByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, delete, arginfo_delete, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, deleteMulti, arginfo_deleteMulti, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, deleteByKey, arginfo_deleteByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, deleteMultiByKey, arginfo_deleteMultiByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, increment, arginfo_increment, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, decrement, arginfo_increment, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, incrementByKey, arginfo_incrementByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, decrementByKey, arginfo_incrementByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, addServer, arginfo_addServer, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, addServers, arginfo_addServers, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getServerList, arginfo_getServerList, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getServerByKey, arginfo_getServerByKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, resetServerList, arginfo_resetServerList, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, quit, arginfo_resetServerList, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, flushBuffers, arginfo_resetServerList, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getLastErrorMessage, arginfo_getResultMessage, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getLastErrorCode, arginfo_getResultCode, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getLastErrorErrno, arginfo_getResultCode, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getLastDisconnectedServer, arginfo_fetch, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getStats, arginfo_getStats, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getVersion, arginfo_fetch, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getAllKeys, arginfo_fetch, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, flush, arginfo_flush, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getOption, arginfo_getOption, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setOption, arginfo_setOption, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setOptions, arginfo_setOptions, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setBucket, arginfo_setBucket, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setSaslAuthData, arginfo_setSaslAuthData, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setEncodingKey, arginfo_setEncodingKey, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, isPersistent, arginfo_resetServerList, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, isPristine, arginfo_resetServerList, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, checkKey, arginfo_setEncodingKey, ZEND_ACC_PUBLIC)

/* Ours. */
#define SJX_OUR_METHODS \
    ZEND_ME(Scrubjay, setClientOption, arginfo_setClientOption, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, setCompressThreshold, arginfo_setCompressThreshold, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getOrCompute, arginfo_getOrCompute, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, invalidate, arginfo_invalidate, ZEND_ACC_PUBLIC) \
    ZEND_ME(Scrubjay, getNearCacheCounts, arginfo_fetch, ZEND_ACC_PUBLIC)

static const zend_function_entry sjx_scrubjay_methods[] = {SJX_THEIR_METHODS SJX_OUR_METHODS ZEND_FE_END};
/* Ours are found by class.c. */
static const zend_function_entry sjx_memcached_methods[] = {SJX_THEIR_METHODS ZEND_FE_END};

#endif
