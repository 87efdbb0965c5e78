//! The emulated disk: a FUSE file behind a device model, a loop device on it, a file system on that.
