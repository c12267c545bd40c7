// Each of 3,000 tasks has a thread.
use std::thread;

fn task(number: u64) -> u64 {
    (0..2000u64).fold(number, |sum, i| sum.wrapping_mul(31).wrapping_add(i))
}

fn main() {
    let mut sum = 0u64;
    for number in 0..3000 {
        let thread = thread::spawn(move || task(number));
        sum = sum.wrapping_add(thread.join().unwrap()); // FAULT
    }
    println!("{}", sum);
}
