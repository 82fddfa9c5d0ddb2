//! Survives the access to a mapped file that another program has shortened.
//!
//! The kernel sends SIGBUS to a thread that accesses a mapped page behind the end of its file. Without a handler, the
//! program ends. No check before an access helps: the file can become shorter after the check. The handler of this
//! module replaces the mapping by private memory with zeros, and marks it as lost. The access then continues, and the
//! owner of the mapping finds the mark afterwards.

use std::ffi::{c_int, c_void};
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

/// Largest number of guarded regions at a time.
const REGIONS_MAX: usize = 64;
/// Value of [`RegionEntry::start`] while the entry is being filled. No mapping starts there.
const RESERVED: usize = 1;

/// All guarded regions. A signal handler must not take a lock, so the entries consist of atomic numbers.
static REGIONS: [RegionEntry; REGIONS_MAX] = [const { RegionEntry::new() }; REGIONS_MAX];
/// What SIGBUS did before this module changed it.
static PREVIOUS_ACTION: OnceLock<SigAction> = OnceLock::new();

#[derive(Debug)]
struct RegionEntry {
    /// Address of the region. 0: the entry is free.
    start: AtomicUsize,
    /// Length of the region in bytes.
    len: AtomicUsize,
    is_lost: AtomicBool,
}

impl RegionEntry {
    const fn new() -> RegionEntry {
        RegionEntry {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
        }
    }

    fn reserve(&self) -> bool {
        self.start
            .compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Replaces the region by private memory if it contains `address`. Returns whether it did. The function may run in
    /// a signal handler.
    fn replace_around(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Acquire);
        // The entry of a region does not change while a thread accesses the region. Any other entry can.
        let is_stable = self.start.load(Ordering::Acquire) == start;
        if !is_stable || start <= RESERVED || !(start..start + len).contains(&address) {
            return false;
        }
        let (Some(start), Some(len)) = (NonZeroUsize::new(start), NonZeroUsize::new(len)) else {
            return false;
        };
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED;
        // SAFETY: the owner of the region has guaranteed that it is one mapping, which exists as long as the entry.
        // All references to it see other values, as after a write by the other program.
        let is_replaced = unsafe { mmap_anonymous(Some(start), len, access, flags) }.is_ok();
        if is_replaced {
            self.is_lost.store(true, Ordering::Release);
        }
        is_replaced
    }
}

/// A mapping whose accesses survive that its file becomes shorter.
#[derive(Debug)]
pub(crate) struct GuardedRegion(&'static RegionEntry);

impl GuardedRegion {
    /// Guards a mapping. The first call changes the action of SIGBUS for the whole process. SIGBUS at other addresses
    /// still has its previous action.
    ///
    /// # Errors
    /// Too many regions are guarded, or the system refuses the signal handler.
    ///
    /// # Safety
    /// The region is exactly one mapping, and exists until this value is dropped.
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> io::Result<GuardedRegion> {
        install_handler()?;
        let entry = REGIONS
            .iter()
            .find(|entry| entry.reserve())
            .ok_or_else(|| io::Error::other(format!("more than {REGIONS_MAX} files are mapped")))?;
        entry.is_lost.store(false, Ordering::Relaxed);
        entry.len.store(len, Ordering::Release);
        entry.start.store(start.as_ptr().addr(), Ordering::Release);
        Ok(GuardedRegion(entry))
    }

    /// Returns whether the region was replaced by private memory.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for GuardedRegion {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

/// Changes the action of SIGBUS, once.
fn install_handler() -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _guard = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if PREVIOUS_ACTION.get().is_some() {
        return Ok(());
    }
    // The alternate stack of the thread, if it has one: the previous action may depend on it.
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
    let action = SigAction::new(SigHandler::SigAction(handle_bus_error), flags, SigSet::empty());
    // SAFETY: the handler calls only functions that a signal handler may call.
    let previous = unsafe { sigaction(Signal::SIGBUS, &action)? };
    let _ = PREVIOUS_ACTION.set(previous);
    Ok(())
}

extern "C" fn handle_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    // A positive code is a fault. A program that sends the signal has another one.
    let is_fault = code > 0;
    if is_fault && REGIONS.iter().any(|entry| entry.replace_around(address)) {
        return;
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let previous = PREVIOUS_ACTION.get().unwrap_or(&default);
    // SAFETY: this action was in force before. After this function, a fault occurs again and gets it.
    let _ = unsafe { sigaction(Signal::SIGBUS, previous) };
    if !is_fault {
        let _ = raise(Signal::SIGBUS);
    }
}
