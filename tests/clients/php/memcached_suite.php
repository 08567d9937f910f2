<?php
// php-memcached, which is libmemcached underneath: `text` or `binary` protocol as the argument says.

require __DIR__ . '/suite.php';

$binary = $argv[1] === 'binary';

function connect(bool $binary, array $options = []): Memcached
{
    global $host, $port;
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, $binary);
    $client->setOption(Memcached::OPT_TCP_NODELAY, true);
    $client->setOptions($options);
    $client->addServer($host, $port);
    return $client;
}

$client = connect($binary);

run([
    'set and get' => function () use ($client) {
        equal($client->set('a', 'text'), true);
        equal($client->get('a'), 'text');
        equal($client->get('nothing'), false);
        equal($client->getResultCode(), Memcached::RES_NOTFOUND);
    },
    'types come back' => function () use ($client) {
        foreach (['grün', "\x00\xff\r\nEND\r\n", 12345, true, 1.5, ['list', ['a' => 1]], '', null] as $value) {
            equal($client->set('typed', $value), true);
            equal($client->get('typed'), $value);
        }
    },
    'many' => function () use ($client) {
        $values = [];
        for ($index = 0; $index < 300; $index++) {
            $values["many-$index"] = "value $index";
        }
        equal($client->setMulti($values), true);
        equal($client->getMulti(array_keys($values), Memcached::GET_PRESERVE_ORDER), $values);
        equal(array_unique(array_values($client->deleteMulti(array_keys($values)))), [true]);
        equal($client->getMulti(array_keys($values)), []);
    },
    'delayed fetch' => function () use ($client) {
        $client->setMulti(['d1' => 1, 'd2' => 2]);
        equal($client->getDelayed(['d1', 'd2'], true), true);
        $found = [];
        foreach ($client->fetchAll() as $row) {
            $found[$row['key']] = $row['value'];
            equal($row['cas'] > 0, true);
        }
        ksort($found);
        equal($found, ['d1' => 1, 'd2' => 2]);
    },
    'add and replace' => function () use ($client) {
        $client->delete('once');
        equal($client->replace('once', '0'), false);
        equal($client->add('once', '1'), true);
        equal($client->add('once', '2'), false);
        equal($client->replace('once', '3'), true);
        equal($client->get('once'), '3');
    },
    'append and prepend' => function () use ($binary) {
        $client = connect($binary, [Memcached::OPT_COMPRESSION => false]);
        $client->set('middle', '=');
        equal($client->append('middle', '>'), true);
        equal($client->prepend('middle', '<'), true);
        equal($client->get('middle'), '<=>');
        $client->delete('middle');
        equal($client->append('middle', '>'), false);
        equal($client->getResultCode(), Memcached::RES_NOTSTORED);
    },
    'cas' => function () use ($client) {
        $client->set('swap', '1');
        $token = $client->get('swap', null, Memcached::GET_EXTENDED)['cas'];
        equal($client->cas($token, 'swap', '2'), true);
        equal($client->cas($token, 'swap', '3'), false);
        equal($client->getResultCode(), Memcached::RES_DATA_EXISTS);
        equal($client->get('swap'), '2');
    },
    'user flags' => function () use ($client) {
        // In text mode of old libmemcached these get lost; what comes back is asked for as stored.
        $client->setOption(Memcached::OPT_USER_FLAGS, 65535);
        $client->set('flags', 'x');
        equal($client->get('flags', null, Memcached::GET_EXTENDED)['flags'], 65535);
        $client->setOption(Memcached::OPT_USER_FLAGS, -1);
    },
    'increment and decrement' => function () use ($client) {
        $client->set('count', 10);
        equal($client->increment('count', 5), 15);
        equal($client->decrement('count', 6), 9);
        equal($client->decrement('count', 100), 0);
        $client->delete('count');
        equal($client->increment('count'), false);
    },
    'increment with an initial value' => function () use ($client, $binary) {
        if (!$binary) {
            return; // the text protocol has none
        }
        $client->delete('initial');
        equal($client->increment('initial', 1, 100), 100);
        equal($client->increment('initial', 1, 100), 101);
    },
    'touch' => function () use ($client) {
        $client->set('life', 'x', 100);
        equal($client->touch('life', 1000), true);
        equal($client->get('life'), 'x');
        equal($client->touch('no-life', 1000), false);
    },
    'negative exptime is expired at once' => function () use ($client, $binary) {
        $client->set('old', 'x');
        $client->set('old', 'y', 60 * 60 * 24 * 31); // a Unix time in 1970
        equal($client->get('old'), false);
        $client->set('old', 'y', -1);
        // The binary protocol has unsigned exptimes: this one is in the year 2106.
        equal($client->get('old'), $binary ? 'y' : false);
    },
    'delete' => function () use ($client) {
        $client->set('gone', 'x');
        equal($client->delete('gone'), true);
        equal($client->delete('gone'), false);
        equal($client->get('gone'), false);
    },
    'compressed and large values' => function () use ($binary) {
        $value = implode('|', range(1, 150000));
        foreach ([true, false] as $compression) {
            $client = connect($binary, [Memcached::OPT_COMPRESSION => $compression]);
            equal($client->set('large', $value), true);
            equal($client->get('large') === $value, true);
        }
    },
    'too large values' => function () use ($binary) {
        $client = connect($binary, [Memcached::OPT_COMPRESSION => false]);
        $client->set('too-large', 'old');
        equal($client->set('too-large', str_repeat('x', 2 << 20)), false);
        equal(connect($binary)->get('too-large'), false);
    },
    'keys of every length' => function () use ($client) {
        foreach ([1, 249, 250] as $length) {
            equal($client->set(str_repeat('k', $length), $length), true);
            equal($client->get(str_repeat('k', $length)), $length);
        }
    },
    'buffered writes and no replies' => function () use ($binary) {
        $client = connect($binary, [Memcached::OPT_NO_BLOCK => true, Memcached::OPT_BUFFER_WRITES => true]);
        for ($index = 0; $index < 100; $index++) {
            $client->set("buffered-$index", $index);
        }
        equal($client->get('buffered-99'), 99);
        equal($client->get('buffered-0'), 0);
    },
    'prefixed keys' => function () use ($binary, $client) {
        $prefixed = connect($binary, [Memcached::OPT_PREFIX_KEY => 'prefix:']);
        $prefixed->set('key', 'x');
        equal($prefixed->get('key'), 'x');
        equal($client->get('prefix:key'), 'x');
    },
    'flush' => function () use ($client) {
        $client->set('flushed', 'x');
        equal($client->flush(), true);
        equal($client->get('flushed'), false);
    },
    'version and statistics' => function () use ($client, $host, $port) {
        equal(str_starts_with($client->getVersion()["$host:$port"], '1.6.'), true);
        $stats = $client->getStats()["$host:$port"];
        equal(isset($stats['curr_items'], $stats['get_hits'], $stats['limit_maxbytes']), true);
    },
]);
