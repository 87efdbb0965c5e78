//! What selectors learned, kept from one run to the next.
//!
//! One file holds sections, each of one device and one tree: what was learned at a leaf means
//! nothing at another device or at another tree's leaf of the same number.
//!
//! ```json
//! {"format": "forebay-state", "version": 1, "sections": [
//! {"device": "5f3c", "tree": "00ab", "learned": [
//! {"leaf": 3, "policy": "SJF", "mean": 0.12, "blocks": 4.0}
//! ]}
//! ]}
//! ```

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use forebay_sched::PolicyName;
use forebay_select::{Learned, Node, Tree};
use serde::Deserialize;

use crate::error::Error;
use crate::file;
use crate::tree::{number, tree_key};

const FORMAT: &str = "forebay-state";
const VERSION: u32 = 1;
/// Most bytes of a state file.
pub const STATE_BYTES_MAX: u64 = 16 << 20;
/// Sections that are kept: those saved last.
const SECTIONS_MAX: usize = 16;
/// The longest name of a device.
const DEVICE_KEY_MAX: usize = 128;
/// Every policy once at each of a tree's most leaves.
const LEARNED_MAX: usize = (Tree::NODES_MAX / 2 + 1) * PolicyName::ALL.len();
/// Differences of logarithms beyond this are no measurements: a factor of e^20 in speed.
const MEAN_MAX: f64 = 20.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateText {
    format: String,
    version: u32,
    sections: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    device: String,
    tree: String,
    learned: Vec<LearnedText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LearnedText {
    leaf: usize,
    policy: String,
    mean: f64,
    blocks: f64,
}

/// What was learned on that device with that tree; nothing if the file does not exist or has no
/// such section. `device_key` is any text that distinguishes devices.
///
/// # Errors
/// [`Error::File`] if it cannot be read or is no regular file; [`Error::Text`] if it is no state:
/// with [`set_aside`], learning starts anew.
pub fn load_state(path: &Path, device_key: &str, tree: &Tree) -> Result<Vec<Learned>, Error> {
    let key = tree_key(tree);
    let sections = read_file(path)?;
    let own = sections.into_iter().find(|one| one.device == device_key && one.tree == key);
    let own = own.map(|section| section.learned).unwrap_or_default();
    own.into_iter()
        .map(|text| learned(text, tree))
        .collect::<Result<_, _>>()
        .map_err(|error: Error| error.within(path))
}

/// Keeps what was learned on that device with that tree, in place of what the file has of them;
/// other devices and trees stay, of all the 16 that were saved last. The file, or the one that a link
/// leads to, is replaced as a whole: whoever reads it sees the old one or the new one, also after a
/// crash.
///
/// # Errors
/// A device without a usable name, something learned that is none, or a file that cannot be read
/// or written. Two programs that save at the same time do not mix; the later one wins.
pub fn save_state(
    path: &Path,
    device_key: &str,
    tree: &Tree,
    learned: &[Learned],
) -> Result<(), Error> {
    let is_plain = |letter: char| letter.is_ascii_graphic() || letter == ' ';
    if device_key.is_empty()
        || device_key.len() > DEVICE_KEY_MAX
        || !device_key.chars().all(is_plain)
    {
        return Err(Error::text(format!(
            "\"{}\" cannot name a device: 1 to {DEVICE_KEY_MAX} printable ASCII characters",
            device_key.escape_debug()
        )));
    }
    if let Some(wrong) = learned.iter().find(|one| !is_sound(one, tree)) {
        return Err(Error::text(format!(
            "{wrong:?} is nothing that a selector with this tree learns"
        )));
    }
    if learned.len() > LEARNED_MAX {
        return Err(Error::text(format!(
            "{} arms of leaves; at most {LEARNED_MAX}",
            learned.len()
        )));
    }
    let key = tree_key(tree);
    let mut sections = read_file(path)?;
    sections.retain(|one| one.device != device_key || one.tree != key);
    let text = |one: &Learned| LearnedText {
        leaf: one.leaf,
        policy: one.policy.to_string(),
        mean: one.mean,
        blocks: one.blocks,
    };
    let learned = learned.iter().map(text).collect();
    sections.push(Section { device: device_key.to_owned(), tree: key, learned });
    let too_many = sections.len().saturating_sub(SECTIONS_MAX);
    file::replace(path, &write(&sections[too_many..])).map_err(Error::file(path))
}

/// Whether a state can be saved there, so far as can be known before: a new file is made beside it,
/// and goes again.
///
/// # Errors
/// What the file system says, such as that the folder does not exist.
pub fn check_place(path: &Path) -> Result<(), Error> {
    file::is_replaceable(path).map_err(Error::file(path))
}

/// Renames a file that is no state, so that learning can start anew and nothing is lost: the new
/// name, which ends in `.damaged`.
///
/// # Errors
/// What the file system says.
pub fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    file::set_aside(path).map_err(Error::file(path))
}

