//! Writing envelopes.

use crate::error::{Error, Result};
use crate::ntuple::anchor::Anchor;
use crate::ntuple::envelope::{Kind, Locator, checksum};
use crate::ntuple::pages::{ClusterGroup, PageList};
use crate::ntuple::schema::{Role, Schema};
use crate::ntuple::table::AttributeSet;
use crate::wire::grow::{self, Grow};
use std::ops::Range;

/// Builds the contents of envelopes.
#[derive(Debug, Default)]
struct EnvelopeBuilder {
    bytes: Vec<u8>,
    /// Bytes for which there was no memory. They are missing, so [`EnvelopeBuilder::envelope`] ends in an error.
    lost: usize,
}

impl EnvelopeBuilder {
    fn envelope(kind: Kind, Self { bytes: content, lost }: Self) -> Result<Vec<u8>> {
        let size = content.len() + 16;
        if lost > 0 {
            return Err(Error::limit(format!("no memory for {} bytes", size + lost)));
        }
        let mut bytes = grow::with_room(size)?;
        bytes.extend((kind as u64 | (size as u64) << 16).to_le_bytes());
        bytes.extend(content);
        bytes.extend(checksum(&bytes).to_le_bytes());
        Ok(bytes)
    }
    fn raw(&mut self, bytes: &[u8]) {
        if self.bytes.try_extend(bytes).is_err() {
            self.lost += bytes.len();
        }
    }
    fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }
    fn text(&mut self, text: &str) -> Result<()> {
        self.u32(fits(text.len(), "a string")?);
        self.raw(text.as_bytes());
        Ok(())
    }
    fn record(&mut self, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let start = self.bytes.len();
        self.u64(0);
        fill(self)?;
        self.close(start, self.bytes.len() as i64 - start as i64);
        Ok(())
    }
    fn list(&mut self, count: usize, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let start = self.bytes.len();
        self.u64(0);
        self.u32(fits(count, "a list")?);
        fill(self)?;
        self.close(start, start as i64 - self.bytes.len() as i64);
        Ok(())
    }
    fn close(&mut self, start: usize, size: i64) {
        if let Some(place) = self.bytes.get_mut(start..start + 8) {
            place.copy_from_slice(&size.to_le_bytes());
        }
    }
    fn locator(&mut self, locator: Locator) -> Result<()> {
        match locator {
            Locator::File { offset, bytes } => {
                if let Ok(bytes) = i32::try_from(bytes) {
                    self.raw(&bytes.to_le_bytes());
                } else {
                    self.raw(&(-LARGE_LOCATOR).to_le_bytes());
                    self.u64(bytes);
                }
                self.u64(offset);
            }
            Locator::Elsewhere(kind) => return Err(Locator::unreadable(kind)),
        }
        Ok(())
    }
}

/// Head of a locator of type 1 (64-bit size): the type and the length of 20 bytes, head included.
const LARGE_LOCATOR: i32 = 0x0100_0014;

fn fits(size: usize, what: &str) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::limit(format!("{what} of {size} items")))
}

/// Returns the header: name, description, writer, and the fields and columns that the schema had at the start.
pub fn header(name: &str, description: &str, writer: &str, schema: &Schema) -> Result<Vec<u8>> {
    let mut out = EnvelopeBuilder::default();
    out.u64(0);
    [name, description, writer].into_iter().try_for_each(|text| out.text(text))?;
    let (fields, columns) = (0..schema.header_fields, 0..schema.header_columns);
    let streamers = schema.streamers.get(..schema.header_streamers).unwrap_or_default();
    description_of(&mut out, schema, fields, columns, 0..schema.header_aliases, streamers)?;
    EnvelopeBuilder::envelope(Kind::Header, out)
}

