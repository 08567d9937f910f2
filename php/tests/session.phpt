--TEST--
Sessions are kept, locked and ended
--INI--
session.save_handler=scrubjay
session.use_cookies=0
session.cache_limiter=
session.use_strict_mode=0
scrubjay.sess_lock_wait_min=1
scrubjay.sess_lock_wait_max=4
scrubjay.sess_lock_retries=3
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
ob_start();
require 'servers.inc';
ini_set('session.save_path', implode(',', array_map(fn ($port) => "127.0.0.1:$port", ports())));
$ask = client();
$ask->setOption(Scrubjay::OPT_DISTRIBUTION, Scrubjay::DISTRIBUTION_CONSISTENT);
$ask->setOption(Scrubjay::OPT_PREFIX_KEY, 'memc.sess.key.');
$id = 'session' . getmypid();

session_id($id);
same(session_start(), true, 'start');
same($_SESSION, [], 'empty');
$_SESSION['user'] = ['id' => 7];
same(strlen($ask->get("lock.$id")), 32, 'locked');
session_write_close();
same($ask->get("lock.$id"), false, 'lock after close');
same($ask->get($id), 'user|a:1:{s:2:"id";i:7;}', 'as php-memcached writes it');

session_id($id);
session_start();
same($_SESSION, ['user' => ['id' => 7]], 'read');
session_write_close();

// Somebody else holds the lock.
$ask->set("lock.$id", 'another');
session_id($id);
same(@session_start(), false, 'start while locked');
same($ask->get("lock.$id"), 'another', 'the lock of another');
$ask->delete("lock.$id");

// A lock that ran out and was taken by another is left to it.
session_id($id);
same(session_start(), true, 'start again');
$ask->set("lock.$id", 'another');
session_write_close();
same($ask->get("lock.$id"), 'another', 'the lock that was taken');
$ask->delete("lock.$id");

session_id($id);
session_start();
session_destroy();
same([$ask->get($id), $ask->get("lock.$id")], [false, false], 'destroyed');

ini_set('session.use_strict_mode', 1);
session_id($id);
session_start();
same(session_id() === $id, false, 'an id that nobody was given');
session_destroy();
ini_set('session.save_path', 'host:port:weight');
same(@session_start(), false, 'no servers');
ob_end_flush();
?>
done
--EXPECT--
done
