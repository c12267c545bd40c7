// Records of eight bytes are read one by one from a file; mended, through a buffer.
use std::fs::File;
use std::io::{BufReader, Read, Write};

fn sum(mut from: impl Read) -> u64 {
    let mut record = [0u8; 8];
    let mut total = 0u64;
    while from.read_exact(&mut record).is_ok() {  // FAULT
        total = total.wrapping_add(u64::from_le_bytes(record));
    }
    total
}

fn main() {
    let bytes: Vec<u8> = (0..40_000u64).flat_map(|n| n.to_le_bytes()).collect();
    File::create("records.bin").unwrap().write_all(&bytes).unwrap();
    let file = File::open("records.bin").unwrap();
    let mended = std::env::args().count() > 1;
    let total = if mended { sum(BufReader::new(file)) } else { sum(file) };
    assert_eq!(total, 799_980_000);
}
