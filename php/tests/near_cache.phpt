--TEST--
Copies in the process: only where they are asked for, gone with what others write
--EXTENSIONS--
pcntl
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
/** What reading gives once it is a copy that is read. */
function warm(Scrubjay $client, string $key): mixed
{
    for ($until = hrtime(true) + 20e9; hrtime(true) < $until;) {
        $before = $client->getNearCacheCounts()['hits'];
        $value = $client->get($key);
        if ($client->getNearCacheCounts()['hits'] > $before) {
            return $value;
        }
    }
    return 'no copy in time';
}

/** Reads until there is this value; a read that begins a second after it was stored finds it, however slow everything is. */
function until(Scrubjay $client, string $key, mixed $value): void
{
    $stored = hrtime(true);
    do {
        $age = hrtime(true) - $stored;
        $found = $client->get($key);
    } while ($found !== $value && $age <= 1e9);
    same($found, $value, "what others wrote to $key");
}

same(client()->getNearCacheCounts(), false, 'none unless asked for');
same((new Scrubjay())->getOption(Scrubjay::OPT_NEAR_CACHE_MIB), 0, 'the default');
foreach (['', 'n:'] as $prefix) {
    $other = client(3);
    $other->setOption(Scrubjay::OPT_PREFIX_KEY, $prefix);
    $near = client(3, 'Scrubjay', "near$prefix");
    same($near->setOptions([
        Scrubjay::OPT_PREFIX_KEY => $prefix,
        Scrubjay::OPT_NEAR_CACHE_MIB => 8,
        Scrubjay::OPT_NEAR_CACHE_TTL => 3600000,
    ]), true, 'options');
    for ($round = 0; $round < 20; $round++) {
        $key = 'near' . $round % 5;
        $other->set($key, ['round' => $round]);
        until($near, $key, ['round' => $round]);
        same(warm($near, $key), ['round' => $round], 'copy');
        $near->set($key, "own $round");
        same($near->get($key), "own $round", 'own write');
        $near->set($key, $round);
        $near->increment($key);
        same([$near->get($key), $near->getMulti([$key])], [$round + 1, [$key => $round + 1]], 'own count');
    }
    $other->flush();
    until($near, 'near0', false);
    $near->setByKey('elsewhere', 'routed', 'there');
    $near->set('routed', 'here');
    for ($round = 0; $round < 50; $round++) {
        $own = $near->getServerByKey('routed') == $near->getServerByKey('elsewhere') ? 'here' : 'there';
        same([$near->getByKey('elsewhere', 'routed'), $near->get('routed')], [$own, 'here'], 'two items of one key');
    }
}
// Another object of the same id has the same copies, and setting the same options again leaves them.
$again = client(3, 'Scrubjay', 'near');
same(warm($near, 'routed'), 'here', 'copy');
$again->setOption(Scrubjay::OPT_NEAR_CACHE_MIB, 8);
same($again->getNearCacheCounts()['hits'] > 0, true, 'shared');
$pid = pcntl_fork();
if ($pid === 0) {
    exit(warm($near, 'routed') === 'here' && $near->getNearCacheCounts()['hits'] === 1 ? 0 : 1);
}
pcntl_waitpid($pid, $status);
same(pcntl_wexitstatus($status), 0, 'child');
same(@$near->setOption(Scrubjay::OPT_NEAR_CACHE_MIB, -1), false, 'negative');
same(@$near->setOption(Scrubjay::OPT_NEAR_CACHE_TTL, 0), false, 'no time');
same(@$near->setOption(Scrubjay::OPT_NEAR_CACHE_COHERENCE, 2), false, 'no coherence');
$near->setOption(Scrubjay::OPT_REMOVE_FAILED_SERVERS, true);
same([@$near->get('routed'), str_contains(error_get_last()['message'], 'failover')], [false, true], 'two places');
?>
done
--EXPECT--
done
