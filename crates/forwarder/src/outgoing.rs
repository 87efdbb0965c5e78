//! What waits to be sent to one peer: heads of frames, and payloads in pool buffers behind them.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::{Deref, Range};
use std::sync::Arc;

use forebay_engine::PartKey;
use forebay_pool::Buffer;
use forebay_transport::Stream;
use forebay_wire::Small;
use rustix::io::Errno;

/// Most slices in one send.
const SLICES_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Outgoing {
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that have been sent.
    sent_bytes: usize,
    /// Payload in the pool's buffers.
    payload_bytes: u64,
    /// Texts, which are in nobody's pool.
    text_bytes: usize,
}

struct Frame {
    head: Head,
    payload: Option<(Buffer, PartKey)>,
}

enum Head {
    Small(Small),
    Text(Text),
}

/// A part of a text that several peers may be waiting for.
struct Text {
    all: Arc<[u8]>,
    part: Range<usize>,
}

impl Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Small(small) => small,
            Self::Text(text) => &text.all[text.part.clone()],
        }
    }
}

impl Frame {
    fn payload(&self) -> &[u8] {
        self.payload.as_ref().map_or(&[], |(buffer, _)| buffer.as_slice())
    }

    fn length(&self) -> usize {
        self.head.len() + self.payload().len()
    }
}

impl Outgoing {
    pub(crate) fn push(&mut self, head: Small) {
        self.frames.push_back(Frame { head: Head::Small(head), payload: None });
    }

    pub(crate) fn push_text(&mut self, all: Arc<[u8]>, part: Range<usize>) {
        self.text_bytes += part.len();
        self.frames.push_back(Frame { head: Head::Text(Text { all, part }), payload: None });
    }

    pub(crate) fn push_data(&mut self, head: Small, data: Buffer, part: PartKey) {
        self.payload_bytes += data.len() as u64;
        self.frames.push_back(Frame { head: Head::Small(head), payload: Some((data, part)) });
    }

    pub(crate) fn frames_count(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Sends what fits now and reports every payload that has left; how many bytes went.
    pub(crate) fn send(
        &mut self,
        stream: &Stream,
        mut left: impl FnMut(PartKey),
    ) -> Result<usize, Errno> {
        let mut total = 0;
        while !self.frames.is_empty() {
            match self.send_once(stream) {
                Ok(count) => {
                    total += count;
                    self.advance(count, &mut left);
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(total)
    }

    fn send_once(&self, stream: &Stream) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut skip = self.sent_bytes;
        let parts = self.frames.iter().flat_map(|frame| [&*frame.head, frame.payload()]);
        for part in parts {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let part = &part[skipped..];
            if part.is_empty() {
                continue;
            }
            if count == SLICES_MAX {
                break;
            }
            slices[count] = IoSlice::new(part);
            count += 1;
        }
        stream.send(&slices[..count])
    }

    fn advance(&mut self, count: usize, left: &mut impl FnMut(PartKey)) {
        self.sent_bytes += count;
        while let Some(frame) = self.frames.front() {
            let length = frame.length();
            if self.sent_bytes < length {
                return;
            }
            self.sent_bytes -= length;
            let Some(Frame { head, payload }) = self.frames.pop_front() else { return };
            if let Head::Text(text) = &head {
                self.text_bytes -= text.part.len();
            }
            if let Some((buffer, part)) = payload {
                self.payload_bytes -= buffer.len() as u64;
                drop(buffer);
                left(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_until_they_are_taken_and_kept_once_for_all() {
        let text: Arc<[u8]> = vec![b'x'; 1000].into();
        let mut outgoing = Outgoing::default();
        outgoing.push_text(text.clone(), 0..600);
        outgoing.push_text(text.clone(), 600..1000);
        assert_eq!((outgoing.text_bytes(), Arc::strong_count(&text)), (1000, 3));
        outgoing.advance(700, &mut |_| {});
        assert_eq!((outgoing.text_bytes(), outgoing.frames_count()), (400, 1));
        outgoing.advance(300, &mut |_| {});
        assert!(outgoing.is_empty() && outgoing.text_bytes() == 0);
        assert_eq!(Arc::strong_count(&text), 1);
    }
}
