<?php
// php-memcache (the extension without a d), text protocol.

require __DIR__ . '/suite.php';

$client = new Memcache();
$client->addServer($host, $port);

run([
    'set and get' => function () use ($client) {
        equal($client->set('a', 'text'), true);
        equal($client->get('a'), 'text');
        equal($client->get('nothing'), false);
    },
    'types come back' => function () use ($client) {
        foreach (['grün', "\x00\xff\r\nEND\r\n", 12345, true, 1.5, ['list', ['a' => 1]], ''] as $value) {
            equal($client->set('typed', $value), true);
            equal($client->get('typed'), $value);
        }
    },
    'many' => function () use ($client) {
        $values = [];
        for ($index = 0; $index < 300; $index++) {
            $client->set("many-$index", "value $index");
            $values["many-$index"] = "value $index";
        }
        $found = $client->get([...array_keys($values), 'missing']);
        ksort($found);
        ksort($values);
        equal($found, $values);
    },
    'add and replace' => function () use ($client) {
        $client->delete('once');
        equal($client->replace('once', '0'), false);
        equal($client->add('once', '1'), true);
        equal($client->add('once', '2'), false);
        equal($client->replace('once', '3'), true);
        equal($client->get('once'), '3');
    },
    'append and prepend' => function () use ($client) {
        $client->set('middle', '=');
        equal($client->append('middle', '>'), true);
        equal($client->prepend('middle', '<'), true);
        equal($client->get('middle'), '<=>');
    },
    'cas' => function () use ($client) {
        $client->set('swap', '1');
        $flags = 0;
        $token = 0;
        equal($client->get('swap', $flags, $token), '1');
        equal($client->cas('swap', '2', 0, 0, $token), true);
        equal($client->cas('swap', '3', 0, 0, $token), false);
        equal($client->get('swap'), '2');
    },
    'increment and decrement' => function () use ($client) {
        $client->set('count', 10);
        equal($client->increment('count', 5), 15);
        equal($client->decrement('count', 5), 10);
        equal($client->decrement('count', 100), 0);
        $client->delete('count');
        equal($client->increment('count'), false);
    },
    'negative exptime is expired at once' => function () use ($client) {
        $client->set('old', 'x');
        $client->set('old', 'y', 0, 60 * 60 * 24 * 31); // a Unix time in 1970
        equal($client->get('old'), false);
    },
    'delete' => function () use ($client) {
        $client->set('gone', 'x');
        equal($client->delete('gone'), true);
        equal($client->delete('gone'), false);
        equal($client->get('gone'), false);
    },
    'compressed values' => function () use ($client) {
        $value = implode('|', range(1, 150000));
        equal($client->set('packed', $value, MEMCACHE_COMPRESSED), true);
        equal($client->get('packed') === $value, true);
        equal($client->set('large', $value), true);
        equal($client->get('large') === $value, true);
    },
    'keys of every length' => function () use ($client) {
        foreach ([1, 249, 250] as $length) {
            equal($client->set(str_repeat('k', $length), $length), true);
            equal($client->get(str_repeat('k', $length)), $length);
        }
    },
    'flush' => function () use ($client) {
        $client->set('flushed', 'x');
        equal($client->flush(), true);
        equal($client->get('flushed'), false);
    },
    'version and statistics' => function () use ($client) {
        equal(str_starts_with($client->getVersion(), '1.6.'), true);
        $stats = $client->getStats();
        equal(isset($stats['curr_items'], $stats['get_hits'], $stats['limit_maxbytes']), true);
        equal(is_array($client->getStats('items')), true);
    },
]);
