//! Tests of `ordered_map`.

use super::*;
use alloc::collections::BTreeMap;
use proptest::prelude::*;

impl OrderedMap<u32, u32> {
    /// Every node within its bounds, every key within its subtree's, every leaf at the same depth.
    fn check(&self) {
        if self.root == NIL {
            assert_eq!(self.len, 0);
            return;
        }
        let count = self.check_node(self.root, 0, 0, u32::MAX);
        assert_eq!(count, self.len);
        assert_eq!(self.iter().count(), self.len);
        assert!(self.leaves.capacity() >= self.len / MIN);
    }

    fn check_node(&self, node: u32, depth: usize, low: u32, high: u32) -> usize {
        if depth == self.height {
            let leaf = &self.leaves[node as usize];
            assert!(leaf.len >= if depth == 0 { 1 } else { MIN });
            let keys = &leaf.keys[..leaf.len];
            assert!(keys.is_sorted() && keys[0] >= low && keys[leaf.len - 1] <= high);
            return leaf.len;
        }
        let inner = &self.inners[node as usize];
        assert!(inner.len >= if depth == 0 { 2 } else { MIN });
        let bound = |i: usize| if i == 0 { low } else { inner.keys[i] };
        let upper = |i: usize| if i + 1 == inner.len { high } else { inner.keys[i + 1] - 1 };
        (0..inner.len)
            .map(|i| self.check_node(inner.children[i], depth + 1, bound(i), upper(i)))
            .sum()
    }
}

impl<K, V> OrderedMap<K, V> {
    /// Bytes of the nodes that were ever used, not of those reserved.
    pub(crate) fn bytes_in_use(&self) -> usize {
        self.leaves.len() * size_of::<Leaf<K, V>>() + self.inners.len() * size_of::<Inner<K>>()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Remove(u32),
    RemoveRange(u32, u32),
    InsertRange(u32, u32),
    PopFirst,
    Rekey(u32, u32),
    Query(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..2_000u32;
    prop_oneof![
        4 => key.clone().prop_map(Op::Insert),
        4 => key.clone().prop_map(Op::Remove),
        1 => (key.clone(), 0..400u32).prop_map(|(a, n)| Op::RemoveRange(a, n)),
        2 => (key.clone(), 0..400u32).prop_map(|(a, n)| Op::InsertRange(a, n)),
        1 => Just(Op::PopFirst),
        4 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::Rekey(a, b)),
        4 => (key.clone(), 0..8u32).prop_map(|(a, n)| Op::Rekey(a, a + n)),
        3 => key.prop_map(Op::Query),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn it_agrees_with_the_standard_tree_map(ops in proptest::collection::vec(op(), 1..150)) {
        let mut map = OrderedMap::new();
        let mut model = BTreeMap::new();
        for (i, op) in ops.into_iter().enumerate() {
            let v = i as u32;
            match op {
                Op::Insert(k) => prop_assert_eq!(map.insert(k, v), model.insert(k, v)),
                Op::Remove(k) => prop_assert_eq!(map.remove(k), model.remove(&k)),
                Op::RemoveRange(k, n) => for k in k..k + n {
                    prop_assert_eq!(map.remove(k), model.remove(&k));
                },
                Op::InsertRange(k, n) => for k in k..k + n {
                    prop_assert_eq!(map.insert(k, v), model.insert(k, v));
                },
                Op::PopFirst => prop_assert_eq!(map.pop_first(), model.pop_first()),
                Op::Rekey(old, new) => {
                    // From the nearest key, so that there mostly is one.
                    let old = model.range(old..).next().map_or(old, |(k, _)| *k);
                    if old == new || !model.contains_key(&new) {
                        let value = model.remove(&old);
                        value.map(|value| model.insert(new, value));
                        prop_assert_eq!(map.rekey(old, new), value.is_some());
                    }
                }
                Op::Query(k) => {
                    let pair = |(a, b): (&u32, &u32)| (*a, *b);
                    let (below, above) = (model.range(..k).next_back().map(pair), model.range(k..).next().map(pair));
                    prop_assert_eq!(map.at_or_after(k), above);
                    prop_assert_eq!(map.at_or_before(k), model.range(..=k).next_back().map(pair));
                    prop_assert_eq!(map.around(k), Neighbours { below, at_or_above: above });
                    prop_assert_eq!(map.get(k), model.get(&k).copied());
                    prop_assert!(map.iter_from(k).eq(model.range(k..).map(pair)));
                }
            }
            map.check();
        }
        prop_assert!(map.iter().eq(model.iter().map(|(k, v)| (*k, *v))));
        prop_assert_eq!(map.last(), model.last_key_value().map(|(k, v)| (*k, *v)));
    }
}

#[test]
fn ascending_then_emptied_from_either_end_keeps_its_shape() {
    let mut map = OrderedMap::new();
    (0..10_000u32).for_each(|k| assert_eq!(map.insert(k, k), None));
    map.check();
    (0..5_000u32).for_each(|k| assert_eq!(map.pop_first(), Some((k, k))));
    map.check();
    (5_000..10_000u32).rev().for_each(|k| assert_eq!(map.remove(k), Some(k)));
    map.check();
    assert!(map.is_empty() && map.first().is_none() && map.last().is_none());
}

#[test]
fn nothing_is_allocated_below_the_high_water_mark() {
    let mut map = OrderedMap::new();
    (0..4_096u32).for_each(|k| assert_eq!(map.insert(k, k), None));
    let room = (map.leaves.capacity(), map.inners.capacity());
    for round in 0..50u32 {
        (0..4_096u32)
            .for_each(|k| assert!(map.remove(k.wrapping_mul(2_654_435_761) % 4_096).is_some()));
        (0..4_096u32).for_each(|k| {
            assert_eq!(map.insert((k.wrapping_mul(40_503) + round) % 4_096, k), None)
        });
        map.check();
    }
    assert_eq!((map.leaves.capacity(), map.inners.capacity()), room);
}

#[test]
fn what_grows_at_many_places_in_turns_leaves_full_leaves_behind() {
    let mut map = OrderedMap::new();
    for k in 0..4_096u32 {
        (0..32u32).for_each(|queue| assert_eq!(map.insert(queue << 16 | k, k), None));
    }
    map.check();
    let per_leaf = map.len() / map.leaves.len();
    assert!(per_leaf > CAP * 9 / 10, "{per_leaf} entries in a leaf of {CAP}");
}
