--TEST--
What has an id keeps servers, settings and connections
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
$called = 0;
$make = function () use (&$called) {
    return new Scrubjay('shared', function ($client, $id) use (&$called) {
        same($id, 'shared', 'id');
        $client->setOption(Scrubjay::OPT_PREFIX_KEY, 'p:');
        $client->addServer('127.0.0.1', ports()[0]);
        $called++;
    });
};
$first = $make();
same([$first->isPersistent(), $first->isPristine()], [true, true], 'first');
same($first->set('k', 'v'), true, 'set');
$connections = fn ($client) => current($client->getStats())['total_connections'];
$before = $connections($first);
unset($first);
for ($round = 0; $round < 20; $round++) {
    $again = $make();
    same([$again->isPersistent(), $again->isPristine()], [true, false], 'again');
    same($again->get('k'), 'v', 'get');
    $again->addServer('127.0.0.1', ports()[0]);
    same(count($again->getServerList()), 1, 'servers');
}
// getStats asks on a connection of its own.
same($connections($again) - $before, 1, 'new connections');
same($called, 1, 'callbacks');
same((new Scrubjay('other'))->getServerList(), [], 'another id');
same((new Scrubjay())->isPersistent(), false, 'no id');
same(count((new Scrubjay(null, null, '--SERVER=127.0.0.1:1 --SERVER=/run/x'))->getServerList()), 2, 'by text');
try {
    new Scrubjay(null, null, '--WHAT=x');
    echo "not refused\n";
} catch (ScrubjayException) {
}
?>
done
--EXPECT--
done
