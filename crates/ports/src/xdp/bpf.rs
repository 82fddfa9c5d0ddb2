//! The XDP program and its maps, through `bpf(2)` alone: no libbpf, no compiler.
//!
//! The program passes each frame of queue 0 to our socket. What finds none (another queue, or no socket yet) is
//! dropped and counted, so that nothing goes missing in silence and the kernel's stack answers nothing.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long};

/// Commands of `bpf(2)`.
const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_LOOKUP_ELEM: c_int = 1;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_PROG_TEST_RUN: c_int = 10;
const BPF_LINK_CREATE: c_int = 28;

const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
/// The attach type of XDP programs.
const BPF_XDP: u32 = 37;
/// The program takes frames that lie in more than one buffer.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// In the driver, not in the stack behind it.
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The frames of a test run are real ones: they go where the program sends them.
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

const XDP_DROP: i32 = 1;
const XDP_REDIRECT: i32 = 4;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

/// One instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

pub(crate) const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: if cfg!(target_endian = "little") {
            from << 4 | to
        } else {
            to << 4 | from
        },
        offset,
        immediate,
    }
}

/// Loads the address of a map, or of the first value of an array.
pub(crate) const fn load_map(to: u8, map: RawFd, value: bool) -> [Instruction; 2] {
    const LD_IMM64: u8 = 0x18;
    const PSEUDO_MAP_FD: u8 = 1;
    const PSEUDO_MAP_VALUE: u8 = 2;
    let kind = if value { PSEUDO_MAP_VALUE } else { PSEUDO_MAP_FD };
    [
        instruction(LD_IMM64, to, kind, 0, map),
        instruction(0, 0, 0, 0, 0),
    ]
}

/// `if (redirect_map(sockets, rx_queue_index, DROP) == REDIRECT) return REDIRECT; misses[0] += 1; return DROP`
fn instructions(sockets: RawFd, misses: RawFd) -> [Instruction; 12] {
    const LOAD_W: u8 = 0x61;
    const MOV_K: u8 = 0xb7;
    const JEQ_K: u8 = 0x15;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const ATOMIC_DW: u8 = 0xdb;
    let [sockets_low, sockets_high] = load_map(1, sockets, false);
    let [misses_low, misses_high] = load_map(1, misses, true);
    [
        instruction(LOAD_W, 2, 1, RX_QUEUE_INDEX, 0),
        sockets_low,
        sockets_high,
        instruction(MOV_K, 3, 0, 0, XDP_DROP),
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(JEQ_K, 0, 0, 5, XDP_REDIRECT),
        misses_low,
        misses_high,
        instruction(MOV_K, 2, 0, 0, 1),
        // The immediate 0 of an atomic operation is "add".
        instruction(ATOMIC_DW, 1, 2, 0, 0),
        instruction(MOV_K, 0, 0, 0, XDP_DROP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// A program that is loaded, and its maps.
#[derive(Debug)]
pub(super) struct Program {
    program: OwnedFd,
    sockets: OwnedFd,
    misses: OwnedFd,
}

impl Program {
    /// Loads the program. Takes CAP_BPF and CAP_NET_ADMIN, outside user namespaces.
    pub(super) fn load() -> io::Result<Program> {
        let sockets = create_map(BPF_MAP_TYPE_XSKMAP, size_of::<u32>() as u32)?;
        let misses = create_map(BPF_MAP_TYPE_ARRAY, size_of::<u64>() as u32)?;
        let program = load(
            &instructions(sockets.as_raw_fd(), misses.as_raw_fd()),
            b"xoff_port",
        )?;
        Ok(Program {
            program,
            sockets,
            misses,
        })
    }

    /// Attaches the program to a device, in its driver. It is detached when what is returned is closed, however the
    /// process ends.
    pub(super) fn attach(&self, device_index: u32) -> io::Result<OwnedFd> {
        attach(&self.program, device_index)
    }

    /// From now on frames of queue 0 go to this socket.
    pub(super) fn serve(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (key, value) = (0u32, socket.as_raw_fd() as u32);
        let mut element = Element::new(&self.sockets, &raw const key, (&raw const value) as u64);
        // SAFETY: key and value are live and as long as the map's.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut element).map(drop) }
    }

    /// Frames that found no socket, since the program was loaded.
    pub(super) fn misses(&self) -> io::Result<u64> {
        let (key, mut value) = (0u32, 0u64);
        let mut element = Element::new(&self.misses, &raw const key, (&raw mut value) as u64);
        // SAFETY: key and value are live and as long as the map's; the value is borrowed by nobody.
        unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut element)? };
        Ok(value)
    }
}

/// Loads an XDP program under a name of at most 15 octets. Takes CAP_BPF and CAP_NET_ADMIN, outside user namespaces.
pub(crate) fn load(instructions: &[Instruction], name: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        device_index: u32,
        expected_attach_type: u32,
    }
    let mut load = Load {
        program_type: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: BPF_F_XDP_HAS_FRAGS,
        name: [0; 16],
        device_index: 0,
        expected_attach_type: BPF_XDP,
    };
    for (to, from) in load.name[..15].iter_mut().zip(name) {
        *to = *from;
    }
    // SAFETY: instructions and licence are live for the call, and the count is that of the instructions.
    unsafe { bpf_fd(BPF_PROG_LOAD, &mut load) }
}

