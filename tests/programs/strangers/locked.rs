// Each thread writes and syncs a file of its own while it holds the lock of the total.
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    let total = Arc::new(Mutex::new(0u64));
    let mut threads = vec![];
    for number in 0..4 {
        let total = Arc::clone(&total);
        threads.push(thread::spawn(move || {
            let mut log = File::create(format!("thread-{number}.log")).unwrap();
            for record in 0..40 {
                let mut sum = total.lock().unwrap(); // FAULT
                *sum += record;
                log.write_all(&[7u8; 16384]).unwrap();
                log.sync_all().unwrap();
            }
        }));
    }
    for each in threads {
        each.join().unwrap();
    }
    println!("{}", total.lock().unwrap());
}
