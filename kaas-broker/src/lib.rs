//! The kaas broker.
