//! The kaas storage engine.
