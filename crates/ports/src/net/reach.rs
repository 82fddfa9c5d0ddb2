//! The namespace behind a veth, found among those this process can see.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use futures_util::StreamExt;
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::nsid::{NsidAttribute, NsidMessage};

use super::netlink::talk;
use super::{LinkFacts, Netns, Result};

/// The namespace that the far end of a veth of the calling thread's namespace is in, where `ip netns` has given it a
/// name or a process we may look at lives in it. `None`: it is in this one, or in none we can find.
pub fn peer_namespace(link: &LinkFacts) -> Option<Netns> {
    let number = link.peer_netns?;
    let named = list("/run/netns").into_iter();
    let of_processes = list("/proc").into_iter().map(|process| process.join("ns/net"));
    let mut seen = Vec::new();
    for path in named.chain(of_processes) {
        // The names of processes only: others have no such file.
        let Ok(file) = fs::File::open(&path) else { continue };
        let netns = Netns::from_fd(file.into());
        let Ok(id) = netns.id() else { continue };
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        if number_of(&netns).is_ok_and(|found| found == Some(number)) {
            return Some(netns);
        }
    }
    None
}

fn list(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The number that the calling thread's namespace knows another one by (`ip netns list-id`); `None`: by none.
fn number_of(netns: &Netns) -> Result<Option<i32>> {
    let mut question = NsidMessage::default();
    question
        .attributes
        .push(NsidAttribute::Fd(netns.as_fd().as_raw_fd() as u32));
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetNsId(question));
    message.header.flags = NLM_F_REQUEST;
    let answer = talk("ask for the number of a namespace", "", async |mut handle| {
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
    // -1 is "not assigned".
    Ok(number.filter(|number| *number >= 0))
}
