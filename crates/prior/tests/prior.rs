//! Trees and states as text: what is written comes back, and what is no such text is refused with
//! a message.

use std::fs;
use std::os::unix::fs::symlink;

use forebay_prior::{
    Error, check_place, default_tree, load_state, load_tree, read_tree, save_state, set_aside,
    tree_key, write_tree,
};
use forebay_sched::PolicyName;
use forebay_select::{FEATURES, Leaf, Learned, Node, Tree};
use proptest::prelude::*;

fn leaf(policy: usize, speedups: Vec<f64>, support: u32) -> Node {
    let named = PolicyName::ALL.into_iter().zip(speedups).collect();
    Node::Leaf(Leaf { policy: PolicyName::ALL[policy], log_speedups: named, support })
}

/// A tree from a list: each entry turns the first leaf that is left into a question.
fn trees() -> impl Strategy<Value = Tree> {
    let speedups = prop::collection::vec(-20.0..20.0f64, 0..9);
    let one = (0..FEATURES.len(), -1e9..1e9f64, 0..8usize, speedups);
    (prop::collection::vec(one, 0..20), any::<u32>()).prop_map(|(list, support)| {
        let mut nodes = vec![leaf(0, vec![], support)];
        for (index, (feature, threshold, policy, speedups)) in list.into_iter().enumerate() {
            let (below, above) = (nodes.len(), nodes.len() + 1);
            nodes[index] = Node::Split { feature: FEATURES[feature], threshold, below, above };
            nodes.push(leaf(policy, speedups, support));
            nodes.push(leaf(7 - policy, vec![0.1], 3));
        }
        Tree::new(nodes).expect("made as one")
    })
}

