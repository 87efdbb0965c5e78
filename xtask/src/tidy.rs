//! Rules of the repository as code: layers, unsafe code, documents that name tests, file sizes.
//!
//! A rule takes the whole [`Tree`] and returns complaints, so that each can be tested on a tree
//! made up for it. A complaint says where, what, and what to do instead.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

mod document;
mod layer;
mod source;

/// The text files of a repository by their path from its root, in order.
pub(crate) struct Tree(BTreeMap<String, String>);

/// Something against a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    place: String,
    text: String,
}

impl Complaint {
    fn new(place: &str, text: impl Into<String>) -> Self {
        Self { place: place.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A rule of the repository.
type Rule = fn(&Tree) -> Vec<Complaint>;

const RULES: &[Rule] = &[
    layer::dependencies_follow_the_layers,
    layer::lower_layers_forbid_unsafe_code,
    layer::the_map_names_every_crate,
    source::unsafe_code_is_in_sys_files,
    source::files_say_what_they_are,
    source::files_have_one_room,
    source::nothing_is_left_for_later,
    source::unwrap_is_for_tests,
    source::names_say_something,
    source::no_path_of_a_machine,
    document::every_named_test_exists,
    document::every_promise_names_a_test,
    document::every_policy_has_its_header,
    document::decisions_are_numbered,
];

/// What every rule says about this repository.
pub(crate) fn complaints_of_repository() -> io::Result<Vec<Complaint>> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is inside the repository");
    let tree = Tree::read(root)?;
    Ok(RULES.iter().flat_map(|rule| rule(&tree)).collect())
}

impl Tree {
    /// Reads every text file beneath a directory, apart from build output and hidden folders.
    fn read(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let (path, name) = (entry.path(), entry.file_name());
                let is_skipped = name == "target" || name == ".git";
                if entry.file_type()?.is_dir() {
                    folders.extend((!is_skipped).then_some(path));
                } else if entry.file_type()?.is_file()
                    && let Ok(text) = String::from_utf8(std::fs::read(&path)?)
                {
                    let place =
                        path.strip_prefix(root).expect("beneath the root").to_string_lossy();
                    files.insert(place.into_owned(), text);
                }
            }
        }
        Ok(Self(files))
    }

    fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(place, text)| (place.as_str(), text.as_str()))
    }

    fn text(&self, place: &str) -> Option<&str> {
        self.0.get(place).map(String::as_str)
    }

    fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(place, _)| place.ends_with(".rs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree made up for a test.
    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(place, text)| ((*place).to_owned(), (*text).to_owned())).collect())
    }

    /// The places that a rule complains about.
    pub(super) fn places(complaints: &[Complaint]) -> Vec<&str> {
        complaints.iter().map(|complaint| complaint.place.as_str()).collect()
    }

    #[test]
    fn the_repository_is_tidy() {
        let complaints = complaints_of_repository().expect("the repository can be read");
        let texts: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
        assert!(texts.is_empty(), "{} complaints:\n{}", texts.len(), texts.join("\n"));
    }

    #[test]
    fn a_complaint_names_the_place_first() {
        assert_eq!(Complaint::new("a.rs", "is empty").to_string(), "a.rs: is empty");
    }
}
