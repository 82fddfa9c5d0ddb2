//! Reads and sets offloads, queues, pause parameters and drivers of devices, through `SIOCETHTOOL`
//! ioctls (`linux/ethtool.h`).
//!
//! The module uses ioctls, which exist in every kernel. Minimal kernels do not contain the generic netlink
//! family of ethtool.

use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::{Deserialize, Serialize};

use super::link::check_name;
use super::{Error, Result};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
const ETHTOOL_SPAUSEPARAM: u32 = 0x13;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// String set with the names of the features, in the order of their bits.
const ETH_SS_FEATURES: u32 = 4;
/// Bit of large receive offload in the value of `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Commands to read and set one offload.
struct OffloadCommands {
    name: &'static str,
    get: u32,
    set: u32,
}

/// Commands of the offloads. An offload stands behind the offloads on which it depends.
const OFFLOAD_COMMANDS: [OffloadCommands; 6] = [
    OffloadCommands {
        name: "rx-checksumming",
        get: 0x14,
        set: 0x15,
    },
    OffloadCommands {
        name: "tx-checksumming",
        get: 0x16,
        set: 0x17,
    },
    OffloadCommands {
        name: "scatter-gather",
        get: 0x18,
        set: 0x19,
    },
    OffloadCommands {
        name: "tcp-segmentation-offload",
        get: 0x1e,
        set: 0x1f,
    },
    OffloadCommands {
        name: "generic-segmentation-offload",
        get: 0x23,
        set: 0x24,
    },
    OffloadCommands {
        name: "generic-receive-offload",
        get: 0x2b,
        set: 0x2c,
    },
];

/// Offloads of a device, each true if it is on. Offloads change the frames that a switch sees: a checksum can
/// be unfinished, and several frames can be coalesced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// The device verifies the checksums of received frames.
    pub rx_csum: bool,
    /// The device completes the checksums of sent frames.
    pub tx_csum: bool,
    /// Scatter-gather: a sent frame may consist of several buffers.
    pub sg: bool,
    /// TCP segmentation offload: the device segments TCP packets.
    pub tso: bool,
    /// Generic segmentation offload: the kernel segments packets just before the device.
    pub gso: bool,
    /// Generic receive offload: the kernel coalesces received segments.
    pub gro: bool,
    /// Large receive offload: the device coalesces received segments.
    pub lro: bool,
}

impl Offloads {
    /// All offloads off. A switch then sees each frame as it is on the link.
    pub const OFF: Offloads = Offloads {
        rx_csum: false,
        tx_csum: false,
        sg: false,
        tso: false,
        gso: false,
        gro: false,
        lro: false,
    };

    fn flags(&self) -> [bool; 6] {
        [self.rx_csum, self.tx_csum, self.sg, self.tso, self.gso, self.gro]
    }
}

/// 802.3x PAUSE parameters of a device (`ethtool -a`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseParameters {
    /// Whether the device negotiates the use of PAUSE with the far end.
    pub autoneg: bool,
    /// Whether the device stops sending when it receives a PAUSE frame.
    pub rx: bool,
    /// Whether the device sends PAUSE frames.
    pub tx: bool,
}

/// Requested state of every changeable feature of a device, for [`restore_features`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// One entry for each word of 32 features: the bits of the changeable features, and the requested state
    /// of each feature.
    words: Vec<(u32, u32)>,
}

impl Features {
    /// Formats the features as hexadecimal digits, 16 for each word.
    pub(crate) fn to_hex(&self) -> String {
        let words = self.words.iter();
        words
            .map(|(changeable, requested)| format!("{changeable:08x}{requested:08x}"))
            .collect()
    }

    /// Parses the text of [`Features::to_hex`]. Returns `None` for another text.
    pub(crate) fn from_hex(text: &str) -> Option<Features> {
        let is_whole = !text.is_empty() && text.len().is_multiple_of(16);
        if !is_whole || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let word = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let starts = (0..text.len()).step_by(16);
        let words = starts.map(|at| Some((word(&text[at..at + 8])?, word(&text[at + 8..at + 16])?)));
        Some(Features {
            words: words.take(FEATURE_WORDS_MAX).collect::<Option<_>>()?,
        })
    }
}

