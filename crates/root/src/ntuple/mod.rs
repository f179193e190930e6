//! RNTuples: columns in clusters of pages, described by envelopes.
//!
//! ```text
//!   key ─▶ anchor ─▶ header: fields, columns          footer: more fields, cluster groups
//!                        │                                        │
//!                        ▼                                        ▼
//!                    structure of a field              page list of a group: clusters, pages
//!                        └──────────────┬─────────────────────────┘
//!                                       ▼
//!                         plan: lanes, stage by stage ─▶ pages ─▶ encoding ─▶ column
//! ```
//!
//! * [`anchor`], [`envelope`], [`schema`] and [`pages`] parse the description of the data.
//! * [`structure`] lists the columns that make up a field's values.
//! * [`plan`] selects the pages to read for some entries.
//! * [`encoding`] decodes a page to numbers.

pub mod anchor;
mod assembly;
mod decode;
pub mod encoding;
pub mod envelope;
pub mod listing;
pub mod pages;
pub mod plan;
mod salvage;
pub mod schema;
pub mod structure;
mod table;
pub mod verify;
pub mod writer;

pub use salvage::salvage;
pub use table::{AttributeSet, ClusterPages, NTuple};
