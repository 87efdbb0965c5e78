//! Things under small numbers that are used again.

use alloc::vec::Vec;

/// A table whose places are given out and taken back.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

const GONE: &str = "whoever has the number has not given it back";

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = Some(thing);
                number
            }
            None => {
                let number = u32::try_from(self.places.len()).expect("fewer than 2^32 at a time");
                self.places.push(Some(thing));
                number
            }
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> T {
        let thing = self.places[number as usize].take().expect(GONE);
        self.free.push(number);
        thing
    }

    /// All that are in use, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let used = self.places.iter().enumerate();
        used.filter_map(|(number, place)| place.as_ref().map(|thing| (number as u32, thing)))
    }

    /// The one at `number`, if that is in use.
    pub(crate) fn find(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_ref()
    }

    /// How many are in use.
    pub(crate) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.places[number as usize].as_ref().expect(GONE)
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.places[number as usize].as_mut().expect(GONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_after_it_was_given_back() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_ne!(a, b);
        assert_eq!(slab.remove(a), 'a');
        assert_eq!((slab.find(a), slab.find(b), slab.count()), (None, Some(&'b'), 1));
        assert_eq!(slab.insert('c'), a);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &'c'), (b, &'b')]);
    }
}
