<?php
// Our extension against php-memcached, php-igbinary and PHP's own serializers, in one process and one run.
//
// usage: php -d extension=target/native/php/modules/scrubjay.so bench/php.php ['SERVER-BINARY OPTION...' [WORD...]]
//
// Starts four servers (scrubjay, or memcached itself) on free ports. Each figure is the best of several rounds in which the
// contestants take turns. Needs php-memcached, php-igbinary and php-msgpack. With words, only parts whose name has one of them.
// Where LINK_NETNS and LINK_ADDRESS are set, as by bench/link.py, the servers run there.

const ROUNDS = 7;
define('HOST', getenv('LINK_ADDRESS') ?: '127.0.0.1');

$binary = $argv[1] ?? 'target/release/scrubjay';
$words = array_slice($argv, 2);

/** Starts servers; their ports. They end with this process. */
function servers(string $binary, int $count): array
{
    static $processes = [];
    $ports = [];
    for ($number = 0; $number < $count; $number++) {
        $file = tempnam(sys_get_temp_dir(), 'port');
        $far = getenv('LINK_NETNS');
        $command = [...($far ? ['ip', 'netns', 'exec', $far] : []), ...explode(' ', $binary), '-l', HOST, '-p', '-1', '-U', '0', '-m', '256', '-t', '1'];
        if (posix_getuid() === 0) {
            array_push($command, '-u', 'root');
        }
        $processes[] = proc_open($command, [], $pipes, null, ['MEMCACHED_PORT_FILENAME' => $file] + getenv());
        while (!preg_match('/(\d+)\s*$/m', file_get_contents($file), $match)) {
            usleep(1000);
        }
        unlink($file);
        $ports[] = (int) $match[1];
    }
    register_shutdown_function(function () use (&$processes) {
        array_map('proc_terminate', $processes);
        $processes = [];
    });
    return $ports;
}

/** The best time of each contestant, in seconds; they take turns. */
function best(array $contestants, int $rounds = ROUNDS): array
{
    $best = array_fill_keys(array_keys($contestants), INF);
    for ($round = 0; $round < $rounds; $round++) {
        foreach ($contestants as $name => $run) {
            $start = hrtime(true);
            $run();
            $best[$name] = min($best[$name], (hrtime(true) - $start) / 1e9);
        }
    }
    return $best;
}

/** This process's time of a processor, in seconds. */
function processor(): float
{
    $usage = getrusage();
    return $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'] + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1e6;
}

function part(string $name): bool
{
    global $words;
    $wanted = !$words || array_filter($words, fn ($word) => str_contains($name, $word));
    if ($wanted) {
        echo "\n$name\n";
    }
    return (bool) $wanted;
}

function connected(string $class, array $ports, ?string $id = null): object
{
    $client = new $class($id);
    foreach ($client->getServerList() ? [] : $ports as $port) {
        $client->addServer(HOST, $port);
    }
    $client->setOption($class::OPT_TCP_NODELAY, 1);
    return $client;
}

$ports = servers($binary, 4);

if (part('loops of single calls, one server (thousand calls/s; ratio to php-memcached)')) {
    $calls = 10000;
    foreach ([16, 1000, 10000] as $len) {
        $value = random_bytes($len);
        $theirs = connected('Memcached', [$ports[0]]);
        $ours = connected('Scrubjay', [$ports[0]]);
        foreach ([$theirs, $ours] as $client) {
            $client->setOption($client::OPT_COMPRESSION, false);
        }
        foreach (['set', 'get', 'delete'] as $method) {
            $busy = new ArrayObject(['Memcached' => INF, 'Scrubjay' => INF]);
            $run = fn ($client) => function () use ($client, $method, $value, $calls, $busy) {
                $start = processor();
                for ($number = 0; $number < $calls; $number++) {
                    $method === 'set' ? $client->set("key:$number", $value) : $client->$method("key:$number");
                }
                $busy[$client::class] = min($busy[$client::class], processor() - $start);
            };
            $best = best(['theirs' => $run($theirs), 'ours' => $run($ours)]);
            printf("  %-6s %6d bytes  theirs %6.1f  ours %6.1f  ratio %.2f  processor time %.2f\n", $method, $len, $calls / $best['theirs'] / 1e3,
                $calls / $best['ours'] / 1e3, $best['theirs'] / $best['ours'], $busy['Memcached'] / $busy['Scrubjay']);
        }
    }
}

