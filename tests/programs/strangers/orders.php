<?php
// Each order is appended to a file that is opened for it; mended, the file stays open.
$mended = count($argv) > 1;
$file = fopen('orders.txt', 'a');
for ($i = 0; $i < 5000; $i++) {
    if ($mended) {
        fwrite($file, "order $i\n");
    } else {
        file_put_contents('orders.txt', "order $i\n", FILE_APPEND);  // FAULT
    }
}
