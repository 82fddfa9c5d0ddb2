//! The XDP program of a port and its maps. The program and the maps are loaded through `bpf(2)`, without
//! libbpf and without a compiler.
//!
//! The program passes the frames of queue 0 to the socket of the port. The program drops and counts two kinds
//! of frames: frames of all queues except queue 0, and frames that arrive before the socket is set. Every
//! lost frame is therefore counted. The network stack of the kernel receives no frames.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long};

// Commands of `bpf(2)`.
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
/// Flag: the program accepts frames that occupy several buffers.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// Flag: the program runs in the driver, and not in the generic network stack.
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Flag: a test run sends real frames to the destinations that the program selects.
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

const XDP_DROP: i32 = 1;
const XDP_REDIRECT: i32 = 4;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

/// An instruction of a BPF program (`struct bpf_insn`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination register in the low four bits, and source register in the high four bits (on
    /// little-endian machines).
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Builds one instruction of a BPF program.
pub(crate) const fn instruction(
    code: u8,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
) -> Instruction {
    Instruction {
        code,
        registers: if cfg!(target_endian = "little") {
            source << 4 | destination
        } else {
            destination << 4 | source
        },
        offset,
        immediate,
    }
}

/// Builds the instructions that load the address of a map into a register. If `is_value` is true, they load
/// the address of the first value of an array map instead. `map` is the descriptor of the map.
pub(crate) const fn load_map_address(register: u8, map: RawFd, is_value: bool) -> [Instruction; 2] {
    const LD_IMM64: u8 = 0x18;
    const PSEUDO_MAP_FD: u8 = 1;
    const PSEUDO_MAP_VALUE: u8 = 2;
    let kind = if is_value { PSEUDO_MAP_VALUE } else { PSEUDO_MAP_FD };
    [
        instruction(LD_IMM64, register, kind, 0, map),
        instruction(0, 0, 0, 0, 0),
    ]
}

