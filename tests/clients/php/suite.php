<?php
// Runs the tests of a suite and counts them in the words that `cargo xtask test` reads.

$host = '127.0.0.1';
$port = (int) getenv('SCRUBJAY_PORT');

/** Fails with both values if they differ. */
function equal(mixed $got, mixed $expected): void
{
    if ($got !== $expected) {
        $short = fn ($value) => substr(var_export($value, true), 0, 200);
        throw new Exception('got ' . $short($got) . ', expected ' . $short($expected));
    }
}

/** Runs every test, then ends the process with the right status. */
function run(array $tests): never
{
    $failed = 0;
    foreach ($tests as $name => $test) {
        try {
            $test();
        } catch (Throwable $error) {
            $failed++;
            echo "FAILED: $name: {$error->getMessage()} (line {$error->getTrace()[0]['line']})\n";
        }
    }
    echo count($tests) - $failed, " passed, $failed failed\n";
    exit($failed === 0 ? 0 : 1);
}
