//! What holds for any bytes that a decoder may meet; shared with the fuzz target.

use forebay_wire::{DecodeError, HEADER_BYTES, Header, Reply, Request};

/// Asks for the body as a receiver does, piece by piece.
pub(crate) fn body_bytes(header: &Header, rest: &[u8]) -> Result<Option<usize>, DecodeError> {
    let mut have = 0;
    loop {
        let needs = header.body_bytes(&rest[..have])?;
        assert!(needs >= have, "what is needed never shrinks");
        if needs == have {
            return Ok(Some(have));
        }
        if needs > rest.len() {
            return Ok(None);
        }
        have = needs;
    }
}

/// Whatever decodes is within the limits and encodes to the very same bytes.
pub(crate) fn decode_any(frame: &[u8]) {
    let Some((head, rest)) = frame.split_first_chunk() else { return };
    let Ok(header) = Header::decode(head) else { return };
    let Ok(Some(length)) = body_bytes(&header, rest) else { return };
    let mut again = vec![0; HEADER_BYTES + length];
    if let Ok(request) = Request::decode(&header, &rest[..length]) {
        assert!(request.is_within_limits(), "{request:?}");
        assert_eq!(request.encode(header.tag, &mut again), Ok(again.len()));
    } else if let Ok(reply) = Reply::decode(&header, &rest[..length]) {
        assert_eq!(reply.encode(header.tag, &mut again), Ok(again.len()));
    } else {
        return;
    }
    assert_eq!(again, frame[..again.len()]);
}
