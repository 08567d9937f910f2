--TEST--
Loops as in the articles, by the name of php-memcached's class
--INI--
scrubjay.replace_memcached=1
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
require 'articles.inc';
articles('Memcached');
?>
done
--EXPECT--
done
