//! Decompression.

use super::HEADER;
use crate::error::{Error, Result, Within};
use std::cell::RefCell;
use twox_hash::XxHash64;

struct Contexts {
    zlib: libdeflater::Decompressor,
    zstd: zstd_safe::DCtx<'static>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> =
        RefCell::new(Contexts { zlib: libdeflater::Decompressor::new(), zstd: zstd_safe::DCtx::create() });
}

/// Whether a block of that length can hold that much: the codecs' limits of expansion, rounded up.
fn plausible(name: [u8; 2], packed: usize, original: usize) -> bool {
    let factor = match &name {
        b"L4" => 256,
        b"ZL" | b"CS" => 1040,
        b"XZ" => 10_000,
        _ => 40_000,
    };
    original <= packed.saturating_mul(factor).saturating_add(64)
}

/// The most bytes that less than [`STORED`] may hold; of more stored bytes, each as many times as these.
const MOST_HELD: usize = 160 << 20;
const STORED: usize = 1 << 20;

/// Checks the block headers of `from` against the size they must add up to, without decompressing.
///
/// So an object's declared size can be trusted for an allocation: no block can hold more than its codec's limit.
pub fn verify_size(from: &[u8], size: usize) -> Result<()> {
    let most = MOST_HELD.max(from.len().saturating_mul(MOST_HELD / STORED));
    if size > most {
        return Err(Error::limit(format!(
            "{} stored bytes claim to decompress to {size}, more than the limit of {most}",
            from.len()
        )));
    }
    let (mut rest, mut total) = (from, 0usize);
    while total < size {
        let header = rest.first_chunk::<HEADER>().ok_or_else(|| {
            Error::corrupt(format!("compressed blocks give {total} bytes where {size} are declared"))
        })?;
        let (packed, original) = sizes(*header);
        rest = rest.get(HEADER + packed..).ok_or_else(|| {
            Error::corrupt(format!("a compressed block of {packed} bytes reaches past its object"))
        })?;
        total = total.saturating_add(original);
        let [a, b, ..] = *header;
        if original == 0 || !plausible([a, b], packed, original) {
            return Err(Error::corrupt(format!(
                "a compressed block of {packed} bytes cannot hold {original}"
            )));
        }
    }
    if total != size {
        return Err(Error::corrupt(format!(
            "compressed blocks give {total} bytes where {size} are declared"
        )));
    }
    Ok(())
}

fn sizes(header: [u8; HEADER]) -> (usize, usize) {
    let [_, _, _, a, b, c, d, e, f] = header;
    let le24 = |x: u8, y: u8, z: u8| usize::from(x) | usize::from(y) << 8 | usize::from(z) << 16;
    (le24(a, b, c), le24(d, e, f))
}

/// ROOT's number of the codec of a row of blocks that starts with `head`.
pub fn codec(head: &[u8]) -> Option<u32> {
    match head.first_chunk()? {
        b"ZL" => Some(1),
        b"XZ" => Some(2),
        b"CS" => Some(3),
        b"L4" => Some(4),
        b"ZS" => Some(5),
        _ => None,
    }
}

/// Decompresses a row of blocks into `to`, which they must fill exactly.
pub fn decompress(mut from: &[u8], mut to: &mut [u8]) -> Result<()> {
    let size = to.len();
    while !to.is_empty() {
        let done = size - to.len();
        let header = *from
            .first_chunk::<HEADER>()
            .ok_or_else(|| Error::corrupt(format!("compressed data end after {done} of {size} bytes")))?;
        let (packed, original) = sizes(header);
        let block = from.get(HEADER..HEADER + packed).ok_or_else(|| {
            Error::corrupt(format!("a compressed block of {packed} bytes reaches past its object"))
        })?;
        if original == 0 || original > to.len() {
            return Err(Error::corrupt(format!(
                "a compressed block declares {original} bytes where {} are expected",
                to.len()
            )));
        }
        let (out, rest) = to.split_at_mut(original);
        let [a, b, method, ..] = header;
        CONTEXTS
            .with_borrow_mut(|contexts| decode_block(contexts, [a, b], method, block, out))
            .within(|| format!("block at byte {done} of {size}"))?;
        to = rest;
        from = from.get(HEADER + packed..).unwrap_or_default();
    }
    Ok(())
}

