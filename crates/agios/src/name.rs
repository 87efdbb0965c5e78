//! What AGIOS names a request with: file, type, length and offset.
//!
//! The text of a file's name is hashed once, to 128 bits, when a call comes in; after that nothing
//! looks at it again. All hashes here are seeded anew in each process: whoever chooses names or offsets
//! can neither make two files meet nor fill one bucket.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use forebay_controller::FileKey;
use forebay_units::{Bytes, Direction, Offset};

/// What a request is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The file.
    pub(crate) file: FileKey,
    /// The type.
    pub(crate) direction: Direction,
    /// Where it starts.
    pub(crate) offset: Offset,
    /// How much it covers.
    pub(crate) length: Bytes,
    /// Of all that.
    hash: u64,
}

impl Name {
    /// Of a file with this key.
    pub(crate) fn new(file: FileKey, direction: Direction, offset: Offset, length: Bytes) -> Self {
        let start = fold(file.low ^ offset.0, FIRST);
        let hash = fold(start ^ length.0 ^ (direction as u64) << 63, SECOND);
        Self { file, direction, offset, length, hash }
    }

    /// A hash that differs between neighbours in its lowest bits too.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Digits of the golden ratio and of the square root of 3, for what a secret has been mixed into.
const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xbb67_ae85_84ca_a73b;

/// A start and a multiplier for each half of a key.
static SECRETS: LazyLock<[(u64, u64); 2]> = LazyLock::new(|| {
    // Hashes of the numbers under the process's random keys.
    let state = RandomState::new();
    let secret = |number: u8| {
        let mut hasher = state.build_hasher();
        hasher.write_u8(number);
        hasher.finish()
    };
    [(secret(0), secret(1) | 1), (secret(2), secret(3) | 1)]
});

/// The key of a file's name: two hashes that have nothing in common, together 128 bits, so that
/// names do not meet by accident.
pub(crate) fn file_key(name: &[u8]) -> FileKey {
    let [high, low] = SECRETS.map(|(start, multiplier)| {
        let (words, rest) = name.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(start, |hash, word| fold(hash ^ u64::from_le_bytes(*word), multiplier));
        // The length tells a name from one with zeros behind it.
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        fold(fold(hash ^ u64::from_le_bytes(last), multiplier) ^ name.len() as u64, multiplier)
    });
    FileKey { high, low }
}

/// Both halves of a product, folded into one.
fn fold(word: u64, multiplier: u64) -> u64 {
    let wide = u128::from(word) * u128::from(multiplier);
    (wide >> 64) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbours_do_not_share_hashes() {
        let hashes: HashSet<u64> = (0..100_000_u64)
            .map(|number| {
                let file = file_key(format!("file.{}", number % 3).as_bytes());
                let offset = Offset(8192 * (number / 3));
                Name::new(file, Direction::Read, offset, Bytes(8192)).hash()
            })
            .collect();
        // Of 100,000 random hashes of 64 bits none would meet; of 24 bits, 300 would.
        assert!(hashes.len() > 99_990, "{}", hashes.len());
        let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xffff).collect();
        assert!(low.len() > 40_000, "{}", low.len());
    }

    #[test]
    fn names_that_look_alike_have_keys_without_a_half_in_common() {
        let mut names: Vec<Vec<u8>> =
            (0..20_000).map(|number| format!("/data/rank-{number}.out").into_bytes()).collect();
        // Zeros, and nothing, of all lengths up to beyond two words; and one letter at every place.
        names.extend((0..20).map(|length| vec![0; length]));
        for place in 0..20 {
            let mut name = vec![b'a'; 20];
            name[place] = b'b';
            names.push(name);
        }
        let keys: Vec<FileKey> = names.iter().map(|name| file_key(name)).collect();
        let high: HashSet<u64> = keys.iter().map(|key| key.high).collect();
        let low: HashSet<u64> = keys.iter().map(|key| key.low).collect();
        assert_eq!((high.len(), low.len()), (names.len(), names.len()));
        assert!(keys.iter().all(|key| key.high != key.low));
        assert_eq!(file_key(b"/data/rank-7.out"), keys[7]);
    }

    #[test]
    fn each_part_of_a_name_counts() {
        let key = file_key(b"f");
        let name = Name::new(key, Direction::Read, Offset(1), Bytes(2));
        for other in [
            Name::new(file_key(b"g"), Direction::Read, Offset(1), Bytes(2)),
            Name::new(key, Direction::Write, Offset(1), Bytes(2)),
            Name::new(key, Direction::Read, Offset(2), Bytes(2)),
            Name::new(key, Direction::Read, Offset(1), Bytes(1)),
        ] {
            assert!(name != other && name.hash() != other.hash(), "{other:?}");
        }
    }
}
