//! An ordered map that allocates only when it grows: a B+ tree whose nodes live in two vectors.
//!
//! ```text
//!   inners: [ node ]──┬──────────┬─────────┐      children are u32 indices, not pointers
//!   leaves: [ k v … ]⇄[ k v … ]⇄[ k v … ]         leaves are linked both ways, in key order
//! ```
//!
//! `std`'s tree map allocates and frees nodes as it breathes; here a freed node goes on a free
//! list, and room for the worst shape of `len` entries is reserved whenever `len` reaches a new
//! maximum. So once the high-water mark has been reached nothing is allocated again.
//!
//! Every node but the root holds between `MIN` and `CAP` entries. A separator is a lower
//! bound of its subtree, not necessarily its first key, so removals need not repair it.

mod iter;
mod node;

use alloc::vec::Vec;

pub use self::iter::Iter;
use self::node::{Inner, Leaf, balance, pair, position};

/// Most entries a node holds. 32 keys of 16 bytes are eight cache lines, of which a binary search touches three.
const CAP: usize = 32;
/// Fewest entries a node holds, the root excepted. A quarter rather than a half lets an ascending
/// fill leave three quarters behind, and keeps a node from splitting right after a merge.
const MIN: usize = CAP / 4;
/// More levels than 2^32 leaves can need with `MIN` children a node.
const HEIGHT_MAX: usize = 12;
/// No node.
const NIL: u32 = u32::MAX;

/// A map from `K` to `V` in the order of `K`; all operations O(log n), those at either end O(1) mostly.
#[derive(Clone, Debug)]
pub struct OrderedMap<K, V> {
    leaves: Vec<Leaf<K, V>>,
    inners: Vec<Inner<K>>,
    leaf_free: u32,
    inner_free: u32,
    /// A leaf if `height` is 0, an inner node otherwise; `NIL` when empty.
    root: u32,
    height: usize,
    first_leaf: u32,
    last_leaf: u32,
    len: usize,
    len_max: usize,
}

/// The entries next to a key; see [`OrderedMap::around`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbours<K, V> {
    /// The last entry whose key is smaller.
    pub below: Option<(K, V)>,
    /// The first entry whose key is the same or larger.
    pub at_or_above: Option<(K, V)>,
}

/// The way from the root to a leaf: which inner nodes, and which child of each.
struct Path {
    steps: [(u32, usize); HEIGHT_MAX],
    leaf: u32,
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> OrderedMap<K, V> {
    /// An empty map; allocates nothing.
    pub const fn new() -> Self {
        Self {
            leaves: Vec::new(),
            inners: Vec::new(),
            leaf_free: NIL,
            inner_free: NIL,
            root: NIL,
            height: 0,
            first_leaf: NIL,
            last_leaf: NIL,
            len: 0,
            len_max: 0,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<K: Ord + Copy, V: Copy> OrderedMap<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: K) -> Option<V> {
        let (leaf, at) = self.find(key)?;
        Some(self.leaves[leaf as usize].values[at])
    }

    /// The value at `key`, to be changed in place.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (leaf, at) = self.find(key)?;
        Some(&mut self.leaves[leaf as usize].values[at])
    }

    /// Whether `key` has a value.
    pub fn contains(&self, key: K) -> bool {
        self.find(key).is_some()
    }

    /// The entry with the smallest key.
    pub fn first(&self) -> Option<(K, V)> {
        self.entry(self.first_leaf, 0)
    }

    /// The entry with the largest key.
    pub fn last(&self) -> Option<(K, V)> {
        self.last_of(self.last_leaf)
    }

    /// The first entry whose key is `key` or larger.
    pub fn at_or_after(&self, key: K) -> Option<(K, V)> {
        let first = self.first()?;
        if key <= first.0 {
            // Most often the whole map is meant.
            return Some(first);
        }
        let index = self.leaf_of(key);
        let leaf = &self.leaves[index as usize];
        let at = position(leaf.len, |i| leaf.keys[i] < key);
        if at < leaf.len { self.entry(index, at) } else { self.entry(leaf.next, 0) }
    }

    /// The last entry whose key is `key` or smaller.
    pub fn at_or_before(&self, key: K) -> Option<(K, V)> {
        if self.root == NIL {
            return None;
        }
        let index = self.leaf_of(key);
        let leaf = &self.leaves[index as usize];
        match position(leaf.len, |i| leaf.keys[i] <= key) {
            0 => self.last_of(leaf.prev),
            after => Some((leaf.keys[after - 1], leaf.values[after - 1])),
        }
    }

    /// Both neighbours of `key` for one descent.
    pub fn around(&self, key: K) -> Neighbours<K, V> {
        if self.root == NIL {
            return Neighbours { below: None, at_or_above: None };
        }
        let index = self.leaf_of(key);
        let leaf = &self.leaves[index as usize];
        let at = position(leaf.len, |i| leaf.keys[i] < key);
        let below = if at > 0 { self.entry(index, at - 1) } else { self.last_of(leaf.prev) };
        let at_or_above =
            if at < leaf.len { self.entry(index, at) } else { self.entry(leaf.next, 0) };
        Neighbours { below, at_or_above }
    }

    /// All entries in key order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { map: self, leaf: self.first_leaf, at: 0 }
    }

