//! The forwarder's room for a header and body: as long as what arrives, so that 1,000 quiet
//! connections cost next to nothing.

use super::alloc::vec::Vec;
use crate::assembly::Room;

/// Above this a buffer is not kept for the next frame: only long lists need it.
const KEPT_BYTES_MAX: usize = 4096;

impl Room for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn clear(&mut self) {
        self.truncate(0);
        self.shrink_to(KEPT_BYTES_MAX);
    }
}
