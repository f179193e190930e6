//! ROOT classes with hand-written streamers, whose layout their members do not describe.
//!
//! The layouts follow the `Streamer` methods of the classes in ROOT 6.40.

use super::info::unknown_class;
use super::name::Name;
use super::object::{ITEMS, OPTIONS, Object, ObjectReader, SharedObject, Value};
use crate::array::Number;
use crate::error::{Error, Result, Within};
use crate::wire::cursor::{ClassTag, Frame, IS_REFERENCED, Pointer};
use crate::wire::grow::{self, Grow};
use std::sync::Arc;

/// `TRef::kHasUUID`: the object is in another file, whose UUID follows.
pub(super) const HAS_UUID: u32 = 1 << 5;
/// `TClonesArray::kBypassStreamer`, and its bit before version 4.
const BYPASS: u32 = 1 << 12;
const BYPASS_BEFORE_4: u32 = 1 << 14;

/// The class of an index of the entries of a table.
pub(super) const INDEX: &str = "TTreeIndex";

/// Whether a tree is described by objects of this class.
pub(super) fn is_of_trees(class: &str) -> bool {
    let named = ["TObject", "TNamed", "TAttLine", "TAttFill", "TAttMarker", "TTree", "TRefTable"];
    named.contains(&class) || class.starts_with("TBranch") || class.starts_with("TLeaf")
}

/// Sets a member by name.
fn put(object: &mut Object, name: impl Into<Name>, value: Value) {
    object.members.push((name.into(), value));
}

