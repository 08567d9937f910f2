--TEST--
Servers that are not there, do not answer, or answer nonsense
--FILE--
<?php
require 'servers.inc';
$listen = stream_socket_server('tcp://127.0.0.1:0');
$silent = (int) substr(strrchr(stream_socket_get_name($listen, false), ':'), 1);
$client = new Scrubjay();
$client->setOption(Scrubjay::OPT_POLL_TIMEOUT, 30);
$client->addServer('127.0.0.1', $silent);
same($client->get('k'), false, 'silent');
same(in_array($client->getResultCode(), [Scrubjay::RES_TIMEOUT, Scrubjay::RES_CONNECTION_FAILURE]), true, 'code of silent');
same(str_contains($client->getLastErrorMessage(), "127.0.0.1:$silent"), true, 'message of silent');
same($client->getMulti(['a', 'b']), false, 'many from silent');
fclose($listen);

// A queue of connections that is full: another one is not answered.
$full = stream_socket_server('tcp://127.0.0.1:0', $errno, $error, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create([
    'socket' => ['backlog' => 1],
]));
$place = stream_socket_get_name($full, false);
$waiting = [];
for ($number = 0; $number < 8; $number++) {
    $waiting[] = stream_socket_client("tcp://$place", $errno, $error, 1, STREAM_CLIENT_ASYNC_CONNECT);
}
$late = new Scrubjay();
$late->setOption(Scrubjay::OPT_CONNECT_TIMEOUT, 100);
$late->addServer('127.0.0.1', (int) substr(strrchr($place, ':'), 1));
same([$late->get('k'), $late->getResultCode()], [false, Scrubjay::RES_TIMEOUT], 'no connection in time');
same([$late->get('k'), $late->getResultCode()], [false, Scrubjay::RES_SERVER_TEMPORARILY_DISABLED], 'and it is not waited for again');
$nowhere = new Scrubjay();
$nowhere->addServer(str_repeat('x', 70), 11211);
same([$nowhere->get('k'), $nowhere->getResultCode()], [false, Scrubjay::RES_HOST_LOOKUP_FAILURE], 'no such host');

$dead = new Scrubjay();
same($dead->get('k'), false, 'no servers');
same($dead->getResultCode(), Scrubjay::RES_NO_SERVERS, 'code of no servers');
$dead->addServer('127.0.0.1', $silent);
same($dead->set('k', 1), false, 'dead');
same(in_array($dead->getResultCode(), [Scrubjay::RES_CONNECTION_FAILURE, Scrubjay::RES_SERVER_TEMPORARILY_DISABLED]), true, 'code');
same($dead->getVersion(), false, 'version of dead');
same($dead->getResultCode(), Scrubjay::RES_SOME_ERRORS, 'code of version');
same($dead->getLastDisconnectedServer(), ['host' => '127.0.0.1', 'port' => $silent], 'disconnected');
same(@$dead->addServer('127.0.0.1', 70000), false, 'no port');
same(@$dead->addServers([['127.0.0.1', 1], ['', 1]]), false, 'a row without a host');
same(@$dead->addServer('', 1), false, 'no host');
?>
done
--EXPECT--
done
