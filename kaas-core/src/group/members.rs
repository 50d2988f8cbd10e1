//! The members of a group, and what must be known about all of them without looking at each.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::member::{Member, Protocols};
use super::options::millis;

/// The members by id.
pub(super) struct Members<T> {
    by_id: BTreeMap<String, Member<T>>,
    /// Group instance id to member id.
    statics: HashMap<String, String>,
    /// How many members support a protocol.
    supported: HashMap<String, usize>,
    awaiting_join: usize,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), statics: HashMap::new(), supported: HashMap::new(), awaiting_join: 0 }
    }
}

impl<T> Members<T> {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn get(&self, member_id: &str) -> Option<&Member<T>> {
        self.by_id.get(member_id)
    }

    pub(super) fn contains(&self, member_id: &str) -> bool {
        self.by_id.contains_key(member_id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Member<T>)> {
        self.by_id.iter().map(|(id, member)| (id.as_str(), member))
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.by_id.keys().cloned().collect()
    }

    pub(super) fn first_id(&self) -> Option<&str> {
        self.by_id.keys().next().map(String::as_str)
    }

    /// The member id that goes by a group instance id.
    pub(super) fn of_instance(&self, instance_id: &str) -> Option<&str> {
        self.statics.get(instance_id).map(String::as_str)
    }

    /// Members whose JoinGroup waits.
    pub(super) fn awaiting_join(&self) -> usize {
        self.awaiting_join
    }

    /// The longest that a member wants others to wait for it.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        millis(self.by_id.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0).into())
    }

    pub(super) fn insert(&mut self, member_id: String, member: Member<T>) {
        self.remove(&member_id);
        if let Some(instance_id) = &member.instance_id {
            self.statics.insert(instance_id.clone(), member_id.clone());
        }
        count(&mut self.supported, &member.protocols);
        self.awaiting_join += usize::from(member.join.is_some());
        self.by_id.insert(member_id, member);
    }

    pub(super) fn remove(&mut self, member_id: &str) -> Option<Member<T>> {
        let member = self.by_id.remove(member_id)?;
        if let Some(instance_id) = &member.instance_id {
            self.statics.remove(instance_id);
        }
        discount(&mut self.supported, &member.protocols);
        self.awaiting_join -= usize::from(member.join.is_some());
        Some(member)
    }

    /// Lets a JoinGroup wait. The one that waited already, if any, comes back.
    pub(super) fn park_join(&mut self, member_id: &str, token: T) -> Option<T> {
        let member = self.by_id.get_mut(member_id)?;
        let replaced = member.join.replace(token);
        self.awaiting_join += usize::from(replaced.is_none());
        replaced
    }

    pub(super) fn take_join(&mut self, member_id: &str) -> Option<T> {
        let token = self.by_id.get_mut(member_id)?.join.take()?;
        self.awaiting_join -= 1;
        Some(token)
    }

    /// What a member says about itself when it joins again.
    pub(super) fn update(
        &mut self,
        member_id: &str,
        protocols: Protocols,
        rebalance_ms: i32,
        session_ms: i32,
    ) {
        if let Some(member) = self.by_id.get_mut(member_id) {
            discount(&mut self.supported, &member.protocols);
            count(&mut self.supported, &protocols);
            member.protocols = protocols;
            member.rebalance_timeout_ms = rebalance_ms;
            member.session_timeout_ms = session_ms;
        }
    }

    /// What may be changed without counting: assignments, the waiting SyncGroup, timeouts.
    pub(super) fn adjust(&mut self, member_id: &str, change: impl FnOnce(&mut Member<T>)) {
        if let Some(member) = self.by_id.get_mut(member_id) {
            let (join, protocols) = (member.join.is_some(), member.protocols.len());
            change(member);
            debug_assert!(join == member.join.is_some() && protocols == member.protocols.len());
        }
    }

    /// [`adjust`](Self::adjust) for all.
    pub(super) fn adjust_all(&mut self, mut change: impl FnMut(&str, &mut Member<T>)) {
        self.by_id.iter_mut().for_each(|(id, member)| change(id, member));
    }

    /// Whether a caller could be a member with these protocols: one of them is supported by all.
    pub(super) fn have_in_common(&self, protocols: &Protocols) -> bool {
        protocols.iter().any(|(name, _)| self.is_common(name))
    }

    /// The protocol that most members like best among those that all support.
    pub(super) fn elect_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.by_id.values() {
            let (vote, _) = member.protocols.iter().find(|(name, _)| self.is_common(name))?;
            *votes.entry(vote).or_default() += 1;
        }
        votes.into_iter().max_by_key(|&(_, votes)| votes).map(|(name, _)| name.to_owned())
    }

    fn is_common(&self, protocol: &str) -> bool {
        self.supported.get(protocol).copied().unwrap_or(0) == self.by_id.len()
    }
}

fn count(supported: &mut HashMap<String, usize>, protocols: &Protocols) {
    for (name, _) in protocols {
        *supported.entry(name.clone()).or_default() += 1;
    }
}

fn discount(supported: &mut HashMap<String, usize>, protocols: &Protocols) {
    for (name, _) in protocols {
        if let Some(members) = supported.get_mut(name) {
            *members -= 1;
            if *members == 0 {
                supported.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn member(protocols: &[&str]) -> Member<u32> {
        Member {
            instance_id: None,
            client_id: String::new(),
            client_host: String::new(),
            rebalance_timeout_ms: 0,
            session_timeout_ms: 0,
            protocols: protocols.iter().map(|name| ((*name).to_owned(), Bytes::new())).collect(),
            assignment: Bytes::new(),
            join: None,
            sync: None,
            is_new: false,
            expires: None,
        }
    }

    fn names(protocols: &[&str]) -> Protocols {
        member(protocols).protocols
    }

    #[test]
    fn the_protocol_is_one_that_all_support_and_most_like_best() {
        let mut members = Members::default();
        members.insert("a".to_owned(), member(&["sticky", "range"]));
        assert_eq!(members.elect_protocol().as_deref(), Some("sticky"));
        members.insert("b".to_owned(), member(&["range", "sticky"]));
        members.insert("c".to_owned(), member(&["own", "range", "sticky"]));
        assert_eq!(members.elect_protocol().as_deref(), Some("range"));
        members.insert("d".to_owned(), member(&["sticky"]));
        assert_eq!(members.elect_protocol().as_deref(), Some("sticky"));
        assert!(members.have_in_common(&names(&["x", "sticky"])));
        assert!(!members.have_in_common(&names(&["range", "own"])));
        members.remove("d");
        assert!(members.have_in_common(&names(&["range"])));
    }

    #[test]
    fn without_members_anything_is_common() {
        let members = Members::<u32>::default();
        assert!(members.have_in_common(&names(&["range"])));
        assert!(!members.have_in_common(&names(&[])));
        assert_eq!(members.elect_protocol(), None);
    }

    #[test]
    fn those_who_wait_are_counted() {
        let mut members = Members::default();
        members.insert("a".to_owned(), member(&["range"]));
        assert_eq!(members.park_join("a", 1), None);
        assert_eq!(members.park_join("a", 2), Some(1));
        assert_eq!(members.awaiting_join(), 1);
        assert_eq!(members.take_join("a"), Some(2));
        assert_eq!(members.take_join("a"), None);
        members.park_join("a", 3);
        assert!(members.remove("a").is_some_and(|member| member.join == Some(3)));
        assert_eq!(members.awaiting_join(), 0);
    }
}
