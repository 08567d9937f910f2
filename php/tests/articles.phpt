--TEST--
Loops as in the articles: many writes, every server gets its share, everything is found again
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
$client = client();
$client->flush();
for ($number = 0; $number < 9000; $number++) {
    same($client->set("write:$number", "value $number", 600), true, 'set');
}
foreach ($client->getStats() as $server => $stats) {
    same(abs($stats['curr_items'] - 3000) < 450, true, "a third lies on $server");
}
$misses = 0;
foreach (array_chunk(range(0, 8999), 300) as $numbers) {
    $keys = array_map(fn ($number) => "write:$number", $numbers);
    $misses += count($keys) - count($client->getMulti($keys));
}
same($misses, 0, 'misses');
for ($number = 0; $number < 1000; $number++) {
    same($client->get("write:$number"), "value $number", 'get');
    same($client->delete("write:$number"), true, 'delete');
    same($client->get("write:$number"), false, 'get after delete');
}
$filled = array_fill(0, 100000, mt_rand(1000, 9999));
$client->setOption(Scrubjay::OPT_COMPRESSION, false);
foreach ([Scrubjay::SERIALIZER_MSGPACK => 300005, Scrubjay::SERIALIZER_IGBINARY => 668681] as $serializer => $len) {
    $client->setOption(Scrubjay::OPT_SERIALIZER, $serializer);
    same($client->set('filled', $filled), true, "set by $serializer");
    same($client->get('filled'), $filled, "get by $serializer");
    same(strlen(scrubjay_serialize($filled, $serializer)), $len, "bytes by $serializer");
}
?>
done
--EXPECT--
done
