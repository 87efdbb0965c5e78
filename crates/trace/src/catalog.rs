//! Who and what the numbers in a trace are: names, and files told apart although indices are used again.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_units::{Bytes, ClassId, ClientId, FileId, FileIndex};

use crate::event::{Event, Named};

/// A file of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedFile {
    /// What it was.
    pub id: Option<FileId>,
    /// What it was called.
    pub name: Option<String>,
    /// The highest end of a read or write.
    pub size: Bytes,
}

/// What is known of files, clients and classes so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The files, one for each identity, whatever index it had; by their place here.
    pub files: Vec<TracedFile>,
    /// Names of clients.
    pub clients: BTreeMap<ClientId, String>,
    /// Names of classes.
    pub classes: BTreeMap<ClassId, String>,
    /// The file that an index stands for at the moment.
    current: BTreeMap<FileIndex, FileIndex>,
    by_id: BTreeMap<FileId, FileIndex>,
}

impl Catalog {
    /// Takes in what an event says about files and names; to be told every event, in order.
    pub fn take(&mut self, event: &Event<'_>) {
        match *event {
            Event::Lost { .. } => self.forget_indices(),
            Event::Retire { file } => _ = self.current.remove(&file),
            Event::File { file, id } => {
                let place = match self.by_id.get(&id) {
                    Some(place) => *place,
                    None => self.add(Some(id)),
                };
                self.by_id.insert(id, place);
                self.current.insert(file, place);
            }
            Event::Name { of: Named::Client(client), text } => {
                self.clients.insert(client, text.into());
            }
            Event::Name { of: Named::Class(class), text } => {
                self.classes.insert(class, text.into());
            }
            Event::Name { of: Named::File(file), text } => {
                let place = self.place_of(file);
                self.files[place.0 as usize].name = Some(text.into());
            }
            _ => {}
        }
    }

    /// Forgets which files indices stand for, because what gave one of them to another file may be
    /// missing here: to be called where a trace is damaged. What comes next is of files that are
    /// not known until the trace says which they are.
    pub fn forget_indices(&mut self) {
        self.current.clear();
    }

    /// The place of the file that an index stands for at the moment.
    pub fn place_of(&mut self, file: FileIndex) -> FileIndex {
        if let Some(place) = self.current.get(&file) {
            return *place;
        }
        let place = self.add(None);
        self.current.insert(file, place);
        place
    }

    /// What to call the file at a place: its name, or else what it was, or else its number.
    pub fn file_name(&self, place: FileIndex) -> String {
        let file = self.files.get(place.0 as usize);
        match file.map(|file| (&file.name, file.id)) {
            Some((Some(name), _)) => name.clone(),
            Some((None, Some(id))) => format!("{}:{}", id.device, id.inode),
            _ => format!("file {}", place.0),
        }
    }

    /// What to call a client: its name or its number.
    pub fn client_name(&self, client: ClientId) -> String {
        let name = self.clients.get(&client).cloned();
        name.unwrap_or_else(|| format!("client {}", client.0))
    }

    /// What to call a class: its name or its number.
    pub fn class_name(&self, class: ClassId) -> String {
        let name = self.classes.get(&class).cloned();
        name.unwrap_or_else(|| format!("class {}", class.0))
    }

    fn add(&mut self, id: Option<FileId>) -> FileIndex {
        self.files.push(TracedFile { id, ..TracedFile::default() });
        FileIndex(u32::try_from(self.files.len() - 1).expect("fewer than 2^32 files"))
    }
}
