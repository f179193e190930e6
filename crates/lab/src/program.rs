//! The kernels as a program, for compiling them with other options: prints their rates as a JSON array.
//! Its arguments: seconds for each kernel, bytes of each of STREAM's arrays.

mod kernels;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.1);
    let mut rates: Vec<f64> = kernels::KERNELS.iter().map(|(_, _, run)| run(number(1))).collect();
    rates.extend(kernels::stream(number(2) as usize / 8, number(1)));
    println!("{rates:?}");
}
