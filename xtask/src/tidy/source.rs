//! Rules about source files: where unsafe code may be, how long a file may be, what it may not hold.

use super::{Complaint, Tree};

/// Beyond this many lines there is a second room in a file.
const LINES_MAX: usize = 600;

/// Whether a file only holds tests.
fn is_test_file(place: &str) -> bool {
    place.starts_with("tests/")
        || ["/tests/", "/benches/", "/fuzz/"].iter().any(|folder| place.contains(folder))
        || place.ends_with("tests.rs")
}

/// A file's text without the test module at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// Lines of code with their numbers from 1: no comment lines, and no comments at the ends of lines.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.map(|(number, line)| (number, line.split("//").next().unwrap_or(line)))
}

/// Whether `word` stands in `line` with no letter, digit or underscore around it.
fn word_ends(line: &str, word: &str) -> Vec<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let starts = line.match_indices(word).map(|(start, _)| start);
    starts
        .map(|start| (start, start + word.len()))
        .filter(|(start, end)| {
            !line[..*start].ends_with(is_part) && !line[*end..].starts_with(is_part)
        })
        .map(|(_, end)| end)
        .collect()
}

/// One file a crate holds what the compiler cannot check.
pub(super) fn unsafe_code_is_in_sys_files(tree: &Tree) -> Vec<Complaint> {
    let files = tree
        .rust_files()
        .filter(|(place, _)| !place.ends_with("/sys.rs") && !place.contains("/sys/"));
    let uses = files.flat_map(|(place, text)| {
        code_lines(text)
            .filter(|(_, line)| opens_unsafe_code(line))
            .map(move |(number, _)| (place, number))
    });
    uses.map(|(place, number)| {
        Complaint::new(place, format!("line {number}: unsafe code; move it to a file named sys.rs"))
    })
    .collect()
}

fn opens_unsafe_code(line: &str) -> bool {
    word_ends(line, concat!("un", "safe")).into_iter().any(|end| {
        let rest = line[end..].trim_start();
        ["{", "fn", "impl", "extern", "trait"].iter().any(|next| rest.starts_with(next))
    })
}

/// A file that does not say what it is has to be read to find out.
pub(super) fn files_say_what_they_are(tree: &Tree) -> Vec<Complaint> {
    let silent = tree.rust_files().filter(|(_, text)| !text.starts_with("//! "));
    silent
        .map(|(place, _)| Complaint::new(place, "does not open with `//!` and what it is"))
        .collect()
}

/// Long files hide a second subject.
pub(super) fn files_have_one_room(tree: &Tree) -> Vec<Complaint> {
    let files = tree.rust_files().filter(|(place, _)| !is_test_file(place));
    let long = files
        .map(|(place, text)| (place, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX);
    long.map(|(place, lines)| {
        Complaint::new(
            place,
            format!("{lines} lines of at most {LINES_MAX}; find the second room in it"),
        )
    })
    .collect()
}

/// Markers of unfinished work, tests that do not run, and sleeps where a condition should be waited for.
pub(super) fn nothing_is_left_for_later(tree: &Tree) -> Vec<Complaint> {
    const MARKERS: &[&str] = &[
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
    ];
    let sleep = concat!("thread::", "sleep");
    let mut complaints = Vec::new();
    for (place, text) in tree.rust_files() {
        for marker in MARKERS.iter().filter(|marker| text.contains(**marker)) {
            complaints.push(Complaint::new(
                place,
                format!("holds {marker}; finish it, or open an issue"),
            ));
        }
        let tests = if is_test_file(place) { text } else { &text[without_tests(text).len()..] };
        if tests.contains(sleep) {
            complaints
                .push(Complaint::new(place, "a test sleeps; wait for a condition with a deadline"));
        }
    }
    complaints
}

/// Outside tests a failure is an error, or an `expect` that says why it cannot be.
pub(super) fn unwrap_is_for_tests(tree: &Tree) -> Vec<Complaint> {
    let files = tree.rust_files().filter(|(place, _)| !is_test_file(place));
    let uses = files.flat_map(|(place, text)| {
        let lines = code_lines(without_tests(text))
            .filter(|(_, line)| line.contains(concat!(".un", "wrap()")));
        lines.map(move |(number, _)| (place, number))
    });
    uses.map(|(place, number)| {
        Complaint::new(
            place,
            format!(
                "line {number}: unwrap outside a test; return an error, or expect with the reason"
            ),
        )
    })
    .collect()
}

/// Words that say that a thing has no name yet.
pub(super) fn names_say_something(tree: &Tree) -> Vec<Complaint> {
    const VERBS: &[&str] = &["get_", "do_", "process_"];
    // As in the standard library.
    const IDIOMS: &[&str] = &["get_mut", "get_or_"];
    const NOUNS: &[&str] = &["Manager", "Helper", "Util", "Utils", "Common"];
    let mut complaints = Vec::new();
    for (place, text) in tree.rust_files() {
        for (number, line) in code_lines(text) {
            let defined =
                |keyword: &str| line.split(keyword).nth(1).map(str::trim_start).unwrap_or_default();
            let begins = |words: &[&str]| words.iter().any(|word| defined("fn ").starts_with(word));
            let is_empty_verb = begins(VERBS) && !begins(IDIOMS);
            let is_empty_noun = ["struct ", "enum ", "trait "].iter().any(|keyword| {
                let name: String =
                    defined(keyword).chars().take_while(|c| c.is_alphanumeric()).collect();
                NOUNS.iter().any(|noun| name.ends_with(noun))
            });
            if is_empty_verb || is_empty_noun {
                complaints.push(Complaint::new(
                    place,
                    format!("line {number}: a name that says nothing: {}", line.trim()),
                ));
            }
        }
    }
    complaints
}

/// Paths of the machine on which something was written mean nothing on another.
pub(super) fn no_path_of_a_machine(tree: &Tree) -> Vec<Complaint> {
    const PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];
    let files = tree.files().filter(|(place, _)| *place != "Cargo.lock");
    let uses = files.flat_map(|(place, text)| {
        PATHS.iter().filter(|path| begins_a_word(text, path)).map(move |path| (place, path))
    });
    uses.map(|(place, path)| {
        Complaint::new(place, format!("names {path}, which is on one machine only"))
    })
    .collect()
}

