//! A program's pointers: each is null or what the caller vouches for.

mod sys;

pub(crate) use self::sys::{given, null, put, put_sized, sized, text};
