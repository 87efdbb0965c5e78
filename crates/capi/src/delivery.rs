//! How batches reach a program: its own functions.

mod sys;

pub(crate) use sys::describe;

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

use crate::abi::{forebay_batch_fn, forebay_options, forebay_request_fn};
use crate::failure::Failure;
use crate::handle::forebay;

/// The program's functions, one of them not null.
#[derive(Clone)]
pub(crate) struct CallBacks {
    on_batch: forebay_batch_fn,
    on_request: forebay_request_fn,
    user: *mut c_void,
    /// What they are called with; known once the controller is made, before the first submission.
    handle: Arc<AtomicPtr<forebay>>,
}

impl CallBacks {
    /// Those of `options`, if there are any.
    pub(crate) fn of(options: &forebay_options) -> Result<Option<Self>, Failure> {
        if options.on_batch.is_some() && options.on_request.is_some() {
            return Err(Failure::invalid("on_batch, on_request: only one of them can be called"));
        }
        let is_any = options.on_batch.is_some() || options.on_request.is_some();
        Ok(is_any.then(|| Self {
            on_batch: options.on_batch,
            on_request: options.on_request,
            user: options.user,
            handle: Arc::default(),
        }))
    }

    /// Says what controller it is.
    pub(crate) fn introduce(&self, controller: &forebay) {
        self.handle.store(core::ptr::from_ref(controller).cast_mut(), Ordering::Release);
    }
}
