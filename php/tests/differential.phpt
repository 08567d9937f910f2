--TEST--
Every call returns what php-memcached returns, with the same code
--EXTENSIONS--
igbinary
msgpack
memcached
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
require 'calls.inc';
// Where ours differs, and means to.
$known = [
    'quit ' => 'the code is that of quit, not of the call before it',
    'setOption -1006' => 'the code is that of this call, not of the one before it',
    'isPersistent ' => '', 'isPristine ' => '',
];
$theirs = outcomes(alone('theirs:', 'Memcached'));
$ours = outcomes(alone('ours:'));
foreach ($theirs as $call => $outcome) {
    [$number, $name] = explode(' ', $call, 2);
    if (isset($known[$name])) {
        same($ours[$call][0], $outcome[0], $call);
    } else {
        same($ours[$call], $outcome, $call);
    }
}
echo count($theirs) > 80 ? 'done' : 'too few';
?>
--EXPECT--
done
