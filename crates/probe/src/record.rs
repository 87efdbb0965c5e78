//! What was measured, as JSON: written by `forebay probe`, read by whoever schedules.
//!
//! The format has a version. A reader takes no more than [`RECORD_BYTES_MAX`], and nothing that a
//! device cannot be: what is wrong is named, and measuring again replaces it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use forebay_select::profile::{KNOTS_MAX, Knot};
use forebay_select::{DeviceProfile, Order};
use forebay_units::{Bytes, Direction};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::identity::Identity;
use crate::measure::{self, Point};
use crate::test_file::Access;

/// Of the format.
const VERSION: u32 = 1;

/// A longer file is not one of ours: ours have some 5 KB.
pub const RECORD_BYTES_MAX: usize = 64 << 10;

/// A device and what it was measured to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Which device.
    pub device: Identity,
    /// When, in seconds since 1970.
    pub measured_at: u64,
    /// How requests reached it.
    pub access: Access,
    /// Random requests went anywhere within so much.
    pub span: Bytes,
    /// What was measured, by operation, order and length.
    pub points: Vec<Point>,
    profile: DeviceProfile,
}

impl Record {
    /// From what was measured.
    ///
    /// # Errors
    /// If it is no profile: an operation with lengths that do not ascend, or nothing at all.
    pub fn new(
        device: Identity,
        measured_at: u64,
        access: Access,
        span: Bytes,
        points: Vec<Point>,
    ) -> Result<Self, Error> {
        let profile = measure::profile(&points).ok_or_else(|| {
            Error::corrupt("the points make no curves: two orders, ascending bytes")
        })?;
        Ok(Self { device, measured_at, access, span, points, profile })
    }

    /// The curves through the points. What was not measured is taken to be like the other
    /// operation, with wide errors.
    pub fn profile(&self) -> &DeviceProfile {
        &self.profile
    }

    /// Whether requests of this direction were measured.
    pub fn has(&self, direction: Direction) -> bool {
        self.points.iter().any(|point| point.direction == direction)
    }

    /// As JSON.
    pub fn encode(&self) -> String {
        let file = RecordFile {
            version: VERSION,
            device: self.device.clone(),
            measured_at: self.measured_at,
            access: self.access.as_str().to_owned(),
            span_bytes: self.span.0,
            points: self.points.iter().map(PointFile::of).collect(),
        };
        let json = serde_json::to_string_pretty(&file);
        json.expect("numbers are finite and keys are text") + "\n"
    }

    /// The one in a regular file.
    ///
    /// # Errors
    /// What the file system says, or what is wrong with it; without the path.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::decode(&read(path).map_err(|error| Error::failed(error.to_string()))?)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(Error::corrupt(format!("longer than {RECORD_BYTES_MAX} bytes")));
        }
        let wrong = |error: serde_json::Error| Error::corrupt(error.to_string());
        let Version { version } = serde_json::from_slice(bytes).map_err(wrong)?;
        if version != VERSION {
            return Err(Error::corrupt(format!("version {version}; this program reads {VERSION}")));
        }
        let file: RecordFile = serde_json::from_slice(bytes).map_err(wrong)?;
        let access = Access::from_name(&file.access).ok_or_else(|| {
            Error::corrupt(format!("access \"{}\": direct, buffered or modelled", file.access))
        })?;
        if file.points.len() > 4 * KNOTS_MAX {
            return Err(Error::corrupt(format!("{} points are too many", file.points.len())));
        }
        let points: Result<Vec<Point>, Error> = file.points.iter().map(PointFile::point).collect();
        let points = points?;
        Self::new(file.device, file.measured_at, access, Bytes(file.span_bytes), points)
    }
}

/// What a regular file holds: at most one byte more than a record may have.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Whoever opens a pipe waits for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct RecordFile {
    version: u32,
    device: Identity,
    measured_at: u64,
    access: String,
    span_bytes: u64,
    points: Vec<PointFile>,
}

#[derive(Serialize, Deserialize)]
struct PointFile {
    operation: String,
    order: String,
    bytes: u64,
    ns: f64,
    error: f64,
    runs: usize,
}

impl PointFile {
    fn of(point: &Point) -> Self {
        Self {
            operation: operation(point.direction).to_owned(),
            order: point.order.as_str().to_owned(),
            bytes: point.knot.length.0,
            ns: point.knot.time_ns,
            error: point.knot.error,
            runs: point.runs,
        }
    }

    fn point(&self) -> Result<Point, Error> {
        let unknown = |what: &str, name: &str| Error::corrupt(format!("unknown {what} \"{name}\""));
        let direction = [Direction::Read, Direction::Write]
            .into_iter()
            .find(|direction| operation(*direction) == self.operation)
            .ok_or_else(|| unknown("operation", &self.operation))?;
        let order = [Order::Sequential, Order::Random]
            .into_iter()
            .find(|order| order.as_str() == self.order)
            .ok_or_else(|| unknown("order", &self.order))?;
        let knot = Knot { length: Bytes(self.bytes), time_ns: self.ns, error: self.error };
        if forebay_select::Curve::through(&[knot]).is_none() {
            let text = format!("{} bytes in {} ns, error {}", self.bytes, self.ns, self.error);
            return Err(Error::corrupt(format!("no device does that: {text}")));
        }
        Ok(Point { direction, order, knot, runs: self.runs })
    }
}

/// As files and tables write it.
pub fn operation(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}
