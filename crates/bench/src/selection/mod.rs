//! `selection`: how well policies are chosen, before anything was seen and while it happens.
//!
//! ```text
//! offline    the published tables and trees: cross-validation, left-out patterns and devices
//! detection  the detector against simulated patterns whose truth is known
//! online     the selector in virtual time, on a device that no tree was learned from
//! overhead   its own cost, in real time
//! ```
//!
//! All but `overhead` is virtual time and has the same figures on every machine. No forwarder and
//! no program is started.

mod detection;
mod offline;
mod online;
mod overhead;

use forebay_train::reproduce::Data;

use crate::Options;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;

/// Runs the suite.
pub(crate) fn run(_: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let data = Data::published().map_err(Error::failed)?;
    let mut report = Report::new("selection");
    report.set("tree", forebay_prior::tree_key(&forebay_prior::default_tree()));
    let online = online::cases(options.quick);
    track.expect(3 + online.len(), 3.0 + online.len() as f64);
    offline::report(&mut report, &data);
    track.case(1.0, "offline");
    detection::report(&mut report, &data, options.quick);
    track.case(1.0, "detection");
    online::report(&mut report, &online, track)?;
    overhead::report(&mut report);
    track.case(1.0, "overhead");
    Ok(report)
}
