//! Stages: which pages can be read now, and which depend on the values of earlier pages.

use super::ahead::Ahead;
use super::run::{PageJob, Run};
use super::target::{Group, GroupValues, WORD};
use super::{Keeps, Readers, Reading};
use crate::array::pages::LargePages;
use crate::array::{Builder, Column, CommonOffsets, Number};
use crate::error::{Error, Result, Within};
use crate::table::{Ends, FieldPlan, Lane, LaneValues, ListOffsets, Table, Target};
use crate::wire::grow::{self, Grow};
use rayon::ThreadPool;
use rayon::prelude::*;
use sapwood_io::lock;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Maximum bytes of values, for each byte in the files, whose memory is provided before they are decoded. A corrupt
/// file may claim any size.
const LIKELY: u64 = 64;

/// Memory in bytes for planning a page, with its column and its cluster.
const PLANNED: usize = 160;

/// The state of a field of a part.
struct PlanState<'a> {
    part: usize,
    column: usize,
    field: usize,
    /// `None` while the plan is being asked.
    plan: Option<Box<dyn FieldPlan<'a> + 'a>>,
    /// Values read for it.
    slots: Vec<Slot>,
    /// Number of lanes that wait for those of other parts.
    waiting: usize,
    done: bool,
}

/// A lane that was read.
#[derive(Clone, Copy)]
struct Slot {
    number: usize,
    group: usize,
    /// The stored column.
    column: usize,
    /// The first item, in the numbering of the stored column.
    item: u64,
}

/// A lane with its position in the read.
pub struct RunLane<'a> {
    pub part: usize,
    /// Index of the column in the result.
    pub column: usize,
    /// Destination of its values.
    pub group: LaneGroup,
    pub lane: Lane<'a>,
    pub table: &'a dyn Table,
    /// Size of the file in bytes.
    pub source_size: u64,
    plan: usize,
}

impl RunLane<'_> {
    /// The key that the lanes of all parts share.
    fn key(&self) -> (usize, usize) {
        (self.column, self.lane.slot)
    }
    /// Index of its group among the groups of this run.
    pub fn new_group(&self) -> usize {
        if let LaneGroup::New(group) = self.group { group } else { usize::MAX }
    }
    /// The first wanted item, in the numbering of the stored column.
    fn item(&self) -> u64 {
        self.lane.pages.first().map_or(0, |page| page.first + page.from as u64)
    }
}

/// Destination of the values of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneGroup {
    /// The group of this index in this run.
    New(usize),
    /// None: another lane has read the values.
    Known,
}

/// Identifies equal shared lanes. For each part: its index, the stored column, the first item, the number of items and
/// their use.
type SharedKey = Vec<(usize, usize, u64, u64, SharedAs)>;

#[derive(PartialEq, Eq, Hash)]
enum SharedAs {
    Numbers(Number, usize),
    Ends,
}

/// Identifies lanes of lists that are expected to be equal. For each part: its index, the stored column that counts the
/// lists, the first item and the number of items.
type CountedKey = Vec<(usize, usize, u64, u64)>;

/// The state of a read between its stages.
struct Stages<'a> {
    reading: &'a Reading<'a>,
    plans: Vec<PlanState<'a>>,
    groups: Vec<Group>,
    pending: Vec<RunLane<'a>>,
    shared: HashMap<SharedKey, usize>,
    ahead: Option<Mutex<Ahead>>,
}

/// The values available to a plan.
struct PlanValues<'r, 'a> {
    stages: &'r Stages<'a>,
    plan: usize,
}

impl PlanValues<'_, '_> {
    fn group(&self, slot: usize) -> Option<(&Group, usize)> {
        let state = self.stages.plans.get(self.plan)?;
        let found = state.slots.iter().find(|found| found.number == slot)?;
        Some((self.stages.groups.get(found.group)?, state.part))
    }
}

