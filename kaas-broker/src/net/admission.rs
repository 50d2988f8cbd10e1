//! How many connections there are, in all and from each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts connections against `max.connections` and `max.connections.per.ip`.
#[derive(Debug)]
pub struct Admission {
    total_max: usize,
    per_ip_max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_ip: HashMap<IpAddr, usize>,
}

/// A connection's place; dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    ip: IpAddr,
}

impl Admission {
    /// No connection yet.
    pub fn new(total_max: usize, per_ip_max: usize) -> Arc<Admission> {
        Arc::new(Admission { total_max, per_ip_max, counts: Mutex::default() })
    }

    /// Takes a place, unless a limit is reached.
    pub fn admit(self: &Arc<Self>, ip: IpAddr) -> Option<Place> {
        let mut counts = self.counts.lock();
        let from_ip = counts.by_ip.get(&ip).copied().unwrap_or(0);
        if counts.total >= self.total_max || from_ip >= self.per_ip_max {
            return None;
        }
        counts.total += 1;
        counts.by_ip.insert(ip, from_ip + 1);
        Some(Place { admission: Arc::clone(self), ip })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.admission.counts.lock();
        counts.total -= 1;
        if let Some(count) = counts.by_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.by_ip.remove(&self.ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_a_dropped_place_is_free_again() {
        let admission = Admission::new(3, 2);
        let (a, b) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let first = admission.admit(a).unwrap();
        let _second = admission.admit(a).unwrap();
        assert!(admission.admit(a).is_none());
        let _third = admission.admit(b).unwrap();
        assert!(admission.admit(b).is_none());
        drop(first);
        assert!(admission.admit(a).is_some());
        assert_eq!(admission.counts.lock().by_ip.len(), 2);
    }
}
