--TEST--
A client that was not made as it should be is told so, and the next one is made anew
--INI--
scrubjay.replace_memcached=1
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
foreach (['Memcached', 'Scrubjay'] as $class) {
    eval("class Own$class extends $class { public function __construct() {} }");
    foreach (['get' => ['a'], 'set' => ['a', 1], 'getServerList' => [], 'setOption' => [$class::OPT_COMPRESSION, true]] as $method => $arguments) {
        try {
            (new ("Own$class"))->$method(...$arguments);
            echo "$class::$method went on\n";
        } catch (Error $error) {
            same($error->getMessage(), "$class constructor was not called", $method);
        }
    }
    $calls = 0;
    $throws = function ($client) use (&$calls) {
        $calls++;
        $client->setOption($client::OPT_PREFIX_KEY, 'half-done');
        throw new Exception('from the callback');
    };
    for ($time = 1; $time <= 2; $time++) {
        try {
            new $class('thrown', $throws);
            echo "$class went on\n";
        } catch (Exception $error) {
            same([$error->getMessage(), $calls], ['from the callback', $time], 'each time');
        }
    }
    $client = new $class('thrown', function () use (&$calls) { $calls++; });
    same([$calls, $client->getOption($class::OPT_PREFIX_KEY), $client->isPristine()], [3, '', true], 'anew');
    $client = new $class('thrown', $throws);
    same([$calls, $client->isPristine()], [3, false], 'kept since');
}
?>
done
--EXPECT--
done