fn decode_block(
    contexts: &mut Contexts,
    name: [u8; 2],
    method: u8,
    block: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let wanted = out.len();
    let got = match &name {
        b"ZL" => {
            contexts.zlib.zlib_decompress(block, out).map_err(|e| Error::corrupt(format!("zlib: {e}")))?
        }
        // The oldest files: a bare deflate stream.
        b"CS" => {
            if method != 8 {
                return Err(Error::unsupported(format!(
                    "old compression method {method} (only deflate, 8, is known)"
                )));
            }
            contexts
                .zlib
                .deflate_decompress(block, out)
                .map_err(|e| Error::corrupt(format!("deflate: {e}")))?
        }
        b"XZ" => lzma(block, out)?,
        b"L4" => {
            let (sum, data) =
                block.split_first_chunk::<8>().ok_or_else(|| Error::corrupt("lz4: no checksum"))?;
            if XxHash64::oneshot(0, data) != u64::from_be_bytes(*sum) {
                return Err(Error::corrupt("lz4: the checksum does not match the data"));
            }
            lz4::block::decompress_to_buffer(data, Some(wanted as i32), out)
                .map_err(|e| Error::corrupt(format!("lz4: {e}")))?
        }
        b"ZS" => contexts
            .zstd
            .decompress(out, block)
            .map_err(|code| Error::corrupt(format!("zstd: {}", zstd_safe::get_error_name(code))))?,
        _ => {
            return Err(Error::corrupt(format!(
                "unknown compression algorithm {:?}",
                String::from_utf8_lossy(&name)
            )));
        }
    };
    if got != wanted {
        return Err(Error::corrupt(format!("decompression gave {got} bytes where {wanted} were declared")));
    }
    Ok(())
}

/// Memory the LZMA decoder may take for its dictionary: the largest preset needs 65 MB.
const LZMA_MEMORY: u64 = 96 << 20;

fn lzma(block: &[u8], out: &mut [u8]) -> Result<usize> {
    use liblzma::stream::{Action, Status, Stream};
    let fail = |e| Error::corrupt(format!("lzma: {e}"));
    let mut stream = Stream::new_stream_decoder(LZMA_MEMORY, 0).map_err(fail)?;
    match stream.process(block, out, Action::Finish).map_err(fail)? {
        Status::StreamEnd => Ok(stream.total_out() as usize),
        _ => Err(Error::corrupt("lzma: the stream does not end with its block")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: [u8; 2], method: u8, body: &[u8], original: usize) -> Vec<u8> {
        let mut v = vec![name[0], name[1], method];
        v.extend_from_slice(&(body.len() as u32).to_le_bytes()[..3]);
        v.extend_from_slice(&(original as u32).to_le_bytes()[..3]);
        v.extend_from_slice(body);
        v
    }

    #[test]
    fn old_deflate_and_zlib_in_one_row() {
        let text = b"pages, pages, pages, pages";
        let mut c = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut raw = vec![0; 200];
        let n = c.deflate_compress(text, &mut raw).unwrap();
        let mut zl = vec![0; 200];
        let m = c.zlib_compress(text, &mut zl).unwrap();
        let mut row = block(*b"CS", 8, &raw[..n], text.len());
        row.extend(block(*b"ZL", 8, &zl[..m], text.len()));
        verify_size(&row, 2 * text.len()).unwrap();
        let mut out = vec![0; 2 * text.len()];
        decompress(&row, &mut out).unwrap();
        assert_eq!(out, [&text[..], &text[..]].concat());
        assert!(verify_size(&row, text.len() + 1).is_err());
        assert!(decompress(&row[..row.len() - 1], &mut out).is_err());
    }

    #[test]
    fn few_bytes_do_not_become_hundreds_of_millions() {
        // Blocks that are as dense as their codec can make them.
        let row = |blocks: usize, packed: usize, original: usize| {
            block(*b"ZS", 1, &vec![0; packed], original).repeat(blocks)
        };
        let fits = row(10, 1000, (16 << 20) - 1);
        verify_size(&fits, 10 * ((16 << 20) - 1)).unwrap();
        let bomb = row(11, 1000, (16 << 20) - 1);
        let error = verify_size(&bomb, 11 * ((16 << 20) - 1)).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Limit, "{error}");
        let large = row(12, 200_000, (16 << 20) - 1);
        verify_size(&large, 12 * ((16 << 20) - 1)).unwrap();
    }

    #[test]
    fn lz4_checksum_is_verified() {
        let text = b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
        let packed = lz4::block::compress(text, None, false).unwrap();
        let mut body = XxHash64::oneshot(0, &packed).to_be_bytes().to_vec();
        body.extend(&packed);
        let mut out = vec![0; text.len()];
        decompress(&block(*b"L4", 1, &body, text.len()), &mut out).unwrap();
        assert_eq!(out, text);
        body[3] ^= 1;
        let error = decompress(&block(*b"L4", 1, &body, text.len()), &mut out).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }

    #[test]
    fn unknown_names_and_empty_blocks_are_errors() {
        assert!(decompress(&block(*b"??", 0, &[1, 2], 5), &mut [0; 5]).is_err());
        assert!(decompress(&block(*b"ZL", 8, &[], 0), &mut [0; 5]).is_err());
        assert!(verify_size(&block(*b"ZL", 8, &[], 0), 5).is_err());
    }
}