impl LaneValues for PlanValues<'_, '_> {
    fn direct(&self, slot: usize) -> Option<&[u8]> {
        let (group, part) = self.group(slot)?;
        let GroupValues::Direct { number, each, values } = &group.values else { return None };
        let (share, size) = (group.share(part)?, number.size() * each);
        values.as_slice().get(share.first * size..(share.first + share.items) * size)
    }
    fn ends(&self, slot: usize) -> Option<Ends<'_>> {
        let (group, part) = self.group(slot)?;
        let GroupValues::Ends { values } = &group.values else { return None };
        let share = group.share(part)?;
        let bytes = share.first * WORD..(share.first + share.items + 1) * WORD;
        Some(Ends { bytes: values.as_slice().get(bytes)?, items: share.range })
    }
    fn built(&self, slot: usize) -> Option<(&Builder, Range<usize>)> {
        let (group, part) = self.group(slot)?;
        let GroupValues::Built(values) = &group.values else { return None };
        let share = group.share(part)?;
        Some((values.as_builder(), share.first..share.first + share.items))
    }
    fn offsets(&self, slot: usize) -> Result<Option<ListOffsets<'_>>> {
        let Some((group, part)) = self.group(slot) else { return Ok(None) };
        let (GroupValues::Built(values), Some(share)) = (&group.values, group.share(part)) else {
            return Ok(None);
        };
        Ok(values.offsets()?.map(|offsets| (offsets, share.first..share.first + share.items)))
    }
    fn known(&self, column: usize, first: u64, items: usize) -> Option<(Number, &[u8])> {
        let part = self.stages.plans.get(self.plan)?.part;
        let of_part = self.stages.plans.iter().filter(|plan| plan.part == part);
        of_part.flat_map(|plan| &plan.slots).filter(|slot| slot.column == column).find_map(|slot| {
            let group = self.stages.groups.get(slot.group)?;
            let GroupValues::Direct { number, each: 1, values } = &group.values else { return None };
            let share = group.share(part)?;
            let skipped = usize::try_from(first.checked_sub(slot.item)?).ok()?;
            let end = skipped.checked_add(items).filter(|&end| end <= share.items)?;
            let size = number.size();
            let bytes = (share.first + skipped) * size..(share.first + end) * size;
            Some((*number, values.as_slice().get(bytes)?))
        })
    }
}

impl<'a> Reading<'a> {
    /// Reads all columns of parts that have one layout. `readers` are the readers of each part's fields.
    pub(super) fn columns(&'a self, readers: &[Readers]) -> Result<Vec<Column>> {
        let mut stages = Stages {
            reading: self,
            plans: Vec::new(),
            groups: Vec::new(),
            pending: Vec::new(),
            shared: HashMap::new(),
            ahead: self.ahead.then(Mutex::default),
        };
        stages.announce(0);
        for (p, (part, readers)) in self.parts.iter().zip(readers).enumerate() {
            // Fields that were filled without their table can have entries that the table does not count.
            let filled = part.fields.iter().filter_map(|&f| part.table.field(f)).map(|f| f.entries).min();
            let entries = part.table.entries().max(filled.unwrap_or(0));
            if part.start > part.stop || part.stop > entries {
                return Err(Error::argument(format!(
                    "entries {} to {} of a table that has {entries}",
                    part.start, part.stop
                )));
            }
            for (column, (&field, reader)) in part.fields.iter().zip(readers).enumerate() {
                let plan = reader.clone().plan(part.table, field, part.start, part.stop);
                let place = || part.table.place(field);
                let plan = Some(plan.within(place).map_err(|error| error.of_column(column))?);
                let slots = Vec::with_capacity(1);
                let state = PlanState { part: p, column, field, plan, slots, waiting: 0, done: false };
                stages.plans.try_push(state)?;
            }
        }
        let entries = self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.stop - part.start));
        let entries = entries.ok_or_else(|| Error::limit("too many entries"))?;
        let mut verified = false;
        loop {
            let more = stages.plan(false)?;
            let mut lanes = stages.ready(more)?;
            if lanes.is_empty() {
                break;
            }
            let start = stages.group(&mut lanes)?;
            if !verified {
                self.verify()?;
                verified = true;
            }
            stages.run(lanes, start)?;
        }
        if verified {
            // The bytes must come from the file as it was opened.
            self.verify()?;
        }
        stages.check()?;
        let Stages { plans, groups, .. } = stages;
        let mut groups: Vec<Option<Group>> = grow::collected(groups.into_iter().map(Some))?;
        let mut uses = grow::filled(groups.len(), 0usize)?;
        let fields = self.parts.first().map_or(0, |part| part.fields.len());
        let slot_of = |column: usize, slot: usize| {
            let of_column = plans.iter().skip(column).step_by(fields.max(1));
            of_column.flat_map(|plan| &plan.slots).find(|found| found.number == slot).map(|found| found.group)
        };
        for slot in plans.iter().flat_map(|plan| &plan.slots) {
            uses.iter_mut().skip(slot.group).take(1).for_each(|uses| *uses += 1);
        }
        let mut finished: HashMap<usize, Column> = HashMap::new();
        let mut columns = grow::with_room(fields)?;
        for (column, reader) in readers.first().into_iter().flatten().enumerate() {
            let mut take = |slot: usize| {
                let missing = || Error::corrupt("values that were not read");
                let group = slot_of(column, slot).ok_or_else(missing)?;
                if let Some(column) = finished.get(&group) {
                    return Ok(column.clone());
                }
                let values = groups.get_mut(group).and_then(Option::take).ok_or_else(missing)?.finish();
                if uses.get(group).is_some_and(|&uses| uses > 1) {
                    finished.insert(group, values.clone());
                }
                Ok(values)
            };
            let place = || {
                let part = self.parts.first();
                let field = part.and_then(|part| Some((part, *part.fields.get(column)?)));
                field.map_or_else(String::new, |(part, field)| part.table.place(field))
            };
            let finished = reader.finish(entries, &mut take, &|bytes| self.budget.take(bytes)).within(place);
            columns.push(finished.map_err(|error| error.of_column(column))?);
        }
        Ok(columns)
    }
}

