//! Offloads, queues, pause parameters and drivers, by the `SIOCETHTOOL` ioctls (`linux/ethtool.h`).
//!
//! The ioctls rather than ethtool's generic netlink family: they exist on every kernel, and the family is
//! absent from kernels built small.

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
/// The names of the features, in the order of their bits.
const ETH_SS_FEATURES: u32 = 4;
/// Large receive offload in the word of `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// The commands of one on-off offload, in the order in which they depend on each other.
struct Switch {
    name: &'static str,
    get: u32,
    set: u32,
}

const SWITCHES: [Switch; 6] = [
    Switch {
        name: "rx-checksumming",
        get: 0x14,
        set: 0x15,
    },
    Switch {
        name: "tx-checksumming",
        get: 0x16,
        set: 0x17,
    },
    Switch {
        name: "scatter-gather",
        get: 0x18,
        set: 0x19,
    },
    Switch {
        name: "tcp-segmentation-offload",
        get: 0x1e,
        set: 0x1f,
    },
    Switch {
        name: "generic-segmentation-offload",
        get: 0x23,
        set: 0x24,
    },
    Switch {
        name: "generic-receive-offload",
        get: 0x2b,
        set: 0x2c,
    },
];

/// The offloads that change what a switch sees of a frame: unfinished checksums, frames glued together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// Receive checksums taken on trust.
    pub rx_csum: bool,
    /// Transmit checksums left to the device.
    pub tx_csum: bool,
    /// Scattered transmit buffers.
    pub sg: bool,
    /// TCP segmentation by the device.
    pub tso: bool,
    /// Segmentation put off until the device.
    pub gso: bool,
    /// Received segments glued together.
    pub gro: bool,
    /// The same by the device.
    pub lro: bool,
}

impl Offloads {
    /// All off: the state in which each frame is seen as it is on the wire.
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

/// 802.3x pause of a device (`ethtool -a`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseParameters {
    /// Pause is negotiated with the far end.
    pub autoneg: bool,
    /// The device obeys PAUSE.
    pub rx: bool,
    /// The device sends PAUSE.
    pub tx: bool,
}

/// Every feature of a device that can be changed, as asked for: what [`restore_features`] needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// Per word of 32 features: (changeable, requested).
    words: Vec<(u32, u32)>,
}

