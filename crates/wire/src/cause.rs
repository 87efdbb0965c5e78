//! Why a client carried out a call itself: the numbers in a `Bye` and what reports call them.

macro_rules! causes {
    ($($(#[$about:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a call on a file that belongs to Forebay went to the kernel instead.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Cause {
            $($(#[$about])* $name = $number,)*
        }

        impl Cause {
            /// Every cause, in the order of their numbers, which begin at 0.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What a report calls it.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

causes! {
    /// Opened by stdio, whose reads and writes happen inside the C library.
    Stdio = 0, "opened by stdio";
    /// Mapped into memory.
    Mapping = 1, "mapped";
    /// Copied from file to file by the kernel: `sendfile`, `copy_file_range`, `splice`.
    KernelCopy = 2, "copied by the kernel";
    /// `O_DIRECT` with a buffer, length or offset that is not a multiple of a page.
    Alignment = 3, "misaligned O_DIRECT";
    /// `preadv2` or `pwritev2` with flags.
    Flags = 4, "call flags";
    /// Longer than what Linux moves in one call, in a vectored call.
    Length = 5, "vectors too long";
    /// Every connection of the process was in use.
    Busy = 6, "connections busy";
    /// The process has a file size limit, which only the kernel can signal.
    SizeLimit = 7, "file size limit";
    /// `pwrite` on an `O_APPEND` descriptor, whose meaning Linux and POSIX disagree about.
    Append = 8, "pwrite on O_APPEND";
    /// The forwarder refused to open the file.
    Refused = 9, "refused by the forwarder";
    /// The file is not beneath the forwarder's export.
    Outside = 10, "outside the export";
    /// There was no forwarder.
    Absent = 11, "no forwarder";
    /// Memory that the program passed could not be read or written.
    Memory = 12, "bad memory";
    /// A child of `vfork`, which must not touch its parent's connections.
    Child = 13, "vfork child";
}

impl Cause {
    /// The cause with a number; `None` for one that only a newer client knows.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}
