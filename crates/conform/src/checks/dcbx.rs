//! DCBX checks of group C.

use xoff_units::Picos;
use xoff_wire::lldp::{
    ChassisId, EtsRecommendation, EtsTables, Lldpdu, OUI_IEEE_8021, PfcConfiguration, PortId, RawTlv,
    SelectionAlgorithm, kind, write_tlvs,
};

use crate::check::Check;
use crate::checks::frames::{PAUSED_BIT, PAUSED_CLASS, pause, send};
use crate::checks::traffic::start_traffic;
use crate::checks::{format_span, require};
use crate::device::Operation;
use crate::instrument::Instrument;
use crate::step::{Step, Stop};
use crate::traffic::INSTRUMENT_MAC;

/// The PFC configuration of the device before the checks: a priority that the instrument does not announce.
const LOCAL_PFC: u8 = 1 << 7;
/// Longest time in which a willing device must adopt the settings of its peer.
const ADOPTION_MAX: Picos = Picos::from_millis(30_000);
/// Time of the rest of the check after the adoption.
const AFTER_ADOPTION_MAX: Picos = Picos::from_millis(4_000);
/// Interval at which the settings of the device are read.
const POLL_INTERVAL: Picos = Picos::from_millis(100);
/// Time to live of the LLDP frames of the instrument, in seconds.
const TTL_S: u16 = 2;
/// Subtype of the PFC configuration TLV (IEEE 802.1Q D.2.10).
const PFC_SUBTYPE: u8 = 0x0b;

/// Returns LLDP information of one of the ports of the instrument, which is not willing.
fn lldp_information(port: &str, enabled: u8) -> Lldpdu {
    let mut pdu = Lldpdu::new(ChassisId::mac(INSTRUMENT_MAC), PortId::local(port), TTL_S);
    pdu.dcbx.pfc = Some(PfcConfiguration {
        is_willing: false,
        can_bypass_macsec: false,
        capability: 8,
        enabled,
    });
    pdu
}

/// Returns ETS tables with two traffic classes of 50 % each: priority 3, and all others.
fn ets_tables() -> EtsTables {
    let mut tables = EtsTables {
        traffic_class: [0; 8],
        bandwidth_percent: [50, 50, 0, 0, 0, 0, 0, 0],
        algorithm: [SelectionAlgorithm::StrictPriority; 8],
    };
    tables.traffic_class[usize::from(PAUSED_CLASS)] = 1;
    tables.algorithm[..2].fill(SelectionAlgorithm::Ets);
    tables
}

/// Returns an LLDP frame with a PFC TLV of any bytes.
fn lldp_frame_with_pfc(information: &[u8]) -> Vec<u8> {
    let tlv = |kind: u8, value: &[u8]| RawTlv {
        kind,
        value: value.to_vec(),
    };
    let pdu = lldp_information("1", 0);
    let chassis = [&[pdu.chassis_id.subtype.number()][..], &pdu.chassis_id.value].concat();
    let port = [&[pdu.port_id.subtype.number()][..], &pdu.port_id.value].concat();
    let tlvs = [
        tlv(kind::CHASSIS_ID, &chassis),
        tlv(kind::PORT_ID, &port),
        tlv(kind::TIME_TO_LIVE, &TTL_S.to_be_bytes()),
        RawTlv::organisation(OUI_IEEE_8021, PFC_SUBTYPE, information),
        tlv(kind::END, &[]),
    ];
    write_tlvs(INSTRUMENT_MAC, &tlvs)
}

async fn send_lldp(i: &Instrument, pdu: &Lldpdu) -> Step {
    let frame = pdu
        .to_frame(INSTRUMENT_MAC)
        .map_err(|problem| Stop::Inconclusive(problem.to_string()))?;
    send(i, frame).await;
    Ok(())
}

/// Waits until the PFC settings of the device have a value. Returns the time that this took.
async fn wait_for_pfc(i: &Instrument, expected: u8, longest: Picos) -> Step<Picos> {
    let start = i.now();
    loop {
        let pfc = i.settings().await?.pfc;
        let waited = i.now().since(start);
        if pfc == expected {
            return Ok(waited);
        }
        require(waited < longest, || {
            let waited = format_span(waited, &i.link());
            format!("the PFC vector is {pfc:#04x} after {waited}, expected {expected:#04x}")
        })?;
        i.wait(POLL_INTERVAL).await;
    }
}

