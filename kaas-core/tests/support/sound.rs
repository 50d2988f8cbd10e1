//! What every other test of the engine leaves to the audit: whatever happened to a volume, nothing on it is damaged.
#![allow(dead_code)]

use kaas_core::audit::{Finding, Severity, audit};
use kaas_core::volume::MemVolume;

/// The first damage that an audit finds. A volume that was never opened to the end has nothing to audit.
pub(crate) fn damage(volume: &MemVolume) -> Option<Finding> {
    let mut damage = None;
    let _ = audit(volume, &mut |finding| {
        if finding.severity == Severity::Damage && damage.is_none() {
            damage = Some(finding);
        }
    });
    damage
}
