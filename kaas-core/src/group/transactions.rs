//! Which groups of a slot wait for which transactions.

use std::collections::{BTreeSet, HashMap};

use crate::coordinator::Now;
use crate::log::{Expiry, Verifications};
use crate::{TxnProof, VerificationGuard};

/// How long a question to the coordinator of a transaction is remembered (`producer.id.expiration.ms`, by default).
const QUESTION_EXPIRATION_MS: i64 = 24 * 60 * 60 * 1_000;

/// The open transactions of a slot.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    groups: HashMap<i64, BTreeSet<String>>,
    verifications: Verifications,
}

impl Transactions {
    pub(super) fn ask(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        now: Now,
    ) -> Option<VerificationGuard> {
        if self.groups.contains_key(&producer_id) {
            return None;
        }
        let expiry = Expiry { now_ms: now.wall_ms, expiration_ms: QUESTION_EXPIRATION_MS };
        Some(self.verifications.ask(producer_id, producer_epoch, 0, expiry))
    }

    /// Whether offsets may be kept for a transaction: it has some already, or its coordinator said that it is open and nothing has
    /// ended it since.
    pub(super) fn may_commit(&self, producer_id: i64, proof: TxnProof) -> bool {
        self.groups.contains_key(&producer_id) || self.verifications.grant(producer_id, proof).may_begin
    }

    pub(super) fn began(&mut self, producer_id: i64, group: &str) {
        self.verifications.clear(producer_id);
        self.groups.entry(producer_id).or_default().insert(group.to_owned());
    }

    /// Forgets a transaction, and says which groups waited for it.
    pub(super) fn ended(&mut self, producer_id: i64) -> BTreeSet<String> {
        self.verifications.clear(producer_id);
        self.groups.remove(&producer_id).unwrap_or_default()
    }

    pub(super) fn groups(&self, producer_id: i64) -> impl Iterator<Item = &str> {
        self.groups.get(&producer_id).into_iter().flatten().map(String::as_str)
    }

    /// Forgets a group that waited for these producers.
    pub(super) fn forget(&mut self, group: &str, producers: impl Iterator<Item = i64>) {
        for producer_id in producers {
            if let Some(groups) = self.groups.get_mut(&producer_id) {
                groups.remove(group);
                if groups.is_empty() {
                    self.groups.remove(&producer_id);
                }
            }
        }
    }
}