/// Reads the offloads of the link `name` in the calling thread's namespace. An offload that the device does
/// not know is reported as off.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the kernel refuses the request.
pub fn offloads(name: &str) -> Result<Offloads> {
    let mut on = [false; OFFLOAD_COMMANDS.len()];
    for (on, commands) in on.iter_mut().zip(&OFFLOAD_COMMANDS) {
        *on = read_value(name, commands.get, commands.name)?.unwrap_or(0) != 0;
    }
    let [rx_csum, tx_csum, sg, tso, gso, gro] = on;
    let lro = read_value(name, ETHTOOL_GFLAGS, "flags")?.unwrap_or(0) & ETH_FLAG_LRO != 0;
    Ok(Offloads {
        rx_csum,
        tx_csum,
        sg,
        tso,
        gso,
        gro,
        lro,
    })
}

/// Sets the offloads of the link `name` in the calling thread's namespace. Offloads that already have the
/// wanted state are not written. Offloads that the device does not know are ignored. If the device cannot
/// turn off receive checksums, the function still succeeds.
///
/// # Errors
/// Returns [`Error::NoSuchLink`], [`Error::BadName`], [`Error::NotPermitted`], or [`Error::Refused`] if an
/// offload cannot be changed.
pub fn set_offloads(name: &str, wanted: &Offloads) -> Result<()> {
    for (commands, on) in OFFLOAD_COMMANDS.iter().zip(wanted.flags()) {
        // Read each time, because turning one offload off may have turned others off.
        let Some(now) = read_value(name, commands.get, commands.name)? else {
            continue;
        };
        if (now != 0) == on {
            continue;
        }
        match set_value(name, commands.set, u32::from(on), commands.name) {
            // Fixed receive checksums do no harm: the device verifies checksums and leaves none incomplete.
            Err(Error::Refused { .. }) if commands.name == "rx-checksumming" => {}
            result => result?,
        }
    }
    let flags = read_value(name, ETHTOOL_GFLAGS, "flags")?.unwrap_or(0);
    let wanted_flags = if wanted.lro {
        flags | ETH_FLAG_LRO
    } else {
        flags & !ETH_FLAG_LRO
    };
    if wanted_flags != flags {
        set_value(name, ETHTOOL_SFLAGS, wanted_flags, "large-receive-offload")?;
    }
    Ok(())
}

/// Reads the requested state of every changeable feature of the link `name`. [`restore_features`] sets the
/// features to this state again.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the kernel refuses the request.
pub fn features(name: &str) -> Result<Features> {
    /// `struct ethtool_gfeatures` with space for more words than any kernel has.
    #[repr(C)]
    struct FeaturesReadRequest {
        command: u32,
        size: u32,
        /// available, requested, active, never_changed
        words: [[u32; 4]; FEATURE_WORDS_MAX],
    }
    let mut get = FeaturesReadRequest {
        command: ETHTOOL_GFEATURES,
        size: FEATURE_WORDS_MAX as u32,
        words: [[0; 4]; FEATURE_WORDS_MAX],
    };
    ioctl(name, &mut get, "read the features")?;
    let size = (get.size as usize).min(FEATURE_WORDS_MAX);
    let words = get.words[..size]
        .iter()
        .map(|[available, requested, ..]| (*available, *requested));
    Ok(Features {
        words: words.collect(),
    })
}

/// Sets every changeable feature of the link `name` to the state that [`features`] has returned.
///
/// # Errors
/// Returns [`Error::NoSuchLink`], [`Error::BadName`], [`Error::NotPermitted`], or another [`Error`] if the
/// kernel refuses the request.
pub fn restore_features(name: &str, features: &Features) -> Result<()> {
    /// `struct ethtool_sfeatures`.
    #[repr(C)]
    struct FeaturesWriteRequest {
        command: u32,
        size: u32,
        /// valid, requested
        words: [[u32; 2]; FEATURE_WORDS_MAX],
    }
    let mut set = FeaturesWriteRequest {
        command: ETHTOOL_SFEATURES,
        size: features.words.len() as u32,
        words: [[0; 2]; FEATURE_WORDS_MAX],
    };
    for (word, (changeable, requested)) in set.words.iter_mut().zip(&features.words) {
        *word = [*changeable, *requested & *changeable];
    }
    ioctl(name, &mut set, "restore the features")
}

