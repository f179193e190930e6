//! Converting HBOOK histograms to objects of the corresponding ROOT classes.

use super::hbook::{Axis, Class, Histogram, ProfileSums, Spread};
use crate::array::Number;
use crate::streamer::name::Name;
use crate::streamer::object::ITEMS;
use crate::streamer::{Object, SharedObject, Value};

/// ROOT's value for plot limits that are not set.
const UNBOUND: f64 = -1111.0;

impl Class {
    /// Name of the class of an object in a key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneD => "TH1F",
            Self::TwoD => "TH2F",
            Self::Profile => "TProfile",
            Self::RowWise => "RWNtuple",
            Self::ColumnWise => "CWNtuple",
            Self::Array => "Banks",
        }
    }
}

fn object(class: &'static str, members: Vec<(&'static str, Value)>) -> Object {
    let members = members.into_iter().map(|(name, value)| (Name::from(name), value)).collect();
    Object { class: Name::from(class), members, ..Object::default() }
}

fn embedded(class: &'static str, members: Vec<(&'static str, Value)>) -> Value {
    Value::Object(SharedObject::from(object(class, members)))
}

fn doubles(values: &[f64]) -> Value {
    Value::Numbers(Number::F64, values.iter().flat_map(|value| value.to_ne_bytes()).collect())
}

