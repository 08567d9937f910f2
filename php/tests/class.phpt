--TEST--
The class has all methods, arguments and constants of php-memcached's
--EXTENSIONS--
igbinary
msgpack
memcached
--FILE--
<?php
$theirs = new ReflectionClass('Memcached');
$ours = new ReflectionClass('Scrubjay');
foreach ($theirs->getMethods() as $method) {
    if (!$ours->hasMethod($method->name)) {
        echo "no method $method->name\n";
        continue;
    }
    $shape = fn ($method) => array_map(fn ($p) => "$p", $method->getParameters());
    if ($shape($method) !== $shape($ours->getMethod($method->name))) {
        echo "other arguments: $method->name\n";
    }
}
foreach ($theirs->getConstants() as $name => $value) {
    if (!$ours->hasConstant($name)) {
        echo "no constant $name\n";
    } elseif ($ours->getConstant($name) !== $value && !in_array($name, ['HAVE_ENCODING', 'LIBMEMCACHED_VERSION_HEX'])) {
        echo "other constant: $name\n";
    }
}
var_dump(count($theirs->getMethods()) > 50, (new ReflectionExtension('scrubjay'))->getVersion());
?>
--EXPECT--
bool(true)
string(5) "0.1.0"