/// Configures PFC of the device and makes it willing.
async fn make_willing(i: &Instrument) -> Step {
    i.operate(Operation::SetPfc { enabled: LOCAL_PFC }).await?;
    i.operate(Operation::SetWilling { is_willing: true }).await
}

pub(super) static C1: Check = Check::new("C1", "a willing device adopts PFC and ETS", |i| Box::pin(c1(i)))
    .stimulus("LLDP with PFC on priority 3 and an ETS recommendation, TTL 2 s, to a willing device; bit 3 afterwards")
    .observation("the settings of the device, and whether class 3 pauses")
    .criterion("adopted within 30 s and in effect; the own settings return when the TTL has passed")
    .clause("IEEE 802.1Q 38.4.1 and 38.4.2, 802.1AB 9.2.7.7; UNH-IOL DCBX suite");

async fn c1(i: Instrument) -> Step<String> {
    make_willing(&i).await?;
    let own_ets = i.settings().await?.ets;
    let mut pdu = lldp_information("1", PAUSED_BIT);
    pdu.dcbx.ets_recommendation = Some(EtsRecommendation { tables: ets_tables() });
    send_lldp(&i, &pdu).await?;
    let longest = ADOPTION_MAX.min(i.duration_max().since(AFTER_ADOPTION_MAX));
    let adopted = match wait_for_pfc(&i, PAUSED_BIT, longest).await {
        Err(Stop::Fail(reason)) if longest < ADOPTION_MAX => {
            let reason = format!("{reason}; the criterion is 30 s, and --long waits for it");
            Err(Stop::Inconclusive(reason))
        }
        result => result,
    }?;
    require(i.settings().await?.ets == ets_tables(), || {
        "the device does not adopt the ETS recommendation".to_owned()
    })?;
    let traffic = start_traffic(&i, PAUSED_BIT, 500).await?;
    let quanta = 8_000;
    let arrival = pause(&i, PAUSED_CLASS, quanta).await;
    let until = arrival + i.quanta(u64::from(quanta) * 3 / 4);
    traffic.stays_paused(PAUSED_CLASS, arrival, until).await?;
    i.operate(Operation::StopTraffic { class: PAUSED_CLASS }).await?;
    let longest = Picos::from_millis(1_000 * u64::from(TTL_S) + 1_000);
    let reverted = wait_for_pfc(&i, LOCAL_PFC, longest).await?;
    require(i.settings().await?.ets == own_ets, || {
        "the ETS settings of the peer remain after its TTL".to_owned()
    })?;
    let [adopted, reverted] = [adopted, reverted].map(|span| format_span(span, &i.link()));
    Ok(format!("adopted after {adopted}, own settings after {reverted}"))
}

pub(super) static C2: Check = Check::new("C2", "malformed and ambiguous DCBX has no effect", |i| {
    Box::pin(c2(i))
})
.stimulus(
    "LLDP with a PFC TLV that is too long, one with more priorities than its capability, and two neighbours",
)
.observation("the settings of the willing device")
.criterion("the device keeps its own settings")
.clause("IEEE 802.1Q 38.3 and D.2.10; UNH-IOL DCBX suite");

async fn c2(i: Instrument) -> Step<String> {
    make_willing(&i).await?;
    // Flags: not willing, capability 8; then capability 1 with two priorities.
    for (form, information) in [
        ("a PFC TLV that is too long", &[0x08, PAUSED_BIT, 0][..]),
        ("two priorities with a capability of 1", &[0x01, PAUSED_BIT | 1]),
    ] {
        send(&i, lldp_frame_with_pfc(information)).await;
        require_own_settings(&i, form).await?;
    }
    send_lldp(&i, &lldp_information("1", PAUSED_BIT)).await?;
    send_lldp(&i, &lldp_information("2", PAUSED_BIT)).await?;
    require_own_settings(&i, "two neighbours").await?;
    Ok("3 of 3 have no effect".to_owned())
}

async fn require_own_settings(i: &Instrument, form: &str) -> Step {
    i.wait(POLL_INTERVAL).await;
    let pfc = i.settings().await?.pfc;
    require(pfc == LOCAL_PFC, || {
        format!("{form}: the PFC vector is {pfc:#04x}, the own setting is {LOCAL_PFC:#04x}")
    })
}
