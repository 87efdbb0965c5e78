//! Requests of the kernel, decoded.

/// Bytes of the header that every request begins with.
const HEADER_BYTES: usize = 40;

/// A request and whom to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request<'m> {
    /// What the answer names.
    pub(crate) unique: u64,
    /// Which file it is about.
    pub(crate) node: u64,
    /// What is asked.
    pub(crate) body: Body<'m>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'m> {
    /// Which versions and features the kernel has.
    Init { major: u32, minor: u32, read_ahead_bytes: u32, features: u32 },
    /// Which file of a directory has this name.
    Lookup { name: &'m [u8] },
    /// What a file is.
    Attributes,
    /// To change what a file is.
    SetAttributes,
    /// To open a file.
    Open,
    /// To open a directory.
    OpenDirectory,
    /// The entries of a directory from the `offset`-th on.
    ReadDirectory { offset: u64 },
    /// Bytes of a file.
    Read { offset: u64, length: u32 },
    /// To change bytes of a file.
    Write { offset: u64, data: &'m [u8] },
    /// To have all on the platter.
    Sync,
    /// How large the file system is.
    Usage,
    /// A descriptor was closed; nothing is to be done.
    Close,
    /// What is not answered: the kernel forgets a file, or the one who asked was interrupted.
    Unanswered,
    /// The file system goes.
    Destroy,
    /// What this file system does not have.
    Unsupported,
}

/// A message that is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl<'m> Request<'m> {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is shorter than what it says it is.
    pub(crate) fn decode(message: &'m [u8]) -> Result<Self, Malformed> {
        let header = Fields(message.get(..HEADER_BYTES).ok_or(Malformed)?);
        let length = header.u32(0)? as usize;
        let body = Fields(message.get(HEADER_BYTES..length).ok_or(Malformed)?);
        let asked = match header.u32(4)? {
            1 => Body::Lookup { name: body.0.split(|byte| *byte == 0).next().unwrap_or_default() },
            2 | 36 | 42 => Body::Unanswered,
            3 => Body::Attributes,
            4 => Body::SetAttributes,
            14 => Body::Open,
            15 => Body::Read { offset: body.u64(8)?, length: body.u32(16)? },
            16 => {
                let data = body.0.get(40..40 + body.u32(16)? as usize).ok_or(Malformed)?;
                Body::Write { offset: body.u64(8)?, data }
            }
            17 => Body::Usage,
            18 | 25 | 29 => Body::Close,
            20 | 30 => Body::Sync,
            26 => Body::Init {
                major: body.u32(0)?,
                minor: body.u32(4)?,
                read_ahead_bytes: body.u32(8)?,
                features: body.u32(12)?,
            },
            27 => Body::OpenDirectory,
            28 => Body::ReadDirectory { offset: body.u64(8)? },
            38 => Body::Destroy,
            _ => Body::Unsupported,
        };
        Ok(Self { unique: header.u64(8)?, node: header.u64(16)?, body: asked })
    }
}

/// Numbers at places in bytes.
struct Fields<'m>(&'m [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> Result<u32, Malformed> {
        self.array(at).map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64, Malformed> {
        self.array(at).map(u64::from_ne_bytes)
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Malformed> {
        self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(operation: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(operation.to_ne_bytes());
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend(3_u64.to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_write_has_its_data() {
        let mut body = vec![0; 40];
        body[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        body[16..20].copy_from_slice(&5_u32.to_ne_bytes());
        body.extend(b"hello");
        let message = message(16, &body);
        let request = Request::decode(&message).unwrap();
        assert_eq!((request.unique, request.node), (77, 3));
        assert_eq!(request.body, Body::Write { offset: 4096, data: b"hello" });
        body.pop();
        assert_eq!(Request::decode(&self::message(16, &body)), Err(Malformed));
    }

    #[test]
    fn a_name_ends_with_its_zero() {
        let message = message(1, b"disk\0");
        assert_eq!(Request::decode(&message).unwrap().body, Body::Lookup { name: b"disk" });
    }

    proptest! {
        #[test]
        fn no_message_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::decode(&bytes);
        }

        #[test]
        fn no_body_is_too_strange(
            operation in 0..60_u32,
            body in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = Request::decode(&message(operation, &body));
        }
    }
}
