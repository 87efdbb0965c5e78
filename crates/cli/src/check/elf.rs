//! The facts of an ELF file that decide whether and how a preloaded library acts on it.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader32, FileHeader64, SHT_DYNSYM};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, FileKind};

/// What an ELF file says about itself.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Its instruction set (`e_machine`).
    pub(super) machine: u16,
    /// Whether addresses are 64 bits wide.
    pub(super) is_64: bool,
    /// The loader it asks for; none means that nothing can be preloaded.
    pub(super) interpreter: Option<String>,
    /// Whether the Go tool chain built it.
    pub(super) is_go: bool,
    /// Libraries that it names.
    pub(super) needed: Vec<String>,
    /// Where to look for them first, with `$ORIGIN` as written.
    pub(super) run_path: Vec<String>,
    /// Dynamic symbols that it takes from elsewhere.
    pub(super) imports: BTreeSet<String>,
    /// Dynamic symbols that it offers.
    pub(super) exports: BTreeSet<String>,
}

/// Reads a file's facts.
pub(super) fn read(path: &Path) -> io::Result<Facts> {
    let data = std::fs::read(path)?;
    let data = data.as_slice();
    let facts = match FileKind::parse(data) {
        Ok(FileKind::Elf64) => facts::<FileHeader64<Endianness>>(data),
        Ok(FileKind::Elf32) => facts::<FileHeader32<Endianness>>(data),
        _ => return Err(invalid(path, "neither an ELF program nor a script")),
    };
    facts.map_err(|error| invalid(path, &error.to_string()))
}

fn invalid(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
}

fn facts<Elf: FileHeader<Endian = Endianness>>(data: &[u8]) -> object::Result<Facts> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut facts = Facts {
        machine: header.e_machine(endian).0,
        is_64: header.is_type_64(),
        ..Facts::default()
    };
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            facts.interpreter = Some(text(path));
        }
    }
    for section in sections.iter() {
        let name = sections.section_name(endian, section)?;
        facts.is_go |= name == b".go.buildinfo" || name == b".note.go.buildid";
        if let Some((entries, strings_at)) = section.dynamic(endian, data)? {
            let strings = sections.strings(endian, data, strings_at)?;
            for entry in entries {
                match entry.tag(endian) {
                    DT_NEEDED => facts.needed.push(text(entry.string(endian, strings)?)),
                    DT_RPATH | DT_RUNPATH => {
                        let paths = text(entry.string(endian, strings)?);
                        facts.run_path.extend(paths.split(':').map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
    }
    let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
    for symbol in symbols.iter() {
        let name = text(symbol.name(endian, symbols.strings())?);
        let side =
            if symbol.is_undefined(endian) { &mut facts.imports } else { &mut facts.exports };
        side.insert(name);
    }
    Ok(facts)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