impl ObjectReader<'_> {
    /// Whether the class has a reader here.
    pub(super) fn is_hand_written(class: &str) -> bool {
        matches!(
            class,
            "TObject"
                | "TString"
                | "TStringLong"
                | "TQObject"
                | "TVirtualPerfStats"
                | "TDatime"
                | "TRef"
                | "TRefArray"
                | "TExMap"
                | "TMap"
                | "TClonesArray"
                | "TBtree"
                | "TBasket"
                | "TBranchClones"
                | INDEX
                | "TCanvas"
                | "TPolyLine3D"
                | "TPolyMarker3D"
                | "TPointSet3D"
                | "TTableDescriptor"
                | "StIOEvent"
                | "RooRealVar"
                | "RooLinkedList"
                | "RooAbsBinning"
                | "RooRefArray"
                | "RooCategory"
        ) || Number::of_array(class).is_some()
            || is_sequence(class)
            || class.starts_with("TMatrixTSym<")
    }

    /// Reads an object of one of these classes.
    pub(super) fn hand_written(&mut self, class: &str) -> Result<Option<Object>> {
        // Fast exit: nearly all other classes have other first letters.
        if !class.starts_with('T') && !class.starts_with("Roo") && class != "StIOEvent" {
            return Ok(None);
        }
        let read = match class {
            "TObject" => Self::tobject,
            "TString" => |r: &mut Self, o: &mut Object| {
                put(o, "fString", Value::Text(r.cursor.string()?));
                Ok(())
            },
            "TStringLong" => |r: &mut Self, o: &mut Object| {
                let length = r.cursor.count(1)?;
                put(o, "fString", Value::Text(crate::wire::cursor::text(r.cursor.take(length)?)?));
                Ok(())
            },
            // Its streamer writes nothing.
            "TQObject" => |r: &mut Self, _: &mut Object| r.spend(1, "TQObject"),
            // Streams its base alone.
            "TVirtualPerfStats" => |r: &mut Self, o: &mut Object| r.base(o, "TObject"),
            "TDatime" => |r: &mut Self, o: &mut Object| {
                put(o, "fDatime", Value::UInt(r.cursor.u32()?.into()));
                Ok(())
            },
            "TRef" => Self::tref,
            "TBasket" => Self::basket,
            "RooLinkedList" => Self::roo_linked_list,
            _ => match Number::of_array(class) {
                Some(_) => Self::tarray,
                None if class.starts_with("TMatrixTSym<") => Self::symmetric_matrix,
                None if class == "TPointSet3D" => Self::points,
                None => return self.with_header(class),
            },
        };
        let mut object = Object { class: class.to_owned().into(), ..Object::default() };
        read(self, &mut object).within(|| class.to_owned())?;
        Ok(Some(object))
    }

    /// Reads a basket inside a tree (`TBasket`), written while the tree was being filled; it is never compressed. Keeps
    /// the members that the tree reader needs.
    fn basket(&mut self, object: &mut Object) -> Result<()> {
        let c = &mut self.cursor;
        let key_bytes = crate::wire::Key::parse(c)?.key_bytes;
        c.skip(6)?;
        let nev_size = c.i32()?;
        let sizes = nev_size < 0 && c.u8()? & 1 != 0;
        let entries = c.count(0)?;
        let last = c.count(0)?;
        let mut flag = c.u8()?;
        let mut offsets = Vec::new();
        let generated = flag >= 80;
        if generated {
            flag -= 80;
        }
        if !generated && flag != 0 && flag % 10 != 2 {
            if entries > 0 {
                let n = c.count(4)?;
                offsets = grow::copied(c.take(n * 4)?)?;
            }
            if sizes {
                let mut start = key_bytes.into();
                for (i, word) in offsets.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    start = if i == 0 { start } else { u32::from_be_bytes(*word).saturating_add(start) };
                    *word = start.to_be_bytes();
                }
            }
            if (21..40).contains(&flag) {
                for word in offsets.as_chunks_mut::<4>().0 {
                    let [high, ..] = word;
                    *high = 0;
                }
            }
            if flag > 40 {
                let n = c.count(4)?;
                c.skip(n * 4)?;
            }
        }
        let data = if flag == 1 || flag > 10 { grow::copied(c.take(last)?)? } else { Vec::new() };
        object.members = vec![
            ("fNevBuf".into(), Value::Int(entries as i64)),
            ("fKeylen".into(), Value::Int(key_bytes.into())),
            ("fOffsets".into(), Value::Numbers(Number::U8, offsets)),
            ("fBuffer".into(), Value::Numbers(Number::U8, data)),
        ];
        Ok(())
    }

    /// Reads the classes that have a version header like others.
    fn with_header(&mut self, class: &str) -> Result<Option<Object>> {
        let read = match class {
            "TRefArray" => Self::references,
            "TExMap" => Self::number_map,
            "TMap" => Self::map,
            "TClonesArray" => Self::clones,
            "TBtree" => Self::tree_of_objects,
            "TBranchClones" => Self::branch_of_clones,
            INDEX => Self::tree_index,
            "TCanvas" => Self::canvas,
            "TPolyLine3D" => Self::line_3d,
            "TPolyMarker3D" => Self::markers_3d,
            "TTableDescriptor" => Self::table,
            "StIOEvent" => Self::star_event,
            "RooRealVar" => Self::roo_real_var,
            "RooAbsBinning" => Self::roo_abs_binning,
            "RooRefArray" => Self::roo_references,
            "RooCategory" => Self::roo_category,
            class if is_sequence(class) => Self::sequence,
            _ => return Ok(None),
        };
        let start = self.cursor.pos();
        let frame = self.cursor.frame().within(|| class.to_owned())?;
        if class == "RooCategory" && frame.version >= 3 {
            self.cursor.seek(start)?;
            return Ok(None);
        }
        let mut object =
            Object { class: class.to_owned().into(), version: i32::from(frame.version), ..Object::default() };
        let result = self.bounded(frame.end, |reader| {
            read(reader, &mut object)?;
            match frame.end {
                Some(end) if reader.cursor.pos() < end => {
                    Err(reader.leftover(end - reader.cursor.pos(), "it"))
                }
                _ => Ok(()),
            }
        });
        object.unreadable = result.within(|| class.to_owned())?.err().map(|e| e.within(class.to_owned()));
        Ok(Some(object))
    }

    fn base(&mut self, object: &mut Object, class: &str) -> Result<()> {
        let base = self.object(class)?;
        object.bases.push(Arc::new(base));
        Ok(())
    }

    fn put_object(&mut self, object: &mut Object, name: &'static str, class: &str) -> Result<()> {
        let value = self.object(class).within(|| format!("member {name}"))?;
        put(object, name, Value::Object(SharedObject::from(value)));
        Ok(())
    }

    fn put_pointer(&mut self, object: &mut Object, name: &'static str) -> Result<()> {
        let value = self.pointer().within(|| format!("member {name}"))?;
        put(object, name, value);
        Ok(())
    }

    /// Reads consecutive members of basic types, by their type codes (`TVirtualStreamerInfo::kChar` …).
    fn put_numbers(&mut self, object: &mut Object, members: &[(&'static str, i32)]) -> Result<()> {
        for (name, kind) in members {
            let c = &mut self.cursor;
            let value = match kind {
                2 => Value::Int(c.i16()?.into()),
                3 => Value::Int(c.i32()?.into()),
                5 => Value::Float(c.f32()?.into()),
                8 => Value::Float(c.f64()?),
                13 => Value::UInt(c.u32()?.into()),
                16 => Value::Int(c.i64()?),
                18 => Value::Bool(c.u8()? != 0),
                _ => return Err(Error::unsupported(format!("basic type code {kind}"))),
            };
            put(object, *name, value);
        }
        Ok(())
    }

    fn put_text(&mut self, object: &mut Object, name: &'static str) -> Result<()> {
        put(object, name, Value::Text(self.cursor.string()?));
        Ok(())
    }

    fn tobject(&mut self, object: &mut Object) -> Result<()> {
        let frame = self.cursor.frame()?;
        object.version = i32::from(frame.version);
        let id = self.cursor.u32()?;
        let bits = self.cursor.u32()?;
        put(object, "@fUniqueID", Value::UInt(id.into()));
        put(object, "@fBits", Value::UInt(bits.into()));
        if bits & IS_REFERENCED != 0 {
            put(object, "@pidf", Value::UInt(self.cursor.u16()?.into()));
        }
        self.cursor.finish(frame)
    }

    fn tref(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TObject")?;
        let number = |name: &str| match object.get(name) {
            Some(Value::UInt(v)) => *v,
            _ => 0,
        };
        let (id, bits) = (number("@fUniqueID"), number("@fBits"));
        put(object, "ref", Value::UInt(id));
        if bits & u64::from(HAS_UUID) != 0 {
            return self.put_text(object, "@uuid");
        }
        put(object, "@pidf", Value::UInt(self.cursor.u16()?.into()));
        Ok(())
    }

    fn tarray(&mut self, object: &mut Object) -> Result<()> {
        let number = Number::of_array(&object.class).unwrap_or(Number::F64);
        let count = self.cursor.count(number.size())?;
        put(object, "fN", Value::Int(count as i64));
        let values = self.plain(number, count)?;
        put(object, "fArray", values);
        Ok(())
    }

    /// Reads the start of every collection: `TObject` from version 3, the name from version 2.
    fn collection_head(&mut self, object: &mut Object) -> Result<()> {
        if object.version > 2 {
            self.base(object, "TObject")?;
        }
        if object.version > 1 {
            self.put_text(object, "fName")?;
        }
        Ok(())
    }

    fn sequence(&mut self, object: &mut Object) -> Result<()> {
        self.collection_head(object)?;
        let count = self.cursor.count(4)?;
        put(object, "fSize", Value::Int(count as i64));
        if object.class == "TObjArray" {
            self.put_numbers(object, &[("fLowerBound", 3)])?;
        }
        let has_options =
            matches!(&*object.class, "TList" | "THashList" | "TSortedList") && object.version > 3;
        let (mut items, mut options) = (Vec::new(), Vec::new());
        for i in 0..count {
            items.try_push(self.pointer().within(|| format!("element {i} of {count}"))?)?;
            if has_options {
                // The draw option of a histogram or graph.
                options.try_push(Value::Text(self.cursor.string()?))?;
            }
        }
        put(object, ITEMS, Value::List(items));
        if has_options {
            put(object, OPTIONS, Value::List(options));
        }
        Ok(())
    }

    fn references(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TObject")?;
        self.put_text(object, "fName")?;
        let count = self.cursor.count(4)?;
        put(object, "fSize", Value::Int(count as i64));
        self.put_numbers(object, &[("fLowerBound", 3)])?;
        put(object, "@pidf", Value::UInt(self.cursor.u16()?.into()));
        let ids = self.plain(Number::I32, count)?;
        put(object, ITEMS, ids);
        Ok(())
    }

    fn map(&mut self, object: &mut Object) -> Result<()> {
        self.collection_head(object)?;
        let count = self.cursor.count(8)?;
        put(object, "fSize", Value::Int(count as i64));
        let mut pairs = Vec::new();
        for i in 0..count {
            let key = self.pointer().within(|| format!("key {i} of {count}"))?;
            let value = self.pointer().within(|| format!("value {i} of {count}"))?;
            pairs.push((key, value));
        }
        put(object, ITEMS, Value::Map(pairs));
        Ok(())
    }

    fn number_map(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TObject")?;
        let slots = object.version >= 2;
        if slots {
            self.put_numbers(object, &[("fSize", 3)])?;
        }
        let count = self.cursor.count(if slots { 28 } else { 24 })?;
        put(object, "fTally", Value::Int(count as i64));
        let mut pairs = Vec::new();
        for _ in 0..count {
            // The table slot and the hash.
            self.cursor.skip(if slots { 12 } else { 8 })?;
            pairs.push((Value::Int(self.cursor.i64()?), Value::Int(self.cursor.i64()?)));
        }
        put(object, ITEMS, Value::Map(pairs));
        Ok(())
    }

    fn tree_of_objects(&mut self, object: &mut Object) -> Result<()> {
        let orders = [
            "fOrder",
            "fOrder2",
            "fInnerLowWaterMark",
            "fLeafLowWaterMark",
            "fInnerMaxIndex",
            "fLeafMaxIndex",
        ];
        self.put_numbers(object, &orders.map(|name| (name, 3)))?;
        let mut inner = self.object("TCollection")?;
        object.bases = inner.bases;
        object.members.append(&mut inner.members);
        Ok(())
    }

    fn clones(&mut self, object: &mut Object) -> Result<()> {
        self.collection_head(object)?;
        let text = self.cursor.string()?;
        let (class, version) = text.rsplit_once(';').ok_or_else(|| {
            self.cursor.corrupt(format!("a TClonesArray of {text:?}, where CLASS;VERSION is expected"))
        })?;
        let version: i32 = version.parse().unwrap_or(0);
        let count = self.cursor.i32()?.unsigned_abs() as usize;
        put(object, "fSize", Value::Int(count as i64));
        self.put_numbers(object, &[("fLowerBound", 3)])?;
        put(object, "@class", Value::Text(class.to_owned()));
        put(object, "@version", Value::Int(version.into()));
        if count > self.cursor.remaining() {
            return Err(self.cursor.corrupt(format!("{count} objects in {} bytes", self.cursor.remaining())));
        }
        let flag = if object.version == 3 { BYPASS_BEFORE_4 } else { BYPASS };
        let bypass = matches!(object.get("@fBits"), Some(Value::UInt(bits)) if bits & u64::from(flag) != 0);
        let mut items = Vec::new();
        if bypass {
            let info = self.info(class, version);
            let info = info.ok_or_else(|| unknown_class(class).at(self.cursor.place()))?;
            let mut objects = self.in_columns(&info, count)?;
            self.columns(&info, &mut objects)?;
            items.extend(objects.into_iter().map(|o| Value::Object(SharedObject::from(o))));
        } else {
            for i in 0..count {
                let present = self.cursor.u8()? != 0;
                let item = if present { self.embedded(class) } else { Ok(Value::Null) };
                items.push(item.within(|| format!("element {i} of {count}"))?);
            }
        }
        put(object, ITEMS, Value::List(items));
        Ok(())
    }

    /// Reads a `TBranchClones`, which derives from `TBranch` and streams ten of its members one by one.
    fn branch_of_clones(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TNamed")?;
        let members = [
            ("fCompress", 3),
            ("fBasketSize", 3),
            ("fEntryOffsetLen", 3),
            ("fMaxBaskets", 3),
            ("fWriteBasket", 3),
            ("fEntryNumber", 16),
            ("fEntries", 16),
            ("fTotBytes", 16),
            ("fZipBytes", 16),
            ("fOffset", 3),
        ];
        self.put_numbers(object, &members)?;
        self.put_pointer(object, "fBranchCount")?;
        self.put_text(object, "fClassName")?;
        self.put_object(object, "fBranches", "TObjArray")
    }

    fn tree_index(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TVirtualIndex")?;
        self.put_text(object, "fMajorName")?;
        self.put_text(object, "fMinorName")?;
        let count = usize::try_from(self.cursor.i64()?).unwrap_or(usize::MAX);
        put(object, "fN", Value::Int(count as i64));
        let arrays: &[&str] = if object.version > 1 {
            &["fIndexValues", "fIndexValuesMinor", "fIndex"]
        } else {
            &["fIndexValues", "fIndex"]
        };
        for name in arrays {
            let values = self.plain(Number::I64, count)?;
            put(object, *name, values);
        }
        Ok(())
    }

    fn canvas(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TPad")?;
        self.put_text(object, "fDISPLAY")?;
        let flag = |name| (name, 18);
        self.put_numbers(
            object,
            &[
                ("fDoubleBuffer", 3),
                flag("fRetained"),
                ("fXsizeUser", 5),
                ("fYsizeUser", 5),
                ("fXsizeReal", 5),
                ("fYsizeReal", 5),
                ("fWindowTopX", 3),
                ("fWindowTopY", 3),
            ],
        )?;
        if object.version > 2 {
            self.put_numbers(object, &[("fWindowWidth", 13), ("fWindowHeight", 13)])?;
        }
        self.put_numbers(object, &[("fCw", 13), ("fCh", 13)])?;
        self.put_object(object, "fCatt", "TAttCanvas")?;
        let flags = [flag("@kMoveOpaque"), flag("@kResizeOpaque"), ("fHighLightColor", 2), flag("fBatch")];
        self.put_numbers(object, &flags)?;
        if object.version >= 2 {
            self.put_numbers(object, &[flag("@kShowEventStatus")])?;
            if object.version > 3 {
                self.put_numbers(object, &[flag("@kAutoExec")])?;
            }
            self.put_numbers(object, &[flag("@kMenuBar")])?;
        }
        Ok(())
    }

    fn points_3d(&mut self, object: &mut Object) -> Result<()> {
        let count = self.cursor.count(12)?;
        put(object, "fN", Value::Int(count as i64));
        let points = self.plain(Number::F32, 3 * count)?;
        put(object, "fP", points);
        self.put_text(object, "fOption")
    }

    fn line_3d(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TObject")?;
        self.base(object, "TAttLine")?;
        self.points_3d(object)
    }

    fn markers_3d(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TObject")?;
        self.base(object, "TAttMarker")?;
        self.points_3d(object)?;
        if object.version > 1 { self.put_text(object, "fName") } else { Ok(()) }
    }

    /// Reads a class described by its members, except that object references follow its byte count if it owns them.
    fn points(&mut self, object: &mut Object) -> Result<()> {
        let class = object.class.clone();
        *object = self.described_object(&class)?;
        if object.int("fOwnIds").unwrap_or(0) == 0 {
            return Ok(());
        }
        let count = self.cursor.count(4)?;
        let items: Result<Vec<_>> = (0..count).map(|_| self.pointer()).collect();
        put(object, "fIds", Value::List(items?));
        Ok(())
    }

    /// Reads header and members like those of the base; the upper right triangle follows the byte count.
    fn symmetric_matrix(&mut self, object: &mut Object) -> Result<()> {
        let element = object.class.trim_start_matches("TMatrixTSym<").trim_end_matches('>').trim().to_owned();
        let number = Number::of_name(&element);
        let number = number.ok_or_else(|| Error::unsupported(format!("a matrix of {element}")))?;
        let base = self.described_object(&format!("TMatrixTBase<{element}>"))?;
        if let Some(why) = base.unreadable {
            return Err(why);
        }
        let (rows, columns) = (base.int("fNrows").unwrap_or(-1), base.int("fNcols").unwrap_or(-1));
        let size = usize::try_from(rows).ok().filter(|_| rows == columns);
        let size =
            size.ok_or_else(|| self.cursor.corrupt(format!("a symmetric matrix of {rows} by {columns}")))?;
        object.version = base.version;
        object.bases.push(Arc::new(base));
        let stored = size.checked_mul(size + 1).map_or(usize::MAX, |n| n / 2);
        let values = self.plain(number, stored)?;
        put(object, "fElements", values);
        Ok(())
    }

    /// Reads the objects in the keys of the STAR experiment.
    fn star_event(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TObject")?;
        self.put_pointer(object, "fObj")
    }

    /// Reads a table of the STAR experiment (`TTable` version 4): rows in their memory layout, but big-endian.
    fn table(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "TDataSet")?;
        self.put_numbers(object, &[("fN", 3), ("fMaxIndex", 16), ("fSize", 16)])?;
        let number = |name: &str| object.int(name).and_then(|n| usize::try_from(n).ok());
        let bytes = number("fMaxIndex").zip(number("fSize")).and_then(|(rows, size)| rows.checked_mul(size));
        let rows = self.plain(Number::U8, bytes.unwrap_or(usize::MAX))?;
        put(object, ITEMS, rows);
        Ok(())
    }

    /// Reads an object of an undescribed class if it is a table that includes its own description.
    pub(super) fn star_table(&mut self, object: &mut Object) -> Option<Result<()>> {
        const TABLE_VERSION: i32 = 4;
        let mut ahead = self.cursor.clone();
        let described = match ahead.pointer() {
            Ok(Pointer::New { class: ClassTag::Named { name, .. }, .. }) => name == "TTableDescriptor",
            Ok(Pointer::New { class: ClassTag::Seen(reference), .. }) => {
                self.is_named(reference, "TTableDescriptor")
            }
            Ok(Pointer::Seen(reference)) => self.is_seen(reference, "TTableDescriptor"),
            _ => false,
        };
        if !described || object.version != TABLE_VERSION {
            return None;
        }
        let mut table = Object { class: "TTable".into(), version: TABLE_VERSION, ..Object::default() };
        let result = self.put_pointer(&mut table, "@descriptor").and_then(|()| self.table(&mut table));
        object.bases.push(Arc::new(table));
        Some(result)
    }

    /// Reads a list without byte count: version, `TObject`, the objects and, in versions 2 and 3, a name.
    fn roo_linked_list(&mut self, object: &mut Object) -> Result<()> {
        object.version = i32::from(self.cursor.u16()?);
        self.base(object, "TObject")?;
        let count = self.cursor.count(4)?;
        put(object, "_size", Value::Int(count as i64));
        let mut items = Vec::new();
        for i in 0..count {
            items.try_push(self.pointer().within(|| format!("element {i} of {count}"))?)?;
        }
        put(object, ITEMS, Value::List(items));
        if matches!(object.version, 2 | 3) { self.put_text(object, "_name") } else { Ok(()) }
    }

    fn roo_real_var(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "RooAbsRealLValue")?;
        if object.version == 1 {
            self.put_numbers(object, &[("fitMin", 8), ("fitMax", 8), ("fitBins", 3)])?;
        }
        self.put_numbers(object, &[("_error", 8), ("_asymErrLo", 8), ("_asymErrHi", 8)])?;
        if object.version >= 2 {
            self.put_pointer(object, "_binning")?;
        }
        match object.version {
            ..=2 => Ok(()),
            3 => self.put_pointer(object, "_sharedProp"),
            _ => self.put_object(object, "_sharedProp", "RooRealVarSharedProperties"),
        }
    }

    fn roo_abs_binning(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, if object.version == 1 { "TObject" } else { "TNamed" })?;
        // `RooPrintable` has no members; only its header is present, whether it is described or not.
        let frame: Frame = self.cursor.frame()?;
        self.cursor.finish(frame)
    }

    /// Reads a `TRefArray` in a header of its own.
    fn roo_references(&mut self, object: &mut Object) -> Result<()> {
        let mut inner = self.object("TRefArray")?;
        object.bases = inner.bases;
        object.members.append(&mut inner.members);
        Ok(())
    }

    /// Reads a category from before version 3.
    fn roo_category(&mut self, object: &mut Object) -> Result<()> {
        self.base(object, "RooAbsCategoryLValue")?;
        if object.version == 1 {
            self.put_pointer(object, "_sharedProp")
        } else {
            self.put_object(object, "_sharedProp", "RooCategorySharedProperties")
        }
    }
}

/// Whether a class is a list of pointers. Lists with class version 0 are stored like their base.
fn is_sequence(class: &str) -> bool {
    matches!(
        class,
        "TList"
            | "THashList"
            | "TSortedList"
            | "TObjArray"
            | "TOrdCollection"
            | "THashTable"
            | "TCollection"
            | "TSeqCollection"
    )
}
