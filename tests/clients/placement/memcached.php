<?php
// Which server php-memcached would ask for each key: memcached.php SCHEME SERVERS KEYS

[, $scheme, $servers, $keys] = $argv;
$client = new Memcached();
if ($scheme === 'ketama') {
    $client->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);
} elseif ($scheme !== 'libmemcached-modula') {
    $client->setOption(Memcached::OPT_DISTRIBUTION, Memcached::DISTRIBUTION_CONSISTENT);
}
if ($scheme === 'libmemcached-consistent/md5') {
    $client->setOption(Memcached::OPT_HASH, Memcached::HASH_MD5);
}
$index = [];
foreach (file($servers, FILE_IGNORE_NEW_LINES) as $number => $line) {
    [$host, $port, $weight] = explode("\t", $line);
    $client->addServer($host, (int) $port, (int) $weight);
    $index["$host:$port"] = $number;
}
foreach (file($keys, FILE_IGNORE_NEW_LINES) as $key) {
    $server = $client->getServerByKey($key);
    echo $index["{$server['host']}:{$server['port']}"], "\n";
}
