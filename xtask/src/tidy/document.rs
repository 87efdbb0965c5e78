//! Rules that tie documents to the code: promises to tests, policies to their sources.

use std::collections::BTreeSet;

use super::{Complaint, Tree};

const PROMISES: &str = "docs/semantics.md";
const DECISIONS: &str = "docs/adr/";
const POLICIES: &str = "crates/sched/src/policies/";

/// How a promise names the tests that prove it: a line that begins so, with the tests in backticks.
const PROOF: &str = "Proved by";

/// What the header of a policy's file says, in this order.
const POLICY_HEADER: &[&str] =
    &["Source:", "Idea:", "Units:", "Cost:", "Deviations:", "Loses when:"];

/// Words between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A promise whose test is gone is a promise no more.
pub(super) fn every_named_test_exists(tree: &Tree) -> Vec<Complaint> {
    let functions: BTreeSet<&str> =
        tree.rust_files().flat_map(|(_, text)| functions_in(text)).collect();
    let promises = tree.text(PROMISES).unwrap_or_default();
    let named = promises.lines().filter(|line| line.starts_with(PROOF)).flat_map(quoted);
    let missing =
        named.filter(|name| !functions.contains(name.rsplit("::").next().unwrap_or(name)));
    missing.map(|name| Complaint::new(PROMISES, format!("no test is named {name}"))).collect()
}

fn functions_in(text: &str) -> impl Iterator<Item = &str> {
    let names = text.match_indices("fn ").map(|(start, keyword)| &text[start + keyword.len()..]);
    names.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest))
}

/// Each `###` section of the promises ends in its proof.
pub(super) fn every_promise_names_a_test(tree: &Tree) -> Vec<Complaint> {
    let promises = tree.text(PROMISES).unwrap_or_default();
    let sections = promises.split("\n### ").skip(1);
    let unproved = sections.filter(|section| {
        !section.lines().any(|line| line.starts_with(PROOF) && line.contains('`'))
    });
    unproved
        .map(|section| {
            let title = section.lines().next().unwrap_or_default();
            Complaint::new(PROMISES, format!("no line `{PROOF} …` under \"{title}\""))
        })
        .collect()
}

/// A reader of a policy wants to know where it comes from and where it deviates.
pub(super) fn every_policy_has_its_header(tree: &Tree) -> Vec<Complaint> {
    let policies = tree.rust_files().filter(|(place, _)| {
        place.strip_prefix(POLICIES).is_some_and(|name| {
            !name.contains('/') && !name.ends_with("tests.rs") && name != "mod.rs"
        })
    });
    let mut complaints = Vec::new();
    for (place, text) in policies {
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let missing = POLICY_HEADER
            .iter()
            .filter(|part| !header.iter().any(|line| line[3..].trim_start().starts_with(**part)));
        complaints.extend(
            missing.map(|part| Complaint::new(place, format!("its header lacks `{part}`"))),
        );
    }
    complaints
}

/// Decisions are `NNNN-title.md`, numbered from 1 without a gap.
pub(super) fn decisions_are_numbered(tree: &Tree) -> Vec<Complaint> {
    let names = tree.files().filter_map(|(place, _)| place.strip_prefix(DECISIONS));
    let wrong = names.zip(1..).filter(|(name, number)| !name.starts_with(&format!("{number:04}-")));
    wrong
        .map(|(name, number)| {
            Complaint::new(DECISIONS, format!("{name} should be number {number:04}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, tree};
    use super::*;

    #[test]
    fn a_promise_with_a_lost_test_is_found() {
        let of = |promises| {
            every_named_test_exists(&tree(&[
                ("a/tests/b.rs", "#[test]\nfn it_holds() {}"),
                (PROMISES, promises),
            ]))
        };
        assert!(of("Proved by `it_holds` and `b::it_holds`.").is_empty());
        assert_eq!(of("Proved by `it_held`.").len(), 1);
        assert!(of("The word `it_held` in prose.").is_empty());
    }

    #[test]
    fn a_promise_without_proof_is_found() {
        let of = |promises| every_promise_names_a_test(&tree(&[(PROMISES, promises)]));
        assert!(
            of("# S\n\n### One\nIt holds.\nProved by `a`.\n\n### Two\nProved by `b`.\n").is_empty()
        );
        let complaints = of("# S\n\n### One\nIt holds.\n\n### Two\nProved by `b`.\n");
        assert!(complaints[0].to_string().contains("\"One\""), "{complaints:?}");
    }

    #[test]
    fn a_policy_without_its_source_is_found() {
        let whole: String =
            POLICY_HEADER.iter().map(|part| format!("//! {part} something\n")).collect();
        let files = tree(&[
            ("crates/sched/src/policies/good.rs", &whole),
            ("crates/sched/src/policies/bad.rs", "//! Bad: no header.\n"),
            ("crates/sched/src/policies/good/tests.rs", "//! Tests.\n"),
        ]);
        let complaints = every_policy_has_its_header(&files);
        assert_eq!(places(&complaints), ["crates/sched/src/policies/bad.rs"; POLICY_HEADER.len()]);
    }

    #[test]
    fn a_gap_in_the_numbers_of_decisions_is_found() {
        let of =
            |second| decisions_are_numbered(&tree(&[("docs/adr/0001-a.md", ""), (second, "")]));
        assert!(of("docs/adr/0002-b.md").is_empty());
        assert_eq!(of("docs/adr/0003-b.md").len(), 1);
    }
}