/// Names of the features for VLAN offload. If such a feature is on, the kernel passes a VLAN tag to the
/// device as metadata and not as bytes of the frame.
const TAG_INSERTION_FEATURES: [&str; 2] = ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];

/// Makes the kernel write the VLAN tags of outgoing frames into the frames, instead of passing the tags to
/// the device as metadata. Returns whether the function has changed a feature.
///
/// # Errors
/// Returns [`Error::NoSuchLink`], [`Error::BadName`], [`Error::NotPermitted`], or [`Error::Refused`] if a
/// feature cannot be changed.
pub fn enable_inline_vlan_tags(name: &str) -> Result<bool> {
    let names = feature_names(name)?;
    let previous = features(name)?;
    let mut wanted = previous.clone();
    for bit in (0..names.len()).filter(|bit| TAG_INSERTION_FEATURES.contains(&names[*bit].as_str())) {
        if let Some((_, requested)) = wanted.words.get_mut(bit / 32) {
            *requested &= !(1 << (bit % 32));
        }
    }
    if wanted == previous {
        return Ok(false);
    }
    restore_features(name, &wanted)?;
    Ok(true)
}

/// Reads the names of the features of a link, in the order of their bits.
fn feature_names(name: &str) -> Result<Vec<String>> {
    const TEXT_BYTES: usize = 32;
    /// `struct ethtool_sset_info` for one string set.
    #[repr(C)]
    struct StringSetInfo {
        command: u32,
        reserved: u32,
        sets: u64,
        counts: [u32; 2],
    }
    /// `struct ethtool_gstrings` with space for the largest number of features.
    #[repr(C)]
    struct StringSetReadRequest {
        command: u32,
        set: u32,
        count: u32,
        texts: [[u8; TEXT_BYTES]; 32 * FEATURE_WORDS_MAX],
    }
    let mut count = StringSetInfo {
        command: ETHTOOL_GSSET_INFO,
        reserved: 0,
        sets: 1 << ETH_SS_FEATURES,
        counts: [0; 2],
    };
    ioctl(name, &mut count, "count the features")?;
    let count = count.counts[0] as usize;
    if count > 32 * FEATURE_WORDS_MAX {
        let action = format!("read the feature names of '{name}'");
        return Err(Error::Protocol {
            action,
            detail: format!("the kernel has {count} features"),
        });
    }
    let mut get = Box::new(StringSetReadRequest {
        command: ETHTOOL_GSTRINGS,
        set: ETH_SS_FEATURES,
        count: count as u32,
        texts: [[0; TEXT_BYTES]; 32 * FEATURE_WORDS_MAX],
    });
    ioctl(name, &mut *get, "read the feature names")?;
    let text = |text: &[u8; TEXT_BYTES]| {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    Ok(get.texts[..count].iter().map(text).collect())
}

/// Numbers of queues of a link (`ethtool -l`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Number of receive queues, including the combined queues.
    pub rx: u32,
    /// Number of transmit queues, including the combined queues.
    pub tx: u32,
    /// Number of queues that both receive and transmit (`combined`).
    pub combined: u32,
}

