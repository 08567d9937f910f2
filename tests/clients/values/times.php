<?php
// What crates/client/examples/values.rs measures, by PHP's own serializers, in the same columns.

function rows() {
    for ($id = 0; $id < 50000; $id++) {
        $rows[] = [
            "id" => 70000 + $id, "name" => "jay " . $id % 1000, "city" => ["北京市", "上海市", "Zürich", "Aberdeen"][$id % 4],
            "score" => $id / 8.0, "active" => $id % 3 == 0, "tags" => ["acorn", "oak"],
        ];
    }
    return $rows;
}

function shortest($run) {
    $best = INF;
    for ($i = 0; $i < 5; $i++) {
        unset($last);
        $start = hrtime(true);
        $last = $run();
        $best = min($best, (hrtime(true) - $start) / 1e6);
    }
    return [$best, $last];
}

ini_set("memory_limit", "1G");
$formats = [
    "Json" => ["json_encode", fn($bytes) => json_decode($bytes, true)], "Php" => ["serialize", "unserialize"],
    "Igbinary" => ["igbinary_serialize", "igbinary_unserialize"], "Msgpack" => ["msgpack_pack", "msgpack_unpack"],
];
$corpora = [
    "1,000,000 equal numbers" => array_fill(0, 1000000, 5000), "100,000 equal numbers" => array_fill(0, 100000, 5000),
    "50,000 rows" => rows(),
    "100,000 Chinese texts" => array_map(fn($id) => str_repeat("松鸦记得每一颗橡子", 3) . $id, range(0, 99999)),
];
foreach ($corpora as $corpus => $value) {
    foreach ($formats as $format => [$write, $read]) {
        [$write_ms, $bytes] = shortest(fn() => $write($value));
        [$read_ms] = shortest(fn() => $read($bytes));
        printf("%-24s %-10s %10d %10.1f %10.1f\n", $corpus, $format, strlen($bytes), $write_ms, $read_ms);
    }
}
