--TEST--
setCompressThreshold: which values are compressed, with the flags of php-memcache
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
/** Text of which some hundredths can be saved. */
function compressible(int $len, int $percent): string
{
    mt_srand(7);
    $bytes = '';
    for ($at = 0; $at < $len; $at++) {
        $bytes .= $at % 100 < $percent ? 'a' : chr(mt_rand(0, 255));
    }
    return $bytes;
}
$client = alone('h04:');
$client->setOption(Scrubjay::OPT_VALUES, Scrubjay::VALUES_MEMCACHE);
same($client->setCompressThreshold(2000, 0.2), true, 'set');
foreach ([
    'as long as the threshold' => [str_repeat('a', 2000), 2],
    'one less' => [str_repeat('a', 1999), 0],
    'random' => [compressible(9000, 0), 0],
    'a tenth can be saved' => [compressible(9000, 10), 0],
    'three tenths' => [compressible(9000, 35), 2],
    'array' => [range(1, 500), 3],
    'short array' => [[1], 1],
    'number' => [7, 0x300],
    'true' => [true, 0x100],
    'float' => [1.5, 0x700],
] as $what => [$value, $flags]) {
    same($client->set('k', $value), true, "$what: set");
    same(stored('h04:' . getmypid() . ':k')[0], $flags, "$what: flags");
    same($client->get('k'), $value, "$what: get");
}
$client->setCompressThreshold(0);
$client->set('k', str_repeat('a', 9000));
same(stored('h04:' . getmypid() . ':k')[0], 0, 'without');
same(@$client->setCompressThreshold(-1), false, 'negative');
same(@$client->setCompressThreshold(1, 2), false, 'more than all');
?>
done
--EXPECT--
done
