--TEST--
Keys lie where php-memcached puts them
--EXTENSIONS--
igbinary
msgpack
memcached
--FILE--
<?php
require 'servers.inc';
$keys = array_map(fn ($number) => "key:$number", range(0, 1999));
$check = function (string $what, array $options, array $weights) use ($keys) {
    $clients = [];
    foreach (['Memcached', 'Scrubjay'] as $class) {
        $clients[] = $client = new $class();
        foreach ($options as $option => $value) {
            $client->setOption($option, $value);
        }
        foreach ($weights as $number => $weight) {
            $client->addServer("10.0.0.$number", 11211 + $number % 2, $weight);
        }
    }
    $differ = 0;
    foreach ($keys as $key) {
        [$theirs, $ours] = array_map(fn ($client) => $client->getServerByKey($key), $clients);
        // Theirs always says 0 for the weight.
        $differ += [$theirs['host'], $theirs['port']] !== [$ours['host'], $ours['port']];
    }
    same($differ, 0, $what);
};
$even = [0, 0, 0, 0, 0];
$uneven = [1, 5, 2, 10, 1];
$check('as it is', [], $even);
$check('with weights', [], $uneven);
foreach (['MD5', 'CRC', 'FNV1_64', 'FNV1A_64', 'FNV1_32', 'FNV1A_32', 'MURMUR'] as $hash) {
    $check("modula $hash", [Memcached::OPT_HASH => constant("Memcached::HASH_$hash")], $even);
    $check("consistent $hash", [
        Memcached::OPT_DISTRIBUTION => Memcached::DISTRIBUTION_CONSISTENT,
        Memcached::OPT_HASH => constant("Memcached::HASH_$hash"),
    ], $even);
}
$check('ketama', [Memcached::OPT_LIBKETAMA_COMPATIBLE => true], $even);
$check('ketama with weights', [Memcached::OPT_LIBKETAMA_COMPATIBLE => true], $uneven);
$check('ketama and back', [Memcached::OPT_LIBKETAMA_COMPATIBLE => true, Memcached::OPT_DISTRIBUTION => 0], $even);
?>
done
--EXPECT--
done
