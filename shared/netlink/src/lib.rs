//! Live snapshots of Linux links, addresses, routes, rules, devlink ports and sysfs facts.
