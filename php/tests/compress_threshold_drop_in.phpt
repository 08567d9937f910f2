--TEST--
setCompressThreshold by the name of php-memcached's class
--INI--
scrubjay.replace_memcached=1
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
require 'compress_threshold.inc';
thresholds('Memcached');
?>
done
--EXPECT--
done
