//! What the session does not keep of unanswered requests: how much of a read's data is still to come.

use forebay_session::client::REQUESTS_MAX;

/// The reads that are unanswered.
#[derive(Debug)]
pub(crate) struct Outstanding {
    reads: [Option<Read>; REQUESTS_MAX],
}

#[derive(Clone, Copy, Debug)]
struct Read {
    tag: u64,
    /// Bytes that no frame has announced yet.
    unannounced: u64,
}

impl Outstanding {
    pub(crate) const fn new() -> Self {
        Self { reads: [None; REQUESTS_MAX] }
    }

    /// A read was started.
    pub(crate) fn started(&mut self, tag: u64, length: u64) {
        if let Some(free) = self.reads.iter_mut().find(|read| read.is_none()) {
            *free = Some(Read { tag, unannounced: length });
        }
    }

    /// A frame has announced data of a read.
    pub(crate) fn announced(&mut self, tag: u64, length: u64) {
        if let Some(read) = self.reads.iter_mut().flatten().find(|read| read.tag == tag) {
            read.unannounced = read.unannounced.saturating_sub(length);
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self, tag: u64) {
        for read in &mut self.reads {
            if read.is_some_and(|read| read.tag == tag) {
                *read = None;
            }
        }
    }

    /// Whether a request is a read.
    pub(crate) fn is_read(&self, tag: u64) -> bool {
        self.reads.iter().flatten().any(|read| read.tag == tag)
    }

    /// Whether no frame to come announces data.
    pub(crate) fn is_free_of_data(&self) -> bool {
        self.reads.iter().flatten().all(|read| read.unannounced == 0)
    }
}
