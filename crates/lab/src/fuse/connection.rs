//! The connection: `/dev/fuse`, mounted.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, writev};
use rustix::mount::{MountFlags, mount};

use super::{MESSAGE_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::error::Error;

const DEVICE: &str = "/dev/fuse";

/// How long to let others free memory before an answer is tried again.
const MEMORY_WAIT: Duration = Duration::from_millis(1);

/// A mounted file system whose requests are read here.
#[derive(Debug)]
pub(crate) struct Connection {
    descriptor: OwnedFd,
    message: Vec<u8>,
}

/// What there was to be read.
pub(crate) enum Message<'c> {
    /// A request, undecoded.
    Request(&'c [u8]),
    /// Nothing yet.
    Nothing,
    /// The file system is no longer mounted: the end.
    Unmounted,
}

impl Connection {
    /// Mounts a file system on `directory`; what is asked of it waits until it is answered here.
    pub(crate) fn mount(directory: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let descriptor = open(DEVICE, flags, Mode::empty()).map_err(Error::io(DEVICE))?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,max_read={TRANSFER_BYTES_MAX}\0",
            descriptor.as_raw_fd()
        );
        let options = std::ffi::CString::from_vec_with_nul(options.into_bytes())
            .expect("the text has one zero, at its end");
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("forebay-lab", directory, "fuse.forebay-lab", flags, Some(options.as_c_str()))
            .map_err(Error::io(format!("mounting on {}", directory.display())))?;
        Ok(Self { descriptor, message: vec![0; MESSAGE_BYTES_MAX] })
    }

    /// The next request, if there is one.
    ///
    /// # Errors
    /// What the kernel says, apart from what only means "again" or "later".
    pub(crate) fn receive(&mut self) -> Result<Message<'_>, Errno> {
        loop {
            match read(&self.descriptor, &mut self.message[..]) {
                Ok(length) => return Ok(Message::Request(&self.message[..length])),
                // NOENT: the one who asked was interrupted before we read it.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::AGAIN) => return Ok(Message::Nothing),
                Err(Errno::NODEV) => return Ok(Message::Unmounted),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Answers a request.
    ///
    /// # Errors
    /// What the kernel says, unless nobody waits for the answer any more.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        loop {
            match writev(&self.descriptor, parts) {
                Ok(_) | Err(Errno::NOENT | Errno::NODEV) => return Ok(()),
                // The kernel had no memory for the message. Ending would lose the disk with all
                // that is to be written to it, and what is written back frees memory.
                Err(Errno::NOMEM) => std::thread::sleep(MEMORY_WAIT),
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
