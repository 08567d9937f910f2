--TEST--
What one writes the other reads, with every serializer and compression
--EXTENSIONS--
igbinary
msgpack
memcached
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
class Point
{
    public $x = 1;
    protected $y = [2];
    private $z = 'three';
}
$long = str_repeat('as much as can be compressed ', 300);
$rows = [];
for ($row = 0; $row < 200; $row++) {
    $rows["row $row"] = ['id' => $row, 'name' => "name $row", 'ratio' => $row / 7, 'on' => $row % 2 === 0, 'none' => null];
}
$values = [
    'text' => 'text', 'empty' => '', 'bytes' => "\0\xff\r\n", 'long' => $long, 'int' => 42, 'negative' => -1,
    'largest' => PHP_INT_MAX, 'smallest' => PHP_INT_MIN, 'float' => 0.1, 'tiny' => 1e-300, 'whole' => 2.0, 'minus zero' => -0.0,
    'infinite' => INF, 'negative infinite' => -INF, 'nan' => NAN, 'true' => true, 'false' => false, 'null' => null,
    'no elements' => [], 'list' => [1, 2.5, 'x', null, true, [3]], 'map' => ['a' => 1, 'b' => ['c' => 'd'], 5 => 6],
    'sparse' => [3 => 'a', 1 => 'b'], 'negative keys' => [-5 => 1, 0 => 2], 'repeated' => array_fill(0, 500, 'the same'),
    'rows' => $rows, 'unicode' => ['中文' => 'größer'], 'numbers' => range(-70000, 70000, 777),
];
$objects = ['object' => new Point(), 'objects' => [new Point(), 'k' => (object) ['a' => 1]], 'date' => new DateTime('2020-01-02 UTC')];
$shared = [1];
$objects['reference'] = [&$shared, &$shared];

$key = 'values:' . getmypid();
$theirs = client(1, 'Memcached');
$ours = client(1);
$serializers = ['PHP', 'IGBINARY', 'JSON', 'JSON_ARRAY', 'MSGPACK'];
foreach ($serializers as $serializer) {
    foreach ([null, 'ZLIB', 'FASTLZ'] as $compression) {
        foreach ([$theirs, $ours] as $client) {
            $client->setOption(Memcached::OPT_SERIALIZER, constant("Memcached::SERIALIZER_$serializer"));
            $client->setOption(Memcached::OPT_COMPRESSION, $compression !== null);
            if ($compression !== null) {
                $client->setOption(Memcached::OPT_COMPRESSION_TYPE, constant("Memcached::COMPRESSION_$compression"));
            }
        }
        // JSON has no bytes that are no text, no infinity, and objects lose their class.
        $json = str_starts_with($serializer, 'JSON');
        foreach ($json ? $values : $values + $objects as $name => $value) {
            $what = "$serializer, " . ($compression ?? 'raw') . ", $name";
            $theirs->set($key, $value);
            $expected = $theirs->get($key);
            [$flags, $bytes] = stored($key);
            $got = $ours->get($key);
            is_object($value) || in_array($name, ['objects', 'reference']) || $json
                ? same(serialize($got), serialize($expected), "ours reads theirs: $what")
                : same($got, $expected, "ours reads theirs: $what");
            same($ours->set($key, $value), true, "ours writes: $what");
            same($ours->getResultCode(), 0, "ours writes: $what");
            [$our_flags, $our_bytes] = stored($key);
            if ($compression === null) {
                same($our_flags, $flags, "flags: $what");
                if (!is_float($value)) {
                    same($our_bytes, $bytes, "bytes: $what");
                }
            }
            same(serialize($theirs->get($key)), serialize($expected), "theirs reads ours: $what");
            same(serialize($ours->get($key)), serialize($expected), "ours reads ours: $what");
        }
    }
}
$ours->setOption(Scrubjay::OPT_COMPRESSION_TYPE, Scrubjay::COMPRESSION_ZSTD);
$ours->setOption(Scrubjay::OPT_COMPRESSION, true);
$ours->set($key, $long);
same($ours->get($key), $long, 'zstd');
same(strlen(stored($key)[1]) < 200, true, 'zstd is small');
foreach ([$theirs, $ours] as $client) {
    try {
        $client->set($key, fn () => 1);
        echo "a closure is no value\n";
    } catch (Exception) {
    }
}
?>
done
--EXPECT--
done
