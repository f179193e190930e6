//! Copying clusters of another RNTuple without decompressing their pages.

use super::columns::{CopiedTo, PageBytes, Pending, Sealed};
use super::{NTupleOptions, NTupleWriter, WRITER, envelopes, sum_of, tops};
use crate::compress::encode::{Compression, compress};
use crate::error::{Error, Result, Within};
use crate::file::kinds;
use crate::file::writer::{DirectoryId, FileWriter};
use crate::ntuple::encoding::Encoding;
use crate::ntuple::envelope::{Locator, checksum, unpack};
use crate::ntuple::pages::{Cluster, Page, PageList};
use crate::ntuple::schema::{Field, Schema};
use crate::ntuple::table::NTuple;
use crate::table::writer::TableWriter;
use crate::wire::grow::{self, Grow};
use sapwood_io::Cause;
use std::collections::HashMap;

/// Maximum gap in bytes between pages that are read together.
const NEAR: u64 = 64 << 10;
/// Maximum number of bytes read together.
const MOST: u64 = 32 << 20;

/// The pages of a column that can be copied.
struct Copied<'a> {
    pages: &'a [Page],
    compression: u32,
    /// The target column; `None` if the cluster was written before the column was added.
    column: Option<usize>,
    /// Number of elements that are missing at the start, because the column was added within the cluster.
    missing: u64,
}

impl NTupleWriter {
    /// Creates an RNTuple in a directory with the fields and columns of another.
    pub fn like(
        file: &mut FileWriter,
        directory: DirectoryId,
        name: &str,
        source: &NTuple,
        options: NTupleOptions,
    ) -> Result<Self> {
        let place = || format!("RNTuple {name}");
        let schema = source.schema.clone();
        if let Some(why) = schema.fields.iter().find_map(|field| field.broken.as_ref()) {
            return Err(why.clone().within(place()));
        }
        for column in &schema.columns {
            column.encoding.clone().within(place)?;
        }
        let header = envelopes::header(name, &source.description, WRITER, &schema).within(place)?;
        let tops = tops(&schema).within(place)?;
        let key = file.reserve(directory, kinds::NTUPLE, name, "")?;
        let mut made = Self::from_parts(name, key, schema, tops, sum_of(&header), header, options);
        made.defer();
        Ok(made)
    }

    /// Copies the cluster that begins at an entry, with its pages unchanged or recompressed. Returns false and does
    /// nothing if its columns differ from those of this RNTuple. The caller must then read and write its entries.
    pub fn copy_cluster(
        &mut self,
        file: &mut FileWriter,
        source: &NTuple,
        first_entry: u64,
        compression: Option<Compression>,
    ) -> Result<bool> {
        self.flush(file)?;
        let found = source.clusters(first_entry, first_entry + 1)?;
        let found = found.first().and_then(|pages| Some((pages.list(), pages.cluster()?)));
        let Some((list, cluster)) = found.filter(|(_, cluster)| cluster.first_entry == first_entry) else {
            return Err(
                Error::argument(format!("no cluster begins at entry {first_entry}")).within(self.place())
            );
        };
        let Some(columns) = self.copied(source, list, cluster) else { return Ok(false) };
        let place = || {
            format!("the cluster at entry {first_entry} of RNTuple {} in {}", source.name, source.file.name())
        };
        let pages = columns.iter().flat_map(|column| column.pages);
        let blocks = Blocks::read(source, pages).within(place)?;
        // The pages of all columns at once: one column may have too few pages for all threads.
        let mut jobs = grow::with_room(columns.iter().map(|column| column.pages.len()).sum())?;
        for (pending, from) in self.tops.iter().flat_map(|top| &top.columns).zip(&columns) {
            let starts = std::iter::once(0).chain(from.pages.iter().map(|page| page.end));
            jobs.extend(
                starts.zip(from.pages).map(|(start, page)| (pending.encoding, from.compression, start, page)),
            );
        }
        let seal = |(): &mut (), (encoding, code, start, page): &(Encoding, u32, u64, &Page)| {
            let elements = (page.end - start) as usize;
            let stored = blocks.page(page)?;
            let length = encoding.stored_bytes(elements as u64).unwrap_or(usize::MAX);
            let bytes = match compression {
                Some(wanted) if wanted.code() != *code => recompress(stored, length, wanted)?,
                _ => grow::copied(stored)?,
            };
            Ok(Sealed { elements, length, checksum: checksum(&bytes), bytes: PageBytes::Made(bytes) })
        };
        let mut sealed = grow::mapped(&jobs, || (), seal).within(place)?.into_iter();
        for (pending, from) in self.tops.iter_mut().flat_map(|top| &mut top.columns).zip(&columns) {
            pending.sealed = grow::collected(sealed.by_ref().take(from.pages.len()))?;
            let code = compression.map_or(from.compression, Compression::code);
            if from.missing > 0 {
                pending.first_element += from.missing;
                self.schema.defer(pending.column, pending.first_element);
            }
            let target = from.column.map_or(CopiedTo::Nothing, CopiedTo::Column);
            (pending.code, pending.target) = (Some(code), Some(target));
        }
        self.waiting = cluster.entries as usize;
        self.write_cluster(file).map_err(|error| self.fail(file, &error))?;
        Ok(true)
    }

