//! Who may use whom: the table of layers, held against every `Cargo.toml`.

use super::{Complaint, Tree};

/// The four layers, from the one that knows nothing of the world to the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// `no_std`, no unsafe code, no other package at all.
    Pure,
    /// No sockets, files, threads, time or randomness.
    SansIo,
    /// System calls; unsafe code in `sys.rs` files.
    Edge,
    /// What is run or loaded.
    Program,
}

/// A crate's place: its layer, and whom it may use in its own layer. Every layer above is allowed.
struct Place {
    name: &'static str,
    layer: Layer,
    beside: &'static [&'static str],
}

const fn place(name: &'static str, layer: Layer, beside: &'static [&'static str]) -> Place {
    Place { name, layer, beside }
}

/// The table that ARCHITECTURE.md shows.
const PLACES: &[Place] = &[
    place("units", Layer::Pure, &[]),
    place("sched", Layer::Pure, &["stats", "units"]),
    place("device", Layer::Pure, &["units"]),
    place("stats", Layer::Pure, &["units"]),
    place("select", Layer::Pure, &["sched", "units"]),
    place("wire", Layer::SansIo, &[]),
    place("session", Layer::SansIo, &["wire"]),
    place("trace", Layer::SansIo, &[]),
    place("sim", Layer::SansIo, &["trace"]),
    place("pool", Layer::Edge, &[]),
    place("tape", Layer::Edge, &[]),
    place("prior", Layer::Edge, &[]),
    place("probe", Layer::Edge, &["engine", "pool", "store"]),
    place("controller", Layer::Edge, &["prior", "tape"]),
    place("engine", Layer::Edge, &["pool"]),
    place("store", Layer::Edge, &["engine", "pool"]),
    place("transport", Layer::Edge, &["pool"]),
    place("client", Layer::Edge, &["transport"]),
    place("forwarder", Layer::Program, &[]),
    place("preload", Layer::Program, &[]),
    place("capi", Layer::Program, &[]),
    place("agios", Layer::Program, &[]),
    place("lab", Layer::Program, &[]),
    place("train", Layer::Program, &[]),
    place("bench", Layer::Program, &["forwarder", "lab", "train"]),
    place("cli", Layer::Program, &["forwarder", "bench", "lab", "train"]),
];

/// Packages from outside that the layers without system calls may use.
const OUTSIDE_SANS_IO: &[&str] = &["serde"];

fn find(name: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.name == name)
}

fn manifest_of(name: &str) -> String {
    format!("crates/{name}/Cargo.toml")
}

/// Dependencies (not those of tests) go up the table only.
pub(super) fn dependencies_follow_the_layers(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (manifest, text) in tree.files() {
        let Some(name) =
            manifest.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some(place) = find(name) else {
            complaints.push(Complaint::new(
                manifest,
                "in no layer; add the crate to the table in xtask/src/tidy/layer.rs",
            ));
            continue;
        };
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                complaints.push(Complaint::new(manifest, error.to_string()));
                continue;
            }
        };
        let dependencies =
            table.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        let wrong = dependencies.filter_map(|(dependency, _)| objection(place, dependency));
        complaints.extend(wrong.map(|text| Complaint::new(manifest, text)));
    }
    complaints
}

/// What is wrong with a dependency; `None` when nothing is.
fn objection(user: &Place, dependency: &str) -> Option<String> {
    let Some(name) = dependency.strip_prefix("forebay-") else {
        let is_allowed = match user.layer {
            Layer::Pure => false,
            Layer::SansIo => OUTSIDE_SANS_IO.contains(&dependency),
            Layer::Edge | Layer::Program => true,
        };
        return (!is_allowed).then(|| {
            format!("{dependency}: a {:?} crate uses no package from outside", user.layer)
        });
    };
    let used = find(name)?;
    let is_allowed =
        used.layer < user.layer || (used.layer == user.layer && user.beside.contains(&name));
    (!is_allowed).then(|| {
        format!(
            "{dependency}: {:?} crate {} may not use {:?} crate {name}",
            user.layer, user.name, used.layer
        )
    })
}

