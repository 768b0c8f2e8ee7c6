//! Shared with the suite, which runs its tests: virtual hosts and databases, one request, the wait helper.
#![allow(dead_code, unused_imports, reason = "the suite uses all of it")]

#[path = "../suite/support/http.rs"]
pub mod http;
#[path = "../suite/support/servers.rs"]
pub mod servers;
#[path = "../suite/support/wait.rs"]
pub mod wait;