fn description_of(
    out: &mut EnvelopeBuilder,
    schema: &Schema,
    fields: Range<usize>,
    columns: Range<usize>,
    aliases: Range<usize>,
    streamers: &[Vec<u8>],
) -> Result<()> {
    out.list(fields.len(), |out| {
        for (id, field) in schema.fields.iter().enumerate().take(fields.end).skip(fields.start) {
            out.record(|out| {
                out.u32(field.field_version);
                out.u32(field.type_version);
                out.u32(fits(field.parent.unwrap_or(id), "a field")?);
                out.u16(match field.role {
                    Role::Leaf => 0,
                    Role::Collection => 1,
                    Role::Record => 2,
                    Role::Variant => 3,
                    Role::Streamer => 4,
                    Role::Unknown(role) => role,
                });
                out.u16(field.flags);
                for text in [&field.name, &field.typename, &field.alias, &field.description] {
                    out.text(text)?;
                }
                if let Some(size) = field.array_size {
                    out.u64(size);
                }
                if let Some(source) = field.source {
                    out.u32(fits(source, "a field")?);
                }
                if let Some(checksum) = field.checksum {
                    out.u32(checksum);
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    out.list(columns.len(), |out| {
        for column in schema.columns.get(columns).unwrap_or_default() {
            out.record(|out| {
                out.u16(column.kind);
                out.u16(column.bits);
                out.u32(fits(column.field, "a field")?);
                out.u16(column.flags);
                out.u16(column.representation);
                if column.is_deferred() {
                    let first = column.first_element as i64;
                    out.u64((if column.starts_suppressed { -first } else { first }) as u64);
                }
                if let Some((min, max)) = column.range {
                    out.u64(min.to_bits());
                    out.u64(max.to_bits());
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    let aliases = schema.aliases.get(aliases).unwrap_or_default();
    out.list(aliases.len(), |out| {
        for (physical, field) in aliases {
            out.record(|out| {
                out.u32(fits(*physical, "a column")?);
                out.u32(fits(*field, "a field")?);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    out.list(streamers.len(), |out| {
        for info in streamers {
            out.record(|out| {
                out.u64(0);
                out.text("")?;
                out.u32(fits(info.len(), "streamer info")?);
                out.raw(info);
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Returns the footer: the additions to the schema and the locations of the page lists.
pub fn footer(
    header_checksum: u64,
    schema: &Schema,
    groups: &[ClusterGroup],
    sets: &[&AttributeSet],
) -> Result<Vec<u8>> {
    let mut out = EnvelopeBuilder::default();
    out.u64(0);
    out.u64(header_checksum);
    out.record(|out| {
        let fields = schema.header_fields..schema.fields.len();
        let columns = schema.header_columns..schema.columns.len();
        let aliases = schema.header_aliases..schema.aliases.len();
        let more = schema.streamers.get(schema.header_streamers..).unwrap_or_default();
        description_of(out, schema, fields, columns, aliases, more)
    })?;
    out.list(groups.len(), |out| {
        for group in groups {
            out.record(|out| {
                out.u64(group.first_entry);
                out.u64(group.entries);
                out.u32(group.clusters);
                out.u64(group.length);
                out.locator(group.locator)
            })?;
        }
        Ok(())
    })?;
    out.list(sets.len(), |out| {
        for set in sets {
            out.record(|out| {
                out.u16(set.version.0);
                out.u16(set.version.1);
                out.u32(fits(set.length as usize, "an anchor")?);
                out.locator(set.locator)?;
                out.text(&set.name)
            })?;
        }
        Ok(())
    })?;
    EnvelopeBuilder::envelope(Kind::Footer, out)
}

/// Returns the page list of a cluster group.
pub fn page_list(header_checksum: u64, list: &PageList) -> Result<Vec<u8>> {
    let mut out = EnvelopeBuilder::default();
    out.u64(header_checksum);
    out.list(list.clusters.len(), |out| {
        for cluster in &list.clusters {
            out.record(|out| {
                out.u64(cluster.first_entry);
                out.u64(cluster.entries);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    out.list(list.clusters.len(), |out| {
        for cluster in &list.clusters {
            out.list(cluster.columns.len(), |out| {
                for column in &cluster.columns {
                    let pages = list.pages(column);
                    out.list(pages.len(), |out| {
                        let mut before = 0;
                        for page in pages {
                            let elements = i32::try_from(page.end - before)
                                .map_err(|_| Error::limit("a page has more than 2^31 elements"))?;
                            before = page.end;
                            out.raw(&(if page.checksum { -elements } else { elements }).to_le_bytes());
                            out.locator(page.locator)?;
                        }
                        if column.suppressed {
                            out.u64(i64::MIN as u64);
                        } else {
                            out.u64(column.first_element);
                            out.u32(column.compression);
                        }
                        Ok(())
                    })?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    EnvelopeBuilder::envelope(Kind::PageList, out)
}

/// Returns the anchor object, as stored in a key.
pub fn anchor(anchor: &Anchor) -> Vec<u8> {
    let mut members: Vec<u8> = anchor.version.iter().flat_map(|v| v.to_be_bytes()).collect();
    for blob in [anchor.header, anchor.footer] {
        members.extend([blob.offset, blob.stored, blob.length].iter().flat_map(|v| v.to_be_bytes()));
    }
    members.extend(anchor.max_key_size.to_be_bytes());
    // Byte count (`kByteCountMask`) and version of the class.
    let mut object = (0x4000_0000u32 | (members.len() as u32 + 2)).to_be_bytes().to_vec();
    object.extend(2u16.to_be_bytes());
    object.extend(&members);
    object.extend(checksum(&members).to_be_bytes());
    object
}