/// Whether it can be true of a selector with that tree.
fn is_sound(learned: &Learned, tree: &Tree) -> bool {
    matches!(tree.nodes().get(learned.leaf), Some(Node::Leaf(_)))
        && learned.mean.abs() <= MEAN_MAX
        && (0.0..=1e12).contains(&learned.blocks)
}

fn learned(text: LearnedText, tree: &Tree) -> Result<Learned, Error> {
    let policy = text.policy.parse().map_err(|error| {
        Error::text(format!("leaf {}: \"{}\": {error}", text.leaf, text.policy))
    })?;
    let learned = Learned { leaf: text.leaf, policy, mean: text.mean, blocks: text.blocks };
    if !is_sound(&learned, tree) {
        return Err(Error::text(format!(
            "leaf {}, {policy}: no leaf of the tree, or mean {} or blocks {} out of range",
            text.leaf, text.mean, text.blocks
        )));
    }
    Ok(learned)
}

/// All sections of a file; none if there is no file.
fn read_file(path: &Path) -> Result<Vec<Section>, Error> {
    let bytes = match file::read(path, STATE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes.map_err(Error::file(path))?,
    };
    read(&bytes).map_err(|error| error.within(path))
}

fn read(bytes: &[u8]) -> Result<Vec<Section>, Error> {
    if bytes.len() as u64 > STATE_BYTES_MAX {
        return Err(Error::text(format!("more than {STATE_BYTES_MAX} bytes, the most of a state")));
    }
    let state: StateText = serde_json::from_slice(bytes)
        .map_err(|error| Error::text(format!("not the JSON of a state: {error}")))?;
    if state.format != FORMAT || state.version != VERSION {
        return Err(Error::text(format!(
            "format \"{}\" version {}; this program reads \"{FORMAT}\" version {VERSION}",
            state.format, state.version
        )));
    }
    Ok(state.sections)
}

fn write(sections: &[Section]) -> String {
    let mut text = format!("{{\"format\": \"{FORMAT}\", \"version\": {VERSION}, \"sections\": [\n");
    for (index, section) in sections.iter().enumerate() {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (device, tree) = (quoted(&section.device), quoted(&section.tree));
        writeln!(text, "{{\"device\": {device}, \"tree\": {tree}, \"learned\": [")
            .expect("text takes all");
        for (index, one) in section.learned.iter().enumerate() {
            let comma = if index + 1 == section.learned.len() { "" } else { "," };
            let (policy, mean, blocks) =
                (quoted(&one.policy), number(one.mean), number(one.blocks));
            writeln!(
                text,
                "{{\"leaf\": {}, \"policy\": {policy}, \"mean\": {mean}, \"blocks\": {blocks}}}{comma}",
                one.leaf
            )
            .expect("text takes all");
        }
        text.push_str(if index + 1 == sections.len() { "]}\n" } else { "]},\n" });
    }
    text.push_str("]}\n");
    text
}