/// Returns the program of a port: `if (redirect_map(sockets, rx_queue_index, DROP) == REDIRECT) return
/// REDIRECT; missed[0] += 1; return DROP`
fn port_instructions(sockets: RawFd, missed: RawFd) -> [Instruction; 12] {
    const LOAD_W: u8 = 0x61;
    const MOV_K: u8 = 0xb7;
    const JEQ_K: u8 = 0x15;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const ATOMIC_DW: u8 = 0xdb;
    let [sockets_low, sockets_high] = load_map_address(1, sockets, false);
    let [missed_low, missed_high] = load_map_address(1, missed, true);
    [
        instruction(LOAD_W, 2, 1, RX_QUEUE_INDEX, 0),
        sockets_low,
        sockets_high,
        instruction(MOV_K, 3, 0, 0, XDP_DROP),
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(JEQ_K, 0, 0, 5, XDP_REDIRECT),
        missed_low,
        missed_high,
        instruction(MOV_K, 2, 0, 0, 1),
        // An atomic operation with immediate 0 is an addition.
        instruction(ATOMIC_DW, 1, 2, 0, 0),
        instruction(MOV_K, 0, 0, 0, XDP_DROP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// The loaded XDP program of a port, with its maps.
#[derive(Debug)]
pub(super) struct PortProgram {
    program: OwnedFd,
    sockets: OwnedFd,
    missed: OwnedFd,
}

impl PortProgram {
    /// Loads the program. The call needs CAP_BPF and CAP_NET_ADMIN in the initial user namespace.
    pub(super) fn load() -> io::Result<PortProgram> {
        let sockets = create_map(BPF_MAP_TYPE_XSKMAP, size_of::<u32>() as u32)?;
        let missed = create_map(BPF_MAP_TYPE_ARRAY, size_of::<u64>() as u32)?;
        let program = load_program(
            &port_instructions(sockets.as_raw_fd(), missed.as_raw_fd()),
            b"xoff_port",
        )?;
        Ok(PortProgram {
            program,
            sockets,
            missed,
        })
    }

    /// Attaches the program to the driver of a device. The program stays attached until the returned
    /// descriptor is closed. If the process crashes, the kernel closes the descriptor.
    pub(super) fn attach(&self, device_index: u32) -> io::Result<OwnedFd> {
        attach_program(&self.program, device_index)
    }

    /// Sets the socket that receives the frames of queue 0.
    pub(super) fn set_socket(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (key, value) = (0u32, socket.as_raw_fd() as u32);
        let mut arguments =
            MapElementArguments::new(&self.sockets, &raw const key, (&raw const value) as u64);
        // SAFETY: key and value are live and have the lengths that the map defines.
        unsafe { call_bpf(BPF_MAP_UPDATE_ELEM, &mut arguments).map(drop) }
    }

    /// Returns the number of frames that the program could not pass to a socket, since the program
    /// was loaded.
    pub(super) fn missed_frames(&self) -> io::Result<u64> {
        let (key, mut value) = (0u32, 0u64);
        let mut arguments = MapElementArguments::new(&self.missed, &raw const key, (&raw mut value) as u64);
        // SAFETY: key and value are live and have the lengths that the map defines. No reference to the
        // value exists.
        unsafe { call_bpf(BPF_MAP_LOOKUP_ELEM, &mut arguments)? };
        Ok(value)
    }
}

/// Loads an XDP program. `name` has at most 15 bytes, and further bytes are cut off. The call needs CAP_BPF
/// and CAP_NET_ADMIN in the initial user namespace.
pub(crate) fn load_program(instructions: &[Instruction], name: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct ProgramLoadArguments {
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
    let mut load = ProgramLoadArguments {
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
    // SAFETY: the instructions and the licence are live for the call. The count is the number of
    // the instructions.
    unsafe { call_bpf_for_fd(BPF_PROG_LOAD, &mut load) }
}

/// Attaches a program to the driver of a device. The program stays attached until the returned descriptor
/// is closed.
pub(crate) fn attach_program(program: &OwnedFd, device_index: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct BpfLinkArguments {
        program: u32,
        device_index: u32,
        attach_type: u32,
        flags: u32,
    }
    let mut create = BpfLinkArguments {
        program: program.as_raw_fd() as u32,
        device_index,
        attach_type: BPF_XDP,
        flags: XDP_FLAGS_DRV_MODE,
    };
    // SAFETY: the arguments of this command contain no pointers.
    unsafe { call_bpf_for_fd(BPF_LINK_CREATE, &mut create) }
}

/// Makes the kernel build `count` copies of a frame and run the program on each copy. The program selects
/// the destination of each copy. `frame` has at most about 3.4 KB, which is one page without the metadata of
/// the kernel.
pub(crate) fn send_live_frames(program: &OwnedFd, frame: &[u8], count: u32) -> io::Result<()> {
    #[repr(C)]
    struct TestRunArguments {
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
    let mut run = TestRunArguments {
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
    // SAFETY: the frame is live for the call and has the stated length. The kernel reads the frame and writes
    // only `run`.
    unsafe { call_bpf(BPF_PROG_TEST_RUN, &mut run).map(drop) }
}

/// Creates an array map with one integer. A program can increment this integer.
pub(crate) fn create_counter() -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_ARRAY, size_of::<u64>() as u32)
}

/// Arguments of a command for one element of a map.
#[repr(C)]
struct MapElementArguments {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl MapElementArguments {
    fn new(map: &OwnedFd, key: *const u32, value: u64) -> MapElementArguments {
        MapElementArguments {
            map: map.as_raw_fd() as u32,
            padding: 0,
            key: key as u64,
            value,
            flags: 0,
        }
    }
}

/// Creates a map with one element.
fn create_map(map_type: u32, value_bytes: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct MapArguments {
        map_type: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let mut create = MapArguments {
        map_type,
        key_bytes: size_of::<u32>() as u32,
        value_bytes,
        entries: 1,
        flags: 0,
    };
    // SAFETY: the arguments of this command contain no pointers.
    unsafe { call_bpf_for_fd(BPF_MAP_CREATE, &mut create) }
}

/// Calls `bpf(2)` with a command that returns a descriptor.
///
/// # Safety
/// Same as [`call_bpf`].
unsafe fn call_bpf_for_fd<T>(command: c_int, arguments: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees the conditions of `call_bpf`.
    let fd = unsafe { call_bpf(command, arguments)? };
    // SAFETY: the descriptor is new, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Calls `bpf(2)` with the arguments of a command.
///
/// # Safety
/// `T` starts like the kernel's structure for this command and has no padding. Each address in `T` points to
/// live memory of the length that the command expects.
unsafe fn call_bpf<T>(command: c_int, arguments: &mut T) -> io::Result<c_long> {
    let address = std::ptr::from_mut(arguments);
    // SAFETY: the arguments are borrowed exclusively and passed with their length. The caller guarantees
    // the rest.
    match unsafe { libc::syscall(libc::SYS_bpf, command, address, size_of::<T>()) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Instruction>(), 8);
        let program = port_instructions(7, 9);
        let load = program[0];
        assert_eq!((load.code, load.offset), (0x61, 16));
        assert_eq!((program[1].immediate, program[6].immediate), (7, 9));
        // The jump leads to the last instruction.
        assert_eq!(5 + 1 + program[5].offset as usize, program.len() - 1);
    }
}