    /// Returns the pages for each column; `None` if a column has no counterpart with the same encoding.
    fn copied<'a>(
        &self,
        source: &NTuple,
        list: &'a PageList,
        cluster: &'a Cluster,
    ) -> Option<Vec<Copied<'a>>> {
        let paths: HashMap<String, &Field> = source
            .schema
            .fields
            .iter()
            .enumerate()
            .filter(|(_, field)| field.source.is_none())
            .map(|(id, field)| (source.schema.path(id), field))
            .collect();
        let counterpart = |pending: &Pending| {
            let column = pending.column;
            let own = self.schema.columns.get(column)?;
            let field = self.schema.fields.get(own.field)?;
            let place = field.representations.first()?.iter().position(|&id| id == column)?;
            let other =
                paths.get(&self.schema.path(own.field)).filter(|other| !other.representations.is_empty())?;
            let same = (&other.typename, other.role, other.array_size, other.type_version)
                == (&field.typename, field.role, field.array_size, field.type_version)
                && subfields(&self.schema, field) == subfields(&source.schema, other);
            let stored = |id: &usize| cluster.columns.get(*id).is_some_and(|range| !range.suppressed);
            if !same {
                return None;
            }
            let added = column >= self.schema.header_columns;
            let mut choices = other.representations.iter().filter_map(|columns| columns.get(place).copied());
            let Some(chosen) = choices.find(stored) else {
                // All clusters so far were written before the column was added, like this one.
                let first = other.representations.first()?.get(place)?;
                let elements = cluster.entries.saturating_mul(source.schema.repeat(*first));
                let late = elements <= source.schema.unstored(*first, cluster.first_entry, None);
                return (!pending.started && added && late).then_some(Copied {
                    pages: &[],
                    compression: 0,
                    column: None,
                    missing: 0,
                });
            };
            let stored = source.schema.columns.get(chosen)?;
            let range = cluster.columns.get(chosen)?;
            let alike = |id: &usize| {
                let own = self.schema.columns.get(*id);
                own.is_some_and(|own| {
                    (own.kind, own.bits, own.range) == (stored.kind, stored.bits, stored.range)
                })
            };
            let mut own = field.representations.iter().filter_map(|columns| columns.get(place).copied());
            let column = own.find(alike);
            column?;
            let elements = cluster.entries.saturating_mul(self.schema.repeat(column?));
            let missing = elements.saturating_sub(list.elements(range));
            let unstored = source.schema.unstored(chosen, cluster.first_entry, Some(range.first_element));
            if missing > 0 && (pending.started || !added || missing > unstored) {
                return None;
            }
            Some(Copied { pages: list.pages(range), compression: range.compression, column, missing })
        };
        let columns = || self.tops.iter().flat_map(|top| &top.columns);
        let found: Vec<Copied<'_>> = columns().map(counterpart).collect::<Option<_>>()?;
        // The list of a cluster's columns can lack only columns at its end.
        let last = found.iter().filter_map(|copied| copied.column).max();
        let mut absent = columns().zip(&found).filter(|(_, copied)| copied.column.is_none());
        absent.all(|(pending, _)| Some(pending.column) > last).then_some(found)
    }
}

/// Recompresses the bytes of a page.
fn recompress(stored: &[u8], length: usize, compression: Compression) -> Result<Vec<u8>> {
    let page = unpack(grow::copied(stored)?, length as u64)?;
    let mut packed = Vec::new();
    let used = compress(compression, &page, &mut packed)?;
    Ok(match used {
        Some(used) => {
            packed.truncate(used);
            packed
        }
        None => page,
    })
}

fn subfields<'a>(schema: &'a Schema, field: &Field) -> Vec<(&'a str, &'a str)> {
    let of = |id: &usize| schema.fields.get(*id).map(|field| (field.name.as_str(), field.typename.as_str()));
    field.children.iter().filter_map(of).collect()
}

/// Byte ranges of a file that were read.
pub(in crate::ntuple) struct Blocks(Vec<(u64, Vec<u8>)>);

impl Blocks {
    /// Reads the byte ranges of a file that hold some pages.
    pub(in crate::ntuple) fn read<'a>(
        source: &NTuple,
        pages: impl Iterator<Item = &'a Page>,
    ) -> Result<Self> {
        let mut ranges = Vec::new();
        for page in pages {
            match (page.locator, page.range()) {
                (Locator::Elsewhere(kind), _) => return Err(Locator::unreadable(kind)),
                (_, Some(range)) => {
                    ranges.try_push((range.offset, range.offset.saturating_add(range.length)))?;
                }
                _ => {}
            }
        }
        ranges.sort_unstable();
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for (start, end) in ranges {
            match stretches.last_mut() {
                Some((first, last))
                    if start <= *last || start <= last.saturating_add(NEAR) && end - *first <= MOST =>
                {
                    *last = end.max(*last);
                }
                _ => stretches.try_push((start, end))?,
            }
        }
        let fetch =
            |(start, end): (u64, u64)| Ok((start, source.file.bytes(start, end - start, Cause::Object)?));
        stretches.into_iter().map(fetch).collect::<Result<_>>().map(Self)
    }
    /// Returns the bytes of a page, verified if it has a checksum.
    pub(in crate::ntuple) fn page(&self, page: &Page) -> Result<&[u8]> {
        let Locator::File { offset, bytes } = page.locator else { return Ok(&[]) };
        let range = page.range().unwrap_or(sapwood_io::Range { offset, length: bytes });
        let block = self.0.partition_point(|(start, _)| *start <= offset).checked_sub(1);
        let block = block.and_then(|block| self.0.get(block));
        let found = block.and_then(|(start, block)| {
            let from = (offset - start) as usize;
            block.get(from..from + range.length as usize)
        });
        let found = found
            .ok_or_else(|| Error::corrupt("a page is missing in the bytes that were read").at(offset))?;
        let (stored, sum) = found.split_at_checked(bytes as usize).unwrap_or_default();
        let wanted = sum.first_chunk().copied().map(u64::from_le_bytes);
        if wanted.is_some_and(|wanted| wanted != checksum(stored)) {
            return Err(Error::corrupt("the checksum of a page does not match its bytes").at(offset));
        }
        Ok(stored)
    }
}
