//! The definition of a symbol that comes after ours: the C library's, or another preloaded library's.
//!
//! Calls that we do not carry out go there rather than to the kernel directly, because `read` and
//! its like are also points where a thread can be cancelled, and because we may not be the only
//! library that stands in between.

use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::sys::keeping_errno;

/// A symbol's next definition, looked up at its first use.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// Not looked up yet.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Where it is, if there is one.
    pub(crate) fn address(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.address.load(Ordering::Relaxed)).or_else(|| self.look_up())
    }

    #[cold]
    fn look_up(&self) -> Option<NonNull<c_void>> {
        // SAFETY: the name is a C string; the answer is an address or null.
        let address = keeping_errno(|| unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) });
        self.address.store(address, Ordering::Relaxed);
        NonNull::new(address)
    }
}

/// Defines a C function that stands before the C library's of the same name. In its body, `next()`
/// calls that one with the same arguments; where there is none it fails with `ENOSYS` and the value
/// after `=`.
///
/// Arguments after a `;` are the variable ones of a variadic function. Defining it with fixed
/// arguments is right on x86-64 and AArch64, whose calling conventions pass the first integer
/// arguments in the same registers either way; an argument that was not passed is then whatever the
/// register holds, and is passed on as such to a function that does not look at it either.
macro_rules! hook {
    ($(
        $(#[$about:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(; $extra:ident: $extra_type:ty)?) -> $result:ty
        = $failed:expr, |$next:ident| $body:block
    )*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As for the C library's function.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code, reason = "tests do not stand before the C library"))]
        #[allow(non_snake_case, reason = "the names are the C library\'s")]
        unsafe extern "C" fn $name($($arg: $type,)* $($extra: $extra_type)?) -> $result {
            static NEXT: $crate::hook::next::sys::Next = $crate::hook::next::sys::Next::new(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let $next = || match NEXT.address() {
                Some(address) => {
                    type Function = $crate::hook::next::sys::hook!(@function ($($type),*) -> $result $(; $extra_type)?);
                    // SAFETY: the C library's function of this name has this type.
                    let function = unsafe { core::mem::transmute::<core::ptr::NonNull<core::ffi::c_void>, Function>(address) };
                    // SAFETY: the arguments are the caller's, who vouches for them.
                    unsafe { function($($arg,)* $($extra)?) }
                }
                None => {
                    $crate::sys::set_errno(rustix::io::Errno::NOSYS);
                    $failed
                }
            };
            $body
        }
    )*};
    (@function ($($type:ty),*) -> $result:ty) => { unsafe extern "C" fn($($type),*) -> $result };
    (@function ($($type:ty),*) -> $result:ty; $extra:ty) => { unsafe extern "C" fn($($type),*, ...) -> $result };
}

pub(crate) use hook;