/// The offloads of a link in the calling thread's namespace.
///
/// # Errors
/// [`Error::NoSuchLink`]. A device that does not know an offload has it off.
pub fn offloads(name: &str) -> Result<Offloads> {
    let mut on = [false; SWITCHES.len()];
    for (on, switch) in on.iter_mut().zip(&SWITCHES) {
        *on = get_value(name, switch.get, switch.name)?.unwrap_or(0) != 0;
    }
    let [rx_csum, tx_csum, sg, tso, gso, gro] = on;
    let lro = get_value(name, ETHTOOL_GFLAGS, "flags")?.unwrap_or(0) & ETH_FLAG_LRO != 0;
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

/// Sets the offloads of a link. Those that are already as asked are not touched.
///
/// # Errors
/// [`Error::NoSuchLink`], [`Error::NotPermitted`], or [`Error::Refused`] where an offload cannot be
/// changed (receive checksums of some devices are fixed on: leaving those on is no error).
pub fn set_offloads(name: &str, want: &Offloads) -> Result<()> {
    for (switch, on) in SWITCHES.iter().zip(want.flags()) {
        // Read each time: switching one off may have switched others off with it.
        let Some(now) = get_value(name, switch.get, switch.name)? else {
            continue;
        };
        if (now != 0) == on {
            continue;
        }
        match set_value(name, switch.set, u32::from(on), switch.name) {
            // A device with a fixed receive checksum does no harm: it verifies, it leaves nothing undone.
            Err(Error::Refused { .. }) if switch.name == "rx-checksumming" => {}
            done => done?,
        }
    }
    let flags = get_value(name, ETHTOOL_GFLAGS, "flags")?.unwrap_or(0);
    let wanted = if want.lro {
        flags | ETH_FLAG_LRO
    } else {
        flags & !ETH_FLAG_LRO
    };
    if wanted != flags {
        set_value(name, ETHTOOL_SFLAGS, wanted, "large-receive-offload")?;
    }
    Ok(())
}

/// Records every changeable feature of a link, to be given back by [`restore_features`].
///
/// # Errors
/// [`Error::NoSuchLink`].
pub fn features(name: &str) -> Result<Features> {
    /// `struct ethtool_gfeatures` with room for more words than any kernel has.
    #[repr(C)]
    struct Get {
        command: u32,
        size: u32,
        /// available, requested, active, never_changed
        words: [[u32; 4]; FEATURE_WORDS_MAX],
    }
    let mut get = Get {
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

/// Puts every changeable feature of a link back to what [`features`] recorded.
///
/// # Errors
/// [`Error::NoSuchLink`], [`Error::NotPermitted`].
pub fn restore_features(name: &str, features: &Features) -> Result<()> {
    /// `struct ethtool_sfeatures`.
    #[repr(C)]
    struct Set {
        command: u32,
        size: u32,
        /// valid, requested
        words: [[u32; 2]; FEATURE_WORDS_MAX],
    }
    let mut set = Set {
        command: ETHTOOL_SFEATURES,
        size: features.words.len() as u32,
        words: [[0; 2]; FEATURE_WORDS_MAX],
    };
    for (word, (changeable, requested)) in set.words.iter_mut().zip(&features.words) {
        *word = [*changeable, *requested & *changeable];
    }
    ioctl(name, &mut set, "restore the features")
}

/// The features by which a device is given VLAN tags beside the frame instead of in it.
const TAG_INSERTION: [&str; 2] = ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];

/// Makes the kernel write VLAN tags into the frames that leave by this link, instead of beside them. Whether anything
/// had to be changed.
///
/// # Errors
/// [`Error::NoSuchLink`], [`Error::NotPermitted`], [`Error::Refused`] where they cannot be changed.
pub fn insert_tags(name: &str) -> Result<bool> {
    let names = feature_names(name)?;
    let before = features(name)?;
    let mut wanted = before.clone();
    for bit in (0..names.len()).filter(|bit| TAG_INSERTION.contains(&names[*bit].as_str())) {
        if let Some((_, requested)) = wanted.words.get_mut(bit / 32) {
            *requested &= !(1 << (bit % 32));
        }
    }
    if wanted == before {
        return Ok(false);
    }
    restore_features(name, &wanted)?;
    Ok(true)
}

/// The names of a link's features, in the order of their bits.
fn feature_names(name: &str) -> Result<Vec<String>> {
    const TEXT_BYTES: usize = 32;
    /// `struct ethtool_sset_info` for one set.
    #[repr(C)]
    struct Count {
        command: u32,
        reserved: u32,
        sets: u64,
        counts: [u32; 2],
    }
    /// `struct ethtool_gstrings` with room for as many as [`features`] has bits for.
    #[repr(C)]
    struct Get {
        command: u32,
        set: u32,
        count: u32,
        texts: [[u8; TEXT_BYTES]; 32 * FEATURE_WORDS_MAX],
    }
    let mut count = Count {
        command: ETHTOOL_GSSET_INFO,
        reserved: 0,
        sets: 1 << ETH_SS_FEATURES,
        counts: [0; 2],
    };
    ioctl(name, &mut count, "count the features")?;
    let count = count.counts[0] as usize;
    if count > 32 * FEATURE_WORDS_MAX {
        let action = format!("read the features' names of '{name}'");
        return Err(Error::Protocol {
            action,
            detail: format!("there are {count}"),
        });
    }
    let mut get = Box::new(Get {
        command: ETHTOOL_GSTRINGS,
        set: ETH_SS_FEATURES,
        count: count as u32,
        texts: [[0; TEXT_BYTES]; 32 * FEATURE_WORDS_MAX],
    });
    ioctl(name, &mut *get, "read the features' names")?;
    let text = |text: &[u8; TEXT_BYTES]| {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    Ok(get.texts[..count].iter().map(text).collect())
}

/// How many queues a link has for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Queues to receive.
    pub rx: u32,
    /// Queues to transmit.
    pub tx: u32,
    /// Of both, those that belong together as pairs (`combined`).
    pub combined: u32,
}

/// The queues of a link; `None` where its driver does not say (a tap).
///
/// # Errors
/// [`Error::NoSuchLink`].
pub fn channels(name: &str) -> Result<Option<Channels>> {
    /// `struct ethtool_channels`.
    #[repr(C)]
    #[derive(Default)]
    struct Get {
        command: u32,
        max: [u32; 4],
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    let mut get = Get {
        command: ETHTOOL_GCHANNELS,
        ..Get::default()
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

/// Words of 32 features that fit: kernels of 2026 have 2 or 3.
const FEATURE_WORDS_MAX: usize = 8;

/// The pause parameters of a link; `None` where its driver has none (veth, tap).
///
/// # Errors
/// [`Error::NoSuchLink`].
pub fn pause(name: &str) -> Result<Option<PauseParameters>> {
    let mut value = RawPause {
        command: ETHTOOL_GPAUSEPARAM,
        ..RawPause::default()
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

/// Sets the pause parameters of a link (`ethtool -A`).
///
/// # Errors
/// [`Error::NoSuchLink`], [`Error::NotPermitted`], [`Error::Refused`] where the driver has none.
pub fn set_pause(name: &str, pause: &PauseParameters) -> Result<()> {
    let mut value = RawPause {
        command: ETHTOOL_SPAUSEPARAM,
        autoneg: pause.autoneg.into(),
        rx: pause.rx.into(),
        tx: pause.tx.into(),
    };
    ioctl(name, &mut value, "set the pause parameters")
}

/// `struct ethtool_pauseparam`.
#[repr(C)]
#[derive(Default)]
struct RawPause {
    command: u32,
    autoneg: u32,
    rx: u32,
    tx: u32,
}

/// The name of the link's driver, such as `veth`, `tun` or `mlx5_core`; empty where it does not say.
///
/// # Errors
/// [`Error::NoSuchLink`].
pub fn driver(name: &str) -> Result<String> {
    /// `struct ethtool_drvinfo`: 196 bytes, of which the driver's name is the first text.
    #[repr(C)]
    struct Info {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = Info {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    match ioctl(name, &mut info, "read the driver's name") {
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

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

fn get_value(name: &str, command: u32, what: &str) -> Result<Option<u32>> {
    let mut value = Value { command, data: 0 };
    match ioctl(name, &mut value, &format!("read {what}")) {
        Ok(()) => Ok(Some(value.data)),
        Err(Error::Refused {
            errno: libc::EOPNOTSUPP,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn set_value(name: &str, command: u32, data: u32, what: &str) -> Result<()> {
    ioctl(
        name,
        &mut Value { command, data },
        &format!("set {what} to {data}"),
    )
}

/// Sends one ethtool command. `T` starts with its command word and is laid out as the kernel's structure
/// of that command, with at least as many bytes as the kernel reads and writes for it.
fn ioctl<T>(name: &str, data: &mut T, what: &str) -> Result<()> {
    check_name(name)?;
    let action = format!("{what} of '{name}'");
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
    // `check_name` leaves room for the terminating zero.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: `request` is a live ifreq whose data pointer is that of `data`, exclusively borrowed for the
    // call; every caller passes the kernel's structure of its command, so the kernel stays inside it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    match done {
        0.. => Ok(()),
        _ => Err(Error::from_io(&action, name, &std::io::Error::last_os_error())),
    }
}