/// Whether `path` occurs as the start of an absolute path, not inside a longer one.
fn begins_a_word(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(start, _)| {
        !text[..start].ends_with(|c: char| c.is_alphanumeric() || "._-$}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, tree};
    use super::*;

    fn complaints(rule: super::super::Rule, text: &str) -> usize {
        rule(&tree(&[("crates/x/src/a.rs", text)])).len()
    }

    #[test]
    fn unsafe_code_is_found_outside_sys_files_only() {
        let word = concat!("un", "safe");
        for code in ["{ f() }", "fn f()", "impl Send for X {}", "extern \"C\" fn f()"] {
            let text = format!("let x = {word} {code};");
            let files =
                tree(&[("a/src/io.rs", &text), ("a/src/sys.rs", &text), ("a/src/sys/x.rs", &text)]);
            assert_eq!(places(&unsafe_code_is_in_sys_files(&files)), ["a/src/io.rs"], "{code}");
        }
        for harmless in ["// {} {", "#![forbid({}_code)]", "#[{}(no_mangle)]", "fn {}_count() {"] {
            assert_eq!(
                complaints(unsafe_code_is_in_sys_files, &harmless.replace("{}", word)),
                0,
                "{harmless}"
            );
        }
    }

    #[test]
    fn a_file_opens_with_what_it_is() {
        assert_eq!(complaints(files_say_what_they_are, "//! A file.\n"), 0);
        assert_eq!(complaints(files_say_what_they_are, "// A file.\n"), 1);
    }

    #[test]
    fn long_files_are_named_unless_they_are_tests() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let files =
            tree(&[("a/src/b.rs", &long), ("a/tests/b.rs", &long), ("a/src/b/tests.rs", &long)]);
        assert_eq!(places(&files_have_one_room(&files)), ["a/src/b.rs"]);
    }

    #[test]
    fn unfinished_work_is_found() {
        for marker in
            [concat!("// TO", "DO later"), concat!("todo", "!()"), concat!("#[", "ignore]")]
        {
            assert_eq!(complaints(nothing_is_left_for_later, marker), 1, "{marker}");
        }
        assert_eq!(complaints(nothing_is_left_for_later, "fn todo_list() {}"), 0);
    }

    #[test]
    fn a_sleep_is_found_in_tests_only() {
        let sleep = concat!("thread::", "sleep(x);\n");
        assert_eq!(complaints(nothing_is_left_for_later, sleep), 0);
        assert_eq!(
            complaints(nothing_is_left_for_later, &format!("#[cfg(test)]\nmod tests {{ {sleep}")),
            1
        );
        assert_eq!(nothing_is_left_for_later(&tree(&[("tests/a.rs", sleep)])).len(), 1);
    }

    #[test]
    fn unwrap_is_found_before_the_tests() {
        let call = concat!("x.un", "wrap();\n");
        assert_eq!(complaints(unwrap_is_for_tests, call), 1);
        assert_eq!(complaints(unwrap_is_for_tests, &format!("// {call}")), 0);
        assert_eq!(
            complaints(unwrap_is_for_tests, &format!("#[cfg(test)]\nmod tests {{ {call}")),
            0
        );
    }

    #[test]
    fn empty_names_are_found_where_they_are_defined() {
        let verb = format!("fn {}size() {{}}", concat!("ge", "t_"));
        let noun = format!("struct Pool{} {{}}", concat!("Man", "ager"));
        assert_eq!(complaints(names_say_something, &verb), 1);
        assert_eq!(complaints(names_say_something, &noun), 1);
        assert_eq!(complaints(names_say_something, "let x = map.get_mut(1); fn target() {}"), 0);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let path = concat!("/ro", "ot/x");
        assert_eq!(complaints(no_path_of_a_machine, path), 1);
        assert_eq!(complaints(no_path_of_a_machine, &format!("crates{path}")), 0);
    }
}
