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
$check = function (string $what, array $options, array $weights, array $later = []) use ($keys) {
    $clients = [];
    foreach (['Memcached', 'Scrubjay'] as $class) {
        $clients[] = $client = new $class();
        foreach ($options as $option => $value) {
            $client->setOption($option, $value);
        }
        foreach ($weights as $number => $weight) {
            $client->addServer("10.0.0.$number", 11211 + $number % 2, $weight);
            $client->addServer("/run/$number.sock", 0, $weight);
        }
        foreach ($later as [$option, $value]) {
            $client->setOption($option, $value);
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
$consistent = [Memcached::OPT_DISTRIBUTION, Memcached::DISTRIBUTION_CONSISTENT];
$modula = [Memcached::OPT_DISTRIBUTION, Memcached::DISTRIBUTION_MODULA];
$ketama = [Memcached::OPT_LIBKETAMA_COMPATIBLE, true];
$none = [Memcached::OPT_LIBKETAMA_COMPATIBLE, false];
$crc = [Memcached::OPT_HASH, Memcached::HASH_CRC];
foreach (['even' => $even, 'uneven' => $uneven, 'all the same' => [33, 33, 33, 33, 33]] as $what => $weights) {
    $check("consistent, $what", [$consistent[0] => $consistent[1]], $weights);
    foreach ([
        'consistent' => [$consistent],
        'ketama' => [$ketama],
        'hash, consistent' => [$crc, $consistent],
        'consistent, hash' => [$consistent, $crc],
        'hash' => [$crc],
        'hash, other options' => [$crc, [Memcached::OPT_SORT_HOSTS, false], [Memcached::OPT_TCP_NODELAY, true]],
        'ketama, hash' => [$ketama, $crc],
        'ketama, hash, ketama' => [$ketama, $crc, $ketama],
        'ketama, consistent' => [$ketama, $consistent],
        'consistent, ketama' => [$consistent, $ketama],
        'ketama and not' => [$ketama, $none],
        'ketama and not, consistent' => [$ketama, $none, $consistent],
    ] as $order => $later) {
        $check("$order after servers, $what", [], $weights, $later);
        $check("$order after consistent and servers, $what", [$consistent[0] => $consistent[1]], $weights, $later);
    }
    $check("consistent twice, $what", [$consistent[0] => $consistent[1]], $weights, [$modula, $consistent]);
}
$check('ketama', [Memcached::OPT_LIBKETAMA_COMPATIBLE => true], $even);
$check('ketama with weights', [Memcached::OPT_LIBKETAMA_COMPATIBLE => true], $uneven);
$check('ketama and back', [Memcached::OPT_LIBKETAMA_COMPATIBLE => true, Memcached::OPT_DISTRIBUTION => 0], $even);
foreach ([null, Memcached::HASH_CRC] as $hash) {
    $places = $unmapped = [];
    foreach (['Memcached', 'Scrubjay'] as $class) {
        $client = new $class();
        $client->setOption(Memcached::OPT_DISTRIBUTION, Memcached::DISTRIBUTION_VIRTUAL_BUCKET);
        if ($hash !== null) {
            $client->setOption(Memcached::OPT_HASH, $hash);
        }
        $client->addServers([['10.0.0.1', 1], ['10.0.0.2', 2], ['10.0.0.3', 3]]);
        $unmapped[] = array_map(fn ($key) => $client->getServerByKey($key)['port'], $keys);
        $client->setBucket([0, 1, 2, 1], null, 0);
        $places[] = array_map(fn ($key) => $client->getServerByKey($key)['port'], $keys);
    }
    same($unmapped[1] === $unmapped[0], true, 'no buckets with hash ' . var_export($hash, true));
    same($places[1] === $places[0], true, 'buckets with hash ' . var_export($hash, true));
}
?>
done
--EXPECT--
done