if (part('arrays of 20 rows: set and get, each with its default serializer (thousand calls/s)')) {
    $rows = array_map(fn ($id) => ['id' => $id, 'name' => "name $id", 'price' => $id / 3, 'tags' => ['a', 'b']], range(1, 20));
    $theirs = connected('Memcached', [$ports[0]]);
    $ours = connected('Scrubjay', [$ports[0]]);
    $igbinary = connected('Memcached', [$ports[0]]);
    $igbinary->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_IGBINARY);
    $run = fn ($client, $key) => function () use ($client, $key, $rows) {
        for ($number = 0; $number < 5000; $number++) {
            $client->set($key, $rows);
            $client->get($key);
        }
    };
    $best = best(['theirs' => $run($theirs, 'a'), 'theirs with igbinary' => $run($igbinary, 'b'), 'ours' => $run($ours, 'c')]);
    foreach ($best as $name => $time) {
        printf("  %-24s %6.1f  ratio %.2f\n", $name, 10000 / $time / 1e3, $best['theirs'] / $time);
    }
}

if (part('a page of 20 KB: set and get (ms at the median; ratio to the same client\'s serialize, not compressed)')) {
    $rows = [];
    mt_srand(7);
    $vocabulary = ['red', 'green', 'large', 'small', 'wooden', 'chair', 'table', 'lamp', 'with', 'and', 'for', 'kitchen', 'garden', '2024', 'sale'];
    for ($number = 0; strlen(serialize($rows)) < 20000; $number++) {
        $some = fn (int $count) => implode(' ', array_map(fn () => $vocabulary[array_rand($vocabulary)], range(1, $count)));
        $rows[] = ['id' => mt_rand(1, 999999), 'title' => $some(4), 'text' => $some(12), 'price' => mt_rand(100, 99999) / 100,
            'tags' => [$some(1), $some(1)], 'stock' => mt_rand(0, 50), 'at' => 1700000000 + mt_rand(0, 9999999)];
    }
    $contestants = [];
    foreach (['Memcached', 'Scrubjay'] as $class) {
        $sets = [
            'serialize, not compressed' => [$class::OPT_SERIALIZER => $class::SERIALIZER_PHP, $class::OPT_COMPRESSION => false],
            'serialize, compressed' => [$class::OPT_SERIALIZER => $class::SERIALIZER_PHP, $class::OPT_COMPRESSION => true],
            'igbinary, compressed' => [$class::OPT_SERIALIZER => $class::SERIALIZER_IGBINARY, $class::OPT_COMPRESSION => true],
            'msgpack, compressed' => [$class::OPT_SERIALIZER => $class::SERIALIZER_MSGPACK, $class::OPT_COMPRESSION => true],
        ];
        foreach ($sets as $name => $options) {
            $client = connected($class, [$ports[0]]);
            $client->setOptions($options);
            $contestants["$class, $name"] = $client;
        }
    }
    $times = array_fill_keys(array_keys($contestants), []);
    for ($round = 0; $round < 500; $round++) {
        foreach ($contestants as $name => $client) {
            $start = hrtime(true);
            $key = 'page:' . md5($name);
            $client->set($key, $rows) && $client->get($key) === $rows or exit("$name does not give the page back\n");
            $times[$name][] = (hrtime(true) - $start) / 1e6;
        }
    }
    foreach ($times as $name => $all) {
        sort($all);
        $median = $all[250];
        $class = strstr($name, ',', true);
        $base = $times["$class, serialize, not compressed"];
        sort($base);
        printf("  %-38s %6.3f  ratio %.2f\n", $name, $median, $median / $base[250]);
    }
}

if (part('getMulti and setMulti of 100 keys over four servers (batches/s; ratio to php-memcached)')) {
    $theirs = connected('Memcached', $ports);
    $ours = connected('Scrubjay', $ports);
    $items = [];
    for ($number = 0; $number < 100; $number++) {
        $items["multi:$number"] = str_repeat('v', 100);
    }
    foreach (['setMulti' => $items, 'getMulti' => array_keys($items)] as $method => $argument) {
        $run = fn ($client) => function () use ($client, $method, $argument) {
            for ($number = 0; $number < 300; $number++) {
                $client->$method($argument);
            }
        };
        $best = best(['theirs' => $run($theirs), 'ours' => $run($ours)]);
        printf("  %-9s theirs %7.0f  ours %7.0f  ratio %.2f\n", $method, 300 / $best['theirs'], 300 / $best['ours'],
            $best['theirs'] / $best['ours']);
    }
}

