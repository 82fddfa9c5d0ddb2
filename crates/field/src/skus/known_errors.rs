//! The known errors of sonic-buildimage, with their reasons.
//!
//! If xoff refuses a configuration only for known errors, the report lists these errors as true errors of the
//! configuration. An error that is not known makes the command fail.

/// A known error of an input.
struct KnownError {
    /// Part of the path of the folder, or the name of the document.
    location: &'static str,
    /// Part of the error message.
    message: &'static str,
    why: &'static str,
}

const KNOWN_ERRORS: &[KnownError] = &[
    KnownError {
        location: "/Accton-AS7116-54X",
        message: "\"BUFFER_PG\": { } \"BUFFER_QUEUE\"",
        why: "the SKU's macro generate_pg_profils lacks the comma behind BUFFER_PG",
    },
    KnownError {
        location: "/INGRASYS-S9",
        message: "\"BUFFER_PG\": { } \"BUFFER_QUEUE\"",
        why: "the SKU's macro generate_pg_profils lacks the comma behind BUFFER_PG",
    },
    KnownError {
        location: "/ACS-SN4800",
        message: "} }, }",
        why: "the chassis has no ports in port_config.ini and hwsku.json (line cards add them), and without ports the template ends in a comma",
    },
    KnownError {
        location: "/Supermicro_sse_t7132s",
        message: "\"40m\", }",
        why: "the template leaves out the last two ports (management), so CABLE_LENGTH ends in a comma",
    },
    KnownError {
        location: "/Mellanox-SN5610N-C256S2",
        message: "autthernet0",
        why: "misprinted column title in port_config.ini; autoneg is meant",
    },
    KnownError {
        location: "/Mellanox-SN4700-C128",
        message: "nothing of 60817392 bytes is left for pools",
        why: "the default topology t2 has cables of 1500 m: the headroom of 128 ports x 2 groups is more than the chip's buffer",
    },
    KnownError {
        location: "Configuration.md",
        message: "timezome",
        why: "misprint of timezone",
    },
    KnownError {
        location: "Configuration.md",
        message: "q_lossy_profile: no such table",
        why: "the example lacks the level BUFFER_PROFILE",
    },
    KnownError {
        location: "Configuration.md",
        message: "DHCP_RELAY|",
        why: "the example lacks the level of the VLAN, which is the key of DHCP_RELAY in the YANG model",
    },
    KnownError {
        location: "Configuration.md",
        message: "vrf_name \"red\"",
        why: "the YANG model asks for a name that begins with Vrf",
    },
    KnownError {
        location: "Configuration.md",
        message: "mac_addr \"AB:CD:EF:12:34:56\"",
        why: "a multicast address (lowest bit of the first byte); Linux refuses it for an interface",
    },
    KnownError {
        location: "sample_config_db.json",
        message: "NEIGH|Vlan100|",
        why: "VLAN_INTERFACE lacks Vlan100; SONiC's nbrmgrd waits for it for ever",
    },
    KnownError {
        location: "sample_config_db.json",
        message: "PORTCHANNEL_INTERFACE|PortChannel42 is missing",
        why: "SONiC's intfmgrd waits for that entry for ever before it sets the address",
    },
    KnownError {
        location: "sample_config_db.json",
        message: "nexthop \"10.184.229.212\": off-link",
        why: "the interface's network is 10.184.229.210/31",
    },
    KnownError {
        location: "sample_config_db.json",
        message: "is a routed LAG, PORTCHANNEL_INTERFACE has it",
        why: "a LAG cannot be a router interface and a member of a VLAN; SONiC's portsorch refuses the bridge port",
    },
];

/// Returns the reasons for these errors of an input. Returns `None` if an error is not known or there are
/// no errors.
pub(super) fn explain_errors(location: &str, messages: &[String]) -> Option<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for message in messages {
        let known = KNOWN_ERRORS
            .iter()
            .find(|known| location.contains(known.location) && message.contains(known.message))?;
        if !reasons.contains(&known.why) {
            reasons.push(known.why);
        }
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_error_makes_all_errors_unexplained() {
        let location = "device/mellanox/x86_64-nvidia_sn5610n-r0/Mellanox-SN5610N-C256S2";
        let misprint = "PORT|Ethernet1 autthernet0 \"off\": no such field".to_owned();
        let why = explain_errors(location, &[misprint.clone(), misprint.clone()]);
        assert_eq!(
            why.as_deref(),
            Some("misprinted column title in port_config.ini; autoneg is meant")
        );
        assert_eq!(
            explain_errors(location, &[misprint.clone(), "other".to_owned()]),
            None
        );
        assert_eq!(explain_errors("elsewhere", &[misprint]), None);
        assert_eq!(explain_errors(location, &[]), None);
    }
}
