//! The byte arrays: what requests did to files, and what they should have done.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use forebay_sched::{Access, GuardMode, Request};

use super::Promise;
use super::draw::{FILE_GRAINS, FILES, GRAIN};
use super::run::Broken;

/// A grain of a file holds the number of the write that last wrote it.
pub(super) type Content = Vec<[u32; FILE_GRAINS]>;

/// What a grain holds that nobody wrote.
const UNWRITTEN: u32 = u32::MAX;

pub(super) fn empty() -> Content {
    alloc::vec![[UNWRITTEN; FILE_GRAINS]; FILES]
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    pub(super) request: Request,
    /// Its place in the order of dispatch, if it was dispatched.
    pub(super) dispatched: Option<u32>,
    /// Its grains that were moved: all of them, or the first half of one that failed.
    pub(super) moved: Range<usize>,
    /// What a read saw of them.
    pub(super) seen: Vec<u32>,
    pub(super) is_over: bool,
}

/// The grains of a request's range.
pub(super) fn grains(request: &Request) -> Range<usize> {
    let grain = |offset: u64| (offset / GRAIN.0).min(FILE_GRAINS as u64) as usize;
    grain(request.range.start.0)..grain(request.range.end.0)
}

pub(super) fn is_write(request: &Request) -> bool {
    matches!(request.access, Access::Write | Access::Alone)
}

/// Holds what requests saw, and what files hold in the end, against a guard mode's promise.
pub(super) fn compare(
    promise: GuardMode,
    deeds: &[Deed],
    content: &Content,
    broken: &mut Vec<Broken>,
) {
    let mut order: Vec<usize> =
        (0..deeds.len()).filter(|seq| deeds[*seq].dispatched.is_some()).collect();
    match promise {
        GuardMode::Overlap | GuardMode::File => {}
        // Conflicting requests exclude each other, so they took effect as they were dispatched.
        GuardMode::Client => order.sort_by_key(|seq| deeds[*seq].dispatched),
        GuardMode::None => return compare_with_any_write(&order, deeds, content, broken),
    }
    let mut expected = empty();
    for seq in order {
        let deed = &deeds[seq];
        let grains = &mut expected[deed.request.file.0 as usize][deed.moved.clone()];
        match deed.request.access {
            Access::Read if grains != deed.seen => {
                let at = (0..grains.len()).find(|at| grains[*at] != deed.seen[*at]).unwrap_or(0);
                let grain = deed.moved.start + at;
                let text = format!(
                    "read {seq} of file {} saw write {} at grain {grain}, where write {} was due",
                    deed.request.file.0, deed.seen[at] as i32, grains[at] as i32,
                );
                broken.push((Promise::Bytes, text));
            }
            Access::Write | Access::Alone => grains.fill(seq as u32),
            Access::Read | Access::Sync => {}
        }
    }
    for (file, (expected, content)) in expected.iter().zip(content).enumerate() {
        if let Some(grain) = (0..FILE_GRAINS).find(|grain| expected[*grain] != content[*grain]) {
            let (got, due) = (content[grain] as i32, expected[grain] as i32);
            let text = format!(
                "file {file} ends with write {got} at grain {grain}, where write {due} was due"
            );
            broken.push((Promise::Bytes, text));
        }
    }
}

/// Without a guard, all that is sure is that bytes do not come from nowhere and writes do not vanish.
fn compare_with_any_write(
    order: &[usize],
    deeds: &[Deed],
    content: &Content,
    broken: &mut Vec<Broken>,
) {
    let covers = |seq: u32, file: usize, grain: usize| {
        let deed = &deeds[seq as usize];
        is_write(&deed.request)
            && deed.request.file.0 as usize == file
            && deed.moved.contains(&grain)
    };
    for seq in order {
        let Deed { request, moved, seen, .. } = &deeds[*seq];
        for (grain, value) in moved.clone().zip(seen) {
            if *value != UNWRITTEN && !covers(*value, request.file.0 as usize, grain) {
                let text =
                    format!("read {seq} saw write {value} at grain {grain}, which is not there");
                broken.push((Promise::Bytes, text));
            }
        }
    }
    for (file, content) in content.iter().enumerate() {
        for (grain, value) in content.iter().enumerate() {
            let is_written = order.iter().any(|seq| covers(*seq as u32, file, grain));
            let is_right = match *value {
                UNWRITTEN => !is_written,
                value => covers(value, file, grain),
            };
            if !is_right {
                let text =
                    format!("file {file} ends with write {} at grain {grain}", *value as i32);
                broken.push((Promise::Bytes, text));
            }
        }
    }
}