fn floats(values: &[f32]) -> Value {
    Value::Numbers(Number::F32, values.iter().flat_map(|value| value.to_ne_bytes()).collect())
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn list(items: Vec<Object>) -> Value {
    embedded(
        "TList",
        vec![(
            ITEMS,
            Value::List(items.into_iter().map(|item| Value::Object(SharedObject::from(item))).collect()),
        )],
    )
}

impl Axis {
    fn object(&self, name: &str) -> Value {
        let edges: Vec<f64> = self.edges.iter().map(|&edge| f64::from(edge)).collect();
        let (low, high) = match (edges.first(), edges.last()) {
            (Some(&low), Some(&high)) => (low, high),
            _ => (f64::from(self.low), f64::from(self.high)),
        };
        let mut members = vec![
            ("fName", text(name)),
            ("fNbins", Value::Int(self.bins as i64)),
            ("fXmin", Value::Float(low)),
            ("fXmax", Value::Float(high)),
            ("fXbins", doubles(&edges)),
            ("fNdivisions", Value::Int(510)),
        ];
        if !self.labels.is_empty() {
            let label = |(place, label): (usize, &String)| {
                let number = ("fUniqueID", Value::Int(place as i64 + 1));
                Value::Object(SharedObject::from(object(
                    "TObjString",
                    vec![("fString", text(label)), number],
                )))
            };
            let labels = self.labels.iter().enumerate().filter(|(_, label)| !label.is_empty()).map(label);
            members.push(("fLabels", embedded("THashList", vec![(ITEMS, Value::List(labels.collect()))])));
        }
        embedded("TAxis", members)
    }
    /// Centre of a bin, counted from 0.
    fn center(&self, bin: usize) -> f64 {
        if let (Some(&low), Some(&high)) = (self.edges.get(bin), self.edges.get(bin + 1)) {
            return f64::midpoint(f64::from(low), f64::from(high));
        }
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        low + (high - low) * (bin as f64 + 0.5) / self.bins as f64
    }
}

impl Histogram {
    /// Returns the class.
    pub fn class(&self) -> Class {
        match (&self.profile, self.axes.len()) {
            (Some(_), _) => Class::Profile,
            (None, 2) => Class::TwoD,
            _ => Class::OneD,
        }
    }

    /// Returns the corresponding ROOT object, with all members in one list, as for writing.
    pub fn object(&self, name: &str) -> Object {
        let none = Axis { bins: 1, high: 1.0, ..Axis::default() };
        let axis = |place: usize, name: &str| self.axes.get(place).unwrap_or(&none).object(name);
        let limit = |value: Option<f32>| Value::Float(value.map_or(UNBOUND, f64::from));
        let mut members = vec![
            ("fName", text(name)),
            ("fTitle", text(&self.title)),
            ("@fBits", Value::Int(8)),
            ("fNcells", Value::Int(self.contents.len() as i64)),
            ("fXaxis", axis(0, "xaxis")),
            ("fYaxis", axis(1, "yaxis")),
            ("fZaxis", none.object("zaxis")),
            ("fEntries", Value::Float(f64::from(self.entries))),
            ("fNormFactor", Value::Float(f64::from(self.normalisation))),
            ("fFunctions", list(self.attached())),
        ];
        if let Some(profile) = &self.profile {
            self.profile_members(profile, &mut members);
        } else {
            members.push(("fMinimum", limit(self.limits.0)));
            members.push(("fMaximum", limit(self.limits.1)));
            members.push(("TArrayF", floats(&self.contents)));
            if let Some(variances) = self.variances() {
                members.push(("fSumw2", doubles(&variances)));
            }
            self.sums(&mut members);
        }
        object(self.class().name(), members)
    }

    /// Content of a bin, counted from 0 without underflow and overflow.
    fn inner(&self, x: usize, y: usize) -> f64 {
        let across = self.axes.first().map_or(0, |axis| axis.bins + 2);
        let place = if self.axes.len() == 2 { (y + 1) * across + x + 1 } else { x + 1 };
        self.contents.get(place).map_or(0.0, |&value| f64::from(value))
    }
    fn shape(&self) -> (usize, usize) {
        (self.axes.first().map_or(0, |axis| axis.bins), self.axes.get(1).map_or(1, |axis| axis.bins))
    }
    /// Returns the variance of each cell, including flow bins, if it differs from the content.
    fn variances(&self) -> Option<Vec<f64>> {
        let absolute = || self.contents.iter().map(|value| f64::from(value.abs()));
        if self.squares.is_empty() {
            // HBOOK takes the square root of the absolute content.
            return self.contents.iter().any(|&value| value < 0.0).then(|| absolute().collect());
        }
        let mut variances: Vec<f64> = absolute().collect();
        let (bins, _) = self.shape();
        for (place, &square) in self.squares.iter().enumerate() {
            let (x, y) = (place % bins.max(1), place / bins.max(1));
            let cell = if self.axes.len() == 2 { (y + 1) * (bins + 2) + x + 1 } else { place + 1 };
            if let Some(variance) = variances.get_mut(cell) {
                *variance = f64::from(square);
            }
        }
        Some(variances)
    }
    /// Sets the sums over the bins, or those stored while filling.
    fn sums(&self, members: &mut Vec<(&'static str, Value)>) {
        let (across, up) = self.shape();
        let mut sums = [0.0f64; 7];
        let variances = self.variances();
        for y in 0..up {
            let at =
                (self.axes.len() == 2).then(|| self.axes.get(1)).flatten().map_or(0.0, |axis| axis.center(y));
            for x in 0..across {
                let (w, center) = (self.inner(x, y), self.axes.first().map_or(0.0, |axis| axis.center(x)));
                let cell = if self.axes.len() == 2 { (y + 1) * (across + 2) + x + 1 } else { x + 1 };
                let square = variances.as_ref().and_then(|all| all.get(cell)).map_or(w, |&value| value);
                for (sum, term) in sums.iter_mut().zip([
                    w,
                    square,
                    w * center,
                    w * center * center,
                    w * at,
                    w * at * at,
                    w * center * at,
                ]) {
                    *sum += term;
                }
            }
        }
        let [mut w, mut w2, mut wx, mut wx2, wy, wy2, wxy] = sums;
        if let Some(kept) = self.statistics {
            [w, w2, wx, wx2] = kept;
        }
        members.extend([
            ("fTsumw", Value::Float(w)),
            ("fTsumw2", Value::Float(w2)),
            ("fTsumwx", Value::Float(wx)),
            ("fTsumwx2", Value::Float(wx2)),
        ]);
        if self.axes.len() == 2 {
            members.extend([
                ("fScalefactor", Value::Float(1.0)),
                ("fTsumwy", Value::Float(wy)),
                ("fTsumwy2", Value::Float(wy2)),
                ("fTsumwxy", Value::Float(wxy)),
            ]);
        }
    }
    fn profile_members(&self, profile: &ProfileSums, members: &mut Vec<(&'static str, Value)>) {
        let bins = self.contents.len();
        let (mut weights, mut squares) = (vec![0.0; bins], vec![0.0; bins]);
        let mut sums = [0.0f64; 6];
        let inner = profile.weights.iter().zip(&self.squares).zip(self.contents.iter().skip(1));
        for (place, ((&w, &square), &wy)) in inner.enumerate() {
            let (sum, total) = (f64::from(w), f64::from(wy));
            let mut of_squares = f64::from(square);
            if profile.deviations && sum != 0.0 {
                of_squares += total * total / sum;
            }
            // HBOOK computes in single precision. Without a spread it takes the square root of the content.
            let spread = if profile.deviations { square / w } else { square / w - (wy / w) * (wy / w) };
            if spread == 0.0 && w >= 1.0 && profile.spread != Spread::Integer {
                of_squares = total * total / sum + total.abs() * sum;
            } else if spread == 0.0 && sum != 0.0 {
                of_squares = total * total / sum;
            }
            for (cells, value) in [(&mut weights, sum), (&mut squares, of_squares)] {
                if let Some(cell) = cells.get_mut(place + 1) {
                    *cell = value;
                }
            }
            let center = self.axes.first().map_or(0.0, |axis| axis.center(place));
            let terms = [sum, sum, sum * center, sum * center * center, total, of_squares];
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += term;
            }
        }
        let contents: Vec<f64> = self.contents.iter().map(|&value| f64::from(value)).collect();
        let mode = match profile.spread {
            Spread::Mean => 0,
            Spread::Spread => 1,
            Spread::Integer => 2,
        };
        let limit = |value: Option<f32>| Value::Float(value.map_or(0.0, f64::from));
        members.extend([
            ("fMinimum", Value::Float(UNBOUND)),
            ("fMaximum", Value::Float(UNBOUND)),
            ("TArrayD", doubles(&contents)),
            ("fSumw2", doubles(&squares)),
            ("fBinEntries", doubles(&weights)),
            ("fErrorMode", Value::Int(mode)),
            ("fYmin", limit(self.limits.0)),
            ("fYmax", limit(self.limits.1)),
        ]);
        let names = ["fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2", "fTsumwy", "fTsumwy2"];
        members.extend(names.into_iter().zip(sums).map(|(name, sum)| (name, Value::Float(sum))));
    }
    /// Returns the function as a graph, and projections, slices and bands as histograms.
    fn attached(&self) -> Vec<Object> {
        let mut attached: Vec<Object> = self.parts.iter().map(|(name, part)| part.object(name)).collect();
        if let (Some((first, last, values)), Some(axis)) = (&self.function, self.axes.first()) {
            let first = usize::try_from(*first).unwrap_or(0).saturating_sub(1);
            let count = usize::try_from(*last).unwrap_or(0).saturating_sub(first).min(values.len());
            let x: Vec<f64> = (first..first + count).map(|bin| axis.center(bin)).collect();
            let y: Vec<f64> = values.iter().take(count).map(|&value| f64::from(value)).collect();
            let members = vec![
                ("fName", text("FUNC")),
                ("fTitle", text(&self.title)),
                ("fNpoints", Value::Int(count as i64)),
                ("fX", doubles(&x)),
                ("fY", doubles(&y)),
                ("fMinimum", Value::Float(UNBOUND)),
                ("fMaximum", Value::Float(UNBOUND)),
            ];
            attached.push(object("TGraph", members));
        }
        attached
    }
}
