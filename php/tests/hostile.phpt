--TEST--
Values that somebody else has damaged are refused or read, and nothing worse
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
$client = client(1);
$socket = stream_socket_client('tcp://127.0.0.1:' . ports()[0]);
$put = function (int $flags, string $bytes) use ($socket) {
    fwrite($socket, "set hostile $flags 0 " . strlen($bytes) . "\r\n$bytes\r\n");
    fgets($socket);
};
mt_srand(11);
$value = ['a' => [1, 2.5, 'text'], 'b' => array_fill(0, 50, 'again'), 'c' => null, 5 => true];
$good = [];
foreach ([Scrubjay::SERIALIZER_IGBINARY, Scrubjay::SERIALIZER_MSGPACK, Scrubjay::SERIALIZER_JSON] as $serializer) {
    $client->setOption(Scrubjay::OPT_SERIALIZER, $serializer);
    $client->set('hostile', $value);
    $good[] = stored('hostile');
}
$client->set('hostile', str_repeat('compress me ', 500));
$good[] = stored('hostile');
$read = 0;
for ($round = 0; $round < 3000; $round++) {
    [$flags, $bytes] = $good[$round % count($good)];
    switch (mt_rand(0, 2)) {
        case 0:
            $bytes[mt_rand(0, strlen($bytes) - 1)] = chr(mt_rand(0, 255));
            break;
        case 1:
            $bytes = substr($bytes, 0, mt_rand(0, strlen($bytes)));
            break;
        case 2:
            $flags = mt_rand(0, 0xffff);
    }
    $put($flags, $bytes);
    $got = @$client->get('hostile');
    if ($got === false && $client->getResultCode() === Scrubjay::RES_SUCCESS && strlen($bytes) > 0 && ($flags & 15) > 3) {
        echo "no code for flags $flags, ", bin2hex($bytes), "\n";
    }
    $read++;
}
// Lists in lists, deeper than any stack; counts without values.
foreach ([str_repeat("\x91", 100000), "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff\x01\x01"] as $bytes) {
    $put(7, $bytes);
    same(@$client->get('hostile'), false, 'msgpack ' . bin2hex(substr($bytes, 0, 5)));
    same($client->getResultCode(), Scrubjay::RES_PAYLOAD_FAILURE, 'code');
}
foreach (["\0\0\0\2" . str_repeat("\x14\x01\x06\x00", 50000), "\0\0\0\2\x16\xff\xff\xff\xff"] as $bytes) {
    $put(5, $bytes);
    same(@$client->get('hostile'), false, 'igbinary ' . bin2hex(substr($bytes, 0, 8)));
}
same($read, 3000, 'rounds');
$deep = [];
for ($level = 0; $level < 1000; $level++) {
    $deep = [$deep];
}
$client->setOption(Scrubjay::OPT_SERIALIZER, Scrubjay::SERIALIZER_MSGPACK);
same($client->set('hostile', $deep), true, 'deep');
same($client->get('hostile'), $deep, 'deep comes back');
?>
done
--EXPECT--
done
