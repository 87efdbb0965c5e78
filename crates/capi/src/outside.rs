//! Policies from outside: a table of functions, from the program or from a shared library.
//!
//! The scheduler's guard stands before them as before any policy, and `forebay_sched::Checked`
//! around them: a policy that loses, doubles or invents a request is replaced by TO.

mod sys;

use core::ffi::c_void;

use crate::abi::forebay_policy_ops;
use crate::failure::Failure;

pub(crate) use sys::{Library, read_ops};

/// The symbol of a shared library that has a policy: a `const struct forebay_policy_ops`.
pub(crate) const SYMBOL: &core::ffi::CStr = c"forebay_policy";

/// What every one of them is called by the scheduler, which knows no names of others.
pub(crate) const POLICY: &str = "outside";

/// The longest name of a policy, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 31;

/// A table of functions, complete and of a version that we know.
pub(crate) struct Outside {
    ops: forebay_policy_ops,
    name: String,
    user: *mut c_void,
    /// Keeps the code in memory; the program's own needs nobody for that.
    _library: Option<Library>,
}

impl Outside {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A table that was read, with its name.
    pub(crate) fn new(
        ops: forebay_policy_ops,
        name: String,
        user: *mut c_void,
        library: Option<Library>,
    ) -> Result<Self, Failure> {
        let needed = [
            ("create", ops.create.is_some()),
            ("destroy", ops.destroy.is_some()),
            ("add", ops.add.is_some()),
            ("select", ops.select.is_some()),
            ("cancel", ops.cancel.is_some()),
            ("drain", ops.drain.is_some()),
            ("count", ops.count.is_some()),
        ];
        if let Some((function, _)) = needed.iter().find(|(_, is_there)| !is_there) {
            return Err(Failure::invalid(format_args!(
                "policy {name}: {function} is NULL; it is needed"
            )));
        }
        Ok(Self { ops, name, user, _library: library })
    }

    /// The policy of a shared library.
    pub(crate) fn load(path: &str) -> Result<Self, Failure> {
        let library = Library::open(path)?;
        let (ops, name) = library.policy(path)?;
        Self::new(ops, name, core::ptr::null_mut(), Some(library))
    }
}
