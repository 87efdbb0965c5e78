//! Reading and writing through a program's pointers.

use core::ffi::{CStr, c_char};

use crate::failure::Failure;

pub(crate) fn null(name: &str) -> Failure {
    Failure::invalid(format_args!("{name} = NULL"))
}

/// What a pointer points to.
///
/// # Safety
/// It is null, or points to a `T` that nobody changes meanwhile.
pub(crate) unsafe fn given<'a, T>(name: &str, pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Writes where a program wants it.
///
/// # Safety
/// The pointer is null or good for writing a `T`.
pub(crate) unsafe fn put<T>(name: &str, pointer: *mut T, value: T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// A C string as text.
///
/// # Safety
/// The pointer is null or a C string.
pub(crate) unsafe fn text<'a>(name: &str, pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map_err(|_| Failure::invalid(format_args!("{name}: not UTF-8")))
}

/// Reads a struct that begins with its own size, of whatever version of `forebay.h`: what an older
/// one lacks is as in `defaults`, what a newer one adds must be zero. The first had `least` bytes.
///
/// # Safety
/// The pointer is null or points to a struct of the size that it begins with.
pub(crate) unsafe fn sized<T: Copy>(
    name: &str,
    pointer: *const T,
    least: usize,
    defaults: T,
) -> Result<T, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null; it begins with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !(least..=1 << 16).contains(&size) {
        return Err(Failure::invalid(format_args!(
            "{name}: size = {size}; initialise it with its _init function"
        )));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes can be read, as the caller vouches.
    let rest =
        unsafe { core::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Failure::new(
            libc::E2BIG,
            format_args!("{name}: has fields that this version of the library does not know"),
        ));
    }
    let mut value = defaults;
    // SAFETY: both are good for `known` bytes, and any bytes make a `T`: numbers, pointers, nullable
    // functions.
    unsafe {
        core::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast::<u8>(), known);
    }
    Ok(value)
}

/// Writes the first `size` bytes of a struct, for a program that knows only those. In the first
/// version these were `least`.
///
/// # Safety
/// The pointer is null or good for writing `size` bytes.
pub(crate) unsafe fn put_sized<T: Copy>(
    name: &str,
    pointer: *mut T,
    size: usize,
    least: usize,
    value: T,
) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if size < least {
        return Err(Failure::invalid(format_args!("size = {size}: pass sizeof *{name}")));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: good for `size` bytes, as the caller vouches; `value` has at least `known`.
    unsafe {
        core::ptr::copy_nonoverlapping(
            (&raw const value).cast::<u8>(),
            pointer.cast::<u8>(),
            known,
        );
        pointer.cast::<u8>().add(known).write_bytes(0, size - known);
        pointer.cast::<usize>().write(size);
    }
    Ok(())
}
