// Writes rows into a file without a buffer.
use std::fs::File;
use std::io::Write;

fn main() {
    let mut rows = File::create("rows.csv").unwrap();
    for number in 0..40_000 {
        writeln!(rows, "{},{}", number, 2 * number).unwrap(); // FAULT
    }
}
