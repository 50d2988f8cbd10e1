//! The enums over all request and response bodies.

use crate::message::Message;
use crate::messages::*;
use crate::registry::ApiKey;
use crate::{DecodeError, EncodeError, Reader, Writer};

include!(concat!(env!("OUT_DIR"), "/body.rs"));
