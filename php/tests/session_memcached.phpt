--TEST--
Sessions of php-memcached's handler go on under ours, and the other way round
--EXTENSIONS--
igbinary
msgpack
memcached
--INI--
session.use_cookies=0
session.cache_limiter=
memcached.sess_binary_protocol=0
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
ob_start();
require 'servers.inc';
for ($round = 0; $round < 80; $round++) {
    $type = $round % 40 < 20 ? 'ketama' : 'ketama_weighted';
    $weight = $round < 40 ? '' : ':2';
    ini_set('session.save_path', implode(',', array_map(fn ($port) => "127.0.0.1:$port$weight", ports())));
    ini_set('memcached.sess_consistent_hash_type', $type);
    ini_set('scrubjay.sess_consistent_hash_type', $type);
    $id = "both$round" . getmypid();
    $expected = [];
    foreach (['memcached', 'scrubjay', 'memcached', 'scrubjay'] as $step => $handler) {
        session_module_name($handler);
        session_id($id);
        same(session_start(), true, "start by $handler");
        same($_SESSION, $expected, "read by $handler");
        $_SESSION["step $step"] = $expected["step $step"] = $handler;
        session_write_close();
    }
}
ob_end_flush();
?>
done
--EXPECT--
done