    /// The entries whose keys are `key` or larger, in key order.
    pub fn iter_from(&self, key: K) -> Iter<'_, K, V> {
        if self.root == NIL {
            return self.iter();
        }
        let index = self.leaf_of(key);
        let leaf = &self.leaves[index as usize];
        let at = position(leaf.len, |i| leaf.keys[i] < key);
        if at < leaf.len {
            Iter { map: self, leaf: index, at }
        } else {
            Iter { map: self, leaf: leaf.next, at: 0 }
        }
    }

    /// Puts `value` at `key` and returns what was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.root == NIL {
            self.root = self.new_leaf(key, value);
            (self.first_leaf, self.last_leaf) = (self.root, self.root);
            self.grow();
            return None;
        }
        // The way back up is needed only if the leaf splits.
        let index = self.leaf_of(key);
        let leaf = &mut self.leaves[index as usize];
        let at = position(leaf.len, |i| leaf.keys[i] < key);
        if at < leaf.len && leaf.keys[at] == key {
            return Some(core::mem::replace(&mut leaf.values[at], value));
        }
        if leaf.len < CAP {
            leaf.open(at, key, value);
        } else {
            let path = self.descend(key);
            if !self.lean_left(&path, at, key, value) {
                self.split_leaf(&path, at, key, value);
            }
        }
        self.grow();
        None
    }

    /// Takes out the entry at `key` and returns its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        if self.root == NIL {
            return None;
        }
        let index = self.leaf_of(key);
        let leaf = &mut self.leaves[index as usize];
        let at = position(leaf.len, |i| leaf.keys[i] < key);
        if at == leaf.len || leaf.keys[at] != key {
            return None;
        }
        let value = leaf.values[at];
        leaf.close(at);
        self.len -= 1;
        if self.len == 0 {
            self.free_root();
        } else if leaf.len < MIN && self.height > 0 {
            let path = self.descend(key);
            self.refill_leaf(&path);
        }
        Some(value)
    }

    /// Moves the entry at `old` to `new`, where there must be none; whether there is one at `old`.
    /// Within a node that is little more than a search.
    pub fn rekey(&mut self, old: K, new: K) -> bool {
        let Some((index, at)) = self.find(old) else { return false };
        let leaf = &mut self.leaves[index as usize];
        // Between two of its keys, a leaf's bounds are met.
        if self.height == 0 || (leaf.keys[0] <= new && new <= leaf.keys[leaf.len - 1]) {
            leaf.shift(at, new);
            return true;
        }
        let value = leaf.values[at];
        self.remove(old);
        let there = self.insert(new, value);
        debug_assert!(there.is_none(), "an entry is moved to a free place");
        true
    }

    /// Takes out the entry with the smallest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let first = self.first()?;
        let leaf = &mut self.leaves[self.first_leaf as usize];
        if leaf.len > MIN {
            leaf.close(0);
            self.len -= 1;
        } else {
            self.remove(first.0);
        }
        Some(first)
    }

    /// Takes everything out and keeps the room.
    pub fn clear(&mut self) {
        self.leaves.clear();
        self.inners.clear();
        (self.leaf_free, self.inner_free, self.root) = (NIL, NIL, NIL);
        (self.first_leaf, self.last_leaf) = (NIL, NIL);
        (self.height, self.len) = (0, 0);
    }

    fn find(&self, key: K) -> Option<(u32, usize)> {
        if self.root == NIL {
            return None;
        }
        let index = self.leaf_of(key);
        let leaf = &self.leaves[index as usize];
        let at = position(leaf.len, |i| leaf.keys[i] < key);
        (at < leaf.len && leaf.keys[at] == key).then_some((index, at))
    }

    fn entry(&self, leaf: u32, at: usize) -> Option<(K, V)> {
        let leaf = self.leaves.get(leaf as usize)?;
        Some((leaf.keys[at], leaf.values[at]))
    }

    fn last_of(&self, leaf: u32) -> Option<(K, V)> {
        let leaf = self.leaves.get(leaf as usize)?;
        Some((leaf.keys[leaf.len - 1], leaf.values[leaf.len - 1]))
    }

    fn leaf_of(&self, key: K) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            node = inner.children[inner.child_of(key)];
        }
        node
    }

    fn descend(&self, key: K) -> Path {
        let mut path = Path { steps: [(NIL, 0); HEIGHT_MAX], leaf: self.root };
        for step in &mut path.steps[..self.height] {
            let inner = &self.inners[path.leaf as usize];
            let child = inner.child_of(key);
            *step = (path.leaf, child);
            path.leaf = inner.children[child];
        }
        path
    }

    /// Counts one entry more and, at a new maximum, reserves for the worst shape of that many.
    fn grow(&mut self) {
        self.len += 1;
        if self.len <= self.len_max {
            return;
        }
        // Up to CAP entries fit the root leaf: many maps stay that small, so they cost one node.
        self.len_max = self.len.next_power_of_two().max(CAP);
        let leaves = if self.len_max == CAP { 1 } else { self.len_max / MIN + 2 };
        let inners = if self.len_max == CAP { 0 } else { leaves / (MIN - 1) + 2 };
        self.leaves.reserve(leaves.saturating_sub(self.leaves.len()));
        self.inners.reserve(inners.saturating_sub(self.inners.len()));
    }

    fn new_leaf(&mut self, key: K, value: V) -> u32 {
        let index = self.leaf_free;
        let Some(leaf) = self.leaves.get_mut(index as usize) else {
            let (keys, values) = ([key; CAP], [value; CAP]);
            self.leaves.push(Leaf { keys, values, len: 1, prev: NIL, next: NIL });
            return self.leaves.len() as u32 - 1;
        };
        self.leaf_free = leaf.next;
        (leaf.keys[0], leaf.values[0]) = (key, value);
        (leaf.len, leaf.prev, leaf.next) = (1, NIL, NIL);
        index
    }

    fn new_inner(&mut self, key: K, child: u32) -> u32 {
        let inner = Inner { keys: [key; CAP], children: [child; CAP], len: 1 };
        if self.inner_free == NIL {
            self.inners.push(inner);
            return self.inners.len() as u32 - 1;
        }
        let index = self.inner_free;
        self.inner_free = self.inners[index as usize].children[0];
        self.inners[index as usize] = inner;
        index
    }

    /// Fills up the left neighbour of the full leaf at the end of `path` and enters the entry; whether
    /// that neighbour had room. So queues that grow side by side, each at its own end, leave full leaves
    /// behind them, not half-full ones.
    fn lean_left(&mut self, path: &Path, at: usize, key: K, value: V) -> bool {
        let above = self.height.checked_sub(1).map(|level| path.steps[level]);
        let Some((parent, slot)) = above.filter(|(_, slot)| *slot > 0) else { return false };
        let left_index = self.inners[parent as usize].children[slot - 1];
        let (left, right) = pair(&mut self.leaves, left_index, path.leaf);
        let room = CAP - left.len;
        if room < MIN {
            return false;
        }
        // A place is left for the entry if it belongs there.
        let moved = if at < room { room - 1 } else { room };
        let (start, end) = (left.len, left.len + moved);
        left.keys[start..end].copy_from_slice(&right.keys[..moved]);
        left.values[start..end].copy_from_slice(&right.values[..moved]);
        right.keys.copy_within(moved.., 0);
        right.values.copy_within(moved.., 0);
        (left.len, right.len) = (end, CAP - moved);
        match at < room {
            true => left.open(start + at, key, value),
            false => right.open(at - moved, key, value),
        }
        self.inners[parent as usize].keys[slot] = right.keys[0];
        true
    }

    /// Splits the full leaf at the end of `path` and puts the entry into the half it belongs to.
    fn split_leaf(&mut self, path: &Path, at: usize, key: K, value: V) {
        let right_index = self.new_leaf(key, value);
        let left_index = path.leaf;
        let (left, right) = pair(&mut self.leaves, left_index, right_index);
        let cut = if at == CAP { CAP - MIN } else { CAP / 2 };
        right.keys[..CAP - cut].copy_from_slice(&left.keys[cut..]);
        right.values[..CAP - cut].copy_from_slice(&left.values[cut..]);
        (left.len, right.len) = (cut, CAP - cut);
        (right.prev, right.next) = (left_index, left.next);
        left.next = right_index;
        if at <= cut {
            left.open(at, key, value);
        } else {
            right.open(at - cut, key, value);
        }
        let (separator, after) = (right.keys[0], right.next);
        match self.leaves.get_mut(after as usize) {
            Some(leaf) => leaf.prev = right_index,
            None => self.last_leaf = right_index,
        }
        self.adopt(path, separator, right_index);
    }

    /// Enters a new right sibling of the lowest node of `path` into its parents, splitting as far up as needed.
    fn adopt(&mut self, path: &Path, mut key: K, mut child: u32) {
        for &(parent, slot) in path.steps[..self.height].iter().rev() {
            let at = slot + 1;
            let left = &mut self.inners[parent as usize];
            if left.len < CAP {
                left.open(at, key, child);
                return;
            }
            let right_index = self.new_inner(key, child);
            let (left, right) = pair(&mut self.inners, parent, right_index);
            let cut = if at == CAP { CAP - MIN } else { CAP / 2 };
            right.keys[..CAP - cut].copy_from_slice(&left.keys[cut..]);
            right.children[..CAP - cut].copy_from_slice(&left.children[cut..]);
            (left.len, right.len) = (cut, CAP - cut);
            if at <= cut {
                left.open(at, key, child);
            } else {
                right.open(at - cut, key, child);
            }
            (key, child) = (right.keys[0], right_index);
        }
        let root = self.new_inner(key, self.root);
        self.inners[root as usize].open(1, key, child);
        self.root = root;
        self.height += 1;
    }

    /// Leaves no node in use. The last leaf waits for the next entry: a short queue is empty most of the time.
    fn free_root(&mut self) {
        self.leaves[self.root as usize].next = self.leaf_free;
        self.leaf_free = self.root;
        (self.root, self.first_leaf, self.last_leaf) = (NIL, NIL, NIL);
    }

    /// Brings the too empty leaf at the end of `path` back to `MIN` with a neighbour's help, or drops it.
    fn refill_leaf(&mut self, path: &Path) {
        let (parent, slot) = path.steps[self.height - 1];
        let left_slot = slot.saturating_sub(1);
        let children = &self.inners[parent as usize].children;
        let (left_index, right_index) = (children[left_slot], children[left_slot + 1]);
        let (left, right) = pair(&mut self.leaves, left_index, right_index);
        let total = left.len + right.len;
        if total > CAP {
            balance(&mut left.keys, &mut right.keys, left.len, right.len);
            balance(&mut left.values, &mut right.values, left.len, right.len);
            (left.len, right.len) = (total / 2, total - total / 2);
            self.inners[parent as usize].keys[left_slot + 1] = right.keys[0];
            return;
        }
        left.keys[left.len..total].copy_from_slice(&right.keys[..right.len]);
        left.values[left.len..total].copy_from_slice(&right.values[..right.len]);
        left.len = total;
        left.next = right.next;
        let after = right.next;
        right.next = self.leaf_free;
        self.leaf_free = right_index;
        match self.leaves.get_mut(after as usize) {
            Some(leaf) => leaf.prev = left_index,
            None => self.last_leaf = left_index,
        }
        self.disown(path, left_slot + 1);
    }

    /// Drops child `slot` from the lowest inner node of `path`, and merges or evens out upwards as far as needed.
    fn disown(&mut self, path: &Path, mut slot: usize) {
        for level in (0..self.height).rev() {
            let (node, _) = path.steps[level];
            self.inners[node as usize].close(slot);
            if level == 0 || self.inners[node as usize].len >= MIN {
                break;
            }
            let (parent, node_slot) = path.steps[level - 1];
            let left_slot = node_slot.saturating_sub(1);
            let (left_index, right_index) = (
                self.inners[parent as usize].children[left_slot],
                self.inners[parent as usize].children[left_slot + 1],
            );
            let bound = self.inners[parent as usize].keys[left_slot + 1];
            let (left, right) = pair(&mut self.inners, left_index, right_index);
            right.keys[0] = bound;
            let total = left.len + right.len;
            if total > CAP {
                balance(&mut left.keys, &mut right.keys, left.len, right.len);
                balance(&mut left.children, &mut right.children, left.len, right.len);
                (left.len, right.len) = (total / 2, total - total / 2);
                self.inners[parent as usize].keys[left_slot + 1] =
                    self.inners[right_index as usize].keys[0];
                break;
            }
            left.keys[left.len..total].copy_from_slice(&right.keys[..right.len]);
            left.children[left.len..total].copy_from_slice(&right.children[..right.len]);
            left.len = total;
            right.children[0] = self.inner_free;
            self.inner_free = right_index;
            slot = left_slot + 1;
        }
        let root = &mut self.inners[self.root as usize];
        if root.len == 1 {
            let child = root.children[0];
            root.children[0] = self.inner_free;
            self.inner_free = self.root;
            self.root = child;
            self.height -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
