--TEST--
Loops as in the articles: many writes, every server gets its share, everything is found again
--SKIPIF--
<?php require 'skip.inc'; ?>
--FILE--
<?php
require 'servers.inc';
require 'articles.inc';
articles('Scrubjay');
?>
done
--EXPECT--
done
