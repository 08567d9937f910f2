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
?>
done
--EXPECT--
done
