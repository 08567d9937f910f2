--TEST--
By a switch the class is there as Memcached, too, with php-memcached's defaults
--INI--
scrubjay.replace_memcached=1
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
class Pool extends Memcached
{
    public function get(string $key, ?callable $cache_cb = null, int $get_flags = 0): mixed
    {
        return [parent::get($key, $cache_cb, $get_flags)];
    }
}
// What php-memcached's class has not, a subclass may have in its own way.
class Tagged extends Memcached
{
    public function invalidate(array $tags): string
    {
        return implode(' ', $tags);
    }

    public function getOrCompute(): int
    {
        return 7;
    }
}
$client = client(1, 'Memcached');
same($client->getOption(Memcached::OPT_SERIALIZER), Memcached::SERIALIZER_PHP, 'serializer');
$client->set('drop', [1, 2]);
same(stored('drop'), [4, serialize([1, 2])], 'bytes');
same($client->set('drop', str_repeat('x', 5000)), true, 'compressed');
same(stored('drop')[0] & 0x10, 0x10, 'flags of what is compressed');
same(client(1, 'Pool')->get('drop'), [str_repeat('x', 5000)], 'subclass');
same([client(1, 'Tagged')->invalidate(['a', 'b']), client(1, 'Tagged')->getOrCompute()], ['a b', 7], 'methods of its own');
$only = array_diff(get_class_methods('Scrubjay'), get_class_methods('Memcached'));
sort($only);
same($only, ['getNearCacheCounts', 'getOrCompute', 'invalidate', 'setClientOption', 'setCompressThreshold'], 'methods of ours');
same([$client->getOrCompute('drop', fn () => 1), $client->GETNEARCACHECOUNTS()], [str_repeat('x', 5000), false], 'are answered');
same([is_callable([$client, 'invalidate']), method_exists($client, 'nothing')], [true, false], 'and found');
try {
    $client->nothing();
} catch (Error $error) {
    same($error->getMessage(), 'Call to undefined method Memcached::nothing()', 'what is nobody\'s');
}
class Magic extends Memcached
{
    public function __call(string $name, array $arguments): string
    {
        return $name;
    }
}
same(client(1, 'Magic')->invalidate(), 'invalidate', 'a __call of its own');
same(is_subclass_of('MemcachedException', 'RuntimeException'), true, 'exception');
same(client(1)->get('drop'), str_repeat('x', 5000), 'both classes');
same([extension_loaded('memcached'), phpversion('memcached')], [true, '3.2.0'], 'extension');
session_module_name('memcached');
same(session_module_name(), 'memcached', 'session handler');
?>
done
--EXPECT--
done
