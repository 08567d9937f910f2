--TEST--
Look-ups: extended, with CAS loops, by callbacks, many of them over many servers
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
$client = client();
$client->flush();
$items = [];
for ($number = 0; $number < 1000; $number++) {
    $items["get:$number"] = ['number' => $number];
}
same($client->setMulti($items, 100), true, 'setMulti');
same($client->getMulti(array_keys($items)), $items, 'getMulti');
$spread = array_count_values(array_map(fn ($key) => $client->getServerByKey($key)['port'], array_keys($items)));
same(count($spread), 3, 'servers that have keys');
same(count($client->getAllKeys()), 1000, 'all keys');
same($client->getMulti(['get:1', 'none', 'get:0'], Scrubjay::GET_PRESERVE_ORDER),
    ['get:1' => ['number' => 1], 'none' => null, 'get:0' => ['number' => 0]], 'in order');
$client->setOption(Scrubjay::OPT_PREFIX_KEY, 'pre:');
same($client->setMulti($items), true, 'setMulti with prefix');
same($client->getMulti(array_keys($items)), $items, 'getMulti with prefix');
same($client->deleteMulti(['get:1', 'none']), ['get:1' => true, 'none' => Scrubjay::RES_NOTFOUND], 'deleteMulti');
$client->setOption(Scrubjay::OPT_PREFIX_KEY, '');

$client->set('n', 1);
$client->setOption(Scrubjay::OPT_USER_FLAGS, 77);
for ($round = 0; $round < 10; $round++) {
    $item = $client->get('n', null, Scrubjay::GET_EXTENDED);
    same($client->cas($item['cas'], 'n', $item['value'] + 1), true, 'cas');
}
same($client->cas($item['cas'], 'n', 0), false, 'old cas');
same($client->getResultCode(), Scrubjay::RES_DATA_EXISTS, 'code of old cas');
same($client->get('n', null, Scrubjay::GET_EXTENDED)['flags'], 77, 'user flags');
same($client->get('n'), 11, 'counted');
same($client->increment('counter', 1, 10), 10, 'initial');
same($client->increment('counter', 5, 10), 15, 'not initial');

$seen = [];
same($client->getDelayed(['get:2', 'none', 'get:3'], true, function ($client, $item) use (&$seen) {
    $seen[$item['key']] = [$item['value']['number'], $item['cas'] > 0];
}), true, 'getDelayed with callback');
same($seen, ['get:2' => [2, true], 'get:3' => [3, true]], 'what the callback saw');
try {
    $client->get('none', fn () => throw new Exception('from the callback'));
} catch (Exception $exception) {
    same($exception->getMessage(), 'from the callback', 'exception');
}
same(array_keys($client->getVersion()), array_map(fn ($port) => "127.0.0.1:$port", ports()), 'versions');
foreach ($client->getStats() as $name => $stats) {
    same(is_int($stats['pid']) && is_float($stats['rusage_user']) && $stats['curr_items'] > 0, true, "stats of $name");
}
$quiet = client();
$quiet->setOption(Scrubjay::OPT_NOREPLY, true);
for ($number = 0; $number < 100; $number++) {
    same($quiet->set("quiet:$number", $number), true, 'quiet set');
}
same($quiet->flushBuffers(), true, 'flushBuffers');
$all = array_map(fn ($number) => "quiet:$number", range(0, 99));
same(array_values($quiet->getMulti($all)), range(0, 99), 'what was set quietly');
same(@$client->setEncodingKey('secret'), false, 'encoding key');
same($client->getResultCode(), Scrubjay::RES_NOT_SUPPORTED, 'code of encoding key');
same($client->flush(), true, 'flush');
same($client->getMulti(['get:2']), [], 'after flush');
$binary = alone('binary:');
$binary->setOption(Scrubjay::OPT_BINARY_PROTOCOL, true);
same([$binary->set('a key', 1), $binary->get('a key'), $binary->getMulti(['a key', 'none'])], [true, 1, ['a key' => 1]], 'a blank');
same([$binary->set("a\nkey", 1), $binary->getResultCode()], [false, Scrubjay::RES_BAD_KEY_PROVIDED], 'a line end');
$binary->setOption(Scrubjay::OPT_BINARY_PROTOCOL, false);
same([$binary->get('a key'), $binary->getResultCode()], [false, Scrubjay::RES_BAD_KEY_PROVIDED], 'a blank without');
?>
done
--EXPECT--
done
