--TEST--
One of all processes computes what many miss
--EXTENSIONS--
pcntl
posix
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
const CHILDREN = 6;
/** Runs children; what each of them returned. */
function children(int $count, callable $work): array
{
    $pipes = $results = [];
    for ($child = 0; $child < $count; $child++) {
        [$read, $write] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            fwrite($write, serialize($work($child)));
            fclose($write);
            posix_kill(getmypid(), SIGKILL);
        }
        fclose($write);
        $pipes[] = $read;
    }
    foreach ($pipes as $read) {
        $results[] = unserialize(stream_get_contents($read));
        pcntl_wait($status);
    }
    return $results;
}
$run = getmypid();
$client = client(3, 'Scrubjay', 'leases');
$key = "lease:$run";
$values = children(CHILDREN, function () use ($key) {
    $own = client(3, 'Scrubjay', 'leases');
    return $own->getOrCompute($key, function ($cache, $name) use ($key) {
        // Others ask meanwhile: they wait as long as this takes.
        for ($round = 0; $round < 300; $round++) {
            $cache->get('nothing');
        }
        $cache->add("n$key", 0);
        return ['computed' => $cache->increment("n$key"), 'name' => $name];
    }, 100, wait: 60);
});
same(array_unique($values, SORT_REGULAR), [['computed' => 1, 'name' => $key]], 'one computation');
same($client->get($key), ['computed' => 1, 'name' => $key], 'stored');
same($client->getOrCompute($key, fn () => 'not asked'), ['computed' => 1, 'name' => $key], 'found');

// Who dies while computing keeps the others for as long as his lease.
children(1, fn () => client()->getOrCompute("d$key", fn () => posix_kill(getmypid(), SIGKILL), lease: 1));
same([$client->get("d$key"), $client->getMulti(["d$key"])], [false, []], 'nothing to others');
same($client->getOrCompute("d$key", fn () => 'later', wait: 60), 'later', 'after a death');

// Who throws, or whose value cannot be stored, makes room at once; what others stored meanwhile stays.
foreach ([fn () => throw new LogicException('none'), fn () => fn () => 1] as $fail) {
    try {
        $client->getOrCompute("t$key", $fail);
        echo "no exception\n";
    } catch (Exception $exception) {
    }
    same($client->getOrCompute("t$key", fn () => 'next', wait: 0), 'next', 'after an exception');
    same($client->delete("t$key"), true, 'stored');
}
try {
    $client->getOrCompute("t$key", function ($cache) use ($key) {
        $cache->set("t$key", 'other');
        throw new LogicException();
    });
} catch (LogicException) {
}
same($client->get("t$key"), 'other', 'what others stored');
same($client->getOrCompute("r$key", function ($cache) use ($key) {
    $cache->delete("r$key");
    return 'old';
}), 'old', 'computed');
same([$client->getResultCode(), $client->get("r$key")], [Scrubjay::RES_SUCCESS, false], 'deleted meanwhile');

// What was invalidated is given to all but one.
same([$client->invalidate("i$key"), $client->getResultCode()], [false, Scrubjay::RES_NOTFOUND], 'nothing');
$client->set("i$key", 'old');
same($client->invalidate("i$key", 100), true, 'invalidated');
$other = client();
same($client->getOrCompute("i$key", fn () => $other->getOrCompute("i$key", fn () => 'not asked') . ' and new'), 'old and new', 'refilled');
same($other->get("i$key"), 'old and new', 'stored');
$client->set("e$key", 'early', 100);
same($client->getOrCompute("e$key", fn () => 'anew', 100, refresh_below: 1000), 'anew', 'refreshed early');
same($client->get("e$key"), 'anew', 'stored early');

// get() with a callback is php-memcached's.
same($client->get("c$key", function ($cache, $name, &$value, &$expiration) {
    [$value, $expiration] = ['through', 60];
    return true;
}), 'through', 'read through');
foreach ([fn () => $client->getOrCompute($key, fn () => 1, lease: 0), fn () => $client->getOrCompute($key, fn () => 1, wait: -1.0)] as $wrong) {
    try {
        $wrong();
        echo "not refused\n";
    } catch (ValueError) {
    }
}
same([$client->getOrCompute('a b', fn () => 1), $client->getResultCode()], [false, Scrubjay::RES_BAD_KEY_PROVIDED], 'bad key');
same([(new Scrubjay())->getOrCompute('k', fn () => 1), (new Scrubjay())->invalidate('k')], [false, false], 'no servers');
$gone = new Scrubjay();
$gone->addServer('127.0.0.1', 1);
same([$gone->getOrCompute('k', fn () => 'computed'), $gone->getResultCode()], ['computed', Scrubjay::RES_CONNECTION_FAILURE], 'no server');
?>
done
--EXPECT--
done
