--TEST--
Settings of php.ini hold under php-memcached's names, where its class is ours
--INI--
scrubjay.replace_memcached=1
scrubjay.compression_threshold=77
scrubjay.serializer=json
memcached.serializer=igbinary
memcached.default_connect_timeout=1212
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
$client = new Memcached();
same($client->getOption(Memcached::OPT_SERIALIZER), Memcached::SERIALIZER_IGBINARY, 'what its name says holds');
same($client->getOption(Memcached::OPT_CONNECT_TIMEOUT), 1212, 'time-out');
same(ini_get('scrubjay.compression_threshold'), '77', 'what its name does not say is left');
$client = client(1, 'Memcached');
$client->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_PHP);
$client->set('settings', str_repeat('x', 78));
same(stored('settings')[0] & 0x10, 0x10, 'compressed from 77 bytes on');
same([ini_set('memcached.default_consistent_hash', '1'), ini_set('memcached.default_binary_protocol', '1')], ['0', '0'], 'set');
same(ini_set('memcached.compression_threshold', '5000'), '2000', 'set, too');
ini_restore('memcached.compression_threshold');
$client->set('settings', str_repeat('x', 78));
same(stored('settings')[0] & 0x10, 0x10, 'taken back: as our own setting says');
$client = new Memcached();
same($client->getOption(Memcached::OPT_DISTRIBUTION), Memcached::DISTRIBUTION_CONSISTENT, 'distribution');
same($client->getOption(Memcached::OPT_BINARY_PROTOCOL), 1, 'protocol');
$settings = [
    'serializer' => ['json', 'jsn'],
    'compression_type' => ['zstd', 'gzip'],
    'sess_consistent_hash_type' => ['ketama_weighted', 'modula', ''],
    'sess_prefix' => ['', "a\x01", 'a b', str_repeat('x', 250)],
    'store_retry_count' => ['3', '-1'],
];
foreach ($settings as $name => $values) {
    same(ini_set("memcached.$name", $values[0]) !== false, true, "$name: {$values[0]}");
    foreach (array_slice($values, 1) as $wrong) {
        same(@ini_set("memcached.$name", $wrong), false, "$name: $wrong");
    }
    same(ini_get("memcached.$name"), $values[0], "$name: left");
}
$client = new Memcached();
same($client->getOption(Memcached::OPT_STORE_RETRY_COUNT), 3, 'retries');
foreach (['sess_binary_protocol', 'sess_lock_wait', 'sess_lock_max_wait', 'sess_number_of_replicas', 'sess_randomize_replica_read'] as $name) {
    same(ini_set("memcached.$name", '0') !== false, true, "$name: without effect");
}
?>
done
--EXPECT--
done
