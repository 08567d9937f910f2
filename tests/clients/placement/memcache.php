<?php
// Has php-memcache ask its servers for each key: memcache.php SERVERS KEYS

[, $servers, $keys] = $argv;
$client = new Memcache();
foreach (file($servers, FILE_IGNORE_NEW_LINES) as $line) {
    [$host, $port, $weight] = explode("\t", $line);
    $client->addServer($host, (int) $port, false, (int) $weight, 60);
}
foreach (array_chunk(file($keys, FILE_IGNORE_NEW_LINES), 500) as $some) {
    $client->get($some);
}
