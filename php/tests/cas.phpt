--TEST--
cas takes tokens as they come, with strict types, too
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
declare(strict_types=1);
require 'servers.inc';
$client = alone('cas:');
$token = function () use ($client) {
    return $client->get('k', null, Scrubjay::GET_EXTENDED)['cas'];
};
$client->set('k', 1);
same($client->cas($token(), 'k', 2), true, 'as it is');
same($client->cas((string) $token(), 'k', 3), true, 'text');
same($client->casByKey($token(), 'k', 'k', 4), true, 'by key');
$old = $token();
same($client->cas((float) $old, 'k', 5), true, 'float');
same([$client->cas($old, 'k', 6), $client->getResultCode()], [false, Scrubjay::RES_DATA_EXISTS], 'old');
foreach ([null, '', 'abc', "{$token()}x", 0, -2.0, 1e300, NAN, true, [], new stdClass()] as $none) {
    same($client->cas($none, 'k', 7), false, var_export($none, true));
}
same($client->get('k'), 5, 'as it was');
?>
done
--EXPECT--
done
