//! Values under small numbers: the number of a value that was removed is used again.

/// A table of values by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps `value`; the number it is found under.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.vacant.pop() {
            self.places[number as usize] = Some(value);
            return number;
        }
        self.places.push(Some(value));
        (self.places.len() - 1) as u32
    }

    /// The value under `number`.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_ref()
    }

    /// The value under `number`, to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    /// All values, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    /// Takes the value out.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.places.get_mut(number as usize)?.take()?;
        self.vacant.push(number);
        Some(value)
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_after_its_value_left() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_ne!(a, b);
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!((slab.remove(a), slab.get(a)), (None, None));
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&'c'), Some(&'b'), 2));
    }
}
