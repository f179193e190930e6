//! The compressor alone: `recompress FILE SETTING` unpacks all baskets of a file, and prints as JSON how many seconds it
//! takes to compress them again, one after another in one thread, and how many bytes they are before and after.

use sapwood_io::Cause;
use sapwood_root::compress::decode::decompress;
use sapwood_root::compress::encode::{Compression, compress};
use sapwood_root::file::{Key, RootFile};
use sapwood_root::wire::Cursor;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(setting)) = (arguments.next(), arguments.next()) else {
        return Err("usage: recompress FILE SETTING".into());
    };
    let compression = Compression::from_code(setting.parse()?)?;
    let file = RootFile::open(sapwood_io::open(Path::new(&path))?)?;
    let (mut at, end) = (file.header().begin, file.header().end);
    let mut baskets = Vec::new();
    while at + 4 < end {
        let head = file.head(at, 1024.min(end - at), Cause::Object)?;
        let length = i32::from_be_bytes(*head.first_chunk::<4>().ok_or("a short record")?);
        if length > 0 {
            let key = Key::parse(&mut Cursor::new(&head, at))?;
            if key.classname == "TBasket" {
                let stored = u64::from(key.total_bytes) - u64::from(key.key_bytes);
                let packed = file.bytes(at + u64::from(key.key_bytes), stored, Cause::Object)?;
                let mut plain = vec![0; key.object_bytes as usize];
                if packed.len() == plain.len() {
                    plain = packed;
                } else {
                    decompress(&packed, &mut plain)?;
                }
                baskets.push(plain);
            }
        }
        at += u64::from(length.unsigned_abs()).max(4);
    }
    let mut out = Vec::new();
    let before: usize = baskets.iter().map(Vec::len).sum();
    let mut best = f64::INFINITY;
    let mut after = 0;
    for _ in 0..3 {
        let start = Instant::now();
        after = 0;
        for basket in &baskets {
            after += compress(compression, basket, &mut out)?.unwrap_or(basket.len());
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "{{\"seconds\": {best}, \"before\": {before}, \"after\": {after}, \"baskets\": {}}}",
        baskets.len()
    );
    Ok(())
}
