//! Pixels as a PNG file (W3C, "Portable Network Graphics", third edition).

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Eight bits a channel, red, green and blue, no interlacing.
const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];

/// Each row says how it is predicted; this one is not.
const UNFILTERED: u8 = 0;

const COMPRESSION: u8 = 9;

/// A file of rows of `width` pixels, three bytes each.
///
/// # Panics
/// If the last row is not complete or there are more than 2^32 in a direction.
pub(super) fn encode(width: usize, pixels: &[u8]) -> Vec<u8> {
    let row_bytes = width * 3;
    assert!(pixels.len().is_multiple_of(row_bytes), "rows are complete");
    let side =
        |count: usize| u32::try_from(count).expect("a picture that can be looked at").to_be_bytes();
    let head = [&side(width)[..], &side(pixels.len() / row_bytes), &FORMAT].concat();
    let rows: Vec<u8> = pixels
        .chunks_exact(row_bytes)
        .flat_map(|row| std::iter::once(&UNFILTERED).chain(row))
        .copied()
        .collect();
    let data = miniz_oxide::deflate::compress_to_vec_zlib(&rows, COMPRESSION);
    [SIGNATURE.to_vec(), chunk(*b"IHDR", &head), chunk(*b"IDAT", &data), chunk(*b"IEND", &[])]
        .concat()
}

fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("a picture that can be looked at");
    let content = [&kind[..], data].concat();
    [&length.to_be_bytes()[..], &content, &crc(&content).to_be_bytes()].concat()
}

/// CRC-32 as in section 5.5, bit by bit: a picture has few hundred kilobytes.
fn crc(bytes: &[u8]) -> u32 {
    let shifted = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes
        .iter()
        .fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| shifted(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_end_is_the_known_one() {
        assert_eq!(chunk(*b"IEND", &[]), b"\0\0\0\0IEND\xae\x42\x60\x82");
    }

    #[test]
    fn the_rows_come_back_out() {
        let pixels: Vec<u8> = (0..2 * 3 * 5).collect();
        let file = encode(2, &pixels);
        assert_eq!(file[16..24], [0, 0, 0, 2, 0, 0, 0, 5]);
        let length = u32::from_be_bytes(file[33..37].try_into().unwrap()) as usize;
        assert_eq!(&file[37..41], b"IDAT");
        let rows = miniz_oxide::inflate::decompress_to_vec_zlib(&file[41..41 + length]).unwrap();
        let expected: Vec<u8> = pixels.chunks(6).flat_map(|row| [&[0], row].concat()).collect();
        assert_eq!(rows, expected);
    }
}
