//! Where a disk keeps what: all below one directory, which is root's alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::lock;
use crate::server::DISK_FILE;
use crate::settings::{Settings, directory_of};

/// How many of the daemon's last lines say what became of it.
const LAST_LINES: usize = 8;

/// A disk's files.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) directory: PathBuf,
}

impl Places {
    pub(crate) fn of(name: &str) -> Self {
        Self { directory: directory_of(name) }
    }

    /// The disk's name.
    pub(crate) fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.directory.join("settings.json")
    }

    /// Held by the daemon, and its process number in it.
    pub(crate) fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Held by the process whose disk it is, see [`owner`](crate::owner).
    pub(crate) fn owner(&self) -> PathBuf {
        self.directory.join("owner")
    }

    /// Device and inode of the disk's file.
    pub(crate) fn identity(&self) -> PathBuf {
        self.directory.join("identity")
    }

    /// Where the daemon is asked and told things.
    pub(crate) fn control(&self) -> PathBuf {
        self.directory.join("control")
    }

    /// What the daemon says when something is wrong.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Where the daemon's file system is mounted.
    pub(crate) fn fuse(&self) -> PathBuf {
        self.directory.join("fuse")
    }

    /// The disk's file.
    pub(crate) fn file(&self) -> PathBuf {
        self.fuse().join(DISK_FILE)
    }

    /// Where the disk's own file system is mounted.
    pub(crate) fn mount_point(&self) -> PathBuf {
        self.directory.join("mnt")
    }

    /// Whether a daemon is alive. Several may ask at once: they share the lock.
    pub(crate) fn is_served(&self) -> bool {
        File::open(self.lock()).is_ok_and(|lock| lock::is_held(&lock))
    }

    pub(crate) fn read_settings(&self) -> Result<Settings, Error> {
        let path = self.settings();
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        let settings: Settings = serde_json::from_str(&text)
            .map_err(|error| Error::failed(format!("{}: {error}", path.display())))?;
        settings.check()?;
        Ok(settings)
    }

    pub(crate) fn write_settings(&self, settings: &Settings) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(settings).expect("settings have string keys only");
        fs::write(self.settings(), text).map_err(Error::file(&self.settings()))
    }

    /// The daemon's last words; none if it said nothing, or there is no log.
    pub(crate) fn last_words(&self) -> Vec<String> {
        let said = fs::read(self.log()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        last.iter().map(|line| (*line).to_owned()).collect()
    }

    /// All files that the lab puts there but the owner's, which goes last.
    pub(crate) fn files(&self) -> [PathBuf; 5] {
        [self.settings(), self.log(), self.lock(), self.identity(), self.control()]
    }

    /// Whether a running process was started to serve this directory.
    pub(crate) fn is_daemon(&self, process: &str) -> bool {
        let line = fs::read(Path::new("/proc").join(process).join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(self.directory.as_os_str().as_encoded_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_lines_of_the_log() {
        let directory = std::env::temp_dir().join(format!("forebay-words-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let places = Places { directory };
        assert!(places.last_words().is_empty());
        let said: Vec<String> = (0..20).map(|idx| format!("line {idx}\n")).collect();
        fs::write(places.log(), said.concat() + "\n").unwrap();
        let words = places.last_words();
        assert_eq!((words.len(), words[7].as_str()), (LAST_LINES, "line 19"));
        fs::remove_dir_all(&places.directory).unwrap();
    }
}