fn message(result: Result<impl Sized, Error>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

proptest! {
    #[test]
    fn a_tree_comes_back_from_its_text(tree in trees()) {
        let text = write_tree(&tree);
        let back = read_tree(&text).unwrap();
        prop_assert_eq!(&back, &tree);
        prop_assert_eq!(write_tree(&back), text);
        prop_assert_eq!(tree_key(&back), tree_key(&tree));
    }

    #[test]
    fn no_text_panics(text in any::<String>(), cut in any::<prop::sample::Index>()) {
        let _ = read_tree(&text);
        let whole = write_tree(&default_tree());
        let mut at = cut.index(whole.len());
        while !whole.is_char_boundary(at) {
            at -= 1;
        }
        prop_assert!(read_tree(&whole[..at.min(whole.len() - 3)]).is_err());
        let _ = read_tree(&format!("{}{text}{}", &whole[..at], &whole[at..]));
    }

    #[test]
    fn any_bytes_in_a_state_file_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::write(&path, &bytes).unwrap();
        prop_assert!(message(load_state(&path, "disk", &default_tree())).contains("state"));
    }

    #[test]
    fn what_was_learned_comes_back(
        tree in trees(),
        values in prop::collection::vec((any::<prop::sample::Index>(), 0..8usize, -20.0..20.0f64, 0.0..1e9f64), 0..20),
    ) {
        let leaves: Vec<usize> = tree.nodes().iter().enumerate()
            .filter(|(_, node)| matches!(node, Node::Leaf(_))).map(|(index, _)| index).collect();
        let learned: Vec<Learned> = values.iter().map(|(leaf, policy, mean, blocks)| Learned {
            leaf: *leaf.get(&leaves), policy: PolicyName::ALL[*policy], mean: *mean, blocks: *blocks,
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        save_state(&path, "disk", &tree, &learned).unwrap();
        prop_assert_eq!(load_state(&path, "disk", &tree).unwrap(), learned);
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_wrong_tree_is_refused_with_what_would_be_right() {
    let wrap =
        |nodes: &str| format!(r#"{{"format": "forebay-tree", "version": 1, "nodes": [{nodes}]}}"#);
    let to = r#""policy": "TO", "support": 1, "log_speedups": {}"#;
    let of = |nodes: &str| message(read_tree(&wrap(nodes)));
    assert_eq!(of(&format!(r#"{{"node": 0, {to}}}"#)), "");
    assert!(of("").contains("reached exactly once"));
    assert!(of(&format!(r#"{{"node": 1, {to}}}"#)).contains("numbered from 0"));
    assert!(
        of(r#"{"node": 0, "policy": "FIFO", "support": 1, "log_speedups": {}}"#)
            .contains("one of TO, TO-agg")
    );
    assert!(of(r#"{"node": 0, "policy": "TO"}"#).contains("either question"));
    assert!(
        of(
            r#"{"node": 0, "policy": "TO", "support": 1, "log_speedups": {"sjf": 1.0, "SJF": 1.0}}"#
        )
        .contains("SJF twice")
    );
    for speedup in ["1000.0", "-20.5"] {
        let vast = r#"{"node": 0, "policy": "TO", "support": 1, "log_speedups": {"SJF": VALUE}}"#;
        assert!(of(&vast.replace("VALUE", speedup)).contains("for SJF; at most 20"), "{speedup}");
    }
    let split = r#"{"node": 0, "question": "colour", "less_than": 1.0, "yes": 1, "no": 2}"#;
    assert!(of(split).contains("known: is_read, files"));
    assert!(of(&format!(r#"{{"node": 0, "colour": 1, {to}}}"#)).contains("colour"));
    assert!(message(read_tree(&wrap("").replace("1", "2"))).contains("version 2"));
    assert!(message(read_tree(&" ".repeat(5 << 20))).contains("at most"));
}

#[test]
fn devices_and_trees_have_sections_of_their_own_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let tree = default_tree();
    let other = Tree::new(vec![leaf(2, vec![0.5], 9)]).unwrap();
    let at = tree.nodes().iter().position(|node| matches!(node, Node::Leaf(_))).unwrap();
    let learned = |mean| vec![Learned { leaf: at, policy: PolicyName::Sjf, mean, blocks: 2.0 }];
    assert_eq!(load_state(&path, "a", &tree).unwrap(), []);
    save_state(&path, "a", &tree, &learned(0.1)).unwrap();
    save_state(&path, "b", &tree, &learned(0.2)).unwrap();
    save_state(&path, "a", &tree, &learned(0.3)).unwrap();
    assert_eq!(load_state(&path, "a", &tree).unwrap(), learned(0.3));
    assert_eq!(load_state(&path, "b", &tree).unwrap(), learned(0.2));
    assert_eq!(load_state(&path, "a", &other).unwrap(), []);
    for number in 0..15 {
        save_state(&path, &format!("device {number}"), &tree, &learned(0.5)).unwrap();
    }
    assert_eq!(load_state(&path, "a", &tree).unwrap(), learned(0.3));
    assert_eq!(load_state(&path, "b", &tree).unwrap(), []);
}

#[test]
fn a_wrong_state_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let tree = Tree::new(vec![leaf(0, vec![], 1)]).unwrap();
    let with =
        |device: &str, learned: &[Learned]| message(save_state(&path, device, &tree, learned));
    assert!(with("two\nlines", &[]).contains("printable"));
    let one = Learned { leaf: 1, policy: PolicyName::To, mean: 0.0, blocks: 1.0 };
    assert!(with("disk", std::slice::from_ref(&one)).contains("nothing that a selector"));
    let key = tree_key(&tree);
    let text = format!(
        r#"{{"format":"forebay-state","version":1,"sections":[{{"device":"disk","tree":"{key}","learned":[{{"leaf":7,"policy":"TO","mean":0.0,"blocks":1.0}}]}}]}}"#
    );
    fs::write(&path, &text).unwrap();
    assert!(message(load_state(&path, "disk", &tree)).contains("leaf 7"));
    fs::write(&path, text.replace("\"version\":1", "\"version\":9")).unwrap();
    assert!(with("disk", &[]).contains("version 9"));
    assert!(fs::read_to_string(&path).unwrap().contains("\"version\":9"));
    assert!(
        message(save_state(&folder.path().join("no/state"), "disk", &tree, &[]))
            .contains("no/state")
    );
}

#[test]
fn a_link_stays_one_and_what_it_leads_to_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("link"), folder.path().join("deep/state"));
    fs::create_dir(folder.path().join("deep")).unwrap();
    symlink("deep/state", &link).unwrap();
    let tree = default_tree();
    // Names that others may know beforehand are in nobody's way.
    let victim = folder.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, folder.path().join(format!("deep/state.{}.new", std::process::id()))).unwrap();
    // First nothing is there, then a state is.
    for device in ["a", "b"] {
        check_place(&link).unwrap();
        save_state(&link, device, &tree, &[]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
        assert!(fs::read_to_string(&target).unwrap().contains(&format!("\"{device}\"")));
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path().join("deep")).unwrap().count(), 2);
    let aside = set_aside(&link).unwrap();
    assert!(aside.to_str().unwrap().ends_with("deep/state.damaged") && aside.is_file());
    assert_eq!(load_state(&link, "a", &tree).unwrap(), []);
}

#[test]
fn a_place_where_no_state_can_be_is_told_before() {
    let folder = tempfile::tempdir().unwrap();
    let missing = message(check_place(&folder.path().join("no/state")));
    assert!(missing.contains("no/state"), "{missing}");
    check_place(&folder.path().join("state")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn only_regular_files_are_read() {
    // A pipe would be waited for; this one has no end.
    for path in ["/dev/zero", "/dev"].map(std::path::Path::new) {
        let (tree, state) =
            (message(load_tree(path)), message(load_state(path, "a", &default_tree())));
        assert!(tree.contains("/dev") && tree.contains("regular"), "{tree}");
        assert!(state.contains("/dev") && state.contains("regular"), "{state}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tree");
    fs::write(&path, write_tree(&default_tree())).unwrap();
    assert_eq!(load_tree(&path).unwrap(), *default_tree());
    fs::write(&path, b"\xff").unwrap();
    let wrong = message(load_tree(&path));
    assert!(wrong.contains("UTF-8") && wrong.matches("/tree").count() == 1, "{wrong}");
}
