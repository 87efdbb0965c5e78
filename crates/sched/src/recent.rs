//! Where classes were found last, so that a few busy ones need no search.

use forebay_units::ClassId;

/// How many are remembered: the latest of each group of classes whose numbers end alike.
const PLACES: usize = 64;

/// An index for every class, to be checked by whoever asks; 0 where nothing is known.
#[derive(Clone, Debug)]
pub(crate) struct Recent([u32; PLACES]);

impl Recent {
    pub(crate) const fn new() -> Self {
        Self([0; PLACES])
    }

    /// Where the class is, if that was noted after any other of its group.
    pub(crate) fn of(&self, class: ClassId) -> u32 {
        self.0[class.0 as usize % PLACES]
    }

    /// Notes where the class is.
    pub(crate) fn note(&mut self, class: ClassId, index: u32) {
        self.0[class.0 as usize % PLACES] = index;
    }

    /// To be called before the class's index names another one, or none.
    pub(crate) fn forget(&mut self, class: ClassId) {
        self.note(class, 0);
    }
}
