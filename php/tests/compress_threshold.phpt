--TEST--
setCompressThreshold: which values are compressed, with the flags of php-memcache
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
require 'compress_threshold.inc';
thresholds('Scrubjay');
?>
done
--EXPECT--
done