if (part('the articles\' array, and others: encode and decode (ms), bytes')) {
    $serializers = [
        'json' => ['json_encode', fn ($bytes) => json_decode($bytes, true)],
        'serialize' => ['serialize', 'unserialize'],
        'igbinary' => ['igbinary_serialize', 'igbinary_unserialize'],
        'msgpack' => ['msgpack_serialize', 'msgpack_unserialize'],
        'our igbinary' => [fn ($value) => scrubjay_serialize($value, Scrubjay::SERIALIZER_IGBINARY),
            fn ($bytes) => scrubjay_unserialize($bytes, Scrubjay::SERIALIZER_IGBINARY)],
        'our msgpack' => ['scrubjay_serialize', 'scrubjay_unserialize'],
    ];
    $mixed = [];
    for ($number = 0; $number < 50000; $number++) {
        $mixed["row:$number"] = ['id' => $number, 'name' => "名字 $number", 'ratio' => $number / 7, 'on' => true, 'tags' => ['红', '绿', $number]];
    }
    $arrays = [
        'array_fill(0, 1000000, rand(1, 9999))' => array_fill(0, 1000000, mt_rand(1000, 9999)),
        'a tenth of it' => array_fill(0, 100000, mt_rand(1000, 9999)),
        '1000000 different numbers' => array_map(fn () => mt_rand(1, 9999), range(1, 1000000)),
        '50000 rows with Chinese text' => $mixed,
    ];
    ini_set('memory_limit', '2G');
    foreach ($arrays as $name => $value) {
        echo "  $name\n";
        foreach ($serializers as $serializer => [$encode, $decode]) {
            $bytes = $encode($value);
            if ($decode($bytes) !== $value) {
                echo "    $serializer does not give the value back\n";
            }
            $best = best(['encode' => fn () => $encode($value), 'decode' => fn () => $decode($bytes)]);
            printf("    %-13s encode %7.1f  decode %7.1f  %9d bytes\n", $serializer, $best['encode'] * 1e3, $best['decode'] * 1e3, strlen($bytes));
        }
    }
}

if (part('the articles\' loops of 10000 calls: the write test, and set, get and delete over two servers (thousand calls/s; ratio)')) {
    $chinese = str_repeat('我是中国人中国我爱你', 3) . '我是中a';
    $loops = [
        'write' => fn ($client, $number) => $client->set('testtesttesttest', $chinese, 0),
        'set' => fn ($client, $number) => $client->set("cloud:$number", 'world'),
        'get' => fn ($client, $number) => $client->get("cloud:$number"),
        'delete' => fn ($client, $number) => $client->delete("cloud:$number"),
    ];
    foreach ($loops as $name => $call) {
        $run = fn ($client) => function () use ($client, $call) {
            for ($number = 0; $number < 10000; $number++) {
                $call($client, $number);
            }
        };
        $servers = array_slice($ports, 0, $name === 'write' ? 1 : 2);
        $best = best(['theirs' => $run(connected('Memcached', $servers)), 'ours' => $run(connected('Scrubjay', $servers))], 5);
        printf("  %-6s theirs %6.1f  ours %6.1f  ratio %.2f\n", $name, 10 / $best['theirs'], 10 / $best['ours'], $best['theirs'] / $best['ours']);
    }
}

if (part('set-up of four servers and the first get (ms), by weight')) {
    foreach ([1, 2, 10, 50, 100] as $weight) {
        $run = fn ($class, $id, $scheme = null) => function () use ($class, $id, $scheme, $weight, $ports) {
            $client = new $class($id);
            $scheme ? $client->setOption($class::OPT_SCHEME, $scheme) : $client->setOption($class::OPT_LIBKETAMA_COMPATIBLE, true);
            if (!$client->getServerList()) {
                foreach ($ports as $number => $port) {
                    $client->addServer(HOST, $port, $number === 0 ? $weight : 1);
                }
            }
            $client->get('first');
        };
        $best = best(['theirs' => $run('Memcached', null), 'ours' => $run('Scrubjay', null), 'ours, persistent' => $run('Scrubjay', "w$weight"),
            'ours as php-memcache' => $run('Scrubjay', null, 'php-memcache-consistent-crc32')], 20);
        printf("  weight %3d ", $weight);
        foreach ($best as $name => $time) {
            printf(" %s %.3f", $name, $time * 1e3);
        }
        echo "\n";
    }
}

if (part('first get of a persistent client against the next (us)')) {
    connected('Scrubjay', $ports, 'steady')->set('k', 'v');
    $best = [INF, INF];
    for ($round = 0; $round < 200; $round++) {
        $client = connected('Scrubjay', $ports, 'steady');
        foreach ([0, 1] as $number) {
            $start = hrtime(true);
            $client->get('k');
            $best[$number] = min($best[$number], (hrtime(true) - $start) / 1e3);
        }
    }
    printf("  first %.1f  next %.1f  ratio %.2f\n", $best[0], $best[1], $best[0] / $best[1]);
}