impl<'a> Stages<'a> {
    /// Announces to storage that part `p` is read now and that the next one follows.
    fn announce(&self, p: usize) {
        announce(self.ahead.as_ref(), self.reading, p);
    }

    /// Asks unfinished plans for lanes, or all plans for the lanes of their checks. Returns whether any plan added
    /// lanes.
    fn plan(&mut self, check: bool) -> Result<bool> {
        let mut lanes = Vec::new();
        let mut more = false;
        for index in 0..self.plans.len() {
            let Some(state) = self.plans.get_mut(index) else { break };
            if (state.done || state.waiting > 0) && !check {
                continue;
            }
            let Some(mut plan) = state.plan.take() else { continue };
            let (part, column, field) = (state.part, state.column, state.field);
            let values = PlanValues { stages: self, plan: index };
            let added = if check { plan.check(&values, &mut lanes) } else { plan.stage(&values, &mut lanes) };
            let Some(of) = self.reading.parts.get(part) else { break };
            let pages: usize = lanes.iter().map(|lane| lane.pages.len()).sum();
            let added = added.and_then(|()| self.reading.budget.take((pages * PLANNED) as u64));
            added.within(|| of.table.place(field)).map_err(|error| error.of_column(column))?;
            let Some(state) = self.plans.get_mut(index) else { break };
            state.plan = Some(plan);
            state.done |= lanes.is_empty();
            state.waiting = lanes.len();
            more |= !lanes.is_empty();
            let (table, source_size) = (of.table, of.table.source().size());
            self.pending.room(lanes.len())?;
            self.pending.extend(lanes.drain(..).map(|lane| RunLane {
                part,
                column,
                group: LaneGroup::Known,
                lane,
                table,
                source_size,
                plan: index,
            }));
        }
        Ok(more)
    }

