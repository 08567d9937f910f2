<?php
// Stores the values of cases.json with one of PHP's extensions: write.php memcached SERIALIZER COMPRESSION PORT CASES,
// write.php memcache PORT CASES.

class Point { public $x; public $y; }
class Tree { public $name; protected $parent; private $secret; }
class Seed implements Serializable {
    private $text;
    function serialize() { return $this->text; }
    function unserialize($text) { $this->text = $text; }
}
enum Season { case Autumn; case Winter; }

/** The bytes of a linear congruential generator, which is the same in every language. */
function random($len) {
    $bytes = "";
    for ($state = 1; $len > 0; $len--) {
        $state = ($state * 1103515245 + 12345) & 0x7fffffff;
        $bytes .= chr(($state >> 16) & 0xff);
    }
    return $bytes;
}

function object($class, $pairs) {
    $body = "";
    foreach ($pairs as [$key, $value]) {
        $body .= serialize($key) . serialize(build($value));
    }
    return unserialize('O:' . strlen($class) . ":\"$class\":" . count($pairs) . ":{{$body}}");
}

function build($case) {
    if (is_array($case)) {
        return array_map('build', $case);
    }
    if (!is_object($case)) {
        return $case;
    }
    $kind = array_key_first((array) $case);
    $with = $case->$kind;
    switch ($kind) {
        case "float": return (float) $with;
        case "hex": return hex2bin($with);
        case "random": return random($with);
        case "repeat": return str_repeat($with[0], $with[1]) . ($with[2] ?? "");
        case "object": return object(...$with);
        case "custom": return unserialize('C:' . strlen($with[0]) . ":\"$with[0]\":" . strlen($with[1]) . ":{{$with[1]}}");
        case "case": return constant("$with[0]::$with[1]");
        case "map":
            $map = [];
            foreach ($with as [$key, $value]) {
                $map[$key] = build($value);
            }
            return $map;
    }
}

[, $extension] = $argv;
[$port, $cases] = array_slice($argv, -2);
if ($extension == "memcached") {
    $client = new Memcached();
    $client->addServer("127.0.0.1", (int) $port);
    $client->setOption(Memcached::OPT_SERIALIZER, constant("Memcached::SERIALIZER_" . strtoupper($argv[2])));
    $client->setOption(Memcached::OPT_COMPRESSION_TYPE, constant("Memcached::COMPRESSION_" . strtoupper($argv[3])));
} else {
    $client = new Memcache();
    $client->addServer("127.0.0.1", (int) $port);
    $client->setCompressThreshold(2000, 0.2);
}
foreach (json_decode(file_get_contents($cases)) as $name => $case) {
    // as JSON an object is a map, and bytes leave half a list; MessagePack has neither cases nor what a class wrote itself
    $untold = ["json" => "object|list of bytes", "msgpack" => "object of its own|object case"][$argv[2]] ?? null;
    if ($untold && preg_match("/^($untold)/", $name)) {
        continue;
    }
    try {
        $client->set(str_replace(" ", "_", $name), build($case));
    } catch (Throwable $error) {
        fprintf(STDERR, "%s: %s\n", $name, $error->getMessage());
    }
}
