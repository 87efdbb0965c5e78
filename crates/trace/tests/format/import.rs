//! What holds for any text that an import may meet; shared with the fuzz target.

use forebay_trace::{Imported, Lives, Reader};

/// A text becomes a whole trace of what it says, or is refused with a line that it has.
pub(crate) fn import_any(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut imported = Imported::default();
    if let Err(error) = imported.add(text) {
        assert!((1..=text.lines().count().max(1)).contains(&error.line), "{error}");
        return;
    }
    let mut trace = Vec::new();
    imported.write_trace(|piece| trace.extend(piece));
    let (mut lives, mut ended) = (Lives::default(), 0);
    for record in Reader::new(&trace).expect("it was just written") {
        lives.take(&record.expect("it is whole"), |_, _| ended += 1);
    }
    assert_eq!((ended, lives.open().count()), (imported.requests.len(), 0));
}
