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
// Programs that set everything in each request: the keys stay where the first one had them.
$places = [];
for ($round = 0; $round < 3; $round++) {
    $anew = new Scrubjay('anew');
    $anew->addServers([['10.0.0.1', 1, 5], ['10.0.0.2', 1, 9], ['10.0.0.3', 1, 1]]);
    $anew->setOption(Scrubjay::OPT_DISTRIBUTION, Scrubjay::DISTRIBUTION_CONSISTENT);
    $places[] = array_map(fn ($number) => $anew->getServerByKey("key$number")['host'], range(0, 99));
}
same([$places[1] === $places[0], $places[2] === $places[0]], [true, true], 'places in later requests');
same((new Scrubjay('other'))->getServerList(), [], 'another id');
same((new Scrubjay())->isPersistent(), false, 'no id');
same(count((new Scrubjay(null, null, '--SERVER=127.0.0.1:1 --SERVER=/run/x'))->getServerList()), 2, 'by text');
try {
    new Scrubjay(null, null, '--WHAT=x');
    echo "not refused\n";
} catch (ScrubjayException) {
}
try {
    $again->__construct('another');
    echo "constructed twice\n";
} catch (Error) {
}
// What a value's own methods do to the client while it is written or read.
class Meddler
{
    public static $client;

    public function __serialize(): array
    {
        self::$client->quit();
        self::$client->addServer('127.0.0.1', ports()[0]);
        return ['x' => 1];
    }

    public function __unserialize(array $data): void
    {
        self::$client->quit();
    }
}
Meddler::$client = client(2);
same(Meddler::$client->set('meddler', new Meddler()), true, 'meddler is stored');
same(get_class(Meddler::$client->get('meddler')), 'Meddler', 'meddler is read');
same(Meddler::$client->setMulti(['meddler' => new Meddler(), 'm2' => new Meddler()]), true, 'meddlers are stored');
same(count(Meddler::$client->getMulti(['meddler', 'm2'])), 2, 'meddlers are read');
Meddler::$client->delete('meddler');
same(get_class(Meddler::$client->get('meddler', function ($client, $key, &$value) {
    $value = new Meddler();
    return true;
})), 'Meddler', 'meddler is computed');
Meddler::$client = null;
?>
done
--EXPECT--
done
