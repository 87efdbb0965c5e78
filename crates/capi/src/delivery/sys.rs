//! Calling a program's functions.

use core::sync::atomic::Ordering;

use forebay_controller::{Batch, Controller, Deliver, Turn};

use super::CallBacks;
use crate::abi::{forebay_batch, forebay_file, forebay_turn};
use crate::handle::operation_of;

// SAFETY: `user` is only handed back to the program, which was told that its functions are called
// from any thread, also at the same time (forebay.h, `forebay_batch_fn`).
unsafe impl Send for CallBacks {}
// SAFETY: as above.
unsafe impl Sync for CallBacks {}

// What a turn is to C is what it is here, so that a batch is handed over without a copy.
const _: () = assert!(size_of::<Turn>() == size_of::<forebay_turn>());
const _: () = assert!(align_of::<Turn>() == align_of::<forebay_turn>());
const _: () =
    assert!(core::mem::offset_of!(Turn, ticket) == core::mem::offset_of!(forebay_turn, ticket));
const _: () = assert!(core::mem::offset_of!(Turn, id) == core::mem::offset_of!(forebay_turn, id));
const _: () =
    assert!(core::mem::offset_of!(Turn, offset) == core::mem::offset_of!(forebay_turn, offset));
const _: () =
    assert!(core::mem::offset_of!(Turn, length) == core::mem::offset_of!(forebay_turn, length));
const _: () =
    assert!(core::mem::offset_of!(Turn, client) == core::mem::offset_of!(forebay_turn, client));
const _: () =
    assert!(core::mem::offset_of!(Turn, class) == core::mem::offset_of!(forebay_turn, class_id));

/// A batch as C sees it; `turns` is as good as `batch`.
pub(crate) fn describe(batch: &Batch<'_>) -> forebay_batch {
    forebay_batch {
        file: forebay_file { high: batch.file.high, low: batch.file.low },
        offset: batch.extent.start.0,
        length: batch.extent.length().0,
        operation: operation_of(batch.access),
        count: batch.turns.len() as u32,
        turns: batch.turns.as_ptr().cast(),
    }
}

impl Deliver for CallBacks {
    fn deliver(&self, _: &Controller, batch: &Batch<'_>) {
        let controller = self.handle.load(Ordering::Acquire);
        let described = describe(batch);
        if let Some(on_batch) = self.on_batch {
            // SAFETY: the program's own function, called as forebay.h says, with a batch that lives
            // until it returns.
            unsafe { on_batch(controller, &raw const described, self.user) };
        }
        if let Some(on_request) = self.on_request {
            for turn in batch.turns {
                let turn = core::ptr::from_ref(turn).cast();
                // SAFETY: as above; the layout of a turn is asserted above.
                unsafe {
                    on_request(
                        controller,
                        &raw const described.file,
                        described.operation,
                        turn,
                        self.user,
                    );
                }
            }
        }
    }
}
