//! The file system itself, with nothing between it and the processes.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::workload::Access;
use super::{Caching, Peer};
use crate::error::Error;
use crate::programs::Programs;

/// The kernel alone.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) caching: Caching,
}

impl Peer for Local {
    fn name(&self) -> &'static str {
        match self.caching {
            Caching::Buffered => "local",
            Caching::Direct => "local-direct",
        }
    }

    fn settings(&self, _programs: &Programs) -> Result<Value, Error> {
        Ok(json!({ "o_direct": self.caching == Caching::Direct }))
    }

    fn start(&mut self, _programs: &Programs, _root: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn command(&self, programs: &Programs, root: &Path, access: &Access) -> Result<Command, Error> {
        access.program(programs, &root.join(access.file), self.caching)
    }

    fn stop(&mut self, _bytes: u64) -> Result<Value, Error> {
        Ok(Value::Null)
    }
}
