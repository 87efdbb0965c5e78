//! What an embedder may ask and change about classes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{ClassId, Nanos, Timestamp};

use crate::classes::{ClassError, ClassOptions, ClassStats, Classes, PolicySource};
use crate::options::SchedulerOptions;
use crate::policies::noop::Noop;
use crate::policies::sw::SwSettings;
use crate::policy::Policy;
use crate::scheduler::Scheduler;
use crate::sharing::{ClassShare, GroupId, Reserved, Share, ShareStats, SharingSettings};
use crate::table::State;

impl Scheduler {
    /// A scheduler that shares the store among classes, each with a policy of its own from `source`.
    ///
    /// However many front ends feed it, one such scheduler stands before one device: shares and
    /// limits hold for all of them together.
    ///
    /// # Panics
    /// If a number in `classes` is out of its range.
    pub fn with_classes(
        options: SchedulerOptions,
        classes: ClassOptions,
        source: PolicySource,
    ) -> Self {
        let mut classes = Classes::new(classes, source);
        let mut this = Self::new(options, Box::new(Noop::new()));
        this.queues = alloc::vec![classes.new_queue()];
        this.classes = Some(Box::new(classes));
        this
    }

    /// Whether it shares among classes.
    pub fn has_classes(&self) -> bool {
        self.classes.is_some()
    }

    /// Gives a class its share from now on, whatever it has queued or in flight. The class keeps
    /// its place until [`release_class`](Scheduler::release_class).
    pub fn configure_class(
        &mut self,
        now: Timestamp,
        class: ClassId,
        share: ClassShare,
    ) -> Result<(), ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        classes.configure(now, class, share, &mut self.queues)
    }

    /// Gives a group of classes its share from now on.
    pub fn configure_group(
        &mut self,
        now: Timestamp,
        group: GroupId,
        share: Share,
    ) -> Result<(), ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        Ok(classes.shares.configure_group(now, group, share)?)
    }

    /// Takes a class's share and its right to a policy of its own back: it is like any other that
    /// nobody mentioned, and forgotten once it is idle. Whether the class was known.
    pub fn release_class(&mut self, now: Timestamp, class: ClassId) -> Result<bool, ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        Ok(classes.release(now, class))
    }

    /// Takes a class's right to a policy of its own back. If that was all it kept its place for, it is
    /// released as by [`release_class`](Scheduler::release_class). Whether it was.
    pub fn release_policy(&mut self, now: Timestamp, class: ClassId) -> Result<bool, ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        let Some(index) = classes.place(class) else { return Ok(false) };
        let of = classes.of_mut(index);
        let had_policy = core::mem::replace(&mut of.has_policy, false);
        Ok(had_policy && !of.has_share && classes.release(now, class))
    }

    /// Takes a group's share back; its classes stay in it. Whether the group was known.
    pub fn release_group(&mut self, now: Timestamp, group: GroupId) -> Result<bool, ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        Ok(classes.shares.remove_group(now, group).is_some())
    }

    /// Changes the discipline, the cost model and the rest. What is used up of limits stays so.
    ///
    /// # Panics
    /// As [`Shares::new`](crate::sharing::Shares::new).
    pub fn switch_sharing(
        &mut self,
        now: Timestamp,
        sharing: SharingSettings,
    ) -> Result<(), ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        classes.shares.switch(now, sharing);
        let before = core::mem::replace(&mut classes.options.sharing, sharing);
        if before.discipline.sw() != sharing.discipline.sw() {
            self.switch_windows(now, sharing.discipline.sw());
        }
        Ok(())
    }

    /// Has every class let its requests in by other windows.
    fn switch_windows(&mut self, now: Timestamp, windows: Option<SwSettings>) {
        let mut ready: Vec<Vec<u32>> = alloc::vec![Vec::new(); self.queues.len()];
        for state in [State::InPolicy, State::InLane] {
            for slot in self.table.slots_in(state) {
                ready[usize::from(self.table.class_index(slot))].push(slot);
            }
        }
        for (index, mut slots) in ready.into_iter().enumerate() {
            slots.sort_unstable_by_key(|slot| self.table.seq(*slot));
            self.queues[index].set_windows(now, &mut self.table, windows, &slots);
            self.settle(now, index as u16);
        }
    }

    /// Puts another policy in charge of one class and returns the old one, empty. As
    /// [`switch_policy`](Scheduler::switch_policy) otherwise; turns, debts and limits are not touched.
    pub fn switch_class_policy(
        &mut self,
        now: Timestamp,
        class: ClassId,
        policy: Box<dyn Policy>,
    ) -> Result<Box<dyn Policy>, ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        let index = classes.reserve(now, class, &mut self.queues)?;
        classes.of_mut(index).has_policy = true;
        self.stats.switches += 1;
        let old = self.switch(now, index, policy);
        self.settle(now, index);
        Ok(old)
    }

    /// Puts a policy from `source` in charge of every class, those that come later included, and
    /// returns the old ones, empty: dropping a thousand takes time that an embedder may have elsewhere.
    pub fn switch_policies(
        &mut self,
        now: Timestamp,
        mut source: PolicySource,
    ) -> Result<Vec<Box<dyn Policy>>, ClassError> {
        let classes = self.classes.as_deref_mut().ok_or(ClassError::NoSharing)?;
        let indices: Vec<u16> = classes.indices().collect();
        self.stats.switches += 1;
        let mut old = Vec::with_capacity(indices.len());
        for index in indices {
            old.push(self.queues[usize::from(index)].switch(now, &self.table, source()));
            self.settle(now, index);
        }
        self.disown(|_| true);
        self.classes_mut().set_source(source);
        Ok(old)
    }

    /// Every class that is known, by number; [`OTHER_CLASS`](crate::OTHER_CLASS) comes last. None
    /// without sharing.
    pub fn classes(&self, now: Timestamp) -> impl Iterator<Item = ClassStats> + '_ {
        let classes = self.classes.as_deref();
        let indices = classes.into_iter().flat_map(Classes::indices);
        indices.filter_map(move |index| {
            Some(classes?.stats(now, index, &self.queues[usize::from(index)]))
        })
    }

    /// One class, if it is known.
    pub fn class(&self, now: Timestamp, class: ClassId) -> Option<ClassStats> {
        let classes = self.classes.as_deref()?;
        let index = classes.place(class)?;
        Some(classes.stats(now, index, &self.queues[usize::from(index)]))
    }

    /// What a group has had, if it is known.
    pub fn group(&self, now: Timestamp, group: GroupId) -> Option<ShareStats> {
        self.classes.as_deref()?.shares.group_stats(now, group)
    }

    /// For how long the class whose reservation is due first has been waiting for it; nothing without
    /// sharing.
    pub fn overdue(&self, now: Timestamp) -> Nanos {
        self.classes.as_deref().map_or(Nanos::ZERO, |classes| classes.shares.overdue(now))
    }

    /// What is promised of the device; nothing without sharing.
    pub fn reserved(&self) -> Reserved {
        let nothing = Reserved { total: 0, is_overcommitted: false };
        self.classes.as_deref().map_or(nothing, |classes| classes.shares.reserved())
    }
}
