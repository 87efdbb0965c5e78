//! What to begin with, before any request was seen: what the tree says of likely patterns on this
//! device, on average.

use forebay_sched::PolicyName;
use forebay_units::{Bytes, Direction};

use crate::features::Features;
use crate::pattern::{SizeClass, Spatiality};
use crate::profile::DeviceProfile;
use crate::tree::Tree;

/// A policy begins if it is this much faster than TO on average, in logarithms...
const GAIN_MIN: f64 = 0.05;
/// ...and nowhere expected to be slower than this, ln 0.8: it may last for a moment only, but a
/// moment in which every request is late.
const LOSS_MAX: f64 = -0.223_143_551_314_209_7;

const FILES: [u32; 3] = [1, 4, 16];
const FILE_BYTES: [Bytes; 2] = [Bytes::mib(16), Bytes::mib(1024)];
const LENGTHS: [Bytes; 4] = [Bytes::kib(8), Bytes::kib(64), Bytes::kib(512), Bytes::mib(2)];

/// The policy to begin with.
pub(super) fn policy(tree: &Tree, device: &DeviceProfile, stripe: Bytes) -> PolicyName {
    let mut sums = [0.0; PolicyName::ALL.len()];
    let mut worst = [0.0_f64; PolicyName::ALL.len()];
    let (mut count, mut has_no_word) = (0.0, [false; PolicyName::ALL.len()]);
    for features in likely(device, stripe) {
        let leaf = tree.leaf(&features).1;
        count += 1.0;
        for policy in PolicyName::ALL {
            let place = policy as usize;
            match leaf.log_speedup(policy) {
                Some(speedup) => {
                    sums[place] += speedup;
                    worst[place] = worst[place].min(speedup);
                }
                None => has_no_word[place] = true,
            }
        }
    }
    let mut best = (PolicyName::To, GAIN_MIN * count);
    for policy in PolicyName::ALL {
        let place = policy as usize;
        if !has_no_word[place] && worst[place] >= LOSS_MAX && sums[place] > best.1 {
            best = (policy, sums[place]);
        }
    }
    best.0
}

/// Patterns, each as likely as the others.
fn likely(device: &DeviceProfile, stripe: Bytes) -> impl Iterator<Item = Features> {
    let whats = [Direction::Read, Direction::Write].into_iter().flat_map(|direction| {
        [Spatiality::Contiguous, Spatiality::Strided, Spatiality::Random]
            .map(move |spatiality| (direction, spatiality))
    });
    let sizes = LENGTHS.into_iter().flat_map(|length| FILE_BYTES.map(move |bytes| (length, bytes)));
    whats.flat_map(move |(direction, spatiality)| {
        sizes.clone().flat_map(move |(length, file_bytes)| {
            let size = if length < stripe { SizeClass::Small } else { SizeClass::Large };
            let ratio = device.ratio(direction, length);
            FILES.map(|files| {
                Features::known(direction, files, file_bytes, spatiality, size, length, ratio)
            })
        })
    })
}
