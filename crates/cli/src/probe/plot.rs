//! A profile as a picture: rates by request size.

use std::path::{Path, PathBuf};

use forebay_bench::chart::{Chart, Series};
use forebay_probe::{LENGTHS, Record, operation};
use forebay_select::DeviceProfile;
use forebay_units::Bytes;

use crate::failure::{FAILED, Failure};
use crate::size::Size;

/// A file for a picture, in one of two forms.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    path: PathBuf,
    is_svg: bool,
}

impl Picture {
    /// At that path, in the form that its extension says.
    pub(super) fn at(path: &Path) -> Result<Self, String> {
        let is_svg = match path.extension().and_then(|it| it.to_str()) {
            Some("svg") => true,
            Some("png") => false,
            _ => return Err("not a name that ends in .svg or .png".to_owned()),
        };
        Ok(Self { path: path.to_owned(), is_svg })
    }

    /// Draws it.
    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        let chart = chart(record);
        let bytes = if self.is_svg { chart.to_svg().into_bytes() } else { chart.to_png() };
        std::fs::write(&self.path, bytes)
            .map_err(|error| Failure::new(FAILED, format!("{}: {error}", self.path.display())))
    }
}

fn chart(record: &Record) -> Chart {
    let measured = DeviceProfile::PARTS.into_iter().filter(|(direction, _)| record.has(*direction));
    let mut series = Vec::new();
    for (direction, order) in measured {
        let curve = record.profile().curve(direction, order);
        let line = curve.fitted();
        let name = format!("{order} {}", operation(direction));
        series.push(of(&name, false, |length| curve.at(length).time_ns));
        series.push(of("its line a + b len", true, |length| line.time_ns(length)));
    }
    Chart {
        title: format!("{}: rate by request size, one request at a time", record.device.name),
        subtitle: format!(
            "{}, random within {}; {}",
            record.access.as_str(),
            Size(record.span.0),
            "dashed: the line of least relative squares"
        ),
        x_labels: LENGTHS.iter().map(|length| label(*length)).collect(),
        y_label: "MB/s".to_owned(),
        series,
    }
}

fn of(name: &str, is_reference: bool, time_ns: impl Fn(Bytes) -> f64) -> Series {
    let rate = |length: Bytes| length.0 as f64 * 1e3 / time_ns(length).max(1.0);
    let points = LENGTHS.iter().enumerate();
    let points = points.map(|(place, length)| (place as f64, rate(*length))).collect();
    Series { name: name.to_owned(), points, is_reference }
}

fn label(length: Bytes) -> String {
    if length.0 >= 1 << 20 {
        format!("{} MiB", length.0 >> 20)
    } else {
        format!("{} KiB", length.0 >> 10)
    }
}
