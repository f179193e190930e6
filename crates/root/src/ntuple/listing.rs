//! The list of fields: it omits wrapper fields and places the members of base classes among the own members.

use super::schema::{Field, Role, Schema};
use super::structure::is_base;
use crate::error::Result;
use crate::wire::grow;
use std::collections::HashMap;

/// A field of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its ID in the schema.
    pub field: usize,
    /// Name within its parent.
    pub name: String,
    /// Index in the list of the parent field.
    pub parent: Option<usize>,
    /// Indices of the child fields.
    pub children: Vec<usize>,
}

/// Lists all fields depth first, each before its children.
pub fn list(schema: &Schema) -> Result<Vec<Listed>> {
    let mut listed = grow::with_room(schema.fields.len())?;
    for &top in &schema.top {
        let name = schema.fields.get(top).map(|field| field.name.clone()).unwrap_or_default();
        add(schema, top, name, None, &mut listed);
    }
    Ok(listed)
}

fn add(schema: &Schema, field: usize, name: String, parent: Option<usize>, to: &mut Vec<Listed>) {
    let place = to.len();
    to.push(Listed { field, name, parent, children: Vec::new() });
    if let Some(parent) = parent.and_then(|parent| to.get_mut(parent)) {
        parent.children.push(place);
    }
    for (id, name) in parts(schema, field) {
        add(schema, id, name, Some(place), to);
    }
}

/// Returns the children of a field and their names.
fn parts(schema: &Schema, id: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    collect(schema, id, None, &mut found);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    found.iter().for_each(|(_, name, _)| *counts.entry(name).or_default() += 1);
    let name = |(id, name, base): &(usize, String, Option<&str>)| match base {
        Some(base) if counts.get(name.as_str()).is_some_and(|&n| n > 1) => (*id, format!("{base}::{name}")),
        _ => (*id, name.clone()),
    };
    found.iter().map(name).collect()
}

fn collect<'s>(
    schema: &'s Schema,
    id: usize,
    base: Option<&'s str>,
    to: &mut Vec<(usize, String, Option<&'s str>)>,
) {
    let Some(field) = schema.fields.get(id) else { return };
    // The types of a variant cannot be read one by one.
    if field.role == Role::Variant {
        return;
    }
    let children: Vec<(usize, &Field)> =
        field.children.iter().filter_map(|&id| Some((id, schema.fields.get(id)?))).collect();
    let tuple = field.role == Role::Record && is_numbered(&children);
    for (id, child) in children {
        match child.name.strip_prefix('_') {
            Some(number) if tuple => to.push((id, number.to_owned(), base)),
            Some(number) if field.role != Role::Record && number.bytes().all(|b| b.is_ascii_digit()) => {
                collect(schema, id, base, to);
            }
            _ if is_base(child) => {
                // Equal names of the base's own bases are already distinct there.
                for (id, name) in parts(schema, id) {
                    to.push((id, name, Some(&child.typename)));
                }
            }
            _ => to.push((id, child.name.clone(), base)),
        }
    }
}

/// Whether subfields have the names `_0`, `_1`, ...
pub fn is_numbered(children: &[(usize, &Field)]) -> bool {
    children.iter().enumerate().all(|(i, (_, child))| child.name.strip_prefix('_') == Some(&i.to_string()))
}