    /// Returns the lanes to read now, by column and slot: those of slots that all parts have provided. Returns all
    /// lanes if nothing else can proceed.
    fn ready(&mut self, more: bool) -> Result<Vec<RunLane<'a>>> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable_by_key(|lane| (lane.column, lane.lane.slot, lane.part));
        let (parts, fields) =
            (self.reading.parts.len(), self.reading.parts.first().map_or(1, |p| p.fields.len()));
        if parts == 1 || !more {
            return Ok(pending);
        }
        let mut complete = grow::with_room(pending.len())?;
        for group in pending.chunk_by(|a, b| a.key() == b.key()) {
            let column = group.first().map_or(0, |lane| lane.column);
            let mut plans = self.plans.iter().skip(column).step_by(fields.max(1));
            let all = plans.all(|plan| plan.done || group.iter().any(|lane| lane.part == plan.part));
            complete.resize(complete.len() + group.len(), all);
        }
        if !complete.contains(&true) || !complete.contains(&false) {
            return Ok(pending);
        }
        let mut ready = grow::with_room(pending.len())?;
        self.pending.room(pending.len())?;
        for (lane, complete) in pending.into_iter().zip(complete) {
            if complete { ready.push(lane) } else { self.pending.push(lane) }
        }
        Ok(ready)
    }

    /// Creates the targets of lanes and removes the lanes that others have read. Returns the index of the first new
    /// target.
    fn group(&mut self, lanes: &mut Vec<RunLane<'a>>) -> Result<usize> {
        let start = self.groups.len();
        let mut common = counted_alike(lanes);
        for group in lanes.chunk_by_mut(|a, b| a.key() == b.key()) {
            let number = self.groups.len();
            let shared = group.first().is_some_and(|lane| lane.lane.shared);
            let known = if shared { self.shared_group(group, number) } else { None };
            for lane in group.iter_mut() {
                lane.group = known.map_or(LaneGroup::New(number - start), |_| LaneGroup::Known);
                let Some(state) = self.plans.get_mut(lane.plan) else { continue };
                let (slot, column) = (lane.lane.slot, lane.lane.column);
                if state.slots.iter().any(|known| known.number == slot) {
                    return Err(Error::corrupt(format!("slot {slot} of a field is planned twice")));
                }
                state.slots.push(Slot {
                    number: slot,
                    group: known.unwrap_or(number),
                    column,
                    item: lane.item(),
                });
                state.waiting = state.waiting.saturating_sub(1);
            }
            if known.is_some() {
                continue;
            }
            let Some((first, more)) = group.split_first() else { continue };
            if let Some(other) = more.iter().find(|lane| !lane.lane.target.is_like(&first.lane.target)) {
                return Err(Error::argument("its type or place differs from that in the first file")
                    .within(self.place(other)));
            }
            let budget = self.reading.budget;
            let common = counted_key(group).and_then(|key| common.get_mut(&key));
            let target = Group::new(group, budget, common)
                .map_err(|error| error.within(self.place(first)).of_column(first.column));
            self.groups.try_push(target?)?;
        }
        lanes.retain(|lane| lane.group != LaneGroup::Known);
        // In file order, not by slots.
        lanes.sort_unstable_by_key(|lane| (lane.part, lane.column, lane.lane.slot));
        Ok(start)
    }

    fn place(&self, lane: &RunLane<'_>) -> String {
        lane.table.place(self.plans.get(lane.plan).map_or(0, |plan| plan.field))
    }

    /// Returns the group that already has the items of shared lanes. If there is none, records group `number` for them.
    fn shared_group(&mut self, group: &[RunLane<'a>], number: usize) -> Option<usize> {
        let key = |lane: &RunLane<'_>| {
            let items = lane.lane.pages.iter().map(|page| page.wanted() as u64).sum();
            let shared = match &lane.lane.target {
                Target::Direct { number, each, .. } => SharedAs::Numbers(*number, *each),
                Target::Ends { .. } => SharedAs::Ends,
                Target::Built(_) => return None,
            };
            Some((lane.part, lane.lane.column, lane.item(), items, shared))
        };
        let key: SharedKey = group.iter().map(key).collect::<Option<_>>()?;
        if let Some(&known) = self.shared.get(&key) {
            return Some(known);
        }
        self.shared.insert(key, number);
        None
    }

    /// Reads lanes into the targets from `start` on.
    fn run(&mut self, mut lanes: Vec<RunLane<'a>>, start: usize) -> Result<()> {
        let jobs = self.jobs(&mut lanes)?;
        let targets = self.groups.get_mut(start..).unwrap_or_default();
        request_large_pages(self.reading.pool, targets);
        Run::new(self.reading, self.ahead.as_ref(), &lanes, &jobs, targets)?.all()?;
        for (group, target) in targets.iter_mut().enumerate() {
            if let Err(error) = target.settle() {
                let lane = lanes.iter().find(|lane| lane.new_group() == group);
                let Some(lane) = lane else { return Err(error) };
                return Err(error.within(self.place(lane)).of_column(lane.column));
            }
        }
        Ok(())
    }

    /// Returns the pages in reading order: file order, unless a column's pages are stored in another order than its
    /// items.
    fn jobs(&self, lanes: &mut [RunLane<'a>]) -> Result<Vec<PageJob>> {
        let mut jobs = grow::with_room(lanes.iter().map(|lane| lane.lane.pages.len()).sum())?;
        for (lane, of) in lanes.iter_mut().enumerate() {
            let pages = std::mem::take(&mut of.lane.pages);
            jobs.extend(pages.into_iter().enumerate().map(|(index, page)| {
                let cached = match self.reading.keeps {
                    Keeps::Cache(reading) if page.range().length > 0 => {
                        let column = of.table.cached_column(of.lane.column);
                        of.table.page_cache().get((column, page.number), reading)
                    }
                    _ => None,
                };
                PageJob { part: of.part, lane, index, page, kept: cached }
            }));
        }
        let in_order = |jobs: &[PageJob]| {
            let mut next = vec![0usize; lanes.len()];
            jobs.iter().all(|job| {
                next.get_mut(job.lane).is_none_or(|next| std::mem::replace(next, job.index + 1) == job.index)
            })
        };
        jobs.sort_unstable_by_key(|job| (job.part, job.page.range().offset, job.lane, job.index));
        if !in_order(&jobs) {
            jobs.sort_unstable_by_key(|job| {
                (job.part, job.page.first, job.page.range().offset, job.lane, job.index)
            });
        }
        if !in_order(&jobs) {
            jobs.sort_unstable_by_key(|job| (job.part, job.lane, job.index));
        }
        Ok(jobs)
    }

    /// Runs the checks of all plans. Values that only a check needs may be missing.
    fn check(&mut self) -> Result<()> {
        while self.plan(true)? {
            let mut lanes = self.ready(false)?;
            let start = self.group(&mut lanes)?;
            if self.run(lanes, start).is_err() {
                for state in &mut self.plans {
                    state.slots.retain(|slot| slot.group < start);
                }
                self.groups.truncate(start);
                self.shared.retain(|_, group| *group < start);
            }
        }
        Ok(())
    }
}

