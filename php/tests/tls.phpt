--TEST--
Encrypted connections by options of the client's table
--SKIPIF--
<?php
if (!getenv('SCRUBJAY_TLS_PORT') || !getenv('SCRUBJAY_TLS_CA')) {
    die('skip SCRUBJAY_TLS_PORT and SCRUBJAY_TLS_CA name no server');
}
--FILE--
<?php
require 'servers.inc';
$encrypted = function (string $name): Scrubjay {
    $client = new Scrubjay();
    $client->addServer('127.0.0.1', (int) getenv('SCRUBJAY_TLS_PORT'));
    same($client->setClientOption('tls', 'yes'), true, 'tls');
    same($client->setClientOption('tls_ca', getenv('SCRUBJAY_TLS_CA')), true, 'tls_ca');
    same($client->setClientOption('tls_name', $name), true, 'tls_name');
    return $client;
};
$client = $encrypted('localhost');
same($client->set('k', [1, 2, 3]), true, 'set');
same($client->get('k'), [1, 2, 3], 'get');
$many = array_combine(array_map(fn ($n) => "k$n", range(1, 200)), range(1, 200));
same($client->setMulti($many), true, 'setMulti');
same($client->getMulti(array_keys($many)), $many, 'getMulti');
$large = str_repeat('0123456789', 90000);
$client->setOption(Scrubjay::OPT_COMPRESSION, false);
same($client->set('large', $large), true, 'set of a large value');
same($client->get('large') === $large, true, 'get of a large value');

$stranger = $encrypted('elsewhere');
same($stranger->get('k'), false, 'another name');
$said = $stranger->getLastErrorMessage();
same(str_contains($said, 'certificate is not for "elsewhere"'), true, "message: $said");
same(@$client->setClientOption('tls', 'maybe'), false, 'no value');
same(@$client->setClientOption('tsl', 'yes'), false, 'no option');
same($client->getResultCode(), Scrubjay::RES_INVALID_ARGUMENTS, 'code');
same($client->get('k'), [1, 2, 3], 'what is refused changes nothing');
?>
done
--EXPECT--
done
