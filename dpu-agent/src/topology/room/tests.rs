//! Tests of the room without servers.