/// Returns the key of the lanes of a group, if another column counts their lists.
fn counted_key(group: &[RunLane<'_>]) -> Option<CountedKey> {
    let key = |lane: &RunLane<'_>| {
        let items = lane.lane.pages.iter().map(|page| page.wanted() as u64).sum();
        Some((lane.part, lane.lane.counter?, lane.item(), items))
    };
    group.iter().map(key).collect()
}

/// Returns places for the common offsets of groups whose lists one column counts, if there are several.
fn counted_alike(lanes: &[RunLane<'_>]) -> HashMap<CountedKey, Option<Arc<CommonOffsets>>> {
    let mut found: HashMap<CountedKey, usize> = HashMap::new();
    for key in lanes.chunk_by(|a, b| a.key() == b.key()).filter_map(counted_key) {
        *found.entry(key).or_default() += 1;
    }
    found.into_iter().filter(|(_, groups)| *groups > 1).map(|(key, _)| (key, None)).collect()
}

/// Requests large pages for the values of targets, if these are quick.
fn request_large_pages(pool: &ThreadPool, targets: &mut [Group]) {
    let (mut filled, mut growing) = (Vec::new(), Vec::new());
    targets.iter_mut().for_each(|target| target.rooms(&mut filled, &mut growing));
    let stored = targets.iter().map(|target| target.stored).fold(0, u64::saturating_add);
    let bytes: u64 = filled.iter().map(|room| room.bytes() as u64).sum();
    if bytes > stored.saturating_mul(LIKELY) {
        return;
    }
    let large = LargePages::of(filled, &growing);
    if !large.addresses().is_empty() {
        pool.install(|| large.addresses().par_iter().for_each(|&page| large.request(page)));
    }
}

/// Announces to storage that part `p` is read now and that the next one follows.
pub fn announce(ahead: Option<&Mutex<Ahead>>, reading: &Reading<'_>, p: usize) {
    if let Some(ahead) = ahead {
        lock(ahead).go_on(reading.parts, p);
    }
}
