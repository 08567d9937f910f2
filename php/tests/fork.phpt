--TEST--
A forked child has connections of its own
--EXTENSIONS--
pcntl
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
$client = client(3, 'Scrubjay', 'forked');
$client->setOption(Scrubjay::OPT_PREFIX_KEY, 'fork:');
$keys = array_map(fn ($number) => "$number", range(0, 99));
$client->setMulti(array_combine($keys, $keys));
$children = [];
for ($child = 0; $child < 3; $child++) {
    $pid = pcntl_fork();
    if ($pid === 0) {
        $wrong = 0;
        for ($round = 0; $round < 300; $round++) {
            $key = $keys[mt_rand(0, 99)];
            $wrong += $client->get($key) !== $key;
            $wrong += $round % 50 === 0 && $client->getMulti($keys) != array_combine($keys, $keys);
        }
        exit($wrong > 0 ? 1 : 0);
    }
    $children[] = $pid;
}
for ($round = 0; $round < 300; $round++) {
    $key = $keys[mt_rand(0, 99)];
    same($client->get($key), $key, 'parent');
}
foreach ($children as $pid) {
    pcntl_waitpid($pid, $status);
    same(pcntl_wexitstatus($status), 0, 'child');
}
?>
done
--EXPECT--
done
