//! The kernel's store of a process, opened once and shared by both roles.

use causeway_netlink::{NetlinkStore, OpenError, Readiness, Snapshot};
use causeway_runtime::start::Context;

/// Opens the store of this process's network namespace and keeps it running under `context`.
///
/// # Errors
/// The kernel refuses the sockets.
pub fn open(context: &mut Context) -> Result<NetlinkStore, OpenError> {
    let (store, task) = NetlinkStore::open()?;
    context.tasks.spawn("netlink", task.run(context.tasks.stop()));
    context.readiness.add("kernel", check(&store));
    Ok(store)
}

/// Whether a store is complete and current, and why not.
pub fn check(store: &NetlinkStore) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let readiness = store.readiness();
    move || judge(&readiness.borrow())
}

/// The newest snapshot, if it is complete and current; else why not. From another one nothing may be concluded.
///
/// # Errors
/// Why the kernel's interfaces are not known.
pub fn current(store: &NetlinkStore) -> Result<Snapshot, String> {
    judge(&store.readiness().borrow())?;
    Ok(store.snapshot())
}

fn judge(readiness: &Readiness) -> Result<(), String> {
    match readiness {
        Readiness::Ready => Ok(()),
        Readiness::Loading => Err("the kernel's interfaces are still being read".to_owned()),
        Readiness::Failed { why } => Err(why.to_string()),
    }
}