/// Reads the numbers of queues of the link `name`. Returns `None` if the driver does not report these
/// numbers. An example is the driver of a tap.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the kernel refuses the request.
pub fn channels(name: &str) -> Result<Option<Channels>> {
    /// `struct ethtool_channels`.
    #[repr(C)]
    #[derive(Default)]
    struct ChannelsReadRequest {
        command: u32,
        max: [u32; 4],
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    let mut get = ChannelsReadRequest {
        command: ETHTOOL_GCHANNELS,
        ..ChannelsReadRequest::default()
    };
    match ioctl(name, &mut get, "read the channels") {
        Ok(()) => Ok(Some(Channels {
            rx: get.rx + get.combined,
            tx: get.tx + get.combined,
            combined: get.combined,
        })),
        Err(Error::Refused {
            errno: libc::EOPNOTSUPP,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Largest number of feature words that this module supports. A feature word has 32 features. Kernels of 2026
/// have 2 or 3 feature words.
const FEATURE_WORDS_MAX: usize = 8;

/// Reads the 802.3x PAUSE parameters of the link `name`. Returns `None` if the driver has no pause
/// parameters. For example, the drivers of veth devices and taps have none.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the kernel refuses the request.
pub fn pause_parameters(name: &str) -> Result<Option<PauseParameters>> {
    let mut value = RawPauseParameters {
        command: ETHTOOL_GPAUSEPARAM,
        ..RawPauseParameters::default()
    };
    match ioctl(name, &mut value, "read the pause parameters") {
        Ok(()) => Ok(Some(PauseParameters {
            autoneg: value.autoneg != 0,
            rx: value.rx != 0,
            tx: value.tx != 0,
        })),
        Err(Error::Refused {
            errno: libc::EOPNOTSUPP,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the 802.3x PAUSE parameters of the link `name` (`ethtool -A`).
///
/// # Errors
/// Returns [`Error::NoSuchLink`], [`Error::BadName`], [`Error::NotPermitted`], or [`Error::Refused`] if the
/// driver has no pause parameters.
pub fn set_pause_parameters(name: &str, pause: &PauseParameters) -> Result<()> {
    let mut value = RawPauseParameters {
        command: ETHTOOL_SPAUSEPARAM,
        autoneg: pause.autoneg.into(),
        rx: pause.rx.into(),
        tx: pause.tx.into(),
    };
    ioctl(name, &mut value, "set the pause parameters")
}

/// The C structure `struct ethtool_pauseparam`.
#[repr(C)]
#[derive(Default)]
struct RawPauseParameters {
    command: u32,
    autoneg: u32,
    rx: u32,
    tx: u32,
}

/// Reads the name of the driver of the link `name`, such as `veth`, `tun` or `mlx5_core`. The result is empty
/// if the driver does not report a name.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the kernel refuses the request.
pub fn driver_name(name: &str) -> Result<String> {
    /// `struct ethtool_drvinfo`, which has 196 bytes. The first text is the name of the driver.
    #[repr(C)]
    struct DriverInfo {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    match ioctl(name, &mut info, "read the driver name") {
        Ok(()) => {
            let text = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
            Ok(String::from_utf8_lossy(text).into_owned())
        }
        Err(Error::Refused {
            errno: libc::EOPNOTSUPP,
            ..
        }) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// The C structure `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn read_value(name: &str, command: u32, setting: &str) -> Result<Option<u32>> {
    let mut value = EthtoolValue { command, data: 0 };
    match ioctl(name, &mut value, &format!("read {setting}")) {
        Ok(()) => Ok(Some(value.data)),
        Err(Error::Refused {
            errno: libc::EOPNOTSUPP,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn set_value(name: &str, command: u32, data: u32, setting: &str) -> Result<()> {
    ioctl(
        name,
        &mut EthtoolValue { command, data },
        &format!("set {setting} to {data}"),
    )
}

/// Sends one ethtool command to the kernel. `T` has the layout of the kernel's structure for this command and
/// starts with the command word. `T` must cover all memory that the kernel reads and writes.
pub(super) fn ioctl<T>(name: &str, data: &mut T, action: &str) -> Result<()> {
    check_name(name)?;
    let action = format!("{action} of '{name}'");
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(|errno| Error::from_errno(&action, name, errno as i32))?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: std::ptr::from_mut(data).cast(),
        },
    };
    // `check_name` ensures that the terminating zero fits.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: `request` is a live ifreq. Its data pointer is the address of `data`, which is borrowed
    // exclusively for the call. Every caller passes the kernel's structure of its command, so the kernel
    // accesses only this structure.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    match result {
        0.. => Ok(()),
        _ => Err(Error::from_io(&action, name, &std::io::Error::last_os_error())),
    }
}