/// The compiler enforces purity only where it is told to.
pub(super) fn lower_layers_forbid_unsafe_code(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for place in PLACES.iter().filter(|place| tree.text(&manifest_of(place.name)).is_some()) {
        let root = format!("crates/{}/src/lib.rs", place.name);
        let text = tree.text(&root).unwrap_or_default();
        let wanted: &[&str] = match place.layer {
            Layer::Pure => &["#![no_std]", "#![forbid(unsafe_code)]"],
            Layer::SansIo => &["#![forbid(unsafe_code)]"],
            Layer::Edge | Layer::Program => &[],
        };
        let missing = wanted.iter().filter(|line| !text.lines().any(|l| l.trim() == **line));
        complaints.extend(missing.map(|line| Complaint::new(&root, format!("lacks {line}"))));
    }
    complaints
}

/// A crate that the map does not show will not be found by a newcomer.
pub(super) fn the_map_names_every_crate(tree: &Tree) -> Vec<Complaint> {
    const MAP: &str = "ARCHITECTURE.md";
    let map = tree.text(MAP).unwrap_or_default();
    let crates = PLACES.iter().filter(|place| tree.text(&manifest_of(place.name)).is_some());
    let missing = crates.filter(|place| !map.contains(&format!("`{}`", place.name)));
    missing
        .map(|place| Complaint::new(MAP, format!("does not name the crate `{}`", place.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, tree};
    use super::*;

    fn complaints(name: &str, dependencies: &str) -> Vec<Complaint> {
        let text = format!("[package]\nname = \"x\"\n[dependencies]\n{dependencies}");
        dependencies_follow_the_layers(&tree(&[(&manifest_of(name), &text)]))
    }

    #[test]
    fn the_layers_above_may_be_used() {
        assert!(complaints("sched", "forebay-units.workspace = true").is_empty());
        assert!(complaints("store", "forebay-engine.workspace = true\nrustix = \"1\"").is_empty());
        assert!(complaints("cli", "forebay-sched = { path = \"x\" }\nclap = \"4\"").is_empty());
    }

    #[test]
    fn a_pure_crate_uses_nothing_from_outside() {
        assert_eq!(places(&complaints("sched", "libm = \"1\"")), ["crates/sched/Cargo.toml"]);
        assert_eq!(complaints("units", "forebay-wire.workspace = true").len(), 1);
        assert_eq!(complaints("device", "forebay-sched.workspace = true").len(), 1);
    }

    #[test]
    fn a_dependency_down_or_across_the_table_is_named() {
        for (user, used) in [("engine", "store"), ("transport", "engine"), ("session", "pool")] {
            assert_eq!(
                complaints(user, &format!("forebay-{used} = \"1\"")).len(),
                1,
                "{user} {used}"
            );
        }
    }

    #[test]
    fn dependencies_of_tests_are_free() {
        let text = "[dev-dependencies]\nproptest = \"1\"\nforebay-store = \"1\"";
        assert!(
            dependencies_follow_the_layers(&tree(&[("crates/sched/Cargo.toml", text)])).is_empty()
        );
    }

    #[test]
    fn a_crate_outside_the_table_is_named() {
        assert_eq!(places(&complaints("extra", "")), ["crates/extra/Cargo.toml"]);
    }

    #[test]
    fn a_pure_crate_must_say_so_to_the_compiler() {
        let with = |root: &str| {
            lower_layers_forbid_unsafe_code(&tree(&[
                ("crates/units/Cargo.toml", ""),
                ("crates/units/src/lib.rs", root),
            ]))
        };
        assert!(with("#![no_std]\n#![forbid(unsafe_code)]\n").is_empty());
        assert_eq!(with("// #![no_std]\n").len(), 2);
    }

    #[test]
    fn a_crate_missing_from_the_map_is_named() {
        let with = |map: &str| {
            the_map_names_every_crate(&tree(&[
                ("crates/wire/Cargo.toml", ""),
                ("ARCHITECTURE.md", map),
            ]))
        };
        assert!(with("the `wire` crate").is_empty());
        assert_eq!(with("wireless").len(), 1);
    }
}
