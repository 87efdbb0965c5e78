//! What a tree asks about: numbers with names, from a pattern and a device.

use forebay_units::{Bytes, Direction};

use crate::pattern::{Pattern, SizeClass, Spatiality};
use crate::profile::DeviceProfile;

/// A question that a tree may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// 1 for reads, 0 for writes.
    IsRead,
    /// Files in use.
    Files,
    /// Bytes that a file has: as asked for in a training run, the span of the offsets seen on line.
    FileBytes,
    /// 0 contiguous, 1 strided, 2 random.
    Spatiality,
    /// 1 for requests of at least a stripe.
    IsLarge,
    /// Length of a request as the scheduler is given it, the mean: all of what the application asks
    /// for at a forwarder, a message of it at a data server.
    RequestBytes,
    /// Sequential over random throughput of the device, for the operation and the request's length.
    DeviceRatio,
}

/// Every feature, in the order of the tables.
pub const FEATURES: [Feature; 7] = [
    Feature::IsRead,
    Feature::Files,
    Feature::FileBytes,
    Feature::Spatiality,
    Feature::IsLarge,
    Feature::RequestBytes,
    Feature::DeviceRatio,
];

impl Feature {
    /// As trees and tables write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IsRead => "is_read",
            Self::Files => "files",
            Self::FileBytes => "file_bytes",
            Self::Spatiality => "spatiality",
            Self::IsLarge => "is_large",
            Self::RequestBytes => "request_bytes",
            Self::DeviceRatio => "device_ratio",
        }
    }
}

/// The answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    values: [f64; FEATURES.len()],
}

impl Features {
    /// Of a pattern on a device.
    pub fn new(pattern: &Pattern, device: &DeviceProfile) -> Self {
        let request = pattern.request.max(Bytes(1));
        Self::known(
            pattern.direction,
            pattern.files,
            pattern.file_bytes,
            pattern.spatiality,
            pattern.size_class,
            request,
            device.ratio(pattern.direction, request),
        )
    }

    /// Of what is known for sure.
    pub fn known(
        direction: Direction,
        files: u32,
        file_bytes: Bytes,
        spatiality: Spatiality,
        size_class: SizeClass,
        request: Bytes,
        device_ratio: f64,
    ) -> Self {
        let spatiality = match spatiality {
            Spatiality::Contiguous => 0.0,
            Spatiality::Strided => 1.0,
            Spatiality::Random => 2.0,
        };
        let values = [
            f64::from(u8::from(direction == Direction::Read)),
            f64::from(files),
            file_bytes.0 as f64,
            spatiality,
            f64::from(u8::from(size_class == SizeClass::Large)),
            request.0 as f64,
            device_ratio,
        ];
        Self { values }
    }

    /// One of them.
    pub fn get(&self, feature: Feature) -> f64 {
        self.values[feature as usize]
    }
}