/// Attaches a program to a device, in its driver. It is detached when what is returned is closed.
pub(crate) fn attach(program: &OwnedFd, device_index: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        program: u32,
        device_index: u32,
        attach_type: u32,
        flags: u32,
    }
    let mut create = Create {
        program: program.as_raw_fd() as u32,
        device_index,
        attach_type: BPF_XDP,
        flags: XDP_FLAGS_DRV_MODE,
    };
    // SAFETY: this command has no pointers.
    unsafe { bpf_fd(BPF_LINK_CREATE, &mut create) }
}

/// Has the kernel make `count` real frames of these octets and run the program on each, which sends them where they are to go. Takes frames
/// of up to about 3.4 KB (a page without what the kernel needs of it).
pub(crate) fn run_live(program: &OwnedFd, frame: &[u8], count: u32) -> io::Result<()> {
    #[repr(C)]
    struct TestRun {
        program: u32,
        returned: u32,
        data_in_bytes: u32,
        data_out_bytes: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context_in_bytes: u32,
        context_out_bytes: u32,
        context_in: u64,
        context_out: u64,
        flags: u32,
        cpu: u32,
        batch: u32,
        reserved: u32,
    }
    let mut run = TestRun {
        program: program.as_raw_fd() as u32,
        returned: 0,
        data_in_bytes: frame.len() as u32,
        data_out_bytes: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat: count,
        duration: 0,
        context_in_bytes: 0,
        context_out_bytes: 0,
        context_in: 0,
        context_out: 0,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        cpu: 0,
        batch: 0,
        reserved: 0,
    };
    // SAFETY: the frame is live for the call and as long as told; the kernel reads it and writes nothing but `run`.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut run).map(drop) }
}

/// An array of one number, which a program counts in.
pub(crate) fn create_counter() -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_ARRAY, size_of::<u64>() as u32)
}

/// Arguments of the commands on one element of a map.
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Element {
    fn new(map: &OwnedFd, key: *const u32, value: u64) -> Element {
        Element {
            map: map.as_raw_fd() as u32,
            padding: 0,
            key: key as u64,
            value,
            flags: 0,
        }
    }
}

/// A map of one element.
fn create_map(map_type: u32, value_bytes: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let mut create = Create {
        map_type,
        key_bytes: size_of::<u32>() as u32,
        value_bytes,
        entries: 1,
        flags: 0,
    };
    // SAFETY: this command has no pointers.
    unsafe { bpf_fd(BPF_MAP_CREATE, &mut create) }
}

/// A command that gives a descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn bpf_fd<T>(command: c_int, arguments: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    let fd = unsafe { bpf(command, arguments)? };
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// # Safety
/// `T` begins like the kernel's structure of this command and has no padding, and addresses in it are those of live
/// memory of the length that the command has for them.
unsafe fn bpf<T>(command: c_int, arguments: &mut T) -> io::Result<c_long> {
    let at = std::ptr::from_mut(arguments);
    // SAFETY: the arguments are borrowed exclusively, and their length is told; the rest is the caller's promise.
    match unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_kernels_form() {
        assert_eq!(size_of::<Instruction>(), 8);
        let program = instructions(7, 9);
        let load = program[0];
        assert_eq!((load.code, load.offset), (0x61, 16));
        assert_eq!((program[1].immediate, program[6].immediate), (7, 9));
        // The jump leads to the last instruction.
        assert_eq!(5 + 1 + program[5].offset as usize, program.len() - 1);
    }
}
