//! Finds the namespace that contains the other end of a veth pair. The search covers only namespaces that
//! this process can see.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::nsid::{NsidAttribute, NsidMessage};

use super::netlink::run_request;
use super::{LinkState, Netns, Result};

/// The namespace of the other end of a veth, and the path by which it was found.
#[derive(Debug)]
pub struct PeerNamespace {
    /// The namespace. The value keeps the namespace alive, so it must not be stored for long.
    pub netns: Netns,
    /// `/run/netns/NAME` or `/proc/PID/ns/net`.
    path: PathBuf,
}

impl PeerNamespace {
    /// Opens the namespace that `path` names now.
    fn open(path: PathBuf) -> Option<PeerNamespace> {
        let netns = Netns::from_fd(fs::File::open(&path).ok()?.into());
        Some(PeerNamespace { netns, path })
    }

    /// Returns the path by which the namespace was found, such as `/run/netns/h1`. Another namespace can have the
    /// path later.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Describes the namespace for a message, such as `namespace 'h1'` or `the namespace of process '4711'`.
    pub fn describe(&self) -> String {
        match self.process() {
            Some(process) => format!("the namespace of process '{process}'"),
            None => format!("namespace '{}'", self.name()),
        }
    }

    /// Returns the words that run a command in the namespace, with a space at the end.
    pub fn command_prefix(&self) -> String {
        match self.process() {
            Some(process) => format!("nsenter -t {process} -n "),
            None => format!("ip netns exec {} ", self.name()),
        }
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the process id in a path such as `/proc/4711/ns/net`.
    fn process(&self) -> Option<String> {
        let process = self.path.strip_prefix("/proc").ok()?.iter().next()?;
        Some(process.to_string_lossy().into_owned())
    }
}

/// Returns the namespace of the other end of the veth `link`. `link` is in the calling thread's namespace.
///
/// The search covers the named namespaces (`ip netns`), and the namespaces of all processes that this process
/// may inspect. Returns `None` if the other end is in the same namespace, if the link is not a veth, or if
/// the search does not find the namespace.
pub fn peer_namespace(link: &LinkState) -> Option<PeerNamespace> {
    let number = link.peer_netns?;
    let named = list_directory("/run/netns").into_iter();
    let of_processes = list_directory("/proc")
        .into_iter()
        .map(|process| process.join("ns/net"));
    let mut seen = Vec::new();
    for path in named.chain(of_processes) {
        // Only directories of processes contain such a file.
        let Some(found) = PeerNamespace::open(path) else {
            continue;
        };
        let Ok(id) = found.netns.id() else { continue };
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        if netns_number(&found.netns).is_ok_and(|assigned| assigned == Some(number)) {
            return Some(found);
        }
    }
    None
}

fn list_directory(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the number by which the calling thread's namespace refers to the namespace `peer` (`ip netns
/// list-id`). Returns `None` if that namespace has no number.
fn netns_number(netns: &Netns) -> Result<Option<i32>> {
    let mut request = NsidMessage::default();
    request
        .attributes
        .push(NsidAttribute::Fd(netns.as_fd().as_raw_fd() as u32));
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetNsId(request));
    message.header.flags = NLM_F_REQUEST;
    let answer = run_request("ask for the number of a namespace", "", async |mut handle| {
        handle
            .request(message)?
            .next()
            .await
            .ok_or(rtnetlink::Error::RequestFailed)
    })?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNsId(answer)) = answer.payload else {
        return Ok(None);
    };
    let number = answer.attributes.iter().find_map(|attribute| match attribute {
        NsidAttribute::Id(number) => Some(*number),
        _ => None,
    });
    // The kernel reports -1 for a namespace without a number.
    Ok(number.filter(|number| *number >= 0))
}
