//! Built-in configurations for common uses.

use xoff_units::Picos;

use super::db::ConfigDb;
use super::resolve::bytes_in_time_span;

/// Names and descriptions of all presets. A preset is a complete configuration for a common use, and
/// [`build_preset`] creates it.
pub const PRESETS: &[(&str, &str)] = &[
    (
        "roce-lossless",
        "DSCP 26 lossless with PFC and ECN on priority 3, CNPs (DSCP 48) strict, the rest lossy",
    ),
    (
        "roce-lossy",
        "the same classes without PFC: RoCE relies on ECN and on its own recovery",
    ),
];

/// The error for an unknown preset name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset {name:?}; available presets: {}", preset_names())]
pub struct UnknownPreset {
    /// The requested name.
    pub name: String,
}

/// Returns the names of all presets, separated by commas.
fn preset_names() -> String {
    PRESETS
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Shortest reaction time for which a preset computes headroom: 4 us. In 4 us, a pause can pass a cable of
/// 300 m and take effect at the peer, and the last frame can arrive over the cable.
const REACTION_TIME_MIN: Picos = Picos::from_micros(4);
const PORT_MTU: u64 = 9_100;
/// Largest frame in bytes.
const FRAME_BYTES_MAX: u64 = 9_216;
/// Buffer space of a frame of 1 KiB or more, in percent of its length. A frame needs more space than its
/// length, because the last cell of a frame can be partly empty.
const CELL_ROUNDING_PERCENT: u64 = 125;
const MEBIBYTE: u64 = 1 << 20;
/// Smallest space in the shared pool that is planned for each port, in bytes.
const SHARED_GROUP_BYTES_MIN: u64 = 256 << 10;

/// Creates the configuration of the preset `name` for `ports`, which contains the name of each port and its
/// speed in Mb/s.
///
/// `reaction_budget_in_model_time` is the longest time for which the machine may stall xoff, as model time.
/// In virtual time, the reaction budget is zero. The headroom of a lossless priority group holds the data
/// that its port can receive during this time, or during 4 us if the reaction budget is shorter. Space for
/// partly filled cells and for two frames is added.
///
/// The size of the shared pool is `max(headroom / 4, 256 KiB) * max(ports, 4)`, rounded up to 1 MiB. Here,
/// `headroom` is the largest headroom of a priority group, and `ports` is the number of ports.
///
/// # Errors
///
/// Returns an error if no preset has this name.
pub fn build_preset(
    name: &str,
    ports: &[(String, u32)],
    reaction_budget: Picos,
) -> Result<ConfigDb, UnknownPreset> {
    let is_lossless = match name {
        "roce-lossless" => true,
        "roce-lossy" => false,
        _ => {
            return Err(UnknownPreset {
                name: name.to_owned(),
            });
        }
    };
    let mut db = ConfigDb {
        source: format!("preset {name}"),
        ..ConfigDb::default()
    };
    insert_qos_maps(&mut db);
    insert_schedulers(&mut db);
    insert_buffer_pools(&mut db, ports, reaction_budget, is_lossless);
    for (port, speed) in ports {
        bind_port(&mut db, port, *speed, is_lossless);
    }
    Ok(db)
}

/// Inserts several fields of one entry.
fn insert_fields(db: &mut ConfigDb, table: &str, key: &str, fields: &[(&str, &str)]) {
    for (field, value) in fields {
        db.insert(table, key, field, value);
    }
}

/// Inserts the QoS maps. RoCE uses priority 3 and CNPs use priority 6, as in common RoCE deployments.
fn insert_qos_maps(db: &mut ConfigDb) {
    for dscp in 0..64 {
        let class = match dscp {
            26 => "3",
            48 => "6",
            _ => "0",
        };
        db.insert("DSCP_TO_TC_MAP", "ROCE", &dscp.to_string(), class);
    }
    for number in 0..8 {
        let own = number.to_string();
        let class = if matches!(number, 3 | 6) {
            own.as_str()
        } else {
            "0"
        };
        db.insert("DOT1P_TO_TC_MAP", "ROCE", &own, class);
        db.insert("TC_TO_QUEUE_MAP", "ROCE", &own, &own);
        db.insert(
            "TC_TO_PRIORITY_GROUP_MAP",
            "ROCE",
            &own,
            if number == 3 { "3" } else { "0" },
        );
        db.insert("MAP_PFC_PRIORITY_TO_QUEUE", "ROCE", &own, &own);
    }
}

/// Inserts the schedulers and the WRED profile.
fn insert_schedulers(db: &mut ConfigDb) {
    insert_fields(db, "SCHEDULER", "roce", &[("type", "DWRR"), ("weight", "50")]);
    insert_fields(db, "SCHEDULER", "other", &[("type", "DWRR"), ("weight", "50")]);
    insert_fields(db, "SCHEDULER", "cnp", &[("type", "STRICT")]);
    insert_fields(
        db,
        "WRED_PROFILE",
        "roce_ecn",
        &[
            ("ecn", "ecn_all"),
            ("wred_green_enable", "true"),
            ("green_min_threshold", "150000"),
            ("green_max_threshold", "1500000"),
            ("green_drop_probability", "5"),
        ],
    );
}

/// Returns the headroom of a lossless priority group in bytes.
fn headroom_bytes(speed_mbps: u32, reaction_budget: Picos) -> u64 {
    let in_flight = bytes_in_time_span(reaction_budget.max(REACTION_TIME_MIN), speed_mbps);
    let bytes = in_flight / 100 * CELL_ROUNDING_PERCENT + 2 * FRAME_BYTES_MAX;
    bytes.next_multiple_of(1_024)
}

/// Returns the name of the lossless profile for ports of this speed.
fn headroom_profile_name(speed_mbps: u32) -> String {
    format!("pg_lossless_{speed_mbps}_profile")
}

/// Inserts the buffer pools and buffer profiles.
fn insert_buffer_pools(
    db: &mut ConfigDb,
    ports: &[(String, u32)],
    reaction_budget: Picos,
    is_lossless: bool,
) {
    let of_ports = || {
        ports
            .iter()
            .map(|(_, speed)| headroom_bytes(*speed, reaction_budget))
    };
    let group = (of_ports().max().unwrap_or(0) / 4).max(SHARED_GROUP_BYTES_MIN);
    let shared = (group * (ports.len() as u64).max(4)).next_multiple_of(MEBIBYTE);
    let lossy = shared.max(4 * MEBIBYTE);
    let text = |bytes: u64| bytes.min(super::schema::BYTES_MAX).to_string();
    let mut pool = |name: &str, side: &str, mode: &str, size: u64, xoff: u64| {
        insert_fields(
            db,
            "BUFFER_POOL",
            name,
            &[("type", side), ("mode", mode), ("size", &text(size))],
        );
        if xoff > 0 {
            db.insert("BUFFER_POOL", name, "xoff", &text(xoff));
        }
    };
    pool("ingress_lossy_pool", "ingress", "static", lossy, 0);
    pool("egress_lossy_pool", "egress", "dynamic", lossy, 0);
    // Lossy frames are dropped at the congested egress queue. The ingress limit is therefore the whole pool.
    let all = text(lossy);
    let ingress = [
        ("pool", "ingress_lossy_pool"),
        ("size", "0"),
        ("static_th", all.as_str()),
    ];
    let egress = [("pool", "egress_lossy_pool"), ("size", "0"), ("dynamic_th", "0")];
    if is_lossless {
        let headroom_total: u64 = of_ports().sum();
        let held = shared + headroom_total;
        pool(
            "ingress_lossless_pool",
            "ingress",
            "dynamic",
            shared,
            headroom_total,
        );
        // The pool holds all frames that the ingress side admits. A lossless frame is therefore never dropped
        // at egress.
        pool("egress_lossless_pool", "egress", "static", held, 0);
        let fields = [
            ("pool", "egress_lossless_pool"),
            ("size", "0"),
            ("static_th", &text(held)),
        ];
        insert_fields(db, "BUFFER_PROFILE", "egress_lossless_profile", &fields);
        let offset = text((group / 8).next_multiple_of(1_024));
        for (_, speed) in ports {
            let xoff = text(headroom_bytes(*speed, reaction_budget));
            let fields = [
                ("pool", "ingress_lossless_pool"),
                ("size", "0"),
                ("dynamic_th", "0"),
            ];
            insert_fields(db, "BUFFER_PROFILE", &headroom_profile_name(*speed), &fields);
            insert_fields(
                db,
                "BUFFER_PROFILE",
                &headroom_profile_name(*speed),
                &[("xoff", &xoff), ("xon_offset", &offset)],
            );
        }
    }
    insert_fields(db, "BUFFER_PROFILE", "ingress_lossy_profile", &ingress);
    insert_fields(db, "BUFFER_PROFILE", "egress_lossy_profile", &egress);
}

/// Inserts a port and binds it to the maps, profiles and schedulers.
fn bind_port(db: &mut ConfigDb, port: &str, speed: u32, is_lossless: bool) {
    let (speed_text, mtu) = (speed.to_string(), PORT_MTU.to_string());
    insert_fields(
        db,
        "PORT",
        port,
        &[("speed", &speed_text), ("mtu", &mtu), ("admin_status", "up")],
    );
    let maps = [
        ("dscp_to_tc_map", "ROCE"),
        ("dot1p_to_tc_map", "ROCE"),
        ("tc_to_queue_map", "ROCE"),
        ("tc_to_pg_map", "ROCE"),
        ("pfc_to_queue_map", "ROCE"),
        ("pfc_enable", if is_lossless { "3" } else { "" }),
        ("pfcwd_sw_enable", if is_lossless { "3" } else { "" }),
    ];
    insert_fields(db, "PORT_QOS_MAP", port, &maps);
    let mut use_profile = |table: &str, numbers: &str, profile: &str| {
        db.insert(table, &format!("{port}|{numbers}"), "profile", profile);
    };
    let (roce_in, roce_out) = if is_lossless {
        (headroom_profile_name(speed), "egress_lossless_profile")
    } else {
        ("ingress_lossy_profile".to_owned(), "egress_lossy_profile")
    };
    for numbers in ["0-2", "4-7"] {
        use_profile("BUFFER_PG", numbers, "ingress_lossy_profile");
        use_profile("BUFFER_QUEUE", numbers, "egress_lossy_profile");
    }
    use_profile("BUFFER_PG", "3", &roce_in);
    use_profile("BUFFER_QUEUE", "3", roce_out);
    insert_fields(db, "QUEUE", &format!("{port}|0"), &[("scheduler", "other")]);
    insert_fields(
        db,
        "QUEUE",
        &format!("{port}|3"),
        &[("scheduler", "roce"), ("wred_profile", "roce_ecn")],
    );
    insert_fields(db, "QUEUE", &format!("{port}|6"), &[("scheduler", "cnp")]);
}
